//! The scene's textures. The program computes them when it starts, so no files with their own licences need to be
//! distributed.
//!
//! Each texture has detail at all scales, because moving detail dominates the cost of a codec. The textures are
//! rendered at a higher resolution and smoothed, so that they can be drawn without mipmaps. Mipmaps cost a software
//! renderer a quarter of its time.

/// Texels per side. With this value, all textures together have 2 MB as RGB, about the size of a core's second-level
/// cache.
pub(super) const SIDE: usize = 256;
/// Rendered points per texel and axis.
const FINER: usize = 2;

/// An RGB picture of [`SIDE`] × [`SIDE`] texels that tiles without a seam.
pub(super) struct Texture(pub(super) Vec<u8>);

/// The textures' indices in [`all`].
#[derive(Clone, Copy)]
pub(super) enum Material {
    Planks,
    Bricks,
    Wallpaper,
    Coffers,
    Crate,
    Globe,
    Marble,
    Painting,
    Plain,
    Rug,
}

type Rgb = [f32; 3];
/// The colour at (u, v), each from 0 to 1.
type Paint = fn(f32, f32) -> Rgb;

/// All textures, in the order of [`Material`].
pub(super) fn all() -> Vec<Texture> {
    // The numbers are smoothing passes. Floor, ceiling and rug need more of them, because they are seen at flat angles,
    // where textures without mipmaps would flicker.
    let paint: [(Paint, u8); 10] = [
        (planks, 4),
        (bricks, 3),
        (wallpaper, 3),
        (coffers, 4),
        (crate_side, 3),
        (globe, 2),
        (marble, 3),
        (painting, 2),
        (plain, 1),
        (rug, 4),
    ];
    paint
        .iter()
        .map(|&(paint, smoothings)| render(paint, smoothings))
        .collect()
}

fn render(paint: Paint, smoothings: u8) -> Texture {
    let place =
        |texel: usize, part: usize| ((texel * FINER + part) as f32 + 0.5) / (SIDE * FINER) as f32;
    let texel = |index: usize| -> Rgb {
        let mut sum = [0.0; 3];
        for part in 0..FINER * FINER {
            let (x, y) = (
                place(index % SIDE, part % FINER),
                place(index / SIDE, part / FINER),
            );
            let point = paint(x, y);
            sum = std::array::from_fn(|k| sum[k] + point[k].clamp(0.0, 1.0));
        }
        sum.map(|value| value / (FINER * FINER) as f32)
    };
    let mut texels: Vec<Rgb> = (0..SIDE * SIDE).map(texel).collect();
    for _ in 0..smoothings {
        texels = smoothed(&texels, 1);
        texels = smoothed(&texels, SIDE);
    }
    let bytes = texels.iter().flatten().map(|value| (value * 255.0) as u8);
    Texture(bytes.collect())
}

/// Smooths each texel with its neighbours along one axis, with weights 1-2-1. A `step` of 1 is along u, and a `step` of
/// [`SIDE`] along v.
fn smoothed(texels: &[Rgb], step: usize) -> Vec<Rgb> {
    let at = |index: usize, by: usize| {
        let (row, column) = (index / SIDE, index % SIDE);
        if step == 1 {
            texels[row * SIDE + (column + by) % SIDE]
        } else {
            texels[(row + by) % SIDE * SIDE + column]
        }
    };
    (0..texels.len())
        .map(|index| {
            let (before, here, after) = (at(index, SIDE - 1), at(index, 0), at(index, 1));
            std::array::from_fn(|k| (before[k] + 2.0 * here[k] + after[k]) / 4.0)
        })
        .collect()
}

/// Planks, staggered, with grain along them.
fn planks(u: f32, v: f32) -> Rgb {
    let plank = (u * 6.0).floor();
    let along = v + chance(plank, 3.0);
    let board = (along * 2.0).floor();
    let gap = near_edge(u * 6.0, 0.025) || near_edge(along * 2.0, 0.006);
    let tone = 0.75 + 0.35 * chance(plank, board.rem_euclid(2.0) + 9.0);
    let grain = fbm(u * 48.0, v * 6.0, 48, 6) * 0.5 + fbm(u * 128.0, v * 16.0, 128, 16) * 0.2;
    let light = if gap {
        0.25
    } else {
        tone * (0.6 + grain * 0.6)
    };
    [0.62 * light, 0.40 * light, 0.23 * light]
}

