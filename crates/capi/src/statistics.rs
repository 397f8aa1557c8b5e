//! What can be told of a stream in numbers.

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_runtime::guest::Statistics;

use crate::ffi::Sized32;

/// Of a host, since its thread was started. Set `size` to `sizeof(struct openuvr_statistics)`.
/// Frames are counted for the player; a time that is not known is -1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_statistics {
    /// Bytes of this structure.
    pub size: u32,
    /// 1 while somebody plays.
    pub players: u32,
    /// Clients that watch.
    pub observers: u32,
    /// Not used.
    pub unused: u32,
    /// Frames that were captured while somebody played, and whose end is known.
    pub captured: u64,
    /// Of these: displayed whole.
    pub whole: u64,
    /// Displayed patched, or built on a picture that was.
    pub damaged: u64,
    /// Not displayed.
    pub dropped: u64,
    /// Bytes on the wire for them, without the headers of the transport.
    pub bytes: u64,
    /// From the picture's hand-over to its display, in nanoseconds: the median of the newest frames,
    /// by an estimate of how far the two clocks are apart.
    pub latency_p50_ns: i64,
    /// The same, the 99th percentile.
    pub latency_p99_ns: i64,
    /// From the person's act to the picture that shows it, on the MUD's clock alone: the median.
    pub motion_to_photon_p50_ns: i64,
    /// The same, the 99th percentile.
    pub motion_to_photon_p99_ns: i64,
}

// SAFETY: `repr(C)`; numbers.
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
            whole: told.whole,
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

/// How far a MUD is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_MUD_STATE {
    /// It looks for its host.
    OPENUVR_MUD_CONNECTING = 0,
    /// It plays.
    OPENUVR_MUD_PLAYING = 1,
    /// It only watches.
    OPENUVR_MUD_OBSERVING = 2,
    /// It is over: the person closed the window, the host ended it, or it failed; the message says
    /// which.
    OPENUVR_MUD_ENDED = 3,
}

/// Of a MUD, since its thread was started. Set `size` to `sizeof(struct openuvr_mud_statistics)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_mud_statistics {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_MUD_STATE`.
    pub state: u32,
    /// Pixels per row of the picture, 0 before the first.
    pub width: u32,
    /// Its rows.
    pub height: u32,
    /// Frames whose end is known.
    pub frames: u64,
    /// Of these: displayed whole.
    pub whole: u64,
    /// Displayed patched, or built on a picture that was.
    pub damaged: u64,
    /// Not displayed.
    pub dropped: u64,
}

// SAFETY: `repr(C)`; numbers.
unsafe impl Sized32 for openuvr_mud_statistics {}

impl Default for openuvr_mud_statistics {
    fn default() -> openuvr_mud_statistics {
        openuvr_mud_statistics {
            size: crate::size_of32::<openuvr_mud_statistics>(),
            state: 0,
            width: 0,
            height: 0,
            frames: 0,
            whole: 0,
            damaged: 0,
            dropped: 0,
        }
    }
}
