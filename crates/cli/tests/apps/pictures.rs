//! Compares pictures, and stores pictures for manual inspection.

use std::fs;
use std::io::BufWriter;
use std::path::PathBuf;

use openuvr_proto::units::Size;

use crate::support::Shot;

/// Correlation of the brightness of two pictures of the same size: 1 for equal pictures, about 0 for unrelated ones,
/// even if both are dark.
pub(crate) fn correlation(one: &Shot, other: &Shot) -> f64 {
    assert_eq!(one.size, other.size, "pictures of different sizes");
    let luma = |shot: &Shot| -> Vec<f64> {
        let pixels = shot.pixels.chunks_exact(4);
        pixels
            .map(|p| 0.0722 * f64::from(p[0]) + 0.7152 * f64::from(p[1]) + 0.2126 * f64::from(p[2]))
            .collect()
    };
    let (one, other) = (luma(one), luma(other));
    let count = one.len().max(1) as f64;
    let mean = |all: &[f64]| all.iter().sum::<f64>() / count;
    let (first, second) = (mean(&one), mean(&other));
    let (mut both, mut squares) = (0.0, (0.0, 0.0));
    for (a, b) in one.iter().zip(&other) {
        let (a, b) = (a - first, b - second);
        both += a * b;
        squares = (squares.0 + a * a, squares.1 + b * b);
    }
    /// Minimum variance of the brightness levels. A picture with less variance is flat. The correlation of two flat
    /// pictures counts as 1, that of a flat and another picture as 0.
    const FLAT: f64 = 1.0;
    match squares.0.min(squares.1) / count < FLAT {
        true if squares.0.max(squares.1) / count < FLAT => 1.0,
        true => 0.0,
        false => both / (squares.0 * squares.1).sqrt(),
    }
}

/// A region of a picture.
pub(crate) fn region(of: &Shot, (x, y): (i16, i16), size: Size) -> Shot {
    const PIXEL: usize = 4;
    let side = |pixels: i16| usize::try_from(pixels).expect("a coordinate in the picture");
    let (x, y, width) = (side(x), side(y), of.size.width as usize);
    let rows = of.pixels.chunks_exact(width * PIXEL).skip(y);
    let rows = rows.take(size.height as usize);
    let pixels = rows.flat_map(|row| row[x * PIXEL..][..size.width as usize * PIXEL].to_vec());
    let pixels = pixels.collect();
    Shot { size, pixels }
}

pub(crate) fn differing(one: &Shot, other: &Shot) -> usize {
    let (one, other) = (one.colours(), other.colours());
    one.iter().zip(&other).filter(|(a, b)| a != b).count()
}

/// Writes a picture to the folder that is printed at the end.
pub(crate) fn save(shot: &Shot, name: &str) {
    let write = || -> Result<(), Box<dyn std::error::Error>> {
        fs::create_dir_all(folder())?;
        let file = fs::File::create(folder().join(format!("{name}.png")))?;
        let mut encoder =
            png::Encoder::new(BufWriter::new(file), shot.size.width, shot.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let pixels = shot.pixels.chunks_exact(4);
        let rgb: Vec<u8> = pixels.flat_map(|p| [p[2], p[1], p[0]]).collect();
        encoder.write_header()?.write_image_data(&rgb)?;
        Ok(())
    };
    write().unwrap_or_else(|why| panic!("cannot write the picture {name}: {why}"));
}

/// The folder of the pictures.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("apps")
}
