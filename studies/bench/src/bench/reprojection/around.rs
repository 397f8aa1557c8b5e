//! A world that encodes the viewing direction. Coloured poles in six colours stand all around, 15° apart.
//!
//! All rows of its picture are equal, so one row is sufficient to read the angle.

use openuvr_proto::units::Size;

/// Distance between two poles, in degrees.
const APART: f64 = 15.0;
/// Width of a pole, in degrees.
const WIDTH: f64 = 2.0;
/// The colours of the poles. Each of blue, green and red is on or off.
const COLOURS: [[bool; 3]; 6] = [
    [false, false, true],
    [false, true, false],
    [true, false, false],
    [false, true, true],
    [true, true, false],
    [true, false, true],
];
/// Distance between two poles of the same colour, in degrees. An angle is only known modulo this distance.
pub(super) const PERIOD: f64 = APART * 6.0;

/// Half of an eye's field of view, horizontally and vertically.
pub(super) const HALF: f64 = 45.0;

/// Minimum number of adjacent pixels of one colour that count as a pole. Fewer pixels are noise from the codec.
const LEAST: usize = 4;

/// The direction of each column of an eye's picture, in degrees to the left of the axis.
fn columns(width: u32) -> impl Iterator<Item = f64> {
    let half = f64::from(width) / 2.0;
    let focal = half / HALF.to_radians().tan();
    (0..width).map(move |x| ((half - f64::from(x) - 0.5) / focal).atan().to_degrees())
}

/// Draws the views of both eyes side by side, for a head that is turned by `yaw` degrees to the left. `bytes` is packed
/// BGRX of `size`.
pub(super) fn draw(yaw: f64, size: Size, bytes: &mut [u8]) {
    let row = size.width as usize * 4;
    let Some((first, rest)) = bytes.split_at_mut_checked(row) else {
        return;
    };
    let mut pixels = first.chunks_exact_mut(4);
    for _ in 0..2 {
        for (left, pixel) in columns(size.width / 2).zip(&mut pixels) {
            let azimuth = (yaw + left).rem_euclid(PERIOD);
            let pole = (azimuth / APART).round();
            let colour = match (azimuth - pole * APART).abs() <= WIDTH / 2.0 {
                true => COLOURS.get(pole as usize % COLOURS.len()).copied(),
                false => None,
            };
            let [b, g, r] = colour.map_or([40; 3], |on| on.map(|on| if on { 220 } else { 20 }));
            pixel.copy_from_slice(&[b, g, r, 0]);
        }
    }
    for line in rest.chunks_exact_mut(row) {
        line.copy_from_slice(first);
    }
}

/// The angle by which an eye is turned to the left, in degrees modulo [`PERIOD`]. `row` is a row of the eye's picture,
/// in packed BGRX. `None` if the row contains no pole.
pub(super) fn read(row: &[u8]) -> Option<f64> {
    let width = u32::try_from(row.len() / 4).ok()?;
    let mut best: Option<f64> = None;
    let mut yaw = None;
    // The current pole: its colour, the sum of the angles of its pixels, and their number.
    let mut pole: Option<(usize, f64, usize)> = None;
    let mut found = |pole: Option<(usize, f64, usize)>| {
        let Some((colour, sum, count)) = pole.filter(|(_, _, count)| *count >= LEAST) else {
            return;
        };
        let angle = sum / count as f64;
        // Use the pole nearest to the middle, because it is the sharpest.
        if best.is_none_or(|best| angle.abs() < best) {
            best = Some(angle.abs());
            yaw = Some((colour as f64 * APART - angle).rem_euclid(PERIOD));
        }
    };
    for (angle, pixel) in columns(width).zip(row.chunks_exact(4)) {
        let most = pixel[..3].iter().copied().max().unwrap_or(0);
        let on = [0, 1, 2].map(|i| pixel[i] > most / 2);
        let colour = COLOURS.iter().position(|colour| *colour == on);
        let colour = colour.filter(|_| most > 110);
        pole = match (pole, colour) {
            (Some((before, sum, count)), Some(now)) if before == now => {
                Some((now, sum + angle, count + 1))
            }
            (before, now) => {
                found(before);
                now.map(|now| (now, angle, 1))
            }
        };
    }
    found(pole);
    yaw
}

/// The difference of two angles modulo [`PERIOD`].
pub(super) fn difference(a: f64, b: f64) -> f64 {
    (a - b + PERIOD / 2.0).rem_euclid(PERIOD) - PERIOD / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_angle_is_read() {
        let size = Size::new(1280, 4);
        let mut bytes = vec![0; size.pixels() * 4];
        for tenth in 0..3600 {
            let yaw = f64::from(tenth) / 10.0;
            draw(yaw, size, &mut bytes);
            let last = bytes.chunks_exact(1280 * 4).next_back().expect("four rows");
            for eye in [&last[..640 * 4], &last[640 * 4..]] {
                let found = read(eye).expect("a pole");
                assert!(difference(found, yaw).abs() < 0.15, "{yaw}: {found}");
            }
        }
        assert_eq!(read(&[0; 640 * 4]), None);
    }
}
