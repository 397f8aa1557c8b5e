//! The protocol's RTSP: one request and one response per TCP connection, in plain or sealed form.

mod announce;
mod description;
mod handshake;
mod message;
mod sealed;
mod server;

pub use self::announce::{InvalidAnnounce, parameters};
pub use self::handshake::{Answer, StreamPorts, answer};
pub use self::message::{InvalidRequest, Request, Response};
pub use self::sealed::{SealedRequest, open, seal};
pub(crate) use self::server::serve;
