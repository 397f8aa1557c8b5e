//! What the policy decided and why, as a value: it becomes words where a person reads it.
//!
//! Its bytes on the wire are in [`wire::control`](crate::wire::control).

use std::fmt;
use std::time::Duration;

use crate::id::FrameId;
use crate::units::Bitrate;

/// Datagrams of a frame at 10 Mb/s and 60 frames/s, by which parity is told.
pub const TYPICAL: usize = 16;

/// Something that the policy decided, and why. Its `Display` is one line for logs, the live table
/// and the client's overlay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ControlEvent {
    /// The rate changes.
    Rate(RateChange),
    /// A frame refers back to a sound one, past those that did not reach the player.
    ReferenceInvalidation {
        /// The frame.
        frame: FrameId,
        /// What it refers to.
        to: FrameId,
    },
    /// An intra refresh was asked for.
    IntraRefresh {
        /// The frame with which it may begin.
        frame: FrameId,
        /// What did not arrive whole.
        lost: FrameId,
    },
    /// A key frame was made.
    KeyFrame {
        /// The frame.
        frame: FrameId,
        /// Why.
        why: KeyFrameReason,
    },
    /// Frames are protected against loss in another way.
    Protection {
        /// Parity shards that a frame of [`TYPICAL`] datagrams gets.
        parity: u8,
        /// Whether what is missing is sent again.
        resend: bool,
        /// What the link loses.
        loss: Loss,
        /// The round trip.
        round_trip: Duration,
    },
    /// New frames are held back.
    CongestionSkip {
        /// How long at least.
        wait: Duration,
    },
}

/// What changed, and why.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RateChange {
    /// The link's queue grows: it carries `capacity`.
    Queue {
        /// The new target.
        to: Bitrate,
        /// How long the newest frame waited in it.
        waited: Duration,
        /// What the link carries.
        capacity: Bitrate,
    },
    /// More is lost than a radio link would lose by itself.
    Loss {
        /// The new target.
        to: Bitrate,
        /// The share that was lost.
        lost: f64,
    },
    /// The client reports nothing any more.
    Silence {
        /// The new target.
        to: Bitrate,
    },
    /// The link has room again: the target climbs from here.
    Increase {
        /// The new target.
        to: Bitrate,
    },
    /// The target is back at its highest.
    Maximum {
        /// The new target.
        to: Bitrate,
    },
    /// The link was not full after all: the frames behind a cut contradict it.
    Reverted {
        /// The new target.
        to: Bitrate,
    },
    /// Frames came late, all at one moment: the link or a machine stood still. The target is not changed.
    Stall {
        /// How late.
        by: Duration,
    },
    /// Frames take longer, but not because of what is sent: the target is not changed.
    LongerPath {
        /// By how much.
        by: Duration,
    },
}

/// What a link loses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Loss {
    /// The share of datagrams that is lost, 0–1.
    pub rate: f64,
    /// How many are lost in a row, in the mean; 1 or more.
    pub run: f64,
}

impl Loss {
    /// Nothing is lost.
    pub const NONE: Loss = Loss {
        rate: 0.0,
        run: 1.0,
    };
}

/// Why a key frame was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFrameReason {
    /// Somebody joined, or asked for one.
    Requested,
    /// No frame that the encoder remembers reached the player.
    NoReference,
    /// Two refreshes in a row were hit by a loss.
    RefreshFailed,
    /// It is one of every so many.
    Periodic,
    /// Nothing was coded before with these settings.
    First,
}

// Its numbers are finite, and so equal to themselves.
impl Eq for ControlEvent {}

