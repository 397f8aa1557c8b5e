//! A moving test pattern with a bar code, generated in this process. It provides pictures to stream without an
//! application or display.
//!
//! It runs by its own clock, like an application. It can't replace an application in measurements, because its pictures
//! have never been on a screen.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::{Capture, CaptureError, CaptureEvent, Waker};
use crate::barcode::{self, Stamp};
use crate::picture::Picture;

/// Margin of the texture around the picture in pixels: the range of the motion.
const MARGIN: usize = 256;

/// The test pattern.
#[derive(Debug)]
pub struct Pattern {
    size: Size,
    /// Frame period.
    period: Duration,
    /// Absolute deadline of the next frame, so that lateness does not accumulate.
    due: Instant,
    frame: u32,
    texture: Vec<u8>,
    picture: Vec<u8>,
    waker: Waker,
}

impl Pattern {
    /// A pattern of `size` at `fps` frames per second (0.1 to 1000, fractions allowed); the first
    /// frame is due at once.
    ///
    /// # Errors
    /// [`CaptureError`] if the size is too small for the bar code or larger than
    /// [`Size::MAX_SIDE`], the rate is out of range, or no file descriptor is left.
    pub fn open(size: Size, fps: f64) -> Result<Pattern, CaptureError> {
        let rows = barcode::height(size.width.clamp(barcode::MIN_WIDTH, Size::MAX_SIDE));
        if !size.is_valid() || size.width < barcode::MIN_WIDTH || size.height < rows {
            return Err(CaptureError(format!(
                "a test pattern of {size} is not possible: choose a width of {} to {most} pixels and a height of \
                 {rows} to {most} pixels",
                barcode::MIN_WIDTH,
                most = Size::MAX_SIDE
            )));
        }
        if !(0.1..=1000.0).contains(&fps) {
            return Err(CaptureError(format!(
                "a test pattern at {fps} frames/s is not possible: choose 0.1 to 1000"
            )));
        }
        let waker =
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|error| {
                CaptureError(format!("the test pattern can't create an eventfd: {error}"))
            })?;
        Ok(Pattern {
            size,
            period: Duration::from_secs_f64(1.0 / fps),
            due: clock::now(),
            frame: 0,
            texture: texture(size),
            picture: vec![0; size.pixels() * 4],
            waker: Waker(Arc::new(waker)),
        })
    }

    fn render(&mut self) {
        self.frame = self.frame.wrapping_add(1).max(1);
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        let (x, y) = (triangle(self.frame, 3), triangle(self.frame, 2));
        let row = width * 4;
        for (line, target) in self.picture.chunks_exact_mut(row).enumerate().take(height) {
            let from = ((line + y) * (width + MARGIN) + x) * 4;
            target.copy_from_slice(&self.texture[from..from + row]);
        }
        let stamp = Stamp {
            frame: self.frame,
            drawn_us: u64::try_from(clock::now().0).unwrap_or(0) / 1000,
            inputs: 0,
        };
        // `open` has checked the size.
        let _ = barcode::draw(&mut self.picture, row, self.size, &stamp);
    }
}

impl Capture for Pattern {
    fn size(&self) -> Size {
        self.size
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let give_up = timeout.map(|timeout| clock::now() + timeout);
        loop {
            let until = give_up.map_or(self.due, |give_up| give_up.min(self.due));
            let wait = Timespec::try_from(until.since(clock::now())).ok();
            let fd = self.waker.0.as_fd();
            match poll(
                &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
                wait.as_ref(),
            ) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    let mut count = [0; 8];
                    // Only this thread resets the waker, so the read succeeds. If it failed, the only consequence would
                    // be a second wake-up.
                    let _ = rustix::io::read(fd, &mut count);
                    return Ok(CaptureEvent::Woken);
                }
                Err(error) => {
                    return Err(CaptureError(format!(
                        "the test pattern can't wait: {error}"
                    )));
                }
            }
            let now = clock::now();
            if now >= self.due {
                self.render();
                self.due = self.due + self.period;
                if self.due < now {
                    // If the pattern is more than a frame late (the machine slept), frames are skipped.
                    self.due = now + self.period;
                }
                return Ok(CaptureEvent::Frame);
            }
            if give_up.is_some_and(|give_up| now >= give_up) {
                return Ok(CaptureEvent::TimedOut);
            }
        }
    }

    fn picture(&self) -> Option<Picture<'_>> {
        (self.frame != 0)
            .then(|| Picture::bgrx(self.size, &self.picture, self.size.width as usize * 4))
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// A position between 0 and [`MARGIN`] that moves back and forth by `step` pixels per frame.
fn triangle(frame: u32, step: usize) -> usize {
    let place = frame as usize * step % (2 * MARGIN);
    place.min(2 * MARGIN - place)
}

