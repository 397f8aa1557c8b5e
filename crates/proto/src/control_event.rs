//! Rate-control events and their causes as values. They are converted to text only for display.
//!
//! Their encoding is in [`wire::control`](crate::wire::control).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::FrameId;
use crate::units::Bitrate;
use crate::validated::Invalid;

/// Number of datagrams of a frame at 10 Mb/s and 60 frames/s. Events report the number of repair datagrams for a frame
/// of this size.
pub const TYPICAL: usize = 16;

/// A rate-control event with its cause. Its `Display` is one line for logs, the live table and the client's
/// overlay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum ControlEvent {
    /// The rate changes.
    Rate(RateChange),
    /// A frame references an older intact frame, because newer ones did not reach the player.
    ReferenceInvalidation {
        /// The frame.
        frame: FrameId,
        /// The reference.
        to: FrameId,
    },
    /// An intra refresh has been requested.
    IntraRefresh {
        /// The earliest frame that can start the refresh.
        frame: FrameId,
        /// The frame that did not arrive complete.
        lost: FrameId,
    },
    /// A key frame has been encoded.
    KeyFrame {
        /// The frame.
        frame: FrameId,
        /// The reason.
        why: KeyFrameReason,
    },
    /// The loss protection of frames changes.
    Protection {
        /// Number of repair shards for a frame of [`TYPICAL`] datagrams.
        parity: u8,
        /// Whether missing fragments are retransmitted.
        resend: bool,
        /// The loss of the link.
        loss: Loss,
        /// The round-trip time.
        #[serde(with = "crate::validated::span")]
        round_trip: Duration,
    },
    /// New frames are skipped.
    CongestionSkip {
        /// The minimum duration.
        #[serde(with = "crate::validated::span")]
        wait: Duration,
    },
    /// The use of L4S on the player's path changes.
    L4s(L4sChange),
}

/// A change of the use of L4S on the player's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum L4sChange {
    /// Datagrams carry ECT(1) from now on.
    Started,
    /// The path clears the ECN field, so no mark of an L4S queue arrives.
    Bleached,
    /// The path replaces ECT(1) with ECT(0), so L4S queues do not mark the datagrams.
    Remarked,
}

/// A change of the target rate, or a reason not to change it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum RateChange {
    /// The link's queue is growing, which shows that the link is saturated.
    Queue {
        /// The new target.
        to: Bitrate,
        /// The queue delay of the newest frame.
        #[serde(with = "crate::validated::span")]
        waited: Duration,
        /// The estimated capacity of the link.
        capacity: Bitrate,
    },
    /// The loss exceeds the limit of 15 %, or of 2 % on a path with a marking L4S queue.
    Loss {
        /// The new target.
        to: Bitrate,
        /// The fraction of lost datagrams, 0–1.
        #[serde(deserialize_with = "crate::validated::fraction")]
        lost: f64,
    },
    /// The client's reports have stopped.
    Silence {
        /// The new target.
        to: Bitrate,
    },
    /// The link has spare capacity again, so the target increases.
    Increase {
        /// The new target.
        to: Bitrate,
    },
    /// The target is at its maximum again.
    Maximum {
        /// The new target.
        to: Bitrate,
    },
    /// A rate decrease is undone, because the frames after it show that the link was not saturated.
    Reverted {
        /// The new target.
        to: Bitrate,
    },
    /// The target follows a rate estimate of the player's transport, such as that of Google Congestion Control (GCC).
    Estimate {
        /// The new target.
        to: Bitrate,
    },
    /// Frames arrived late, in one burst, because the link or a machine stalled. The target is unchanged.
    Stall {
        /// The delay.
        #[serde(with = "crate::validated::span")]
        by: Duration,
    },
    /// An L4S queue marks datagrams, so the target decreases. Marks may cause a decrease in each round trip, but there
    /// is at most one such event in 30 seconds.
    Marked {
        /// The new target.
        to: Bitrate,
        /// The moving average of the fraction of marked datagrams, 0–1.
        #[serde(deserialize_with = "crate::validated::fraction")]
        share: f64,
    },
    /// A queue marks datagrams, and its standing delay is too long for an L4S queue. It is treated as a classic queue
    /// (RFC 3168). There is at most one such event in 30 seconds.
    ClassicMarks {
        /// The new target.
        to: Bitrate,
        /// The standing delay of the queue.
        #[serde(with = "crate::validated::span")]
        waited: Duration,
    },
    /// The path delay has increased, but not because of the sent rate. The target is unchanged.
    LongerPath {
        /// The increase.
        #[serde(with = "crate::validated::span")]
        by: Duration,
    },
}

