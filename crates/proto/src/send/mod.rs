//! From encoded slices to sealed datagrams, with rate and loss control.

pub mod congestion;
pub mod fec;
pub mod intake;
pub mod intra_refresh;
pub mod key_frame;
pub mod l4s;
pub mod loss;
pub mod pace;
pub mod packetize;
pub mod plane;
pub mod policy;
pub mod rate;
pub mod references;
pub mod rendition;
pub mod retransmission;
pub mod session;
pub mod static_refinement;
pub mod subscriber;
pub mod timed;
pub mod update;
