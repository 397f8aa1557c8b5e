//! Comparisons with interleaved runs (A B C A B C …), so that changes in the state of the machine affect all
//! configurations equally. Contains the options and the repetitions of such benches.

use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_proto::units::Size;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::sched::Sched;
use serde::Serialize;

use super::rig::Setup;
use crate::durations;

/// The common options of the benches that compare configurations. A bench can override the defaults.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ComparisonOptions {
    /// Size of the scene
    #[arg(long, default_value = "1280x720")]
    pub(super) size: Size,
    /// Bitrate of the host
    #[arg(long, default_value = "10M")]
    pub(super) bitrate: String,
    /// Frames per second of the scene, if nothing blocks it
    #[arg(long, default_value_t = 60.5)]
    pub(super) scene_fps: f64,
    /// Repetitions of each measurement
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// Duration of each measurement
    #[arg(long = "duration", value_name = "TIME", default_value = "4s", value_parser = durations::seconds)]
    seconds: f64,
    /// Smoke test: one short repetition
    #[arg(long, conflicts_with_all = ["repetitions", "seconds"])]
    quick: bool,
}

/// Repeated, interleaved measurements.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Turns {
    pub(super) repetitions: u32,
    pub(super) seconds: f64,
    /// Whether this is a smoke test (`--quick`).
    pub(super) quick: bool,
}

impl Turns {
    /// Takes the repetitions from the options. With `--quick`, there is one repetition of `short` seconds.
    ///
    /// # Errors
    /// Returns an error if a number is out of range.
    pub(super) fn new(options: &ComparisonOptions, short: f64) -> Result<Turns> {
        let ComparisonOptions {
            repetitions,
            seconds,
            quick,
            ..
        } = *options;
        ensure!(
            repetitions >= 1,
            UsageError::new("--repetitions must be at least 1")
        );
        ensure!(
            (0.1..=3600.0).contains(&seconds),
            UsageError::new("--duration must be 0.1s to 1h")
        );
        let (repetitions, seconds) = match quick {
            true => (1, short),
            false => (repetitions, seconds),
        };
        Ok(Turns {
            repetitions,
            seconds,
            quick,
        })
    }

    pub(super) fn setup(self, size: Size, scene_fps: f64) -> Setup {
        let (warm_up, compared) = if self.quick { (0.5, 5) } else { (1.0, 20) };
        Setup {
            size,
            scene_fps,
            sched: Sched::Auto,
            warm_up: Duration::from_secs_f64(warm_up),
            compared,
        }
    }
}
