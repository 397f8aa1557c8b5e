//! How a subscriber takes frames: how much may wait for it, whether it needs frames of a picture that stands still,
//! and from which budget its key frames come. A property of what the subscriber is, whatever its role.

use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intake {
    /// Only the newest frames are of use: a browser, where each frame that waits is seen late.
    Newest,
    /// All frames, as long as they are not late for a person who watches: a video player.
    Steady,
    /// All frames, whenever they come: a recorder.
    Complete,
}

/// Bytes that may wait for [`Intake::Newest`] and [`Intake::Steady`]: two uncompressed pictures of 1920 x 1080.
const LIVE_BYTES: usize = 16 << 20;

/// Bytes that may wait for a recorder, as `docs/clients.md` promises: 13 s at 20 Mb/s.
const RECORDER_BYTES: usize = 32 << 20;

/// How long a frame may wait for a browser's thread: three frames of 60 a second (guess). A thread that had no
/// processor for so long sends them in one burst; one that needs so long for a frame is too slow.
const NEWEST_AGE: Duration = Duration::from_millis(50);

/// The same for a video player: machines were seen to stop for 100 ms, and a thread of ordinary urgency to wait for a
/// multiple of that beside a build; players hold half a second and more back themselves.
const STEADY_AGE: Duration = Duration::from_millis(500);

/// How often a picture that stands still is sent again: twice as often as players and recordings need, so that a late
/// one is still within a second …
const REPEAT_EVERY: Duration = Duration::from_millis(500);

/// … and at the start, when players look at the stream: ffmpeg wants some twenty frames before it knows the rate
/// (`fps_probe_size` of libavformat).
const REPEAT_AT_FIRST: Duration = Duration::from_millis(50);

/// How long that is the start.
const START: Duration = Duration::from_millis(1500);

impl Intake {
    /// All, in the order of their numbers between processes, from 0 on.
    pub const ALL: [Intake; 3] = [Intake::Newest, Intake::Steady, Intake::Complete];

    /// Bytes of frames that may wait in memory; the frame that crosses the bound is still taken.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Intake::Newest | Intake::Steady => LIVE_BYTES,
            Intake::Complete => RECORDER_BYTES,
        }
    }

    /// How long a frame may wait; `None`: as long as there is memory.
    #[must_use]
    pub const fn age(self) -> Option<Duration> {
        match self {
            Intake::Newest => Some(NEWEST_AGE),
            Intake::Steady => Some(STEADY_AGE),
            Intake::Complete => None,
        }
    }

    /// How soon a picture that stands still is sent again to a subscriber that has had frames for so long; `None`:
    /// never.
    #[must_use]
    pub fn repeats(self, watched_for: Duration) -> Option<Duration> {
        match self {
            Intake::Newest => None,
            Intake::Steady if watched_for < START => Some(REPEAT_AT_FIRST),
            Intake::Steady | Intake::Complete => Some(REPEAT_EVERY),
        }
    }
}
