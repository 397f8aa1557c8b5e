//! The room: its geometry, and its state at a given time.

use std::f32::consts::{FRAC_PI_2, PI, TAU};

use super::matrix::Matrix;
use super::texture::Material;

/// Half the room's width (x) and depth (z) in metres.
pub(super) const HALF: [f32; 2] = [5.0, 4.0];
const HEIGHT: f32 = 3.4;

/// Floats per vertex: position, normal, texture coordinates.
pub(super) const FLOATS_A_VERTEX: usize = 8;

/// Vertices, and the indices of each triangle.
type Shape = (Vec<f32>, Vec<u16>);

/// Triangles with one texture.
pub(super) struct Mesh {
    pub(super) vertices: Vec<f32>,
    /// Three indices for each triangle.
    pub(super) indices: Vec<u16>,
    pub(super) texture: usize,
}

/// A mesh with its transformation.
pub(super) struct Object {
    pub(super) mesh: usize,
    pub(super) model: Matrix,
    /// Emitted light: red, green, blue.
    pub(super) glow: [f32; 3],
}

/// A lamp.
#[derive(Clone, Copy)]
pub(super) struct Light {
    pub(super) place: [f32; 3],
    pub(super) colour: [f32; 3],
}

/// The data for drawing one picture.
pub(super) struct Frame {
    pub(super) camera: Matrix,
    pub(super) ambient: [f32; 3],
    pub(super) lights: [Light; 3],
    /// Walls, floor and ceiling. Exactly one of them covers each pixel of the background.
    pub(super) shell: Vec<Object>,
    /// The objects in the room.
    pub(super) objects: Vec<Object>,
}

/// The duration of the flash after a press, in seconds.
const FLASH: f32 = 0.25;

/// The meshes, in the order of [`MeshId`].
pub(super) fn meshes() -> Vec<Mesh> {
    let [x, z] = HALF;
    let mesh = |(vertices, indices): Shape, texture: Material| Mesh {
        vertices,
        indices,
        texture: texture as usize,
    };
    let wall = |u: [f32; 3], v: [f32; 3], corner: [f32; 3], texture: Material, repeat: [f32; 2]| {
        mesh(grid(corner, u, v, repeat, 8), texture)
    };
    let mut shell = vec![
        wall(
            [2. * x, 0., 0.],
            [0., 0., -2. * z],
            [-x, 0., z],
            Material::Planks,
            [2.5, 2.],
        ),
        wall(
            [2. * x, 0., 0.],
            [0., 0., 2. * z],
            [-x, HEIGHT, -z],
            Material::Coffers,
            [2.5, 2.],
        ),
        wall(
            [2. * x, 0., 0.],
            [0., HEIGHT, 0.],
            [-x, 0., -z],
            Material::Wallpaper,
            [3., 1.],
        ),
        wall(
            [-2. * x, 0., 0.],
            [0., HEIGHT, 0.],
            [x, 0., z],
            Material::Wallpaper,
            [3., 1.],
        ),
        wall(
            [0., 0., -2. * z],
            [0., HEIGHT, 0.],
            [-x, 0., z],
            Material::Bricks,
            [2.4, 1.],
        ),
        wall(
            [0., 0., 2. * z],
            [0., HEIGHT, 0.],
            [x, 0., -z],
            Material::Bricks,
            [2.4, 1.],
        ),
    ];
    shell.push(mesh(
        grid(
            [-1.9, 0.01, 1.4],
            [3.8, 0., 0.],
            [0., 0., -2.8],
            [1., 1.],
            4,
        ),
        Material::Rug,
    ));
    shell.push(mesh(cuboid([0.5, 0.5, 0.5]), Material::Crate));
    shell.push(mesh(sphere(0.55, 18, 10), Material::Globe));
    shell.push(mesh(cuboid([0.36, 0.42, 0.36]), Material::Marble));
    shell.push(mesh(torus(0.34, 0.11, 14, 6), Material::Marble));
    shell.push(mesh(
        grid([-0.8, -0.6, 0.], [1.6, 0., 0.], [0., 1.2, 0.], [1., 1.], 2),
        Material::Painting,
    ));
    shell.push(mesh(sphere(0.14, 12, 8), Material::Plain));
    shell.push(mesh(cuboid([0.24, HEIGHT / 2.0, 0.24]), Material::Marble));
    shell
}

/// The meshes' indices in [`meshes`].
#[derive(Clone, Copy)]
enum MeshId {
    /// The first of six: floor, ceiling, four walls.
    Shell = 0,
    Rug = 6,
    Crate,
    Globe,
    Pedestal,
    Ring,
    Painting,
    Lamp,
    Pillar,
}