fn bricks(u: f32, v: f32) -> Rgb {
    let row = (v * 8.0).floor();
    let along = u * 4.0 + 0.5 * (row % 2.0);
    let mortar = near_edge(v * 8.0, 0.06) || near_edge(along, 0.03);
    let rough = fbm(u * 64.0, v * 64.0, 64, 64);
    if mortar {
        return grey(0.55 + rough * 0.3);
    }
    let tone = chance(along.floor().rem_euclid(4.0), row) * 0.4 + 0.6 + (rough - 0.5) * 0.5;
    [0.68 * tone, 0.33 * tone, 0.25 * tone]
}

/// Diamonds with medallions, on linen.
fn wallpaper(u: f32, v: f32) -> Rgb {
    let (x, y) = ((u * 4.0).fract() - 0.5, (v * 4.0).fract() - 0.5);
    let far = (x * x + y * y).sqrt();
    let petals = (y.atan2(x) * 6.0).cos() * 0.08 + 0.24;
    let line = ((x.abs() + y.abs()) - 0.5).abs() < 0.025;
    let linen = 0.86
        + 0.14 * ((u * 400.0).sin() * (v * 400.0).sin())
        + (fbm(u * 32.0, v * 32.0, 32, 32) - 0.5) * 0.16;
    let ink = line || (far < petals && (far * 40.0).sin() > -0.2);
    let base = if ink {
        [0.78, 0.62, 0.30]
    } else {
        [0.16, 0.36, 0.38]
    };
    base.map(|value| value * linen)
}

fn coffers(u: f32, v: f32) -> Rgb {
    let (x, y) = ((u * 2.0).fract(), (v * 2.0).fract());
    let edge = x.min(1.0 - x).min(y).min(1.0 - y);
    let carved = if edge < 0.06 {
        0.95
    } else if edge < 0.09 {
        0.45
    } else if edge < 0.14 {
        0.8
    } else {
        0.68
    };
    let light = carved * (0.8 + 0.35 * fbm(u * 64.0, v * 64.0, 64, 64));
    [light * 0.93, light * 0.88, light * 0.78]
}

fn crate_side(u: f32, v: f32) -> Rgb {
    let edge = u.min(1.0 - u).min(v).min(1.0 - v);
    let brace = (u - v).abs() < 0.09;
    let frame = edge < 0.11;
    let rim = (edge - 0.11).abs() < 0.008 || ((u - v).abs() - 0.09).abs() < 0.008;
    let grain = fbm(u * 16.0, v * 64.0, 16, 64);
    let nail = frame && {
        let (x, y) = ((u * 9.0).fract() - 0.5, (v * 9.0).fract() - 0.5);
        x * x + y * y < 0.012
    };
    let tone = if rim || nail {
        0.25
    } else if frame || brace {
        0.95
    } else if near_edge(v * 6.0, 0.04) {
        0.35
    } else {
        0.7
    };
    let light = tone * (0.55 + grain * 0.8);
    [0.80 * light, 0.58 * light, 0.30 * light]
}

/// Land and sea with meridians.
fn globe(u: f32, v: f32) -> Rgb {
    let high = fbm(u * 8.0, v * 8.0, 8, 8) + 0.25 * (fbm(u * 64.0, v * 64.0, 64, 64) - 0.5);
    let ice = (v - 0.5).abs() > 0.42 + 0.04 * fbm(u * 32.0, v, 32, 1);
    if near_edge(u * 24.0, 0.03) || near_edge(v * 12.0, 0.03) {
        return [0.85, 0.8, 0.55];
    }
    if ice {
        grey(0.9)
    } else if high > 0.52 {
        let dry = (high - 0.52) * 5.0;
        [0.25 + dry * 0.5, 0.5 + dry * 0.1, 0.18 + dry * 0.1]
    } else {
        [0.08, 0.22 + high * 0.4, 0.45 + high * 0.6]
    }
}

fn marble(u: f32, v: f32) -> Rgb {
    let bend = fbm(u * 8.0, v * 8.0, 8, 8) * 6.0 + 0.4 * fbm(u * 32.0, v * 32.0, 32, 32);
    let vein = ((u * 2.0 + v) * std::f32::consts::TAU + bend * 2.0)
        .sin()
        .abs()
        .powf(0.4);
    let light = 0.6 + 0.3 * vein + 0.12 * fbm(u * 128.0, v * 128.0, 128, 128);
    [light, light * 0.97, light * 0.93]
}

