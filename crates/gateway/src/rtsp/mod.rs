//! Access for video players: RTSP 1.0 (RFC 2326), RTP (RFC 3550) with H.264 and Opus or AAC (RFC 6184, RFC 7587, RFC
//! 3640). Players only watch, and cannot send input.
//!
//! ```text
//!  player                        gateway                                   host
//!  RTSP    ◄── TCP ───►  connection ── requests ── session
//!  RTP     ◄── UDP ────  outlet ◄── stream ◄── packetise ◄── slices ────  a rendition in H.264
//!          ◄── or TCP ─          ◄── stream ◄──────────────── payloads ─  sound
//!  RTCP    ─── either ►  reports ───────────────────────────── feedback ►  key frames, by the observers' budget
//! ```
//!
//! There is no async runtime: few players watch one host, so two threads for each connection suffice. The [`Token`]
//! grants access. It is a part of the URL, which every player supports. The streams are not encrypted
//! (`docs/clients.md`).

mod access_unit;
mod connection;
mod connection_limits;
mod description;
mod outlet;
mod parameters;
mod reports;
mod requests;
mod session;
mod stream;
mod subscriber;
mod token;
mod transport;
mod wall;

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_runtime::accept_backoff::{self, AcceptBackoff};
use openuvr_runtime::bind_remedy::bind_remedy;
use openuvr_runtime::host::{GatewayHost, SoundCodec};
use openuvr_runtime::sched::{Scheduler, ThreadRole};

use self::connection_limits::ConnectionLimits;
use self::parameters::ParameterCache;
pub use self::parameters::ParameterSets;
pub use self::reports::{PlayerFeedback, parse as parse_reports};
pub use self::requests::{InvalidRtsp, Received, Requests};
pub use self::session::{Action, MediaPorts, PlaybackStart, Session, Streams, Track};
pub use self::token::{Token, TokenError};
pub use self::transport::{Transport, choose as choose_transport};
use self::wall::Wall;

/// Default port: the usual alternative to the privileged port 554 of RFC 2326.
pub const PORT: u16 = 8554;

/// Maximum number of connections with running threads, including evicted ones. An additional connection waits. (A
/// guess: the sum of the [`connection_limits`], and as many again that are about to end.)
const THREADS: usize = 96;

/// Interval at which a waiting thread checks whether the server stops.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct RtspSetup {
    /// TCP address.
    pub bind: SocketAddr,
    /// Secret part of the URL.
    pub token: Token,
    /// Name of the host in players' titles.
    pub name: String,
    /// The codec of the sound; `None` if the host has no sound.
    pub sound: Option<SoundCodec>,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum RtspError {
    /// The address is not available.
    #[error("cannot serve video players at {bind}: {error}{}", bind_remedy(error))]
    Bind {
        /// The address.
        bind: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The system provides no thread.
    #[error("cannot start a thread for video players: {0}")]
    Thread(io::Error),
}

/// A running server. Dropping it closes all connections.
pub struct RtspServer {
    address: SocketAddr,
    server: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by all connections.
struct ServerState {
    host: Arc<dyn GatewayHost>,
    setup: RtspSetup,
    scheduler: Scheduler,
    stopping: AtomicBool,
    /// Cached parameter sets of the stream.
    parameters: Arc<ParameterCache>,
    /// Wall clock of the sender reports.
    wall: Wall,
    limits: ConnectionLimits,
}

impl RtspServer {
    /// Binds the port and serves `host` on its own threads.
    ///
    /// # Errors
    /// [`RtspError`] if the address is not available or the system provides no thread.
    pub fn start(
        setup: RtspSetup,
        host: Arc<dyn GatewayHost>,
        scheduler: &Scheduler,
    ) -> Result<RtspServer, RtspError> {
        let bind = setup.bind;
        let refused = |error| RtspError::Bind { bind, error };
        let listener = TcpListener::bind(bind).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let server = Arc::new(ServerState {
            host,
            setup,
            scheduler: scheduler.clone(),
            stopping: AtomicBool::new(false),
            parameters: Arc::default(),
            wall: Wall::now(clock::now),
            limits: ConnectionLimits::default(),
        });
        let thread = {
            let server = server.clone();
            scheduler.spawn(ThreadRole::Background, "ouvr-rtsp", move || {
                accept(&listener, &server);
            })
        };
        let thread = Some(thread.map_err(RtspError::Thread)?);
        Ok(RtspServer {
            address,
            server,
            thread,
        })
    }

    /// The bound address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RtspServer {
    fn drop(&mut self) {
        self.server.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic is ignored here, because the thread has already reported it.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the server stops. Then shuts down all connections and waits for their threads.
fn accept(listener: &TcpListener, server: &Arc<ServerState>) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut accepting = AcceptBackoff::new("video players");
    while !server.stopping() {
        connections.retain(|connection| !connection.thread.is_finished());
        if connections.len() >= THREADS {
            std::thread::sleep(accept_backoff::PAUSE);
            continue;
        }
        match listener.accept() {
            Ok((stream, from)) => {
                accepting.succeeded();
                connections.extend(start_connection(server, stream, from));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                wait_readable(listener, POLL_INTERVAL)
            }
            Err(e) => std::thread::sleep(accepting.failed(&e)),
        }
    }
    // A thread that is writing to a slow client would delay the end of the server, so its connection is shut down.
    for stream in connections.iter().filter_map(|c| c.stream.upgrade()) {
        let _ = stream.shutdown(Shutdown::Both);
    }
    for connection in connections {
        let _ = connection.thread.join();
    }
}

/// A connection with its thread.
struct Connection {
    /// The stream, which is open as long as the connection's thread needs it.
    stream: Weak<TcpStream>,
    thread: JoinHandle<()>,
}

/// Starts a thread for a connection. Without a thread, the connection is closed.
fn start_connection(
    server: &Arc<ServerState>,
    stream: TcpStream,
    from: SocketAddr,
) -> Option<Connection> {
    let stream = Arc::new(stream);
    let weak = Arc::downgrade(&stream);
    let place = server.limits.enter(from.ip(), stream.clone());
    let thread = {
        let server = server.clone();
        server
            .scheduler
            .clone()
            .spawn(ThreadRole::Background, "ouvr-rtsp-conn", move || {
                if let Err(error) = connection::serve(&server, stream, from, place) {
                    tracing::debug!(%from, %error, "connection of a video player failed");
                }
            })
    };
    match thread {
        Ok(thread) => Some(Connection {
            stream: weak,
            thread,
        }),
        Err(error) => {
            tracing::warn!(%from, %error, "cannot start a thread for a video player");
            None
        }
    }
}

/// Waits until the descriptor is readable or the timeout expires.
fn wait_readable(socket: &impl std::os::fd::AsFd, timeout: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec::try_from(timeout).ok();
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    // If `poll` is interrupted or fails, the caller retries.
    let _ = poll(&mut polled, timeout.as_ref());
}

impl ServerState {
    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
