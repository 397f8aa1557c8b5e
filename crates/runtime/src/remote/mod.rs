//! A host in an application's process, and its gateways in another process. Streams for browsers, video players and
//! recorders leave the application through a socket, so that no gateway code runs in a game.
//!
//! ```text
//!  application's process                       `openuvr run`, `xr` or `gateway`
//!  HostRuntime ── frames ──► listener ══ a connection for each ══► host: RemoteHost ──► subscriber (gateway)
//!              ◄─ input, feedback ─         subscription         ◄── input, feedback ──
//! ```
//!
//! [`GatewayListener`] is the application's end: a listening socket, and a thread for each connection. [`RemoteHost`] is the
//! other end: a [`GatewayHost`](crate::host::GatewayHost) like a host of this process. A connection carries one
//! subscription, one request (admission or statistics), or the host's sound. It ends when it is closed.
//!
//! The application never waits for a gateway. Frames are sent from each subscriber's thread, and a slow
//! subscriber misses frames by the rules for all subscribers. The only queues are the thread's backlog,
//! bounded by the subscriber's `Intake`, and the socket buffers.

mod channel;
mod host;
mod listener;
mod subscription;

pub use self::host::RemoteHost;
pub use self::listener::GatewayListener;

/// The socket's name in the launcher's folder.
pub const NAME: &str = "gateway";
