//! OpenUVRCP, the control plane: pairing, negotiation, clocks.

pub mod cookie;
pub mod handshake;
pub mod identity;
pub mod pairing;
