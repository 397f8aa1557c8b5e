//! The test pictures: a room with textured walls, seen from both eyes of a head that turns at up to 60 degrees a
//! second.

use openuvr_proto::rotation::Rotation;
use openuvr_proto::units::Size;

/// Frames per second.
const FPS: f32 = 90.0;

/// Half the length of the room's sides, in metres.
const HALF: f32 = 2.5;

/// Interpupillary distance, in metres.
const IPD: f32 = 0.063;

/// Side length of the walls' texture in pixels, a power of two. One metre of wall covers a quarter of the side.
const TEXTURE: usize = 1024;

pub(super) struct Room {
    texture: Vec<u8>,
}

impl Room {
    /// Creates the room. Its texture is the same in each run.
    pub(super) fn new() -> Room {
        let mut texture = vec![0.0_f32; TEXTURE * TEXTURE];
        // The texture contains noise of several octaves with decreasing amplitude, like wallpaper, and joints, like a
        // brick wall.
        for (cell, weight) in [(128, 60.0), (32, 40.0), (8, 20.0), (2, 8.0)] {
            for (i, value) in texture.iter_mut().enumerate() {
                let (x, y) = (i % TEXTURE / cell, i / TEXTURE / cell);
                *value += noise(x, y, cell) * weight;
            }
        }
        let pixel = |(i, value): (usize, f32)| {
            let (x, y) = (i % TEXTURE % 64, i / TEXTURE % 64);
            let joint = x < 2 || y < 2;
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within a byte"
            )]
            let byte = if joint { 40.0 } else { 60.0 + value } as u8;
            byte
        };
        Room {
            texture: texture.into_iter().enumerate().map(pixel).collect(),
        }
    }

    /// The luma of a frame for the left (0) or right (1) eye. The field of view is 90 degrees.
    pub(super) fn seen(&self, frame: u32, side: usize, size: Size) -> Vec<u8> {
        #[allow(clippy::cast_precision_loss, reason = "small numbers")]
        let (now, width, height) = (frame as f32 / FPS, size.width as f32, size.height as f32);
        // The head turns by a radian to each side, at 60 degrees a second at most, and nods.
        let turned = Rotation::of_head((now * 1.05).sin(), (now * 0.7).sin() * 0.2, 0.0);
        let right = if side == 0 { -0.5 } else { 0.5 } * IPD;
        let eye = turned.turn([right, 0.0, 0.0]);
        let mut out = Vec::with_capacity(size.pixels());
        for row in 0..size.height {
            for column in 0..size.width {
                #[allow(clippy::cast_precision_loss, reason = "small numbers")]
                let (x, y) = (column as f32 + 0.5, row as f32 + 0.5);
                let ray = [2.0 * x / width - 1.0, 1.0 - 2.0 * y / height, -1.0];
                out.push(self.hit(eye, turned.turn(ray)));
            }
        }
        out
    }

    /// The luma of the wall at the point where a ray hits it.
    fn hit(&self, eye: [f32; 3], ray: [f32; 3]) -> u8 {
        let reach = |axis: usize| {
            let wall = if ray[axis] < 0.0 { -HALF } else { HALF };
            match ray[axis].abs() < 1e-6 {
                true => f32::INFINITY,
                false => (wall - eye[axis]) / ray[axis],
            }
        };
        let reaches = [reach(0), reach(1), reach(2)];
        let axis = (0..3)
            .min_by(|a, b| reaches[*a].total_cmp(&reaches[*b]))
            .unwrap_or(0);
        let (u, v) = ((axis + 1) % 3, (axis + 2) % 3);
        #[allow(clippy::cast_precision_loss, reason = "a constant")]
        let scale = TEXTURE as f32 / 4.0;
        let place = |along: usize| (eye[along] + ray[along] * reaches[axis] + HALF) * scale;
        self.between(place(u), place(v))
    }

    /// The texture's value at a position in pixels, interpolated bilinearly.
    fn between(&self, u: f32, v: f32) -> u8 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place on a wall"
        )]
        let (x, y) = (u.max(0.0) as usize, v.max(0.0) as usize);
        let (right, down) = (u.max(0.0).fract(), v.max(0.0).fract());
        let at =
            |x: usize, y: usize| f32::from(self.texture[(y % TEXTURE) * TEXTURE + x % TEXTURE]);
        let above = at(x, y) * (1.0 - right) + at(x + 1, y) * right;
        let below = at(x, y + 1) * (1.0 - right) + at(x + 1, y + 1) * right;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between bytes"
        )]
        let byte = (above * (1.0 - down) + below * down) as u8;
        byte
    }
}

/// Deterministic noise between 0 and 1.
fn noise(x: usize, y: usize, salt: usize) -> f32 {
    let mixed = (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca77);
    let mixed = (mixed ^ salt as u32).wrapping_mul(0xc2b2_ae3d);
    ((mixed ^ (mixed >> 15)) & 0xffff) as f32 / 65_535.0
}
