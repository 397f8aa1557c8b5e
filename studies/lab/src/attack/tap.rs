//! An on-path attacker between an honest client and its host: a relay that records datagrams. It can also send
//! datagrams to the client with the host's source address, and vice versa.
//!
//! It does not emulate a link; the testbed's hop does.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of recorded datagrams in each direction.
const KEPT: usize = 256;

/// Interval at which the stop request is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The relay. Dropping it stops it.
pub struct Tap {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    /// The socket that poses as the host.
    front: UdpSocket,
    /// The socket that poses as the client.
    back: UdpSocket,
    host: SocketAddr,
    client: Mutex<Option<SocketAddr>>,
    up: Mutex<VecDeque<Vec<u8>>>,
    down: Mutex<VecDeque<Vec<u8>>>,
    /// If set, every second datagram of the client is sent from this socket instead of [`Shared::back`].
    elsewhere: Mutex<Option<UdpSocket>>,
    /// Number of bytes sent from `elsewhere`.
    diverted: AtomicU64,
    cut: AtomicBool,
    stop: AtomicBool,
}

/// A direction of the relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Towards {
    /// From the client.
    Host,
    /// From the host.
    Client,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tap {
    /// Starts a relay in front of `host`, with the host's IP address and a port chosen by the system.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn open(host: SocketAddr) -> io::Result<Tap> {
        let any = SocketAddr::new(host.ip(), 0);
        let (front, back) = (UdpSocket::bind(any)?, UdpSocket::bind(any)?);
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(POLL_INTERVAL))?;
        }
        let shared = Arc::new(Shared {
            front,
            back,
            host,
            client: Mutex::default(),
            up: Mutex::default(),
            down: Mutex::default(),
            elsewhere: Mutex::default(),
            diverted: AtomicU64::new(0),
            cut: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let (up, down) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || up.relay_up()),
            std::thread::spawn(move || down.relay_down()),
        ];
        Ok(Tap { shared, threads })
    }

    /// The address to which the client connects.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.shared.front.local_addr()
    }

    /// A sender that sends in this direction, with the source address of the opposite end.
    #[must_use]
    pub fn forger(&self, towards: Towards) -> Forger {
        Forger(self.shared.clone(), towards)
    }

    /// Cuts or restores the link.
    pub fn cut(&self, cut: bool) {
        self.shared.cut.store(cut, Ordering::Relaxed);
    }

    /// With a socket, sends every second datagram of the client from it instead of from the relay's own socket. `None`
    /// ends the diversion.
    pub fn divert(&self, socket: Option<UdpSocket>) {
        *locked(&self.shared.elsewhere) = socket;
    }

    /// Number of bytes sent from the sockets passed to [`Tap::divert`].
    #[must_use]
    pub fn diverted(&self) -> u64 {
        self.shared.diverted.load(Ordering::Relaxed)
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // If the thread panicked, the panic has already been reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn relay_up(&self) {
        let (mut datagram, mut turn) = ([0; 2048], false);
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.front.recv_from(&mut datagram) else {
                continue;
            };
            let datagram = &datagram[..length];
            *locked(&self.client) = Some(from);
            keep(&self.up, datagram);
            if self.cut.load(Ordering::Relaxed) {
                continue;
            }
            turn = !turn;
            let elsewhere = locked(&self.elsewhere);
            // A datagram that cannot be sent is lost, as on any link.
            let _ = match elsewhere.as_ref().filter(|_| turn) {
                Some(socket) => {
                    self.diverted.fetch_add(length as u64, Ordering::Relaxed);
                    socket.send_to(datagram, self.host)
                }
                None => self.back.send_to(datagram, self.host),
            };
        }
    }

    fn relay_down(&self) {
        let mut datagram = [0; 2048];
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.back.recv_from(&mut datagram) else {
                continue;
            };
            let datagram = &datagram[..length];
            let client = *locked(&self.client);
            if from != self.host || self.cut.load(Ordering::Relaxed) {
                continue;
            }
            keep(&self.down, datagram);
            if let Some(client) = client {
                // As above, a datagram that cannot be sent is lost.
                let _ = self.front.send_to(datagram, client);
            }
        }
    }
}

fn keep(kept: &Mutex<VecDeque<Vec<u8>>>, datagram: &[u8]) {
    let mut kept = locked(kept);
    let mut room = match kept.len() {
        KEPT => kept.pop_front().unwrap_or_default(),
        _ => Vec::new(),
    };
    room.clear();
    room.extend_from_slice(datagram);
    kept.push_back(room);
}

/// Sends to the host from the client's address, or to the client from the host's address.
pub struct Forger(Arc<Shared>, Towards);

impl Forger {
    /// A recorded datagram of this direction, selected by `n`. `None` if none has been recorded yet.
    #[must_use]
    pub fn seen(&self, n: usize) -> Option<Vec<u8>> {
        let kept = match self.1 {
            Towards::Host => &self.0.up,
            Towards::Client => &self.0.down,
        };
        let kept = locked(kept);
        kept.get(n.checked_rem(kept.len())?).cloned()
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn send(&self, datagram: &[u8]) -> io::Result<()> {
        let shared = &self.0;
        match (self.1, *locked(&shared.client)) {
            (Towards::Host, _) => shared.back.send_to(datagram, shared.host)?,
            (Towards::Client, Some(client)) => shared.front.send_to(datagram, client)?,
            (Towards::Client, None) => return Err(io::ErrorKind::NotConnected.into()),
        };
        Ok(())
    }
}

/// Opens a socket that never answers, at an address of this machine, and returns two handles of it. The second handle
/// is for counting the received bytes.
///
/// # Errors
/// Returns the system's error.
pub fn silent_sockets(at: IpAddr) -> io::Result<(UdpSocket, UdpSocket)> {
    let socket = UdpSocket::bind(SocketAddr::new(at, 0))?;
    socket.set_nonblocking(true)?;
    let other = socket.try_clone()?;
    Ok((socket, other))
}
