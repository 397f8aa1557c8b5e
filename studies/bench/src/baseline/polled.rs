//! Captures at a fixed rate, even if the picture has not changed, as screen grabbers do.
//!
//! Between two ticks, the inner capture has no observer and captures nothing. The first picture after
//! [`Capture::set_watched`] is the whole current picture of the display.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, RenderInfo, Waker};
use openuvr_media::damage::Block;
use openuvr_media::picture::Picture;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

/// Captures whole pictures at a fixed rate.
pub(super) struct Polled {
    inner: Box<dyn Capture>,
    /// Pictures per second.
    fps: f64,
    /// Maximum number of pictures per second; 0 means no limit.
    limit: f64,
    /// The time at which the next picture is due.
    due: Instant,
    watched: bool,
    /// Whether the inner capture was woken during a capture and the wake-up has not been reported yet.
    woken: bool,
}

impl Polled {
    /// Captures from `inner`, which captures a display, `fps` times a second from now on. `fps` is clamped to the range
    /// from 0.1 to 1000.
    pub(super) fn new(mut inner: Box<dyn Capture>, fps: f64) -> Polled {
        // The inner capture must deliver each requested picture, even soon after the previous picture.
        inner.limit_fps(0.0);
        inner.set_watched(false);
        Polled {
            inner,
            fps,
            limit: 0.0,
            due: clock::now(),
            watched: true,
            woken: false,
        }
    }

    fn period(&self) -> Duration {
        let fps = match self.limit > 0.0 {
            true => self.fps.min(self.limit),
            false => self.fps,
        };
        Duration::from_secs_f64(1.0 / fps.clamp(0.1, 1000.0))
    }

    /// Captures a picture. `TimedOut` means that the source has no picture. After an event other than `Frame` and
    /// `TimedOut`, the picture stays due.
    fn take(&mut self) -> Result<CaptureEvent, CaptureError> {
        self.inner.set_watched(true);
        let event = loop {
            match self.inner.next(Some(Duration::ZERO))? {
                // The previous picture has been dropped, so capture the new picture before reporting the wake-up.
                CaptureEvent::Woken => self.woken = true,
                event => break event,
            }
        };
        self.inner.set_watched(false);
        if matches!(event, CaptureEvent::Frame | CaptureEvent::TimedOut) {
            // Skip missed ticks.
            let (now, period) = (clock::now(), self.period());
            let next = self.due + period;
            self.due = if next > now { next } else { now + period };
        }
        Ok(event)
    }
}