impl fmt::Display for ControlEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbps = |rate: Bitrate| rate.0 as f64 / 1e6;
        match *self {
            ControlEvent::Rate(RateChange::Queue {
                to,
                waited,
                capacity,
            }) => write!(
                f,
                "rate down to {:.1} Mb/s: frames wait {} ms in the link's queue, it carries {:.1}",
                mbps(to),
                waited.as_millis(),
                mbps(capacity)
            ),
            ControlEvent::Rate(RateChange::Loss { to, lost }) => write!(
                f,
                "rate down to {:.1} Mb/s: {:.0} % of the datagrams are lost",
                mbps(to),
                lost * 100.0
            ),
            ControlEvent::Rate(RateChange::Silence { to }) => {
                write!(f, "rate down to {:.1} Mb/s: no report comes back", mbps(to))
            }
            ControlEvent::Rate(RateChange::Increase { to }) => {
                write!(
                    f,
                    "rate up from {:.1} Mb/s: nothing waits any more",
                    mbps(to)
                )
            }
            ControlEvent::Rate(RateChange::Maximum { to }) => {
                write!(f, "rate is back at {:.1} Mb/s", mbps(to))
            }
            ControlEvent::Rate(RateChange::Reverted { to }) => write!(
                f,
                "rate back to {:.1} Mb/s: the link carries more than it seemed to",
                mbps(to)
            ),
            ControlEvent::Rate(RateChange::Stall { by }) => write!(
                f,
                "the rate stays: frames came {} ms late, all at once, after a pause",
                by.as_millis()
            ),
            ControlEvent::Rate(RateChange::LongerPath { by }) => write!(
                f,
                "the rate stays: frames take {} ms longer, but wait in no queue of the link",
                by.as_millis()
            ),
            ControlEvent::ReferenceInvalidation { frame, to } => write!(
                f,
                "frame {} refers to {}: what is between did not arrive whole",
                frame.0, to.0
            ),
            ControlEvent::IntraRefresh { frame, lost } => write!(
                f,
                "from frame {} on the picture is refreshed part by part: frame {} did not arrive whole",
                frame.0, lost.0
            ),
            ControlEvent::KeyFrame { frame, why } => write!(
                f,
                "frame {} is a key frame: {}",
                frame.0,
                match why {
                    KeyFrameReason::Requested => "a client asked for one",
                    KeyFrameReason::NoReference => "no remembered frame arrived whole",
                    KeyFrameReason::RefreshFailed => "two refreshes in a row were hit by losses",
                    KeyFrameReason::Periodic => "it is time for one",
                    KeyFrameReason::First => "it is the first",
                }
            ),
            ControlEvent::Protection {
                parity,
                resend,
                loss,
                round_trip,
            } => {
                match parity {
                    0 => f.write_str("no parity")?,
                    n => write!(f, "{n} parity for {TYPICAL} datagrams")?,
                }
                let again = if resend { "" } else { "not " };
                write!(
                    f,
                    ", what is missing is {again}sent again: {:.1} % lost, {:.1} in a row, round \
                     trip {:.1} ms",
                    loss.rate * 100.0,
                    loss.run,
                    round_trip.as_secs_f64() * 1e3
                )
            }
            ControlEvent::CongestionSkip { wait } => write!(
                f,
                "frames are held back for {} ms: the link's queue drains",
                wait.as_millis()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: Bitrate = Bitrate(7_540_000);
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_pause_and_a_cut_taken_back_are_told_with_their_cause() {
        let words = |change| ControlEvent::Rate(change).to_string();
        assert_eq!(
            words(RateChange::Stall { by: MS * 63 }),
            "the rate stays: frames came 63 ms late, all at once, after a pause"
        );
        assert_eq!(
            words(RateChange::Reverted { to: TO }),
            "rate back to 7.5 Mb/s: the link carries more than it seemed to"
        );
        assert_eq!(
            words(RateChange::LongerPath { by: MS * 12 }),
            "the rate stays: frames take 12 ms longer, but wait in no queue of the link"
        );
    }

    #[test]
    fn a_cut_is_told_with_its_cause() {
        let words = |change| ControlEvent::Rate(change).to_string();
        let queue = RateChange::Queue {
            to: TO,
            waited: MS * 41,
            capacity: Bitrate(8_870_000),
        };
        assert_eq!(
            words(queue),
            "rate down to 7.5 Mb/s: frames wait 41 ms in the link's queue, it carries 8.9"
        );
        let lost = 0.117;
        assert_eq!(
            words(RateChange::Loss { to: TO, lost }),
            "rate down to 7.5 Mb/s: 12 % of the datagrams are lost"
        );
        assert_eq!(
            words(RateChange::Silence { to: TO }),
            "rate down to 7.5 Mb/s: no report comes back"
        );
    }
}
