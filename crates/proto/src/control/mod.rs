//! OpenUVRCP, the control plane: pairing, negotiation, clocks.

pub mod clock;
pub mod cookie;
pub mod handshake;
pub mod identity;
pub mod ladder;
pub mod negotiate;
pub mod pairing;
pub mod plane;
pub mod stream;