impl Capture for Polled {
    fn size(&self) -> Size {
        self.inner.size()
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let until = timeout.map(|span| clock::now() + span);
        loop {
            if std::mem::take(&mut self.woken) {
                return Ok(CaptureEvent::Woken);
            }
            let now = clock::now();
            if self.watched && self.due <= now {
                match self.take()? {
                    CaptureEvent::TimedOut => continue,
                    event => return Ok(event),
                }
            }
            let due = self.watched.then_some(self.due);
            let wait = due.into_iter().chain(until).min().map(|at| at.since(now));
            match self.inner.next(wait)? {
                // Ignore a picture that was drawn between two ticks.
                CaptureEvent::Frame => {}
                CaptureEvent::TimedOut if until.is_none_or(|until| clock::now() < until) => {}
                event => return Ok(event),
            }
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.inner.picture()
    }

    fn changed(&self) -> Option<Block> {
        self.inner.changed()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn render_info(&self) -> RenderInfo {
        self.inner.render_info()
    }

    fn limit_fps(&mut self, fps: f64) {
        self.limit = fps;
    }

    /// Sets whether there is an observer. A new observer gets a picture immediately.
    fn set_watched(&mut self, watched: bool) {
        if watched && !self.watched {
            self.due = clock::now();
        }
        self.watched = watched;
    }
}

#[cfg(test)]
mod tests {
    use openuvr_media::capture::x11::{self, CaptureArea, Target};
    use openuvr_testbed::display::{VirtualDisplay, for_test};
    use x11rb::connection::Connection as _;
    use x11rb::protocol::xproto::{ConnectionExt as _, CreateGCAux, Rectangle};
    use x11rb::wrapper::ConnectionExt as _;

    use super::*;

    const SIDE: u16 = 64;
    const RED: u32 = 0xff_0000;
    const GREEN: u32 = 0x00_ff00;

    /// Much longer than the period of any event in these tests.
    const SOON: Option<Duration> = Some(Duration::from_secs(10));

    /// A display with a red root window; `None` if Xvfb is not installed.
    fn display() -> Option<VirtualDisplay> {
        let display = for_test(Size::new(SIDE.into(), SIDE.into()))?;
        paint(&display, RED);
        Some(display)
    }

    fn paint(display: &VirtualDisplay, colour: u32) {
        let (conn, screen) = x11rb::connect(Some(display.name())).expect("Xvfb runs");
        let root = conn.setup().roots[screen].root;
        let gc = conn.generate_id().expect("an id");
        let whole = Rectangle {
            x: 0,
            y: 0,
            width: SIDE,
            height: SIDE,
        };
        conn.create_gc(gc, root, &CreateGCAux::new().foreground(colour))
            .expect("sent");
        conn.poly_fill_rectangle(root, gc, &[whole]).expect("sent");
        conn.sync().expect("done");
    }

    fn capture(display: &VirtualDisplay) -> Box<dyn Capture> {
        let target = Target {
            display: Some(display.name().to_owned()),
            area: CaptureArea::Display,
        };
        Box::new(x11::open(&target).expect("a capture"))
    }

    /// The last pixel.
    fn pixel(capture: &dyn Capture) -> u32 {
        let picture = capture.picture().expect("a picture");
        let bytes = picture.planes[0].data;
        let pixel: [u8; 4] = bytes[bytes.len() - 4..].try_into().expect("four bytes");
        u32::from_le_bytes(pixel) & 0xff_ffff
    }

    #[test]
    fn a_poll_takes_whole_pictures_by_the_clock() {
        let Some(display) = display() else { return };
        let mut polled = Polled::new(capture(&display), 200.0);
        for _ in 0..5 {
            assert_eq!(polled.next(SOON).expect("it runs"), CaptureEvent::Frame);
            assert_eq!(pixel(&polled), RED, "although nothing was drawn");
            assert_eq!(polled.changed(), None);
        }
        paint(&display, GREEN);
        assert_eq!(polled.next(SOON).expect("it runs"), CaptureEvent::Frame);
        assert_eq!(pixel(&polled), GREEN);
        polled.waker().wake();
        let events = [(); 2].map(|()| polled.next(SOON).expect("it runs"));
        assert!(events.contains(&CaptureEvent::Woken), "{events:?}");
        assert_eq!(pixel(&polled), GREEN, "a picture remains");
    }

    #[test]
    fn drawing_between_ticks_waits_for_the_next() {
        let Some(display) = display() else { return };
        // A picture is due every ten seconds. The first picture is due now.
        let mut polled = Polled::new(capture(&display), 0.1);
        assert_eq!(polled.next(SOON).expect("it runs"), CaptureEvent::Frame);
        paint(&display, GREEN);
        let short = Some(Duration::from_millis(50));
        assert_eq!(polled.next(short).expect("it runs"), CaptureEvent::TimedOut);
        assert_eq!(pixel(&polled), RED);
    }

    #[test]
    fn nothing_is_captured_without_an_observer() {
        let Some(display) = display() else { return };
        let mut polled = Polled::new(capture(&display), 200.0);
        assert_eq!(polled.next(SOON).expect("it runs"), CaptureEvent::Frame);
        polled.set_watched(false);
        let short = Some(Duration::from_millis(50));
        assert_eq!(polled.next(short).expect("it runs"), CaptureEvent::TimedOut);
        paint(&display, GREEN);
        polled.set_watched(true);
        assert_eq!(polled.next(SOON).expect("it runs"), CaptureEvent::Frame);
        assert_eq!(pixel(&polled), GREEN);
    }
}