/// The room at `time` seconds, after `presses` presses, the last of them `since` seconds ago.
pub(super) fn frame(camera: Matrix, time: f32, presses: u16, since: f32) -> Frame {
    let flash = (1.0 - since / FLASH).clamp(0.0, 1.0);
    let accent = hue(f32::from(presses % 12) / 12.0 + 0.55);
    let orbit = |phase: f32, radius: f32, height: f32| {
        let angle = time * 0.4 + phase * TAU;
        [
            angle.cos() * radius,
            height + 0.2 * (time * 1.7 + phase * TAU).sin(),
            angle.sin() * radius,
        ]
    };
    let lamps = [orbit(0.0, 1.6, 2.2), orbit(0.5, 1.6, 1.9)];
    let lights = [
        Light {
            place: [0., HEIGHT - 0.4, 0.],
            colour: [1.35, 1.2, 1.0],
        },
        Light {
            place: lamps[0],
            colour: accent.map(|value| 0.35 + value * 0.75),
        },
        Light {
            place: lamps[1],
            colour: [1.0, 0.65, 0.3],
        },
    ];
    let no_glow = [0.0; 3];
    let object = |mesh_id: MeshId, model: Matrix, glow: [f32; 3]| Object {
        mesh: mesh_id as usize,
        model,
        glow,
    };
    let at = |[x, y, z]: [f32; 3]| Matrix::shift(x, y, z);
    let mut objects = vec![
        object(
            MeshId::Globe,
            at([0., 1.45, 0.]).times(&Matrix::turn_y(time * 0.5)),
            [0.12; 3],
        ),
        object(MeshId::Pedestal, at([0., 0.42, 0.]), no_glow),
        object(MeshId::Lamp, at(lamps[0]), accent.map(|value| value * 1.6)),
        object(MeshId::Lamp, at(lamps[1]), [1.4, 0.9, 0.4]),
    ];
    for index in 0..3_u8 {
        let phase = f32::from(index) / 3.0;
        let model = at(orbit(phase + 0.125, 1.2, 1.1))
            .times(&Matrix::turn_y(time * 0.5 + phase * TAU))
            .times(&Matrix::turn_x(time * 0.7 + phase * TAU));
        objects.push(object(
            MeshId::Ring,
            model,
            accent.map(|value| value * 0.25),
        ));
    }
    let crates = [
        (-4.1, 0.5, -3.1, 0.3),
        (-4.0, 1.5, -3.2, 0.9),
        (-2.9, 0.5, -3.3, -0.2),
        (4.1, 0.5, 3.1, 0.5),
        (3.9, 0.5, 1.9, 1.2),
        (4.2, 0.5, -3.2, 0.1),
        (-4.2, 0.5, 3.2, 0.7),
    ];
    for (x, y, z, angle) in crates {
        objects.push(object(
            MeshId::Crate,
            at([x, y, z]).times(&Matrix::turn_y(angle)),
            no_glow,
        ));
    }
    let tumbling = at([3.4, 1.5 + 0.3 * (time * 1.1).sin(), -2.2])
        .times(&Matrix::turn_y(time))
        .times(&Matrix::turn_x(time * 0.7))
        .times(&Matrix::scale(0.8));
    objects.push(object(
        MeshId::Crate,
        tumbling,
        accent.map(|value| value * 0.3),
    ));
    let [x, z] = HALF;
    for (px, pz) in [(-x, -z), (x, -z), (-x, z), (x, z)] {
        let corner = at([
            px - 0.24 * px.signum(),
            HEIGHT / 2.0,
            pz - 0.24 * pz.signum(),
        ]);
        objects.push(object(MeshId::Pillar, corner, no_glow));
    }
    let pictures = [(-1.6, -z, 0.0), (1.6, -z, 0.0), (-1.6, z, PI), (1.6, z, PI)];
    for (px, pz, angle) in pictures {
        let place = at([px, 1.75, pz - 0.02 * pz.signum()]);
        objects.push(object(
            MeshId::Painting,
            place.times(&Matrix::turn_y(angle)),
            [0.12; 3],
        ));
    }
    for (px, angle) in [(-x, FRAC_PI_2), (x, -FRAC_PI_2)] {
        let place = at([px - 0.02 * px.signum(), 1.75, 0.0]);
        objects.push(object(
            MeshId::Painting,
            place.times(&Matrix::turn_y(angle)),
            [0.12; 3],
        ));
    }
    objects.push(object(MeshId::Rug, Matrix::shift(0., 0., 0.), no_glow));
    let shell = (0..6).map(|index| Object {
        mesh: MeshId::Shell as usize + index,
        model: Matrix::shift(0., 0., 0.),
        glow: no_glow,
    });
    Frame {
        camera,
        ambient: [0.30 + flash * 0.9, 0.31 + flash * 0.9, 0.36 + flash * 0.9],
        lights,
        shell: shell.collect(),
        objects,
    }
}

