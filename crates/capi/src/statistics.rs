//! Statistics of a stream.

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_runtime::guest::Statistics;

use crate::ffi::Sized32;

/// Statistics of a host since its start. Set `size` to `sizeof(struct openuvr_statistics)`. Frames are counted for the
/// player. An unknown time is -1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_statistics {
    /// Bytes of this structure.
    pub size: u32,
    /// 1 while there is a player.
    pub players: u32,
    /// The number of observers.
    pub observers: u32,
    /// Unused.
    pub unused: u32,
    /// Frames that were captured for a player and whose processing has ended, including frames whose result the MUD
    /// never reported.
    pub captured: u64,
    /// Number of the `captured` frames that were displayed completely.
    pub complete: u64,
    /// Number of the `captured` frames that were displayed after error concealment, or predicted from a concealed
    /// picture.
    pub damaged: u64,
    /// Number of the `captured` frames that were not displayed.
    pub dropped: u64,
    /// Bytes sent for the captured frames, without transport headers.
    pub bytes: u64,
    /// Latency in nanoseconds from the time when the picture is in the host's memory to its display: the median of
    /// recent complete frames. It is based on the estimated clock offset.
    pub latency_p50_ns: i64,
    /// 99th percentile of that latency.
    pub latency_p99_ns: i64,
    /// Median motion-to-photon latency of recent complete frames in nanoseconds, measured only on the MUD's clock.
    pub motion_to_photon_p50_ns: i64,
    /// 99th percentile of the motion-to-photon latency.
    pub motion_to_photon_p99_ns: i64,
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_statistics {}

impl From<&Statistics> for openuvr_statistics {
    fn from(told: &Statistics) -> openuvr_statistics {
        let playing = |(_, role): &&(_, Role)| *role == Role::Player;
        let players = told.clients.iter().filter(playing).count();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let ns = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        let both = |spans: Option<(Duration, Duration)>| match spans {
            Some((p50, p99)) => (ns(p50), ns(p99)),
            None => (-1, -1),
        };
        let latency = both(told.captured_to_last());
        let motion = both(told.motion_to_photon());
        openuvr_statistics {
            size: crate::size_of32::<openuvr_statistics>(),
            players: count(players),
            observers: count(told.clients.len() - players),
            unused: 0,
            captured: told.captured,
            complete: told.complete,
            damaged: told.damaged,
            dropped: told.dropped,
            bytes: told.bytes,
            latency_p50_ns: latency.0,
            latency_p99_ns: latency.1,
            motion_to_photon_p50_ns: motion.0,
            motion_to_photon_p99_ns: motion.1,
        }
    }
}

/// The state of a MUD.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_MUD_STATE {
    /// Connecting to its host.
    OPENUVR_MUD_CONNECTING = 0,
    /// Connected as the player.
    OPENUVR_MUD_PLAYING = 1,
    /// Connected as an observer.
    OPENUVR_MUD_OBSERVING = 2,
    /// Ended: the user closed the window, the host ended the session, or an error occurred; `openuvr_mud_last_error`
    /// returns the reason.
    OPENUVR_MUD_ENDED = 3,
}

/// Statistics of a MUD since its start. Set `size` to `sizeof(struct openuvr_mud_statistics)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_mud_statistics {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_MUD_STATE`.
    pub state: u32,
    /// Width of the picture in pixels; 0 before the first picture.
    pub width: u32,
    /// Height of the picture in pixels; 0 before the first picture.
    pub height: u32,
    /// Frames with a known result.
    pub frames: u64,
    /// Number of the `frames` that were displayed completely.
    pub complete: u64,
    /// Number of the `frames` that were displayed after error concealment, or predicted from a concealed picture.
    pub damaged: u64,
    /// Number of the `frames` that were not displayed.
    pub dropped: u64,
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_mud_statistics {}

impl Default for openuvr_mud_statistics {
    fn default() -> openuvr_mud_statistics {
        openuvr_mud_statistics {
            size: crate::size_of32::<openuvr_mud_statistics>(),
            state: 0,
            width: 0,
            height: 0,
            frames: 0,
            complete: 0,
            damaged: 0,
            dropped: 0,
        }
    }
}