/// The loss of a link.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "(f64, f64)", into = "(f64, f64)")]
pub struct Loss {
    /// The fraction of lost datagrams, 0–1.
    pub rate: f64,
    /// Mean run length of lost datagrams; 1 or more.
    pub run: f64,
}

impl TryFrom<(f64, f64)> for Loss {
    type Error = Invalid;

    fn try_from((rate, run): (f64, f64)) -> Result<Loss, Invalid> {
        let possible = (0.0..=1.0).contains(&rate) && (1.0..=1e6).contains(&run);
        possible
            .then_some(Loss { rate, run })
            .ok_or(Invalid("loss"))
    }
}

impl From<Loss> for (f64, f64) {
    fn from(loss: Loss) -> (f64, f64) {
        (loss.rate, loss.run)
    }
}

impl Loss {
    /// No loss.
    pub const NONE: Loss = Loss {
        rate: 0.0,
        run: 1.0,
    };
}

/// The reason for a key frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum KeyFrameReason {
    /// Requested by a client, or needed by a client that joined.
    Requested,
    /// No frame in the encoder's reference list reached the player.
    NoReference,
    /// Two consecutive refreshes were damaged by loss.
    RefreshFailed,
    /// The periodic key frame.
    Periodic,
    /// The first frame with these encoder settings.
    First,
}

