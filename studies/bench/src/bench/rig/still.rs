//! Measures the cost of a still picture.

use std::time::Duration;

use anyhow::Result;
use openuvr_clock as clock;
use rustix::process::{Pid, Signal, kill_process};

use super::Rig;
use crate::machine;

/// The time until a still picture has been sent in its final quality (guess; the static refinement takes a second). The
/// host's cores are measured only after this time.
pub(in crate::bench) const SETTLE: Duration = Duration::from_secs(3);

/// A process stopped by SIGSTOP. It continues when this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(id: u32) -> Option<Stopped> {
        let process = i32::try_from(id).ok().and_then(Pid::from_raw)?;
        kill_process(process, Signal::STOP).ok()?;
        Some(Stopped(process))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

impl Rig<'_> {
    /// Makes subsequent streams also stop the scene, and measure the host's cores for this time after [`SETTLE`].
    pub(in crate::bench) fn measure_still(&mut self, seconds: f64) {
        self.still = Some(Duration::from_secs_f64(seconds));
    }

    /// Cores used by the host, without its child processes, while the scene is stopped and its picture does not change.
    /// `None` if this measurement was not requested, or if the scene is not a separate process.
    pub(super) fn still_cores(
        &self,
        host: u32,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<f64>> {
        let scene = self.still.zip(self.scene_process(host));
        let Some((span, stopped)) =
            scene.and_then(|(span, scene)| Some((span, Stopped::stop(scene)?)))
        else {
            return Ok(None);
        };
        self.pass(SETTLE, check)?;
        let (from, before) = (clock::now(), machine::process_ns(host));
        self.pass(span, check)?;
        let (to, after) = (clock::now(), machine::process_ns(host));
        drop(stopped);
        let spent = Duration::from_nanos(after.saturating_sub(before));
        Ok(Some(spent.as_secs_f64() / to.since(from).as_secs_f64()))
    }
}
