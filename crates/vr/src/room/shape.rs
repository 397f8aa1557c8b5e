//! The vertices of the room: its walls, the lines on them, and objects at different depths.
//!
//! The origin is the initial head position, 1.6 m above the floor. A lamp below the ceiling lights the room. The light
//! is computed here once per vertex, so that the fragment shader needs no lighting.

use std::ops::Range;

use crate::sys::Vertex;

/// Half of the room's width and depth, and the heights of its floor and ceiling relative to the origin, in metres.
const WALL: f32 = 4.0;
const FLOOR: f32 = -1.6;
const CEILING: f32 = 1.4;

/// The distance between lines, and between the vertices of lit walls, in metres.
const STEP: f32 = 0.5;

/// The distance of the lines from their wall, in metres.
const LINE_OFFSET: f32 = 0.006;

/// The position of the lamp.
const LAMP: [f32; 3] = [0.6, 1.1, -0.8];
/// The share of ambient light.
const AMBIENT: f32 = 0.4;

/// A cuboid: its centre, its sides in metres, and its sRGB colour.
struct Block {
    middle: [f32; 3],
    sides: [f32; 3],
    colour: [f32; 3],
    /// Whether it is emissive, so that its pixels have exactly this colour.
    emissive: bool,
}

const fn lit(middle: [f32; 3], sides: [f32; 3], colour: [f32; 3]) -> Block {
    Block {
        middle,
        sides,
        colour,
        emissive: false,
    }
}

const fn emissive(middle: [f32; 3], side: f32, colour: [f32; 3]) -> Block {
    Block {
        middle,
        sides: [side; 3],
        colour,
        emissive: true,
    }
}

/// The static objects. The first three are pure red, pure blue and pure magenta. No other object has these colours, so
/// that tests can find the three.
const BLOCKS: [Block; 9] = [
    // Near the eyes, to the left and below.
    emissive([-0.25, -0.3, -1.0], 0.14, [1.0, 0.0, 0.0]),
    // Far from the eyes, to the right and above.
    emissive([0.9, 0.7, -3.4], 0.5, [0.0, 0.0, 1.0]),
    // Behind the viewer in the initial view.
    emissive([0.0, 0.0, 3.0], 0.5, [1.0, 0.0, 1.0]),
    // Pillars at different depths.
    lit([-1.3, -0.1, -2.2], [0.3, 3.0, 0.3], [0.45, 0.62, 0.45]),
    lit([-2.4, -0.1, -3.4], [0.3, 3.0, 0.3], [0.45, 0.62, 0.45]),
    lit([2.6, -0.1, -3.0], [0.3, 3.0, 0.3], [0.45, 0.62, 0.45]),
    // A table and its leg.
    lit([0.9, -0.85, -1.7], [0.9, 0.06, 0.6], [0.75, 0.58, 0.38]),
    lit([0.9, -1.24, -1.7], [0.12, 0.72, 0.12], [0.5, 0.38, 0.25]),
    // A chest far away.
    lit([-0.4, -1.3, -3.5], [0.9, 0.6, 0.6], [0.7, 0.4, 0.3]),
];

/// The position of the spinning block, above the table.
pub(super) const SPINNER: [f32; 3] = [0.9, -0.6, -1.7];

/// All vertices, and their ranges by object.
pub(super) struct Shapes {
    pub(super) vertices: Vec<Vertex>,
    /// Triangles of all static objects.
    pub(super) still: Range<u32>,
    /// Lines on floor and walls.
    pub(super) lines: Range<u32>,
    /// The spinning block, relative to its own centre. It is lit as if it were at [`SPINNER`].
    pub(super) spinner: Range<u32>,
    /// A released and a pressed controller, each relative to its own centre.
    pub(super) controllers: [Range<u32>; 2],
}

impl Shapes {
    pub(super) fn new() -> Shapes {
        let mut vertices = Vec::new();
        // The order is front to back, so that the depth test rejects hidden fragments.
        let still = append(&mut vertices, |to| {
            BLOCKS.iter().for_each(|block| cuboid(to, block, [0.0; 3]));
            walls(to);
        });
        let lines = append(&mut vertices, grid);
        let spinner = append(&mut vertices, |to| {
            cuboid(to, &lit([0.0; 3], [0.22; 3], [0.95, 0.6, 0.15]), SPINNER);
        });
        let controller = |colour| lit([0.0; 3], [0.05, 0.05, 0.16], colour);
        let held = append(&mut vertices, |to| {
            cuboid(to, &controller([0.85, 0.85, 0.9]), [0.0; 3]);
        });
        let pressed = append(&mut vertices, |to| {
            cuboid(to, &controller([0.95, 0.9, 0.3]), [0.0; 3]);
        });
        Shapes {
            vertices,
            still,
            lines,
            spinner,
            controllers: [held, pressed],
        }
    }
}

fn append(vertices: &mut Vec<Vertex>, add: impl FnOnce(&mut Vec<Vertex>)) -> Range<u32> {
    let count = |vertices: &Vec<Vertex>| u32::try_from(vertices.len()).unwrap_or(u32::MAX);
    let from = count(vertices);
    add(vertices);
    from..count(vertices)
}

/// The axes of a side (across, up, normal), and the sign of its normal.
const SIDES: [([usize; 3], f32); 6] = [
    ([1, 2, 0], 1.0),
    ([1, 2, 0], -1.0),
    ([2, 0, 1], 1.0),
    ([2, 0, 1], -1.0),
    ([0, 1, 2], 1.0),
    ([0, 1, 2], -1.0),
];

