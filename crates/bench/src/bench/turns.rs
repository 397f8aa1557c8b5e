//! Comparisons of several ways that take turns (A B C A B C …), so that what the machine does meanwhile
//! falls on all of them: what such a bench is asked, and how often it measures.

use std::time::Duration;

use anyhow::{Result, ensure};
use openuvr_proto::units::Size;
use openuvr_terminal::usage::WrongUsage;
use serde::Serialize;

use super::rig::Setup;
use super::sched::Sched;
use crate::lasting;

/// The options of each of them; where a bench has another default, it says so itself.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Asked {
    /// Size of the scene
    #[arg(long, default_value = "1280x720")]
    pub(super) size: Size,
    /// Bitrate given to the host
    #[arg(long, default_value = "10M")]
    pub(super) bitrate: String,
    /// Frames a second that the scene draws, if nobody holds it up
    #[arg(long, default_value_t = 60.5)]
    pub(super) scene_fps: f64,
    /// How often each is measured
    #[arg(long, default_value_t = 5)]
    repetitions: u32,
    /// How long each measurement takes
    #[arg(long = "for", value_name = "TIME", default_value = "4s", value_parser = lasting::seconds)]
    seconds: f64,
    /// One short repetition: shows that it works
    #[arg(long, conflicts_with_all = ["repetitions", "seconds"])]
    quick: bool,
}

/// Measurements that are repeated and take turns.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Turns {
    pub(super) repetitions: u32,
    pub(super) seconds: f64,
    /// Whether it is the short version.
    pub(super) quick: bool,
}

impl Turns {
    /// As they were asked for; a quick run has one of `short` seconds.
    ///
    /// # Errors
    /// A number is out of range.
    pub(super) fn new(asked: &Asked, short: f64) -> Result<Turns> {
        let Asked {
            repetitions,
            seconds,
            quick,
            ..
        } = *asked;
        ensure!(
            repetitions >= 1,
            WrongUsage::new("--repetitions must be at least 1")
        );
        ensure!(
            (0.1..=3600.0).contains(&seconds),
            WrongUsage::new("--for is 0.1s to 1h")
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