fn hue(turn: f32) -> [f32; 3] {
    [0.0, 1.0 / 3.0, 2.0 / 3.0].map(|offset| {
        let away = ((turn + offset).rem_euclid(1.0) - 0.5).abs() * 6.0;
        (away - 1.0).clamp(0.0, 1.0)
    })
}

/// A parallelogram of `cells` × `cells` quads. Its front is the side from which `u` turns counter-clockwise into
/// `v`.
fn grid(corner: [f32; 3], u: [f32; 3], v: [f32; 3], repeat: [f32; 2], cells: u8) -> Shape {
    let normal = unit(cross(u, v));
    let point = |i: u8, j: u8| {
        let (a, b) = (
            f32::from(i) / f32::from(cells),
            f32::from(j) / f32::from(cells),
        );
        let place: [f32; 3] = std::array::from_fn(|k| corner[k] + u[k] * a + v[k] * b);
        vertex(place, normal, [a * repeat[0], (1.0 - b) * repeat[1]])
    };
    quads(cells, cells, point)
}

fn cuboid(half: [f32; 3]) -> Shape {
    let [x, y, z] = half;
    let (w, h, d) = (2. * x, 2. * y, 2. * z);
    let sides = [
        grid([-x, -y, z], [w, 0., 0.], [0., h, 0.], [1., 1.], 1),
        grid([x, -y, -z], [-w, 0., 0.], [0., h, 0.], [1., 1.], 1),
        grid([x, -y, z], [0., 0., -d], [0., h, 0.], [1., 1.], 1),
        grid([-x, -y, -z], [0., 0., d], [0., h, 0.], [1., 1.], 1),
        grid([-x, y, z], [w, 0., 0.], [0., 0., -d], [1., 1.], 1),
        grid([-x, -y, -z], [w, 0., 0.], [0., 0., d], [1., 1.], 1),
    ];
    let mut all = Shape::default();
    for (vertices, indices) in sides {
        let first = (all.0.len() / FLOATS_A_VERTEX) as u16;
        all.0.extend(vertices);
        all.1.extend(indices.iter().map(|index| first + index));
    }
    all
}

fn sphere(radius: f32, around: u8, up: u8) -> Shape {
    quads(around, up, |i, j| {
        let (u, v) = (
            f32::from(i) / f32::from(around),
            f32::from(j) / f32::from(up),
        );
        let (turn, rise) = (u * TAU, (v - 0.5) * PI);
        let normal = [
            turn.cos() * rise.cos(),
            rise.sin(),
            -turn.sin() * rise.cos(),
        ];
        vertex(normal.map(|value| value * radius), normal, [u, 1.0 - v])
    })
}

fn torus(radius: f32, thickness: f32, around: u8, across: u8) -> Shape {
    quads(around, across, |i, j| {
        let (u, v) = (
            f32::from(i) / f32::from(around),
            f32::from(j) / f32::from(across),
        );
        let (turn, roll) = (u * TAU, v * TAU);
        let normal = [
            turn.cos() * roll.cos(),
            roll.sin(),
            -turn.sin() * roll.cos(),
        ];
        let ring = radius + thickness * roll.cos();
        let place = [
            turn.cos() * ring,
            thickness * roll.sin(),
            -turn.sin() * ring,
        ];
        vertex(place, normal, [u * 3.0, v])
    })
}

fn vertex(place: [f32; 3], normal: [f32; 3], at: [f32; 2]) -> [f32; FLOATS_A_VERTEX] {
    let ([x, y, z], [a, b, c], [u, v]) = (place, normal, at);
    [x, y, z, a, b, c, u, v]
}

fn quads(columns: u8, rows: u8, point: impl Fn(u8, u8) -> [f32; FLOATS_A_VERTEX]) -> Shape {
    let mut shape = Shape::default();
    for j in 0..=rows {
        for i in 0..=columns {
            shape.0.extend_from_slice(&point(i, j));
        }
    }
    let width = u16::from(columns) + 1;
    for j in 0..u16::from(rows) {
        for i in 0..u16::from(columns) {
            let a = j * width + i;
            let (b, c, d) = (a + 1, a + width + 1, a + width);
            shape.1.extend([a, b, c, a, c, d]);
        }
    }
    shape
}

fn cross(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn unit(v: [f32; 3]) -> [f32; 3] {
    let length = v.iter().map(|value| value * value).sum::<f32>().sqrt();
    v.map(|value| value / length)
}