/// A landscape at dusk in a gilded frame.
fn painting(u: f32, v: f32) -> Rgb {
    let edge = u.min(1.0 - u).min(v).min(1.0 - v);
    if edge < 0.06 {
        let carve = 0.6 + 0.4 * (edge * 160.0).sin() * (u * 90.0).cos() * (v * 90.0).cos();
        return [0.85 * carve, 0.66 * carve, 0.25 * carve];
    }
    let brush = (fbm(u * 64.0, v * 24.0, 64, 24) - 0.5) * 0.25;
    let up = 1.0 - v;
    let (x, y) = (u - 0.62, up - 0.62);
    let sun = x * x + y * y;
    let ridges = [(0.56, 6, 0.35), (0.42, 10, 0.22), (0.27, 16, 0.12)];
    for (height, cells, tone) in ridges {
        let top = height - 0.12 + 0.2 * fbm(u * cells as f32, height * 7.0, cells, 64);
        if up < top && (height < 0.3 || up > height - 0.3) {
            let light = tone + brush * 0.7 + (top - up) * 0.25;
            return [light * 0.8, light * 1.05, light * 1.2];
        }
    }
    let cloud = fbm(u * 12.0, v * 32.0, 12, 32) * 0.35 + brush;
    if sun < 0.006 {
        return [1.0, 0.93, 0.7];
    }
    [
        0.95 - up * 0.45 + cloud,
        0.62 - up * 0.25 + cloud,
        0.35 + up * 0.3 + cloud * 0.6,
    ]
}

fn plain(u: f32, v: f32) -> Rgb {
    grey(0.9 + 0.1 * fbm(u * 32.0, v * 32.0, 32, 32))
}

fn rug(u: f32, v: f32) -> Rgb {
    let (x, y) = (u - 0.5, v - 0.5);
    let edge = 0.5 - x.abs().max(y.abs());
    let weave = 0.85 + 0.12 * (u * 800.0).sin() * (v * 800.0).sin();
    let step = |value: f32| (value * 48.0).floor() / 48.0;
    let far = (step(x).powi(2) + step(y).powi(2)).sqrt();
    let ring = (far * 30.0 + 2.0 * (step(y).atan2(step(x)) * 8.0).cos()).sin();
    let base = if edge < 0.03 {
        [0.85, 0.78, 0.6]
    } else if edge < 0.1 {
        let tooth = ((u * 24.0).floor() + (v * 24.0).floor()) % 2.0;
        if tooth == 0.0 {
            [0.12, 0.14, 0.32]
        } else {
            [0.75, 0.55, 0.25]
        }
    } else if ring > 0.3 {
        [0.70, 0.52, 0.36]
    } else if ring > -0.4 {
        [0.55, 0.10, 0.13]
    } else {
        [0.26, 0.16, 0.30]
    };
    base.map(|value| value * weave)
}

fn grey(light: f32) -> Rgb {
    [light; 3]
}

fn near_edge(value: f32, width: f32) -> bool {
    let part = value.rem_euclid(1.0);
    part.min(1.0 - part) < width
}

/// Noise in four octaves, 0 to 1, with a period of (`w`, `h`) cells.
fn fbm(x: f32, y: f32, w: i32, h: i32) -> f32 {
    let (mut sum, mut part, mut scale) = (0.0, 0.5, 1);
    for _ in 0..4 {
        let by = scale as f32;
        sum += part * value_noise(x * by, y * by, w * scale, h * scale);
        part *= 0.5;
        scale *= 2;
    }
    sum / 0.9375
}

fn value_noise(x: f32, y: f32, w: i32, h: i32) -> f32 {
    let (column, row) = (x.floor(), y.floor());
    let smooth = |t: f32| t * t * (3.0 - 2.0 * t);
    let (fx, fy) = (smooth(x - column), smooth(y - row));
    let at = |dx: f32, dy: f32| {
        chance(
            (column + dx).rem_euclid(w as f32),
            (row + dy).rem_euclid(h as f32),
        )
    };
    let mix = |a: f32, b: f32, t: f32| a + (b - a) * t;
    mix(
        mix(at(0.0, 0.0), at(1.0, 0.0), fx),
        mix(at(0.0, 1.0), at(1.0, 1.0), fx),
        fy,
    )
}

/// A fixed pseudo-random number from 0 to 1 for a cell.
fn chance(x: f32, y: f32) -> f32 {
    let mut bits = (x as i32 as u32).wrapping_mul(0x9e37_79b9) ^ (y as i32 as u32).rotate_left(16);
    bits = (bits ^ (bits >> 15)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    (bits >> 8) as f32 / (1 << 24) as f32
}
