//! What is in the room: corners of its walls, of the lines on them, and of the things at different depths.
//!
//! The origin is where the head was at first, 1.6 m above the floor. Light falls from a lamp below the ceiling;
//! it is worked out here once, so that a device has nothing to do for a pixel but to write it.

use std::ops::Range;

use crate::sys::Vertex;

/// Half of the room's width and depth, its floor and its ceiling, in metres.
const WALL: f32 = 4.0;
const FLOOR: f32 = -1.6;
const CEILING: f32 = 1.4;

/// From line to line, and from corner to corner of what light falls on.
const STEP: f32 = 0.5;

/// How far before a wall its lines are.
const LIFTED: f32 = 0.006;

/// Where the light comes from.
const LAMP: [f32; 3] = [0.6, 1.1, -0.8];
/// The part of it that comes from everywhere.
const AMBIENT: f32 = 0.4;

/// A thing in the room: a block with its middle, its sides, and its colour in sRGB.
struct Block {
    middle: [f32; 3],
    sides: [f32; 3],
    colour: [f32; 3],
    /// Whether it shines by itself: then its pixels have this very colour.
    shines: bool,
}

const fn lit(middle: [f32; 3], sides: [f32; 3], colour: [f32; 3]) -> Block {
    Block {
        middle,
        sides,
        colour,
        shines: false,
    }
}

const fn shining(middle: [f32; 3], side: f32, colour: [f32; 3]) -> Block {
    Block {
        middle,
        sides: [side; 3],
        colour,
        shines: true,
    }
}

/// The things that stand still. Pure red, blue and magenta are these three alone: tests and people find them.
const BLOCKS: [Block; 9] = [
    // Near, on the left and below the eyes.
    shining([-0.25, -0.3, -1.0], 0.14, [1.0, 0.0, 0.0]),
    // Far, on the right and above the eyes.
    shining([0.9, 0.7, -3.4], 0.5, [0.0, 0.0, 1.0]),
    // Behind who looks ahead.
    shining([0.0, 0.0, 3.0], 0.5, [1.0, 0.0, 1.0]),
    // Pillars, one behind the other.
    lit([-1.3, -0.1, -2.2], [0.3, 3.0, 0.3], [0.45, 0.62, 0.45]),
    lit([-2.4, -0.1, -3.4], [0.3, 3.0, 0.3], [0.45, 0.62, 0.45]),
    lit([2.6, -0.1, -3.0], [0.3, 3.0, 0.3], [0.45, 0.62, 0.45]),
    // A table, and what it stands on.
    lit([0.9, -0.85, -1.7], [0.9, 0.06, 0.6], [0.75, 0.58, 0.38]),
    lit([0.9, -1.24, -1.7], [0.12, 0.72, 0.12], [0.5, 0.38, 0.25]),
    // A chest far away.
    lit([-0.4, -1.3, -3.5], [0.9, 0.6, 0.6], [0.7, 0.4, 0.3]),
];

/// Above the table, and turning.
pub(super) const SPINNER: [f32; 3] = [0.9, -0.6, -1.7];

/// All corners, and which of them belong to what.
pub(super) struct Shapes {
    pub(super) corners: Vec<Vertex>,
    /// Triangles of all that stands still.
    pub(super) still: Range<u32>,
    /// Lines on floor and walls.
    pub(super) lines: Range<u32>,
    /// A block around its own origin, at [`SPINNER`].
    pub(super) spinner: Range<u32>,
    /// A controller, and one that is pressed, around their own origins.
    pub(super) controllers: [Range<u32>; 2],
}

impl Shapes {
    pub(super) fn new() -> Shapes {
        let mut corners = Vec::new();
        // What is near first: a device need not draw what is behind it.
        let still = added(&mut corners, |to| {
            BLOCKS.iter().for_each(|block| cuboid(to, block, [0.0; 3]));
            walls(to);
        });
        let lines = added(&mut corners, grid);
        let spinner = added(&mut corners, |to| {
            cuboid(to, &lit([0.0; 3], [0.22; 3], [0.95, 0.6, 0.15]), SPINNER);
        });
        let controller = |colour| lit([0.0; 3], [0.05, 0.05, 0.16], colour);
        let held = added(&mut corners, |to| {
            cuboid(to, &controller([0.85, 0.85, 0.9]), [0.0; 3]);
        });
        let pressed = added(&mut corners, |to| {
            cuboid(to, &controller([0.95, 0.9, 0.3]), [0.0; 3]);
        });
        Shapes {
            corners,
            still,
            lines,
            spinner,
            controllers: [held, pressed],
        }
    }
}

