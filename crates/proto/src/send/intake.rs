//! How a subscriber takes frames: its queue limits, its need for frames of a still picture, and its part in the rate
//! limit of key frames (`key_frame.rs`). The intake depends on the kind of subscriber, not on the role.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The way in which a subscriber takes frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Intake {
    /// Only the newest frames matter. Used for a browser, where a queued frame is displayed late.
    Newest,
    /// All frames, unless they are too late for live viewing. Used for a video player.
    Steady,
    /// All frames, however late. Used for a recorder.
    Complete,
    /// Only the newest frames matter, and a lost frame is noticed when a later frame arrives. Used for a Moonlight
    /// client, which does not acknowledge frames.
    Unacknowledged,
}

/// Queue limit in bytes of all subscribers except recorders: two uncompressed pictures of 1920 x 1080.
const LIVE_BYTES: usize = 16 << 20;

/// Queue limit in bytes of a recorder, as documented in `docs/clients.md`: 13 s at 20 Mb/s.
const RECORDER_BYTES: usize = 32 << 20;

/// Maximum queueing time for the thread of a browser or a Moonlight client: three frames at 60 a second (guess). A
/// thread that was descheduled for that long sends the queued frames in one burst; a thread that needs that long per
/// frame is too slow.
const NEWEST_AGE: Duration = Duration::from_millis(50);

/// Maximum queueing time for a video player. Machines were observed to stall for 100 ms. During a build, a thread of
/// normal priority waited several times as long. Video players themselves buffer half a second or more.
const STEADY_AGE: Duration = Duration::from_millis(500);

/// Repetition interval of a still picture: half of the interval that video players and recordings need, so that a
/// repetition arrives within a second even if it is late.
const REPEAT_EVERY: Duration = Duration::from_millis(500);

/// Repetition interval at the start, while video players probe the stream. ffmpeg needs about twenty frames to detect
/// the rate (`fps_probe_size` of libavformat).
const REPEAT_AT_FIRST: Duration = Duration::from_millis(50);

/// Repetition interval for clients that notice a loss when a later frame arrives. A lost change becomes visible after
/// this interval plus a round trip (guess: this is short for a typed letter, and five frames per second without changes
/// cost little).
const REPEAT_AFTER_LOSS: Duration = Duration::from_millis(200);

/// Duration of the start, in which [`REPEAT_AT_FIRST`] applies.
const START: Duration = Duration::from_millis(1500);

impl Intake {
    /// All intakes, in the order of their numbers in messages between processes. The first intake has number 0.
    pub const ALL: [Intake; 4] = [
        Intake::Newest,
        Intake::Steady,
        Intake::Complete,
        Intake::Unacknowledged,
    ];

    /// Queue limit in bytes. The frame that crosses the limit is still taken.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Intake::Newest | Intake::Steady | Intake::Unacknowledged => LIVE_BYTES,
            Intake::Complete => RECORDER_BYTES,
        }
    }

    /// Maximum queueing time of a frame; `None` if it is unlimited.
    #[must_use]
    pub const fn age(self) -> Option<Duration> {
        match self {
            Intake::Newest | Intake::Unacknowledged => Some(NEWEST_AGE),
            Intake::Steady => Some(STEADY_AGE),
            Intake::Complete => None,
        }
    }

    /// The interval at which a still picture is repeated to a subscriber; `None` if it is not repeated. `observed_for` is
    /// the time since the subscriber's first frame.
    #[must_use]
    pub fn repeats(self, observed_for: Duration) -> Option<Duration> {
        match self {
            Intake::Newest => None,
            Intake::Unacknowledged => Some(REPEAT_AFTER_LOSS),
            Intake::Steady if observed_for < START => Some(REPEAT_AT_FIRST),
            Intake::Steady | Intake::Complete => Some(REPEAT_EVERY),
        }
    }
}
