//! The sockets, and the threads that accept connections.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use openuvr_runtime::accept_backoff::AcceptBackoff;
use openuvr_runtime::bind_remedy::bind_remedy;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

use crate::admission::{Admission, AdmissionSlot};
use crate::door::Addresses;

/// The protocol's ports relative to the HTTP port. By default, HTTP is 47989, HTTPS 47984, video 47998, control 47999,
/// sound 48000, RTSP 48010.
const HTTPS: i32 = -5;
const VIDEO: i32 = 9;
const CONTROL: i32 = 10;
const SOUND: i32 = 11;
const RTSP: i32 = 21;

/// Traffic classes, shifted above the two ECN bits (RFC 8837 table 1: AF41, EF; RFC 4594 section 4.2: CS5).
const INTERACTIVE_VIDEO: u8 = 34 << 2;
const INTERACTIVE_SOUND: u8 = 46 << 2;
const SIGNALLING: u8 = 40 << 2;

/// Kernel buffer for datagrams: two key frames of 1080p (guess).
const SOCKET_BUFFER: usize = 1 << 20;

/// Time limit of a connection. An answer after the wait for a PIN has half of this time. Clients need a second.
const LIFETIME: Duration = Duration::from_secs(10);

/// Interval at which a waiting thread checks whether the Moonlight server stops.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) http: TcpListener,
    pub(crate) https: TcpListener,
    pub(crate) rtsp: TcpListener,
    pub(crate) video: UdpSocket,
    pub(crate) control: UdpSocket,
    pub(crate) sound: UdpSocket,
}

/// An address is not available.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot serve Moonlight clients at {address}: {error}{}",
    bind_remedy(error)
)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// The system's error.
    pub error: io::Error,
}

impl Sockets {
    /// Binds all ports, relative to the port of `bind`. With port 0, binds any free ports.
    pub(crate) fn bind(bind: SocketAddr) -> Result<Sockets, BindError> {
        let at = |offset: i32| {
            let port = match bind.port() {
                0 => 0,
                port => u16::try_from(i32::from(port) + offset).unwrap_or(0),
            };
            SocketAddr::new(bind.ip(), port)
        };
        let listener = |offset| {
            let address = at(offset);
            let failed = |error| BindError { address, error };
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            Ok(listener)
        };
        let socket = |offset, class: u8| {
            let address = at(offset);
            let failed = |error| BindError { address, error };
            let socket = UdpSocket::bind(address).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            // The result is ignored, because the kernel may limit the size.
            let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER);
            // Errors are ignored: networks may disregard the traffic class, and a socket supports only the option of
            // its own address family.
            let _ = sockopt::set_ip_tos(&socket, class);
            let _ = sockopt::set_ipv6_tclass(&socket, class.into());
            Ok(socket)
        };
        Ok(Sockets {
            http: listener(0)?,
            https: listener(HTTPS)?,
            rtsp: listener(RTSP)?,
            video: socket(VIDEO, INTERACTIVE_VIDEO)?,
            control: socket(CONTROL, SIGNALLING)?,
            sound: socket(SOUND, INTERACTIVE_SOUND)?,
        })
    }

    /// The bound addresses.
    pub(crate) fn addresses(&self) -> io::Result<Addresses> {
        Ok(Addresses {
            http: self.http.local_addr()?,
            https: self.https.local_addr()?,
            rtsp: self.rtsp.local_addr()?,
            video: self.video.local_addr()?,
            control: self.control.local_addr()?,
            sound: self.sound.local_addr()?,
        })
    }
}

/// A connection whose reads fail after its lifetime, even if its peer sends slowly. Each later write has a timeout of
/// half of [`LIFETIME`].
#[derive(Debug)]
pub(crate) struct LimitedStream {
    stream: Arc<TcpStream>,
    ends: Instant,
}

impl LimitedStream {
    fn new(stream: Arc<TcpStream>) -> io::Result<LimitedStream> {
        // On some systems, the stream inherits the non-blocking mode of the listener.
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(LimitedStream {
            stream,
            ends: Instant::now() + LIFETIME,
        })
    }

    fn rest(&self) -> io::Result<Duration> {
        let rest = self.ends.saturating_duration_since(Instant::now());
        match rest.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(rest),
        }
    }
}

impl Read for LimitedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.rest()?))?;
        (&*self.stream).read(buffer)
    }
}

impl Write for LimitedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An answer may follow the wait for a PIN, so it gets its own time limit.
        let rest = self.rest().unwrap_or(LIFETIME / 2);
        self.stream.set_write_timeout(Some(rest))?;
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.stream).flush()
    }
}

/// Serves one connection.
pub(crate) type Serve =
    dyn Fn(LimitedStream, &mut AdmissionSlot, IpAddr) -> io::Result<()> + Send + Sync;

/// Accepts connections of `listener` until `closing` returns true, and serves each in a thread. Then shuts down all
/// connections and waits for their threads.
pub(crate) fn accept(
    listener: &TcpListener,
    scheduler: &Scheduler,
    admission: &Admission,
    closing: &dyn Fn() -> bool,
    serve: &Arc<Serve>,
) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut accepting = AcceptBackoff::new("Moonlight clients");
    while !closing() {
        connections.retain(|connection| !connection.thread.is_finished());
        match listener.accept() {
            Ok((stream, from)) => {
                accepting.succeeded();
                let from = from.ip().to_canonical();
                let stream = Arc::new(stream);
                let slot = admission.enter(Instant::now(), from, &stream, connections.len());
                let Some(slot) = slot else {
                    tracing::debug!(%from, "too many connections of Moonlight clients");
                    continue;
                };
                connections.extend(start(scheduler, stream, slot, serve));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let timeout = Timespec::try_from(POLL_INTERVAL).ok();
                let mut polled = [PollFd::new(listener, PollFlags::IN)];
                // If `poll` is interrupted or fails, the loop retries.
                let _ = poll(&mut polled, timeout.as_ref());
            }
            Err(e) => std::thread::sleep(accepting.failed(&e)),
        }
    }
    for connection in &connections {
        // An error is ignored: an already closed connection needs no shutdown.
        let stream = connection.stream.upgrade();
        let _ = stream.map(|stream| stream.shutdown(Shutdown::Both));
    }
    for connection in connections {
        // A panic is ignored here, because the thread has already reported it.
        let _ = connection.thread.join();
    }
}

/// A connection with its thread.
struct Connection {
    /// The stream, which is open as long as the connection's thread needs it.
    stream: Weak<TcpStream>,
    thread: JoinHandle<()>,
}

fn start(
    scheduler: &Scheduler,
    stream: Arc<TcpStream>,
    mut slot: AdmissionSlot,
    serve: &Arc<Serve>,
) -> Option<Connection> {
    let here = stream.local_addr().ok()?.ip().to_canonical();
    let from = slot.from();
    let (weak, serve) = (Arc::downgrade(&stream), serve.clone());
    let work = move || {
        let served = LimitedStream::new(stream).and_then(|stream| serve(stream, &mut slot, here));
        if let Err(error) = served {
            tracing::debug!(%from, %error, "the connection of a Moonlight client failed");
        }
    };
    match scheduler.spawn(ThreadRole::Background, "ouvr-moon-conn", work) {
        Ok(thread) => Some(Connection {
            stream: weak,
            thread,
        }),
        Err(error) => {
            tracing::warn!(%from, %error, "cannot start a thread for a Moonlight client");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_a_remedy() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let why = Sockets::bind(address).unwrap_err().to_string();
        assert!(why.contains(&address.to_string()), "{why}");
        assert!(why.ends_with("choose another port"), "{why}");
    }
}
