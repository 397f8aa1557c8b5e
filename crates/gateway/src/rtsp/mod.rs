//! What lets video players in: RTSP 1.0 (RFC 2326), RTP (RFC 3550) and H.264 and Opus in it (RFC 6184,
//! RFC 7587). A player watches: it has no way to send input.
//!
//! ```text
//!  player                        gateway                                   host
//!  RTSP    ◄── TCP ───►  connection ── requests ── session
//!  RTP     ◄── UDP ────  outlet ◄── stream ◄── packetise ◄── slices ────  a rendition in H.264
//!          ◄── or TCP ─          ◄── stream ◄──────────────── payloads ─  sound
//!  RTCP    ─── either ►  reports ───────────────────────────── feedback ►  key frames, by the observers' budget
//! ```
//!
//! No async runtime: each connection has two threads, since few players watch one host. Whoever knows the
//! [`Token`] may watch; it is a part of the URL, because that is what every player can be given. Nothing
//! is encrypted (`docs/clients.md`).

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
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_runtime::accepting::{self, Accepting};
use openuvr_runtime::clock;
use openuvr_runtime::host::GatewayHost;
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

/// The port, if none is named: what RFC 2326's is for those who may not have 554.
pub const PORT: u16 = 8554;

/// Connections whose threads have not ended, displaced ones among them; the next one waits for an end (a guess: all
/// places of [`connection_limits`], and as many that are about to end).
const THREADS: usize = 96;

/// How often a thread that waits looks whether the server ends.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What a server is to be.
#[derive(Clone, Debug)]
pub struct RtspSetup {
    /// Where players reach it, by TCP.
    pub bind: SocketAddr,
    /// What a URL must contain.
    pub token: Token,
    /// What the host is called, in players' titles.
    pub name: String,
    /// The host has sound.
    pub sound: bool,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum RtspError {
    /// The address can't be had.
    #[error("can't serve video players at {bind}: {error}")]
    Bind {
        /// The address.
        bind: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// The system gives no thread.
    #[error("can't start a thread for video players: {0}")]
    Thread(io::Error),
}

/// Serves until it is dropped, which ends all connections.
pub struct RtspServer {
    address: SocketAddr,
    server: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
struct ServerState {
    host: Arc<dyn GatewayHost>,
    setup: RtspSetup,
    scheduler: Scheduler,
    stopping: AtomicBool,
    /// What is known of the stream's parameter sets.
    parameters: Arc<ParameterCache>,
    /// The time of day that players are told.
    wall: Wall,
    limits: ConnectionLimits,
}

impl RtspServer {
    /// Listens, and serves `host` in threads of its own.
    ///
    /// # Errors
    /// [`RtspError`]
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RtspServer {
    fn drop(&mut self) {
        self.server.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in there was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Takes connections until the server ends; then waits for theirs.
fn accept(listener: &TcpListener, server: &Arc<ServerState>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut accepting = Accepting::new("video players");
    while !server.stopping() {
        threads.retain(|thread| !thread.is_finished());
        if threads.len() >= THREADS {
            std::thread::sleep(accepting::PAUSE);
            continue;
        }
        match listener.accept() {
            Ok((stream, from)) => {
                accepting.succeeded();
                threads.extend(start_connection(server, stream, from));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait_readable(listener, LOOK_EVERY),
            Err(e) => std::thread::sleep(accepting.failed(&e)),
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// A thread for one connection; none if the system gives none: it is closed then.
fn start_connection(
    server: &Arc<ServerState>,
    stream: TcpStream,
    from: SocketAddr,
) -> Option<JoinHandle<()>> {
    let stream = Arc::new(stream);
    let place = server.limits.enter(from.ip(), stream.clone());
    let thread = {
        let server = server.clone();
        server
            .scheduler
            .clone()
            .spawn(ThreadRole::Background, "ouvr-rtsp-conn", move || {
                if let Err(error) = connection::serve(&server, stream, from, place) {
                    tracing::debug!(%from, %error, "a video player's connection ended");
                }
            })
    };
    match thread {
        Ok(thread) => Some(thread),
        Err(error) => {
            tracing::warn!(%from, %error, "no thread for a video player");
            None
        }
    }
}

/// Waits until something can be read or accepted, so long at most.
fn wait_readable(socket: &impl std::os::fd::AsFd, timeout: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec::try_from(timeout).ok();
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    // Interrupted, or failed: the caller tries again.
    let _ = poll(&mut polled, timeout.as_ref());
}

impl ServerState {
    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
