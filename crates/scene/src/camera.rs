//! The camera: a walk along a path, with the user's movements added.

use std::f32::consts::{PI, TAU};

use super::matrix::Matrix;
use super::room::HALF;
use super::sys::Direction;

#[derive(Debug, Default)]
pub(super) struct Camera {
    /// Offset from the path in metres, controlled by keys: x and z.
    strayed: [f32; 2],
    /// Rotation relative to the view of the walk, in radians, controlled by the pointer: yaw and pitch.
    turned: [f32; 2],
    walking: [bool; 4],
    place: [f32; 3],
    yaw: f32,
    pitch: f32,
}

/// Walking speed in metres per second.
const WALK: f32 = 2.5;
/// The minimum distance to a wall in metres.
const SHOULDER: f32 = 0.5;

impl Camera {
    /// Handles a movement key that was pressed or released.
    pub(super) fn walk(&mut self, direction: Direction, down: bool) {
        self.walking[direction as usize] = down;
    }

    /// Handles the pointer's position, as a fraction of the window. The window's centre looks ahead, and its left and
    /// right edges look back. The position is absolute, so that a lost event has no lasting effect.
    pub(super) fn look(&mut self, x: f32, y: f32) {
        self.turned = [(x - 0.5) * TAU, (0.5 - y).clamp(-0.5, 0.5) * PI * 0.8];
    }

    /// Moves the camera to its position at `time` seconds since the start. `step` is the time since the last call, in
    /// seconds.
    pub(super) fn advance(&mut self, time: f32, step: f32) {
        // The camera walks once around the room in 30 s. The view swings, so that the whole picture always moves.
        let round = time * TAU / 30.0;
        let path = [round.sin() * 3.3, round.cos() * 2.5];
        // With this yaw, the camera on the path looks at the centre of the room.
        let ahead = (path[0]).atan2(path[1]);
        self.yaw = ahead + 0.45 * (time * 0.5).sin() + self.turned[0];
        self.pitch = -0.10 + 0.10 * (time * 0.45).sin() + self.turned[1];
        let on = |direction: Direction| f32::from(u8::from(self.walking[direction as usize]));
        let forward = (on(Direction::Forward) - on(Direction::Back)) * WALK * step;
        let right = (on(Direction::Right) - on(Direction::Left)) * WALK * step;
        let (sin, cos) = self.yaw.sin_cos();
        self.strayed[0] += -sin * forward + cos * right;
        self.strayed[1] += -cos * forward - sin * right;
        let bob = 0.02 * (time * 7.0).sin();
        for (axis, limit) in [(0, HALF[0] - SHOULDER), (1, HALF[1] - SHOULDER)] {
            let place = path[axis] + self.strayed[axis];
            self.strayed[axis] = place.clamp(-limit, limit) - path[axis];
        }
        self.place = [
            path[0] + self.strayed[0],
            1.65 + bob,
            path[1] + self.strayed[1],
        ];
    }

    /// The matrix from world to clip space, for a picture with this aspect ratio and a vertical field of view of 66°.
    pub(super) fn matrix(&self, aspect: f32) -> Matrix {
        let [x, y, z] = self.place;
        Matrix::perspective(1.15, aspect)
            .times(&Matrix::turn_x(-self.pitch))
            .times(&Matrix::turn_y(-self.yaw))
            .times(&Matrix::shift(-x, -y, -z))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_visitor_stays_in_the_room_and_keys_move_it() {
        let mut camera = Camera::default();
        camera.walk(Direction::Forward, true);
        let mut free = Camera::default();
        for step in 0..2000_u16 {
            let time = f32::from(step) / 60.0;
            camera.advance(time, 1.0 / 60.0);
            free.advance(time, 1.0 / 60.0);
            assert!(camera.place[0].abs() <= HALF[0] && camera.place[2].abs() <= HALF[1]);
            if step == 30 {
                assert_ne!(camera.place, free.place);
            }
        }
    }

    #[test]
    fn a_point_ahead_is_in_the_centre_of_the_picture() {
        let mut camera = Camera::default();
        camera.advance(0.0, 0.0);
        let m = camera.matrix(16.0 / 9.0).0;
        // At time 0 the camera is at z = 2.5 and looks at the centre of the room.
        let clip: Vec<f32> = (0..4).map(|row| m[4 + row] * 1.4 + m[12 + row]).collect();
        assert!(clip[3] > 0.0, "in front");
        assert!((clip[0] / clip[3]).abs() < 0.01, "centred");
        assert!((clip[1] / clip[3]).abs() < 0.2);
    }

    #[test]
    fn looking_is_absolute() {
        let (mut once, mut often) = (Camera::default(), Camera::default());
        once.look(0.7, 0.4);
        for x in [0.1, 0.9, 0.7] {
            often.look(x, 0.4);
        }
        once.advance(1.0, 0.1);
        often.advance(1.0, 0.1);
        assert_eq!(once.matrix(1.5), often.matrix(1.5));
    }
}
