//! A display with a viewer.

use std::time::Duration;

use openuvr_compositor::{DisplayCapture, Options, WaylandDisplay};
use openuvr_media::capture::{Capture as _, CaptureEvent};
use openuvr_proto::units::Size;

use crate::client::Client;

/// The size of the displays. A bar code fits into it.
pub(crate) const SIZE: Size = Size::new(640, 360);

/// How long an expected picture may take, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// How long to wait when nothing should happen. On a busy machine, an earlier picture may come this late.
pub(crate) const SILENCE: Duration = Duration::from_millis(1500);

/// A display and its viewer.
pub(crate) struct Rig {
    pub(crate) display: WaylandDisplay,
    pub(crate) capture: DisplayCapture,
    _folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        Rig::with(SIZE, 1.0)
    }

    pub(crate) fn with(size: Size, scale: f64) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let display = WaylandDisplay::start(&Options {
            folder: folder.path().to_owned(),
            size,
            fps: 60.0,
            scale,
            authority: None,
        });
        let display = display.unwrap();
        let mut capture = display.capture().unwrap();
        capture.limit_fps(60.0);
        capture.set_watched(true);
        Rig {
            display,
            capture,
            _folder: folder,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.display.socket())
    }

    /// Waits for the next picture.
    pub(crate) fn next(&mut self) {
        assert_eq!(self.capture.next(Some(SOON)).unwrap(), CaptureEvent::Frame);
    }

    /// Takes pictures until none arrives for a while. Returns their number.
    pub(crate) fn settle(&mut self) -> usize {
        let mut count = 0;
        while self.capture.next(Some(SILENCE)).unwrap() == CaptureEvent::Frame {
            count += 1;
        }
        count
    }

    /// Takes pictures until a pixel has a colour.
    pub(crate) fn until(&mut self, x: u32, y: u32, colour: u32) {
        let began = std::time::Instant::now();
        while self.pixel(x, y) != Some(colour) {
            assert!(began.elapsed() < SOON, "{x},{y}: {:x?}", self.pixel(x, y));
            let _ = self.capture.next(Some(Duration::from_millis(50))).unwrap();
        }
    }

    /// A pixel of the newest picture, without its unused byte.
    pub(crate) fn pixel(&self, x: u32, y: u32) -> Option<u32> {
        let picture = self.capture.picture()?;
        let plane = picture.planes[0];
        let at = y as usize * plane.stride + x as usize * 4;
        let bytes = plane.data.get(at..at + 4)?.try_into().unwrap();
        Some(u32::from_le_bytes(bytes) & 0xff_ffff)
    }
}
