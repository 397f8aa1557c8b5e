//! The scene drawn in the host's own process and submitted to it, not captured: what an
//! application does that calls OpenUVR itself.
//!
//! A picture is drawn on the window, read back from the GL, submitted, and only then swapped, so
//! that the host's own display shows it too. With a GPU the way back would be a copy of its own;
//! here the renderer draws in memory, and reading is one copy.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_media::capture::Drawn;
use openuvr_media::capture::pool::Pool;
use openuvr_media::capture::submit::{self, Submitted, Submitter};
use openuvr_proto::units::Size;

use super::sys::{Renderer, Window};
use super::{Args, Show, api, play};

/// Whether the application waits for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Submit {
    /// It goes on at once; the host takes the newest picture when it is ready.
    Free,
    /// It draws the next picture when the last one is encoded and sent.
    LockStep,
}

/// A host that is not done with a picture by then never will be; the application ends.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Submitted, and then on the window.
struct Way {
    size: Size,
    submit: Submit,
    submitter: Submitter,
    pool: Pool,
}

impl Show for Way {
    fn show(&mut self, window: &mut Window, renderer: &Renderer) -> bool {
        // One that somebody has resized is not read beyond what the channel takes.
        let mut picture = self.pool.take(self.size);
        renderer.read(self.size, picture.bytes());
        let submitted = self.submitter.submit(Box::new(picture), Drawn::default());
        let Some(ticket) = submitted else {
            return false;
        };
        window.swap();
        self.submit == Submit::Free || self.submitter.wait(ticket, TIMEOUT)
    }
}

/// Starts the scene in a thread of its own, as a window on `display`.
///
/// # Errors
/// The display or its OpenGL is not there.
pub(crate) fn start(display: &str, size: Size, fps: f64, submit: Submit) -> Result<Submitted> {
    let args = Args {
        display: Some(display.to_owned()),
        size,
        fps,
        frames: None,
        speed: 1.0,
        full_screen: false,
        coarse: false,
        read_back: false,
        times: None,
        pad_times: None,
        clicks: None,
        api: api::Api::default(),
    };
    let (submitter, submitted) = submit::channel(size, fps)?;
    let (opened, is_open) = sync_channel(1);
    // Never raised: the scene ends with the host, when it finds nobody to submit to.
    let never = Arc::new(AtomicBool::new(false));
    std::thread::Builder::new()
        .name("scene".into())
        .spawn(move || {
            let (mut window, renderer) = match super::open(&args) {
                Ok(open) => open,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(()));
            let mut way = Way {
                size,
                submit,
                submitter,
                pool: Pool::default(),
            };
            play(&mut window, &renderer, &args, &never, &mut way);
        })
        .context("can't start the scene's thread")?;
    is_open
        .recv()
        .context("the scene's thread ended at once")??;
    Ok(submitted)
}
