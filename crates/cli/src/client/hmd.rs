//! A headset as the client's surface. Its head pose and controllers are sent to the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use anyhow::Result;
use openuvr_clock as clock;
use openuvr_proto::display::Eyes;
use openuvr_runtime::client::{ClientRuntime, OpenSurface};
use openuvr_vr::headset::{Headset, SAMPLE_WAIT, Sample};

use super::phase::DisplayReporter;

/// An open headset.
pub(super) struct Hmd {
    pub(super) headset: Arc<Headset>,
    samples: Receiver<Sample>,
}

impl Hmd {
    /// Opens the active OpenXR runtime, and prints its name.
    ///
    /// # Errors
    /// Returns an error if there is no runtime, no headset, or no Vulkan.
    pub(super) fn open() -> Result<Hmd> {
        let (headset, samples) = Headset::open(clock::now)?;
        let about = headset.about();
        eprintln!(
            "openuvr client: headset of the OpenXR runtime {}, recommended per-eye resolution {}",
            about.runtime, about.eye
        );
        Ok(Hmd {
            headset: Arc::new(headset),
            samples,
        })
    }

    /// The refresh rate of the headset's display, if the runtime reports one.
    pub(super) fn refresh(&self) -> Option<f64> {
        self.headset.about().refresh.map(f64::from)
    }

    /// The surface that shows the host's pictures on the headset.
    pub(super) fn surface(&self) -> OpenSurface {
        let headset = Arc::clone(&self.headset);
        Box::new(move |_, _, _| Ok((headset.presenter(), None)))
    }

    /// Runs `work` while head poses, controllers and refresh times are sent to the host of `client`.
    pub(super) fn report_during<T>(
        self,
        client: &ClientRuntime,
        eyes: Option<Eyes>,
        work: impl FnOnce() -> T,
    ) -> T {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| send(self.samples, client, DisplayReporter::new(eyes), &over));
            let done = work();
            over.store(true, Ordering::Relaxed);
            done
        })
    }
}

fn send(
    samples: Receiver<Sample>,
    client: &ClientRuntime,
    mut display: DisplayReporter,
    over: &AtomicBool,
) {
    while !over.load(Ordering::Relaxed) {
        let sample = match samples.recv_timeout(SAMPLE_WAIT) {
            Ok(sample) => sample,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Some(head) = &sample.head {
            let _ = client.set_pose(head, sample.at);
        }
        let _ = client.push_controllers(sample.at, sample.controllers);
        if let Some(refresh) = sample.refresh {
            display.refresh(client, refresh);
        }
    }
}
