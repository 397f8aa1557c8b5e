//! A test room with objects at different depths: an OpenXR application with verifiable images.
//!
//! A bar code ([`view`]) at the top left of each eye's image encodes the frame number, the eye, the predicted
//! display time, and the eye's orientation. Controllers are drawn at their poses.

mod matrix;
mod shape;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openuvr_media::barcode::CELLS;
use openuvr_media::barcode::view::{self, ViewStamp};
use openuvr_proto::units::Size;
use openxr as xr;

use crate::controllers::Controllers;
use crate::error::VrError;
use crate::session::{Frame, Session, Step, View};
use crate::sys::{Constants, DrawCall, EyeFrame, Kind, Painter, Target};
use matrix::{Matrix, model_matrix, multiply, projection, rotated_about_y, view_matrix};
use shape::{SPINNER, Shapes};

/// The rotation period of the spinning block, in seconds.
const ROUND_SECONDS: f32 = 8.0;

/// An event for the user.
#[derive(Clone, PartialEq, Debug)]
pub enum RoomEvent {
    /// The session has started.
    Started {
        /// The runtime's name.
        runtime: String,
        /// The Vulkan device's name.
        device: String,
        /// The size of each eye's image.
        eye: Size,
    },
    /// Whether frames are visible from now on.
    VisibilityChanged(bool),
}

/// Maximum number of durations in [`RoomStatistics::end_frame_times`]: one and a half minutes at 90 Hz.
const MAX_TIMES: usize = 8192;

/// The statistics of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RoomStatistics {
    /// Number of drawn frames.
    pub frames: u32,
    /// The durations of `xrEndFrame` for the last 8192 frames.
    pub end_frame_times: Vec<Duration>,
}

/// Shows the room until `stop` is set or the runtime ends the session. `eye` is the size of each eye's image; `None`
/// selects the size that the runtime recommends.
///
/// # Errors
/// Returns an error if the OpenXR loader, runtime, headset or Vulkan is missing or fails.
pub fn run(
    eye: Option<Size>,
    stop: &AtomicBool,
    notify: &mut dyn FnMut(RoomEvent),
) -> Result<RoomStatistics, VrError> {
    let mut session = Session::open("OpenUVR room")?;
    let mut room = Room::new(&session, eye.unwrap_or(session.recommended))?;
    notify(RoomEvent::Started {
        runtime: session.runtime.clone(),
        device: session.gpu.name().to_owned(),
        eye: room.targets[0].size(),
    });
    let mut visible = false;
    loop {
        match session.step(stop.load(Ordering::Relaxed))? {
            Step::Ended => return Ok(room.statistics),
            Step::Wait => {}
            Step::Frame(frame) => {
                if std::mem::replace(&mut visible, frame.visible) != frame.visible {
                    notify(RoomEvent::VisibilityChanged(frame.visible));
                }
                room.draw_frame(&mut session, frame)?;
            }
        }
    }
}

struct Room {
    /// The targets are dropped before the painter that created them.
    targets: [Target; 2],
    painter: Painter,
    shapes: Shapes,
    controllers: Controllers,
    statistics: RoomStatistics,
}

impl Room {
    fn new(session: &Session, size: Size) -> Result<Room, VrError> {
        let shapes = Shapes::new();
        let painter = Painter::new(&session.gpu, &session.handle, &shapes.vertices)?;
        let target = || painter.target(&session.handle, size);
        Ok(Room {
            targets: [target()?, target()?],
            painter,
            shapes,
            controllers: Controllers::new(session)?,
            statistics: RoomStatistics::default(),
        })
    }

    /// Draws a frame for the predicted eye poses if the frame will be visible. Ends the frame in either case.
    fn draw_frame(&mut self, session: &mut Session, frame: Frame) -> Result<(), VrError> {
        let controllers = self.controllers.states_at(session, frame.display)?;
        let views = match frame.visible {
            true => session.views(frame)?,
            false => None,
        };
        let Some(views) = views else {
            return session.end(frame, None);
        };
        self.statistics.frames = self.statistics.frames.wrapping_add(1);
        let frames = self.statistics.frames;
        let [left, right] = [false, true].map(|right| {
            let view = views[usize::from(right)];
            self.draw_calls(
                &view,
                &stamp(frames, frame.display, &view, right),
                frame,
                controllers,
            )
        });
        let [first, second] = &mut self.targets;
        self.painter.draw(&mut [
            EyeFrame {
                target: first,
                draw_calls: left,
            },
            EyeFrame {
                target: second,
                draw_calls: right,
            },
        ])?;
        let pictures = [self.targets[0].picture(), self.targets[1].picture()];
        let [left, right] = pictures;
        let started = Instant::now();
        session.end(frame, Some([(views[0], left), (views[1], right)]))?;
        let took = started.elapsed();
        match self
            .statistics
            .end_frame_times
            .get_mut(frames as usize % MAX_TIMES)
        {
            Some(oldest) => *oldest = took,
            None => self.statistics.end_frame_times.push(took),
        }
        Ok(())
    }

    /// The draw calls for an eye, front to back.
    fn draw_calls(
        &self,
        view: &View,
        stamp: &ViewStamp,
        frame: Frame,
        controllers: [Option<(xr::Posef, bool)>; 2],
    ) -> Vec<DrawCall> {
        let world = multiply(&projection(view.fov), &view_matrix(view.pose));
        let draw_call = |kind, vertices: &Range<u32>, matrix: Matrix| DrawCall {
            kind,
            vertices: vertices.clone(),
            constants: Constants::of(matrix),
        };
        let size = self.targets[usize::from(stamp.right)].size();
        let code = DrawCall {
            kind: Kind::Code,
            vertices: 0..CODE,
            constants: Constants::of_code(bits(&view::cells(stamp)), size),
        };
        let held = controllers.into_iter().flatten().map(|(pose, pressed)| {
            let vertices = &self.shapes.controllers[usize::from(pressed)];
            draw_call(Kind::Faces, vertices, multiply(&world, &model_matrix(pose)))
        });
        let round = seconds(frame.display) % ROUND_SECONDS / ROUND_SECONDS * std::f32::consts::TAU;
        let spinner = multiply(&world, &model_matrix(rotated_about_y(SPINNER, round)));
        std::iter::once(code)
            .chain(held)
            .chain([
                draw_call(Kind::Faces, &self.shapes.spinner, spinner),
                draw_call(Kind::Faces, &self.shapes.still, world),
                draw_call(Kind::Lines, &self.shapes.lines, world),
            ])
            .collect()
    }
}

/// The number of vertices of the bar code.
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

/// The cells as the shader expects them.
fn bits(cells: &[bool; CELLS]) -> [u32; 4] {
    let mut words = [0; 4];
    for (at, _) in cells.iter().enumerate().filter(|(_, white)| **white) {
        words[at / 32] |= 1 << (at % 32);
    }
    words
}

/// The time in seconds modulo the rotation period, so that `f32` is precise enough.
fn seconds(at: xr::Time) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "a whole number of rounds")]
    let round = (ROUND_SECONDS * 1000.0) as i64;
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
