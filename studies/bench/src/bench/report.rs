//! The results of one case of `openuvr bench latency`, and its settings.

use openuvr_proto::units::Size;
use openuvr_testbed::stats::share;
use serde::Serialize;

use super::case::{Case, Stream, ratio};
use super::codec::Cost;
use crate::machine::{Machine, QUIET};

/// If the scene's rate exceeds the host's limit (`--fps`) by at most this factor, all drawn frames are due, because the
/// host admits 5 % more frames than its limit (`crates/media/src/capture/pace.rs`).
const LET_BY: f64 = 1.05;

/// The results of a case: one size and one bitrate.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) setting: Setting,
    /// Time from each key press to its effect on the scene's own display, in ms.
    pub(super) application_reaction_ms: Vec<f64>,
    pub(super) floor: Option<Case>,
    pub(super) stream: Option<Stream>,
    pub(super) codec: Option<Cost>,
}

/// The settings of a case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) size: String,
    #[serde(skip)]
    pub(super) pixels: Size,
    pub(super) fps: f64,
    pub(super) scene_fps: f64,
    pub(super) encoder: String,
    pub(super) bitrate: String,
    pub(super) seconds: u32,
    /// Number of key presses on each display.
    pub(super) presses: u32,
    /// Whether real-time scheduling was requested; `threads` has the actual policies.
    pub(super) real_time: bool,
    /// Whether the run is the short version.
    pub(super) quick: bool,
    pub(super) targets: Targets,
}

/// The target of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Target {
    /// The bound. A figure that is worse misses the target. `None` if there is no bound.
    pub(super) pass: Option<f64>,
    /// A value that is better than the bound. It is aimed at, but not required.
    pub(super) aim: Option<f64>,
}

impl Target {
    pub(super) const fn at(pass: f64) -> Target {
        Target {
            pass: Some(pass),
            aim: None,
        }
    }

    pub(super) const fn aiming(pass: f64, aim: f64) -> Target {
        Target {
            pass: Some(pass),
            aim: Some(aim),
        }
    }

    /// Converts the target of a share to percent.
    pub(super) fn in_percent(self) -> Target {
        let percent = |share: Option<f64>| share.map(|share| share * 100.0);
        Target {
            pass: percent(self.pass),
            aim: percent(self.aim),
        }
    }
}

/// The targets, if there are any.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Targets {
    /// Maximum median latency from drawn to visible.
    pub(super) p50_ms: Target,
    /// Maximum p99 latency from drawn to visible.
    pub(super) p99_ms: Target,
    /// Maximum median time from a key press to its visible effect, minus the same time on the application's own
    /// display.
    pub(super) reaction_ms: Target,
    /// Maximum of (end to end - floor) / serial codec time. All three are medians.
    pub(super) ratio: Target,
    /// Maximum number of cores that host and client use together.
    pub(super) cores: Target,
    /// Maximum bitrate of the media on the wire.
    pub(super) wire_mbps: Target,
    /// Minimum of the median luma PSNR.
    pub(super) psnr_db: Target,
    /// Minimum share of complete frames among the frames due.
    pub(super) complete: Target,
}

impl Report {
    pub(super) fn new(machine: Machine, setting: Setting) -> Report {
        Report {
            machine,
            setting,
            application_reaction_ms: Vec::new(),
            floor: None,
            stream: None,
            codec: None,
        }
    }

    /// The [`ratio`] that rates the pipeline; `None` if a part of it was not measured.
    pub(super) fn ratio(&self) -> Option<f64> {
        let end = self.stream.as_ref()?.case.latency_ms?;
        let floor = self.floor.as_ref()?.latency_ms?;
        Some(ratio(end.p50, floor.p50, self.codec.as_ref()?.serial.p50))
    }

    pub(super) fn cases(&self) -> impl Iterator<Item = (&'static str, &Case)> {
        let floor = self.floor.iter().map(|case| ("floor", case));
        floor.chain(self.stream.iter().map(|stream| ("stream", &stream.case)))
    }

    /// Share of complete frames among the frames due. The frames due are those that the scene has drawn, up to the
    /// number that the host may send.
    pub(super) fn complete_of_due(&self) -> Option<f64> {
        let stream = self.stream.as_ref()?;
        let Setting { fps, scene_fps, .. } = self.setting;
        let most = match scene_fps > fps * LET_BY {
            true => (fps * stream.case.seconds) as usize,
            false => usize::MAX,
        };
        share(stream.complete(), stream.case.frames.drawn.min(most)).map(|share| share.min(1.0))
    }

    pub(super) fn is_loud(&self) -> bool {
        self.cases().any(|(_, case)| case.other_cores > QUIET)
    }
}