/// Appends the twelve triangles of a block. The block is lit as if it were moved by `at`.
fn cuboid(to: &mut Vec<Vertex>, block: &Block, at: [f32; 3]) {
    for ([across, up, away], sign) in SIDES {
        let corner = |[a, b]: [f32; 2]| {
            let mut position = block.middle;
            position[across] += a * block.sides[across];
            position[up] += b * block.sides[up];
            position[away] += sign * block.sides[away] / 2.0;
            let mut normal = [0.0; 3];
            normal[away] = sign;
            let there = std::array::from_fn(|axis| position[axis] + at[axis]);
            let light = if block.emissive {
                1.0
            } else {
                light(there, normal)
            };
            Vertex {
                position,
                colour: linear(block.colour, light),
            }
        };
        to.extend(QUAD.map(|[a, b]| corner([a - 0.5, b - 0.5])));
    }
}

/// The vertices of two triangles.
const QUAD: [[f32; 2]; 6] = [
    [0.0, 0.0],
    [1.0, 0.0],
    [0.0, 1.0],
    [0.0, 1.0],
    [1.0, 0.0],
    [1.0, 1.0],
];

/// The inner sides of the room: axes (across, up, normal), position on the normal axis, sign of the normal, and sRGB
/// colour.
fn sides() -> [([usize; 3], f32, f32, [f32; 3]); 6] {
    let wall = [0.62, 0.66, 0.72];
    [
        ([0, 2, 1], FLOOR, 1.0, [0.42, 0.47, 0.44]),
        ([0, 2, 1], CEILING, -1.0, [0.85, 0.85, 0.82]),
        ([0, 1, 2], -WALL, 1.0, wall),
        ([0, 1, 2], WALL, -1.0, wall),
        ([2, 1, 0], -WALL, 1.0, wall),
        ([2, 1, 0], WALL, -1.0, wall),
    ]
}

/// The extent of a side along an axis.
fn extent(axis: usize) -> [f32; 2] {
    match axis {
        1 => [FLOOR, CEILING],
        _ => [-WALL, WALL],
    }
}

/// The number of steps in an extent.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few metres"
)]
fn steps([from, to]: [f32; 2]) -> u32 {
    ((to - from) / STEP).round() as u32
}

fn walls(to: &mut Vec<Vertex>) {
    for ([across, up, away], at, sign, colour) in sides() {
        let [left, low] = [extent(across)[0], extent(up)[0]];
        for x in 0..steps(extent(across)) {
            for y in 0..steps(extent(up)) {
                to.extend(QUAD.map(|[a, b]| {
                    let mut position = [0.0; 3];
                    position[across] = left + (x as f32 + a) * STEP;
                    position[up] = low + (y as f32 + b) * STEP;
                    position[away] = at;
                    let mut normal = [0.0; 3];
                    normal[away] = sign;
                    Vertex {
                        position,
                        colour: linear(colour, light(position, normal)),
                    }
                }));
            }
        }
    }
}

/// Lines on all sides except the ceiling.
fn grid(to: &mut Vec<Vertex>) {
    for ([across, up, away], at, sign, colour) in sides() {
        if at == CEILING {
            continue;
        }
        let colour = linear(colour.map(|part| part * 0.55), 1.0);
        let mut line = |along: usize, other: usize| {
            let [from, end] = extent(along);
            for step in 0..=steps(extent(other)) {
                for there in [from, end] {
                    let mut position = [0.0; 3];
                    position[along] = there;
                    position[other] = extent(other)[0] + step as f32 * STEP;
                    position[away] = at + sign * LINE_OFFSET;
                    to.push(Vertex { position, colour });
                }
            }
        };
        line(across, up);
        line(up, across);
    }
}

/// The light at a position, 0 to 1.
fn light(position: [f32; 3], normal: [f32; 3]) -> f32 {
    let to_lamp: [f32; 3] = std::array::from_fn(|axis| LAMP[axis] - position[axis]);
    let squared: f32 = to_lamp.iter().map(|v| v * v).sum();
    let far = squared.sqrt().max(0.01);
    let facing: f32 = (0..3).map(|axis| to_lamp[axis] / far * normal[axis]).sum();
    // Attenuation is weaker than in reality, so that the whole room is visible.
    AMBIENT + (1.0 - AMBIENT) * facing.max(0.0) / (1.0 + 0.08 * squared)
}

/// An sRGB colour as linear light, scaled by `light`.
fn linear(colour: [f32; 3], light: f32) -> [f32; 3] {
    colour.map(|part| {
        // IEC 61966-2-1.
        let part = match part <= 0.04045 {
            true => part / 12.92,
            false => ((part + 0.055) / 1.055).powf(2.4),
        };
        part * light
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_are_inside_and_primitives_complete() {
        let shapes = Shapes::new();
        let count = |range: &Range<u32>| range.end - range.start;
        assert_eq!(count(&shapes.still) % 3, 0);
        assert_eq!(count(&shapes.lines) % 2, 0);
        let end = shapes.controllers[1].end as usize;
        assert_eq!(end, shapes.vertices.len());
        for corner in &shapes.vertices {
            let [x, y, z] = corner.position;
            assert!(x.abs() <= WALL && z.abs() <= WALL && (FLOOR..=CEILING).contains(&y));
            assert!(corner.colour.iter().all(|part| (0.0..=1.0).contains(part)));
        }
    }

    #[test]
    fn the_floor_is_brightest_below_the_lamp() {
        let up = [0.0, 1.0, 0.0];
        let below = light([LAMP[0], FLOOR, LAMP[2]], up);
        let corner = light([-WALL, FLOOR, WALL], up);
        assert!(below > corner && corner >= AMBIENT && below <= 1.0);
    }
}
