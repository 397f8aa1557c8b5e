//! The host is in an application's process, and its gateways are in another process. Streams for browsers, video
//! players and recorders leave the application through a socket, so that no gateway code runs in a game.
//!
//! ```text
//!  application's process                       `openuvr run`, `xr` or `gateway`
//!  HostRuntime ── frames ──► listener ══ a connection for each ══► host: RemoteHost ──► subscriber (gateway)
//!              ◄─ input, feedback ─         subscription         ◄── input, feedback ──
//! ```
//!
//! [`GatewayListener`], in the application's process, has a listening socket and a thread for each connection.
//! [`RemoteHost`], in the gateways' process, implements [`GatewayHost`](crate::host::GatewayHost), like a host in the
//! same process. A connection carries one subscription, one request (admission or statistics), or the host's sound. The
//! subscription, request or sound ends when the connection is closed.
//!
//! The application's media threads never wait for a gateway. Frames are sent from each subscriber's thread, and a slow
//! subscriber misses frames by the rules for all subscribers. The only queues are the backlog of the subscriber's
//! thread, bounded by its `Intake`, and the socket buffers.

mod channel;
mod host;
mod listener;
mod subscription;

pub use self::host::RemoteHost;
pub use self::listener::GatewayListener;

/// The socket's name in the launcher's folder.
pub const NAME: &str = "gateway";