// All floating-point fields are finite, so equality is reflexive.
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
                "rate down to {:.1} Mb/s: queue delay {} ms, link capacity {:.1} Mb/s",
                mbps(to),
                waited.as_millis(),
                mbps(capacity)
            ),
            ControlEvent::Rate(RateChange::Loss { to, lost }) => write!(
                f,
                "rate down to {:.1} Mb/s: {:.0} % packet loss",
                mbps(to),
                lost * 100.0
            ),
            ControlEvent::Rate(RateChange::Silence { to }) => {
                write!(f, "rate down to {:.1} Mb/s: no reports arrive", mbps(to))
            }
            ControlEvent::Rate(RateChange::Increase { to }) => {
                write!(
                    f,
                    "rate up to {:.1} Mb/s and rising: no queue delay",
                    mbps(to)
                )
            }
            ControlEvent::Rate(RateChange::Maximum { to }) => {
                write!(f, "rate at its maximum of {:.1} Mb/s", mbps(to))
            }
            ControlEvent::Rate(RateChange::Reverted { to }) => write!(
                f,
                "rate back to {:.1} Mb/s: the capacity was underestimated",
                mbps(to)
            ),
            ControlEvent::Rate(RateChange::Estimate { to }) => {
                write!(
                    f,
                    "rate set to {:.1} Mb/s: estimate by Google Congestion Control",
                    mbps(to)
                )
            }
            ControlEvent::Rate(RateChange::Stall { by }) => write!(
                f,
                "rate unchanged: frames arrived {} ms late in a burst after a stall",
                by.as_millis()
            ),
            ControlEvent::Rate(RateChange::Marked { to, share }) => write!(
                f,
                "rate down to {:.1} Mb/s: an L4S queue marks {:.0} % of the packets",
                mbps(to),
                share * 100.0
            ),
            ControlEvent::Rate(RateChange::ClassicMarks { to, waited }) => write!(
                f,
                "rate down to {:.1} Mb/s: packets are marked by a queue without L4S, which delays them by {} ms",
                mbps(to),
                waited.as_millis()
            ),
            ControlEvent::L4s(L4sChange::Started) => {
                f.write_str("L4S on: packets are sent with ECT(1)")
            }
            ControlEvent::L4s(L4sChange::Bleached) => {
                f.write_str("L4S unusable: the network clears the packets' ECN field")
            }
            ControlEvent::L4s(L4sChange::Remarked) => {
                f.write_str("L4S unusable: the network replaces ECT(1) with ECT(0)")
            }
            ControlEvent::Rate(RateChange::LongerPath { by }) => write!(
                f,
                "rate unchanged: the path delay has grown by {} ms, but there is no queue delay",
                by.as_millis()
            ),
            ControlEvent::ReferenceInvalidation { frame, to } => write!(
                f,
                "frame {} references frame {}: the frames between them did not arrive complete",
                frame.0, to.0
            ),
            ControlEvent::IntraRefresh { frame, lost } => write!(
                f,
                "intra refresh from frame {}: frame {} did not arrive complete",
                frame.0, lost.0
            ),
            ControlEvent::KeyFrame { frame, why } => write!(
                f,
                "frame {} is a key frame: {}",
                frame.0,
                match why {
                    KeyFrameReason::Requested => "requested by a client",
                    KeyFrameReason::NoReference => "no reference frame arrived complete",
                    KeyFrameReason::RefreshFailed =>
                        "two consecutive refreshes were damaged by loss",
                    KeyFrameReason::Periodic => "periodic",
                    KeyFrameReason::First => "first frame",
                }
            ),
            ControlEvent::Protection {
                parity,
                resend,
                loss,
                round_trip,
            } => {
                match parity {
                    0 => f.write_str("no FEC")?,
                    n => write!(f, "{n} repair datagrams per {TYPICAL} datagrams")?,
                }
                let retransmission = if resend { "with" } else { "without" };
                write!(
                    f,
                    ", {retransmission} retransmission: {:.1} % loss, mean loss run {:.1} datagrams, round trip {:.1} ms",
                    loss.rate * 100.0,
                    loss.run,
                    round_trip.as_secs_f64() * 1e3
                )
            }
            ControlEvent::CongestionSkip { wait } => write!(
                f,
                "frames are skipped for {} ms, until the link's queue has drained",
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
    fn messages_of_a_stall_and_a_reverted_decrease_name_the_cause() {
        let words = |change| ControlEvent::Rate(change).to_string();
        assert_eq!(
            words(RateChange::Stall { by: MS * 63 }),
            "rate unchanged: frames arrived 63 ms late in a burst after a stall"
        );
        assert_eq!(
            words(RateChange::Reverted { to: TO }),
            "rate back to 7.5 Mb/s: the capacity was underestimated"
        );
        assert_eq!(
            words(RateChange::LongerPath { by: MS * 12 }),
            "rate unchanged: the path delay has grown by 12 ms, but there is no queue delay"
        );
    }

    #[test]
    fn messages_of_a_rate_decrease_name_the_cause() {
        let words = |change| ControlEvent::Rate(change).to_string();
        let queue = RateChange::Queue {
            to: TO,
            waited: MS * 41,
            capacity: Bitrate(8_870_000),
        };
        assert_eq!(
            words(queue),
            "rate down to 7.5 Mb/s: queue delay 41 ms, link capacity 8.9 Mb/s"
        );
        let lost = 0.117;
        assert_eq!(
            words(RateChange::Loss { to: TO, lost }),
            "rate down to 7.5 Mb/s: 12 % packet loss"
        );
        assert_eq!(
            words(RateChange::Marked {
                to: TO,
                share: 0.117
            }),
            "rate down to 7.5 Mb/s: an L4S queue marks 12 % of the packets"
        );
        assert_eq!(
            words(RateChange::ClassicMarks {
                to: TO,
                waited: MS * 9
            }),
            "rate down to 7.5 Mb/s: packets are marked by a queue without L4S, which delays them by 9 ms"
        );
        assert_eq!(
            words(RateChange::Silence { to: TO }),
            "rate down to 7.5 Mb/s: no reports arrive"
        );
    }
}
