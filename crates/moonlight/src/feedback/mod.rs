//! The parts of a client's stream other than its packets: sent frames, losses, and the host's updates.

mod frames;
mod redundancy;
mod updates;

pub use self::frames::{FrameKind, Repair, SentFrames};
pub use self::redundancy::{FecStatus, Redundancy};
pub use self::updates::Updates;
