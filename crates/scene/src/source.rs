//! The scene, rendered in the host's own process and submitted without capture, like an application that calls OpenUVR
//! itself.
//!
//! A picture is drawn in the window, read back from OpenGL and submitted. Only then is it swapped, so that the host's
//! own display also shows it. With a GPU, the read-back would be an additional copy. Here, the renderer draws in
//! memory, and the read-back is the only copy.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::{Context as _, Result};
use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::pool::Pool;
use openuvr_media::capture::submit::{self, Submitted, Submitter};
use openuvr_proto::units::Size;

use super::sys::{Renderer, Window};
use super::{Args, Show, api, play};

/// The submission mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Submit {
    /// The application continues at once. Whenever the host is ready, it takes the newest picture.
    Free,
    /// The application draws the next picture after the previous one has been encoded and sent.
    LockStep,
}

/// With [`Submit::LockStep`], the application ends if a picture is not encoded and sent within this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Submits a picture, and then shows it in the window.
struct SubmitOutput {
    size: Size,
    submit: Submit,
    submitter: Submitter,
    pool: Pool,
}

impl Show for SubmitOutput {
    fn show(&mut self, window: &mut Window, renderer: &Renderer) -> bool {
        // If the window was resized, only the area of the channel's size is read.
        let mut picture = self.pool.take(self.size);
        renderer.read(self.size, picture.bytes());
        let submitted = self
            .submitter
            .submit(Box::new(picture), RenderInfo::default());
        let Some(ticket) = submitted else {
            return false;
        };
        window.swap();
        self.submit == Submit::Free || self.submitter.wait(ticket, TIMEOUT)
    }
}

/// Starts the scene in its own thread, with a window on `display`.
///
/// # Errors
/// Returns an error if the display or its OpenGL is unavailable.
pub fn start(display: &str, size: Size, fps: f64, submit: Submit) -> Result<Submitted> {
    let args = Args {
        display: Some(display.to_owned()),
        wayland: None,
        size,
        fps,
        frames: None,
        speed: 1.0,
        full_screen: false,
        bottom_code: false,
        coarse: false,
        read_back: false,
        times: None,
        pad_times: None,
        clicks: None,
        api: api::Api::default(),
    };
    let (submitter, submitted) = submit::channel(size, fps)?;
    let (opened, is_open) = sync_channel(1);
    // The stop flag is never set. The scene ends when its window is closed, or when a submission fails, for example
    // because the host has ended.
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
            let mut output = SubmitOutput {
                size,
                submit,
                submitter,
                pool: Pool::default(),
            };
            play(&mut window, &renderer, &args, &never, &mut output);
        })
        .context("can't start the scene's thread")?;
    is_open
        .recv()
        .context("the scene's thread ended before its window was open")??;
    Ok(submitted)
}
