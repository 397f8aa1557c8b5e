//! A room to look around in, with things at different depths: an OpenXR application whose pictures can be judged.
//!
//! In each eye's picture, at its top left, a bar code ([`view`]) says which frame and eye this is, when it was
//! meant to be seen, and where the eye looked that it was drawn for. Controllers are drawn where they are held.

mod matrix;
mod shape;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openuvr_media::barcode::CELLS;
use openuvr_media::barcode::view::{self, ViewStamp};
use openuvr_proto::units::Size;
use openxr as xr;

use crate::error::VrError;
use crate::hands::Hands;
use crate::session::{Frame, Session, Step, View};
use crate::sys::{Constants, Eye, Kind, Painter, Target, Thing};
use matrix::{Matrix, placed, projection, seen_from, times, turned};
use shape::{SPINNER, Shapes};

/// How long the turning block takes for a round, in seconds.
const ROUND: f32 = 8.0;

/// What the person may want to know.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// It has begun.
    Begun {
        /// What the runtime calls itself.
        runtime: String,
        /// What draws.
        device: String,
        /// Of each eye's picture.
        eye: Size,
    },
    /// Somebody sees it from now on, or nobody.
    Seen(bool),
}

/// Frames of which [`Shown`] keeps the time: a minute and a half at 90 a second.
const TIMED: usize = 8192;

/// What was shown.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Shown {
    /// Frames that were drawn.
    pub frames: u32,
    /// How long this thread was in `xrEndFrame`, for the newest of them at most.
    pub ending: Vec<Duration>,
}

/// Shows the room until `stop` is raised, or the runtime ends the session. `eye` is
/// the size of each eye's picture, where it is not to be the one that the runtime recommends.
///
/// # Errors
/// One line: there is no loader, no runtime, no headset, no Vulkan, or one of them fails.
pub fn run(
    eye: Option<Size>,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Told),
) -> Result<Shown, VrError> {
    let mut session = Session::open("OpenUVR room")?;
    let mut room = Room::new(&session, eye.unwrap_or(session.recommended))?;
    told(Told::Begun {
        runtime: session.runtime.clone(),
        device: session.gpu.name().to_owned(),
        eye: room.targets[0].size(),
    });
    let mut seen = false;
    loop {
        match session.step(stop.load(Ordering::Relaxed))? {
            Step::Over => return Ok(room.shown),
            Step::Wait => {}
            Step::Frame(frame) => {
                if std::mem::replace(&mut seen, frame.seen) != frame.seen {
                    told(Told::Seen(frame.seen));
                }
                room.show(&mut session, frame)?;
            }
        }
    }
}

struct Room {
    /// Before what they were made with.
    targets: [Target; 2],
    painter: Painter,
    shapes: Shapes,
    hands: Hands,
    shown: Shown,
}

impl Room {
    fn new(session: &Session, size: Size) -> Result<Room, VrError> {
        let shapes = Shapes::new();
        let painter = Painter::new(&session.gpu, &session.handle, &shapes.corners)?;
        let target = || painter.target(&session.handle, size);
        Ok(Room {
            targets: [target()?, target()?],
            painter,
            shapes,
            hands: Hands::new(session)?,
            shown: Shown::default(),
        })
    }

    /// Draws a frame for where the eyes will be, if anybody will see it, and ends it.
    fn show(&mut self, session: &mut Session, frame: Frame) -> Result<(), VrError> {
        let hands = self.hands.at(session, frame.display)?;
        let views = match frame.seen {
            true => session.views(frame)?,
            false => None,
        };
        let Some(views) = views else {
            return session.end(frame, None);
        };
        self.shown.frames = self.shown.frames.wrapping_add(1);
        let frames = self.shown.frames;
        let [left, right] = [false, true].map(|right| {
            let view = views[usize::from(right)];
            self.things(
                &view,
                &stamp(frames, frame.display, &view, right),
                frame,
                hands,
            )
        });
        let [first, second] = &mut self.targets;
        self.painter.draw(&mut [
            Eye {
                target: first,
                things: left,
            },
            Eye {
                target: second,
                things: right,
            },
        ])?;
        let pictures = [self.targets[0].picture(), self.targets[1].picture()];
        let [left, right] = pictures;
        let begun = Instant::now();
        session.end(frame, Some([(views[0], left), (views[1], right)]))?;
        let took = begun.elapsed();
        match self.shown.ending.get_mut(frames as usize % TIMED) {
            Some(oldest) => *oldest = took,
            None => self.shown.ending.push(took),
        }
        Ok(())
    }

    /// What an eye sees, the nearest first.
    fn things(
        &self,
        view: &View,
        stamp: &ViewStamp,
        frame: Frame,
        hands: [Option<(xr::Posef, bool)>; 2],
    ) -> Vec<Thing> {
        let world = times(&projection(view.fov), &seen_from(view.pose));
        let thing = |kind, corners: &Range<u32>, matrix: Matrix| Thing {
            kind,
            corners: corners.clone(),
            constants: Constants::of(matrix),
        };
        let size = self.targets[usize::from(stamp.right)].size();
        let code = Thing {
            kind: Kind::Code,
            corners: 0..CODE,
            constants: Constants::of_code(bits(&view::cells(stamp)), size),
        };
        let held = hands.into_iter().flatten().map(|(pose, pressed)| {
            let corners = &self.shapes.controllers[usize::from(pressed)];
            thing(Kind::Faces, corners, times(&world, &placed(pose)))
        });
        let round = seconds(frame.display) % ROUND / ROUND * std::f32::consts::TAU;
        let spinner = times(&world, &placed(turned(SPINNER, round)));
        std::iter::once(code)
            .chain(held)
            .chain([
                thing(Kind::Faces, &self.shapes.spinner, spinner),
                thing(Kind::Faces, &self.shapes.still, world),
                thing(Kind::Lines, &self.shapes.lines, world),
            ])
            .collect()
    }
}

/// Corners of the bar code.
#[allow(clippy::cast_possible_truncation, reason = "a few hundred")]
const CODE: u32 = CELLS as u32 * 6;

fn stamp(frame: u32, display: xr::Time, view: &View, right: bool) -> ViewStamp {
    let q = view.pose.orientation;
    ViewStamp {
        frame,
        display_us: u64::try_from(display.as_nanos() / 1000).unwrap_or(0),
        right,
        ..ViewStamp::default()
    }
    .looking([q.x, q.y, q.z, q.w])
}

/// As the shader takes them.
fn bits(cells: &[bool; CELLS]) -> [u32; 4] {
    let mut words = [0; 4];
    for (at, _) in cells.iter().enumerate().filter(|(_, white)| **white) {
        words[at / 32] |= 1 << (at % 32);
    }
    words
}

/// Small numbers that go on: a whole number of rounds is cut off.
fn seconds(at: xr::Time) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of rounds")]
    let round = (ROUND * 1000.0) as i64;
    let millis = at.as_nanos() / 1_000_000;
    millis.rem_euclid(round) as f32 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_of_a_code_are_bits_of_four_words() {
        let mut cells = [false; CELLS];
        (cells[0], cells[33], cells[127]) = (true, true, true);
        assert_eq!(bits(&cells), [1, 2, 0, 1 << 31]);
    }
}
