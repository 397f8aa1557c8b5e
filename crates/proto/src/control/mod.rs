//! OpenUVRCP, the control plane: pairing, negotiation, clocks.

pub mod clock;
pub mod handshake;
pub mod negotiate;
pub mod plane;
pub mod stream;
