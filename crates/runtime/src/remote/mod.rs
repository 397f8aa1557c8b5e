//! A host in an application's process, and its gateways in another: what a browser, a video player or a recorder
//! takes leaves the application by a socket, so that none of their code runs in a game.
//!
//! ```text
//!  application's process                       `openuvr run`, `xr` or `gateway`
//!  HostRuntime ── frames ──► listener ══ a connection for each ══► host: RemoteHost ──► subscriber (gateway)
//!              ◄─ input, feedback ─         subscription         ◄── input, feedback ──
//! ```
//!
//! [`GatewayListener`] is the application's end: a listening socket, and a thread for each connection. [`RemoteHost`] is the
//! other: a [`GatewayHost`](crate::host::GatewayHost) like a host of this process. A connection is one subscription,
//! one question (whether a device may come in, what the figures are), or the host's sound; when it closes, it is over.
//!
//! The application waits for nobody out there. Frames leave from the thread that each subscriber has anyway; one that
//! the other end is slow to take misses frames by the rules that hold for all of them: what waits for that thread, as
//! the subscriber's `Intake` bounds it, and the sockets' buffers are the only queues.

mod channel;
mod host;
mod listener;
mod subscription;
pub mod wire;

pub use self::host::RemoteHost;
pub use self::listener::GatewayListener;

/// The name of the socket, in the folder of who started the application.
pub const NAME: &str = "gateway";