fn added(corners: &mut Vec<Vertex>, add: impl FnOnce(&mut Vec<Vertex>)) -> Range<u32> {
    let count = |corners: &Vec<Vertex>| u32::try_from(corners.len()).unwrap_or(u32::MAX);
    let from = count(corners);
    add(corners);
    from..count(corners)
}

/// Axes of a side: across, up, and away from its surface, the last with its sign.
const SIDES: [([usize; 3], f32); 6] = [
    ([1, 2, 0], 1.0),
    ([1, 2, 0], -1.0),
    ([2, 0, 1], 1.0),
    ([2, 0, 1], -1.0),
    ([0, 1, 2], 1.0),
    ([0, 1, 2], -1.0),
];

/// Twelve triangles; light falls on it where it is, `at` from its own origin.
fn cuboid(to: &mut Vec<Vertex>, block: &Block, at: [f32; 3]) {
    for ([across, up, away], sign) in SIDES {
        let corner = |[a, b]: [f32; 2]| {
            let mut place = block.middle;
            place[across] += a * block.sides[across];
            place[up] += b * block.sides[up];
            place[away] += sign * block.sides[away] / 2.0;
            let mut normal = [0.0; 3];
            normal[away] = sign;
            let there = std::array::from_fn(|axis| place[axis] + at[axis]);
            let light = if block.shines {
                1.0
            } else {
                light(there, normal)
            };
            Vertex {
                place,
                colour: linear(block.colour, light),
            }
        };
        to.extend(QUAD.map(|[a, b]| corner([a - 0.5, b - 0.5])));
    }
}

/// The corners of two triangles.
const QUAD: [[f32; 2]; 6] = [
    [0.0, 0.0],
    [1.0, 0.0],
    [0.0, 1.0],
    [0.0, 1.0],
    [1.0, 0.0],
    [1.0, 1.0],
];

/// The room's inner sides: axes across, up and away, where it is, its direction, and its colour in sRGB.
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

/// From where to where a side goes along an axis.
fn extent(axis: usize) -> [f32; 2] {
    match axis {
        1 => [FLOOR, CEILING],
        _ => [-WALL, WALL],
    }
}

/// Steps from one end of a side to its other.
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
                    let mut place = [0.0; 3];
                    place[across] = left + (x as f32 + a) * STEP;
                    place[up] = low + (y as f32 + b) * STEP;
                    place[away] = at;
                    let mut normal = [0.0; 3];
                    normal[away] = sign;
                    Vertex {
                        place,
                        colour: linear(colour, light(place, normal)),
                    }
                }));
            }
        }
    }
}

/// Lines on all sides but the ceiling.
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
                    let mut place = [0.0; 3];
                    place[along] = there;
                    place[other] = extent(other)[0] + step as f32 * STEP;
                    place[away] = at + sign * LIFTED;
                    to.push(Vertex { place, colour });
                }
            }
        };
        line(across, up);
        line(up, across);
    }
}

/// How much light falls there, 0 to 1.
fn light(place: [f32; 3], normal: [f32; 3]) -> f32 {
    let to_lamp: [f32; 3] = std::array::from_fn(|axis| LAMP[axis] - place[axis]);
    let squared: f32 = to_lamp.iter().map(|v| v * v).sum();
    let far = squared.sqrt().max(0.01);
    let facing: f32 = (0..3).map(|axis| to_lamp[axis] / far * normal[axis]).sum();
    // It grows weaker with the distance, but not as fast as a real one: the room is to be seen.
    AMBIENT + (1.0 - AMBIENT) * facing.max(0.0) / (1.0 + 0.08 * squared)
}

/// A colour of sRGB as so much linear light.
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
    fn everything_is_inside_and_of_whole_triangles_and_lines() {
        let shapes = Shapes::new();
        let count = |range: &Range<u32>| range.end - range.start;
        assert_eq!(count(&shapes.still) % 3, 0);
        assert_eq!(count(&shapes.lines) % 2, 0);
        let end = shapes.controllers[1].end as usize;
        assert_eq!(end, shapes.corners.len());
        for corner in &shapes.corners {
            let [x, y, z] = corner.place;
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