/// Colour bands, bricks and grain over the picture and its margin: detail at several scales, like
/// rendered rooms.
fn texture(size: Size) -> Vec<u8> {
    let (width, height) = (size.width as usize + MARGIN, size.height as usize + MARGIN);
    let mut grain = 0x9e37_79b9_u32;
    let mut data = Vec::with_capacity(width * height * 4);
    for y in 0..height {
        for x in 0..width {
            grain ^= grain << 13;
            grain ^= grain >> 17;
            grain ^= grain << 5;
            let brick_x = x + (y / 24 % 2) * 32;
            let mortar = y % 24 < 2 || brick_x % 64 < 2;
            let brick = (brick_x / 64 * 31 + y / 24 * 17) % 48;
            let light = if mortar { 60 } else { 96 + brick } + (grain % 24) as usize;
            let hue = (x / 160 + y / 120) % 3;
            let channel = |index: usize| {
                let tinted = if hue == index { light + 48 } else { light };
                u8::try_from(tinted).unwrap_or(u8::MAX)
            };
            data.extend_from_slice(&[channel(0), channel(1), channel(2), 0]);
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size::new(640, 360);

    #[test]
    fn each_frame_is_counted_stamped_and_different() {
        let mut pattern = Pattern::open(SIZE, 500.0).unwrap();
        assert!(
            pattern.picture().is_none(),
            "nothing before the first frame"
        );
        let mut last = (Stamp::default(), Vec::new());
        for number in 1..=20 {
            assert_eq!(pattern.next(None).unwrap(), CaptureEvent::Frame);
            let picture = pattern.picture().unwrap();
            assert_eq!(picture.size, SIZE);
            let stamp = barcode::read(&picture).expect("a readable bar code");
            let below = picture.planes[0].data[640 * 4 * 16..].to_vec();
            assert_eq!(stamp.frame, number);
            assert!(stamp.drawn_us > last.0.drawn_us, "time goes on");
            assert_ne!(below, last.1, "the picture moves");
            last = (stamp, below);
        }
    }

    #[test]
    fn it_returns_at_the_timeout_and_when_woken() {
        let mut pattern = Pattern::open(SIZE, 0.1).unwrap();
        assert_eq!(pattern.next(None).unwrap(), CaptureEvent::Frame);
        let zero = Some(Duration::ZERO);
        assert_eq!(pattern.next(zero).unwrap(), CaptureEvent::TimedOut);
        let waker = pattern.waker();
        let thread = std::thread::spawn(move || {
            rustix::io::write(&*waker.0, &1_u64.to_ne_bytes()).unwrap();
        });
        // The next frame is ten seconds away: only the waker can end this wait.
        assert_eq!(pattern.next(None).unwrap(), CaptureEvent::Woken);
        thread.join().unwrap();
        assert_eq!(
            pattern.next(zero).unwrap(),
            CaptureEvent::TimedOut,
            "woken only once"
        );
    }

    #[test]
    fn what_can_not_be_made_is_refused() {
        assert!(Pattern::open(Size::new(100, 100), 60.0).is_err());
        assert!(Pattern::open(Size::new(20_000, 100), 60.0).is_err());
        assert!(Pattern::open(SIZE, 0.0).is_err());
        assert!(Pattern::open(SIZE, f64::NAN).is_err());
    }
}
