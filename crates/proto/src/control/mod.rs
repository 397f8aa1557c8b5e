//! OpenUVRCP, the control plane: handshakes, negotiation, clock synchronisation, path validation and a reliable stream.

pub mod budget;
pub mod clipboard;
pub mod clock;
pub mod cookie;
pub mod credentials;
pub mod handshake;
pub mod identity;
pub mod negotiate;
pub mod no_session;
pub mod pairing;
pub(crate) mod path;
pub mod plane;
pub mod stream;
pub mod streams;
pub mod ticket;
pub mod transport_probe;
