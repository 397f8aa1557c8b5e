//! OpenUVRCP, the control plane: pairing, negotiation, clocks.

pub mod handshake;
