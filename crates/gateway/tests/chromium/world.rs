//! A virtual-reality source for tests. Its application ignores the head pose, and reports the poses with which it draws.
//!
//! A wall of a single colour stands every 15 degrees around the head. The top quarter of the picture is dark for the
//! left eye and bright for the right eye.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openuvr_media::capture::pattern::Pattern;
use openuvr_media::capture::{Capture, CaptureError, CaptureEvent, RenderInfo, Waker};
use openuvr_media::picture::Picture;
use openuvr_proto::pose::{Pose, ReceivedPose};
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{FieldOfView, View, Views};

/// Size of the picture of both eyes.
pub(crate) const SIZE: Size = Size::new(640, 320);

/// Size of one eye's picture. Its field of view is 90 degrees.
const EYE: usize = 320;

/// Width of a wall in degrees.
pub(crate) const WALL: f64 = 15.0;

/// Colours of the seven walls, from the third one on the right to the third one on the left, as red, green and blue
/// bits.
pub(crate) const WALLS: [[bool; 3]; 7] = [
    [true, false, false],
    [false, true, false],
    [false, false, true],
    [true, true, false],
    [false, true, true],
    [true, false, true],
    [true, true, true],
];

/// The pose that the application has consumed and with which it draws.
pub(crate) type Head = Arc<Mutex<Option<ReceivedPose>>>;

pub(crate) struct World {
    /// Frame timing.
    pattern: Pattern,
    picture: Vec<u8>,
    head: Head,
    /// Pose and views of the newest picture.
    drawn: RenderInfo,
}

impl World {
    pub(crate) fn new(head: Head) -> World {
        World {
            pattern: Pattern::open(SIZE, 60.0).expect("a pattern"),
            picture: picture(),
            head,
            drawn: RenderInfo::default(),
        }
    }
}

impl Capture for World {
    fn size(&self) -> Size {
        SIZE
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<CaptureEvent, CaptureError> {
        let event = self.pattern.next(timeout)?;
        if event == CaptureEvent::Frame {
            let eye = |right: f32| View {
                pose: Pose::new([right, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]).expect("a pose"),
                fov: FieldOfView::new(-QUARTER, QUARTER, QUARTER, -QUARTER).expect("angles"),
            };
            self.drawn = RenderInfo {
                pose: *self.head.lock().unwrap_or_else(PoisonError::into_inner),
                views: Some(Views::two(eye(-0.03), eye(0.03))),
                ..RenderInfo::default()
            };
        }
        Ok(event)
    }

    fn picture(&self) -> Option<Picture<'_>> {
        self.pattern.picture()?;
        Some(Picture::bgrx(SIZE, &self.picture, SIZE.width as usize * 4))
    }

    fn waker(&self) -> Waker {
        self.pattern.waker()
    }

    fn render_info(&self) -> RenderInfo {
        self.drawn
    }
}

/// 45 degrees.
const QUARTER: f32 = std::f32::consts::FRAC_PI_4;

#[expect(
    clippy::cast_possible_truncation,
    reason = "a wall's number, from 0 to 6"
)]
fn picture() -> Vec<u8> {
    let mut picture = Vec::with_capacity(SIZE.pixels() * 4);
    for y in 0..EYE {
        for x in 0..2 * EYE {
            let (eye, column) = (x / EYE, x % EYE);
            let half = EYE as f64 / 2.0;
            let to_left = -((column as f64 + 0.5 - half) / half).atan().to_degrees();
            let wall = (to_left / WALL).round() + 3.0;
            let [red, green, blue] = match y < EYE / 4 {
                true => [eye == 1; 3],
                false => WALLS[wall.clamp(0.0, 6.0) as usize],
            };
            picture.extend([blue, green, red, false].map(|on| if on { 255 } else { 0 }));
        }
    }
    picture
}
