//! The results of one case of `openuvr bench latency`, and its settings.

use openuvr_proto::units::Size;
use openuvr_testbed::stats::share;
use serde::Serialize;

use super::case::{Case, Stream, ratio};
use super::codec::Cost;
use crate::machine::{Machine, QUIET};

/// Factor up to which the host may exceed its frames per second (`--fps`), because a display of 60 Hz has 60.2.
const LET_BY: f64 = 1.02;

/// One size and bitrate.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) setting: Setting,
    /// Key press to its effect on the scene's own display, ms.
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
    /// Presses made on each display.
    pub(super) presses: u32,
    /// Whether real-time scheduling was requested; `threads` has the actual policies.
    pub(super) real_time: bool,
    /// Whether it was the short version.
    pub(super) quick: bool,
    pub(super) targets: Targets,
}

/// A figure to reach.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Target {
    /// The bound: a figure that does not reach it misses the target. `None`: there is no bound.
    pub(super) pass: Option<f64>,
    /// A better value, beyond the target.
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

    /// Of a share, in percent.
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
    /// Drawn to visible, at most.
    pub(super) p50_ms: Target,
    /// Drawn to visible, at most.
    pub(super) p99_ms: Target,
    /// Median of press to visible minus that on the application's own display, at most.
    pub(super) reaction_ms: Target,
    /// (end to end - floor) / serial codec time, medians, at most.
    pub(super) ratio: Target,
    /// Cores of host and client together, at most.
    pub(super) cores: Target,
    /// Media on the wire, at most.
    pub(super) wire_mbps: Target,
    /// Median luma PSNR, at least.
    pub(super) psnr_db: Target,
    /// Share of complete frames among those due, at least.
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

    /// The improvement by the pipeline; `None` if a part was not measured.
    pub(super) fn ratio(&self) -> Option<f64> {
        let end = self.stream.as_ref()?.case.latency_ms?;
        let floor = self.floor.as_ref()?.latency_ms?;
        Some(ratio(end.p50, floor.p50, self.codec.as_ref()?.serial.p50))
    }

    pub(super) fn cases(&self) -> impl Iterator<Item = (&'static str, &Case)> {
        let floor = self.floor.iter().map(|case| ("floor", case));
        floor.chain(self.stream.iter().map(|stream| ("stream", &stream.case)))
    }

    /// Share of complete frames among those due: what the scene has drawn or, if it draws more than the host may send, that
    /// number.
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
