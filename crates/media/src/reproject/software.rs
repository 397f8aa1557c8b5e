//! Reprojection on the CPU. The perspective is exact at each 16th pixel of a row and linear in between. The rows of
//! large pictures are divided between two cores.
//!
//! A homography costs a division per pixel; linear interpolation costs an addition. Over 16 pixels, with a field of
//! view of 90° across 640 pixels and a head turned by 20°, the error is less than a quarter of a pixel.

use openuvr_proto::id::FrameId;
use openuvr_proto::reproject::Homography;
use openuvr_proto::units::Size;

use super::{AimedRegion, DrawParams, Filter, Reprojector, Source};
use crate::picture::Picture;
use crate::present::{PresentError, Presenter};

/// Distance between two exactly computed pixels.
const STEP: usize = 16;

/// A source pixel in fixed point: 16 fractional bits, the upper 8 of which weight neighbours.
const ONE: f64 = 65_536.0;

/// From this number of pixels on, two cores draw. Starting a thread takes about 40 µs, in which a core draws 10 000
/// pixels.
const ONE_CORE: usize = 100_000;

/// Colour outside of the picture.
const BLACK: u32 = 0;

/// Draws on the memory lent by a surface, or on its own memory.
#[derive(Default)]
pub(super) struct Software {
    size: Size,
    /// Memory for a surface that lends none.
    own: Vec<u8>,
}

impl Reprojector for Software {
    fn is_fast(&self) -> bool {
        true
    }

    fn load(&mut self, _: &Source<'_>) -> Result<(), PresentError> {
        Ok(())
    }

    fn draw(
        &mut self,
        on: &mut dyn Presenter,
        params: &DrawParams<'_>,
    ) -> Result<(), PresentError> {
        self.size = params.size;
        let to = match on.canvas() {
            // If the server is stalled, pictures are lost.
            Some(canvas) => canvas.rows(params.size, 0..params.size.height),
            None => {
                self.own.resize(params.size.pixels() * 4, 0);
                Some(&mut self.own[..])
            }
        };
        if let Some(to) = to {
            draw(&params.source, params.parts, params.filter, params.size, to);
        }
        Ok(())
    }

    fn show(&mut self, on: &mut dyn Presenter, frame: FrameId) -> Result<(), PresentError> {
        match on.canvas() {
            Some(canvas) => canvas.show(frame, self.size).map(drop),
            None => {
                let stride = self.size.width as usize * 4;
                on.present(frame, &Picture::bgrx(self.size, &self.own, stride))
            }
        }
    }
}

/// Draws all regions into `to`, packed BGRX of `size`. Positions outside of a region's source
/// become black. Does nothing if a buffer is too short for its size.
pub fn draw(source: &Source<'_>, parts: &[AimedRegion], filter: Filter, size: Size, to: &mut [u8]) {
    let row = size.width as usize * 4;
    let Some(to) = to.get_mut(..size.pixels() * 4).filter(|_| size.is_valid()) else {
        return;
    };
    if source.bytes.len() < source.size.pixels() * 4 {
        return;
    }
    let half = size.height as usize / 2;
    if size.pixels() < ONE_CORE || half == 0 {
        return rows(source, parts, filter, row, 0, to);
    }
    let (above, below) = to.split_at_mut(half * row);
    std::thread::scope(|scope| {
        scope.spawn(move || rows(source, parts, filter, row, half, below));
        rows(source, parts, filter, row, 0, above);
    });
}

/// Draws the rows from `first` on into `to`, which is `row` bytes wide.
fn rows(
    source: &Source<'_>,
    parts: &[AimedRegion],
    filter: Filter,
    row: usize,
    first: usize,
    to: &mut [u8],
) {
    for aimed in parts {
        let eye = Eye::new(source, aimed);
        let columns = aimed.part.to.start as usize * 4..aimed.part.to.end as usize * 4;
        for (y, line) in to.chunks_exact_mut(row).enumerate() {
            let Some(line) = line.get_mut(columns.clone()) else {
                return;
            };
            match (filter, aimed.part.mask) {
                (Filter::Nearest, u32::MAX) => eye.row::<true, true>(first + y, line),
                (Filter::Nearest, _) => eye.row::<true, false>(first + y, line),
                (Filter::Bilinear, u32::MAX) => eye.row::<false, true>(first + y, line),
                (Filter::Bilinear, _) => eye.row::<false, false>(first + y, line),
            }
        }
    }
}

/// One eye's picture and its transform.
struct Eye<'a> {
    bytes: &'a [u8],
    /// Bytes from one row to the next, and to the eye's first column.
    stride: usize,
    offset: usize,
    width: i32,
    height: i32,
    how: [[f64; 3]; 3],
    mask: u32,
    same: bool,
}

/// A source position in units of [`ONE`]; `None` for a point behind the eye.
type SourcePoint = Option<(i32, i32)>;

impl<'a> Eye<'a> {
    fn new(source: &Source<'a>, aimed: &AimedRegion) -> Eye<'a> {
        let part = &aimed.part;
        let side = |pixels: u32| i32::try_from(pixels.min(Size::MAX_SIDE)).unwrap_or(0);
        Eye {
            bytes: source.bytes,
            stride: source.size.width as usize * 4,
            offset: part.from.start as usize * 4,
            width: side(part.from.end.saturating_sub(part.from.start)),
            height: side(source.size.height),
            how: aimed.how.rows(),
            mask: part.mask,
            same: aimed.how == Homography::SAME,
        }
    }

    /// The source position of a displayed pixel's centre; integers are pixel centres.
    #[allow(clippy::cast_possible_truncation, reason = "it is clamped")]
    fn place(&self, x: f64, y: f64) -> SourcePoint {
        let [u, v, w] = self.how.map(|[a, b, c]| a * x + b * y + c);
        if w <= 1e-9 {
            return None;
        }
        // The limits are beyond any picture, and the difference of two values fits in an `i32`.
        let fixed = |at: f64| ((at / w - 0.5) * ONE).clamp(-5e8, 1.4e9) as i32;
        Some((fixed(u), fixed(v)))
    }

    fn row<const NEAREST: bool, const WHOLE: bool>(&self, y: usize, line: &mut [u8]) {
        if self.same && WHOLE {
            let start = y * self.stride + self.offset;
            if let Some(from) = self.bytes.get(start..start + line.len()) {
                return line.copy_from_slice(from);
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "sides have 14 bits")]
        let centre = |at: usize| at as f64 + 0.5;
        let y = centre(y);
        let mut from = self.place(0.5, y);
        let mut x = 0;
        for span in line.chunks_mut(STEP * 4) {
            let to = self.place(centre(x + STEP), y);
            match (from, to) {
                (Some(from), Some(to)) => {
                    let step = ((to.0 - from.0) / 16, (to.1 - from.1) / 16);
                    match self.holds(from) && self.holds(to) {
                        true => self.inside::<NEAREST, WHOLE>(from, step, span),
                        false => self.edge::<NEAREST, WHOLE>(from, step, span),
                    }
                }
                // Spans that cross the horizon are rare, so each of their pixels is computed separately.
                _ => {
                    for (i, pixel) in span.chunks_exact_mut(4).enumerate() {
                        let place = self.place(centre(x + i), y);
                        let found = place.map_or(BLACK, |place| self.anywhere::<NEAREST>(place));
                        put::<WHOLE>(pixel, found, self.mask);
                    }
                }
            }
            from = to;
            x += STEP;
        }
    }

    /// Whether a position and its neighbours to the right and below are inside the eye's picture.
    fn holds(&self, (x, y): (i32, i32)) -> bool {
        x >= 0 && y >= 0 && (x >> 16) < self.width - 1 && (y >> 16) < self.height - 1
    }

    /// A span of pixels that are all [inside](Eye::holds).
    fn inside<const NEAREST: bool, const WHOLE: bool>(
        &self,
        (mut x, mut y): (i32, i32),
        (dx, dy): (i32, i32),
        span: &mut [u8],
    ) {
        for pixel in span.chunks_exact_mut(4) {
            let found = match NEAREST {
                true => self.nearest(x, y),
                false => self.bilinear(x, y),
            };
            put::<WHOLE>(pixel, found, self.mask);
            x += dx;
            y += dy;
        }
    }

    fn edge<const NEAREST: bool, const WHOLE: bool>(
        &self,
        (mut x, mut y): (i32, i32),
        (dx, dy): (i32, i32),
        span: &mut [u8],
    ) {
        for pixel in span.chunks_exact_mut(4) {
            put::<WHOLE>(pixel, self.anywhere::<NEAREST>((x, y)), self.mask);
            x += dx;
            y += dy;
        }
    }

    /// The pixel at a position. Outside of the picture, it is black; half a pixel beyond the outermost centres counts
    /// as inside.
    fn anywhere<const NEAREST: bool>(&self, (x, y): (i32, i32)) -> u32 {
        const HALF: i32 = 1 << 15;
        let (right, below) = ((self.width << 16) - HALF, (self.height << 16) - HALF);
        if x < -HALF || y < -HALF || x >= right || y >= below {
            return BLACK;
        }
        // Between the outermost pixel's centre and the edge, that pixel is repeated.
        let within = |at: i32, count: i32| at.clamp(0, (((count - 1) << 16) - 1).max(0));
        let place = (within(x, self.width), within(y, self.height));
        match NEAREST || !self.holds(place) {
            true => self.nearest(place.0, place.1),
            false => self.bilinear(place.0, place.1),
        }
    }

    /// The offset of a source pixel. Both coordinates are inside, and therefore not negative.
    #[allow(clippy::cast_sign_loss, reason = "see above")]
    fn at(&self, x: i32, y: i32) -> usize {
        y as usize * self.stride + self.offset + x as usize * 4
    }

    fn nearest(&self, x: i32, y: i32) -> u32 {
        let half = 1 << 15;
        let at = self.at((x + half) >> 16, (y + half) >> 16);
        let found = self.bytes.get(at..).and_then(|from| from.first_chunk());
        found.map_or(BLACK, |pixel| u32::from_le_bytes(*pixel))
    }

    /// The weighted mean of four pixels. Two neighbours are loaded as one word with 16 bits per
    /// channel. Four channels at a time are combined first between rows, then between the columns
    /// of a pixel. A mean is a · 256 + (b − a) · weight, with one multiplication for all four.
    /// Intermediate channels may borrow from each other, but the sums are correct, and are 0 to 65
    /// 280 each.
    #[allow(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "lower bits"
    )]
    fn bilinear(&self, x: i32, y: i32) -> u32 {
        const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
        let at = self.at(x >> 16, y >> 16);
        let pair = |at: usize| {
            let found = self.bytes.get(at..).and_then(|from| from.first_chunk());
            found.map_or(0, |pair| u64::from_le_bytes(*pair))
        };
        let (upper, lower) = (pair(at), pair(at + self.stride));
        let (right, down) = (u64::from((x >> 8) as u8), u64::from((y >> 8) as u8));
        let mean = |a: u64, b: u64, weight: u64| {
            (a << 8).wrapping_add(b.wrapping_sub(a).wrapping_mul(weight))
        };
        let even = (mean(upper & EVEN, lower & EVEN, down) >> 8) & EVEN;
        let odd = (mean((upper >> 8) & EVEN, (lower >> 8) & EVEN, down) >> 8) & EVEN;
        // Now the channels are ordered by pixel: even channels in the lower half, odd channels in the upper half.
        let first = (even & 0xffff_ffff) | (odd << 32);
        let second = (even >> 32) | (odd & 0xffff_ffff_0000_0000);
        let found = mean(first, second, right);
        (((found >> 8) & 0x00ff_00ff) | ((found >> 32) & 0xff00_ff00)) as u32
    }
}

/// Writes a pixel, or only the bits of it that belong to the region.
fn put<const WHOLE: bool>(pixel: &mut [u8], found: u32, mask: u32) {
    let found = match (WHOLE, pixel.first_chunk::<4>()) {
        (false, Some(there)) => (u32::from_le_bytes(*there) & !mask) | (found & mask),
        _ => found,
    };
    pixel.copy_from_slice(&found.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use openuvr_proto::reproject::Camera;
    use openuvr_proto::rotation::Rotation;
    use openuvr_proto::wire::video::FieldOfView;

    use super::super::{EyeView, eye_regions};
    use super::*;

    const SIDE: u32 = 640;

    fn camera() -> Camera {
        let angle = 45f32.to_radians();
        Camera {
            view: FieldOfView::new(-angle, angle, angle, -angle).expect("a view"),
            size: Size::new(SIDE, SIDE),
        }
    }

    fn by(yaw: f32, pitch: f32, roll: f32) -> Homography {
        let [yaw, pitch, roll] = [yaw, pitch, roll].map(f32::to_radians);
        let turned = Rotation::of_head(yaw, pitch, roll);
        Homography::re_aimed(&camera(), &camera(), turned).expect("a picture")
    }

    /// A picture of two eyes. Red encodes the column and green the row, both in steps of four pixels. Blue encodes the
    /// eye.
    fn gradient() -> Vec<u8> {
        let mut bytes = Vec::new();
        for y in 0..SIDE {
            for x in 0..2 * SIDE {
                let eye = if x < SIDE { 50 } else { 200 };
                let quarter = |at: u32| u8::try_from(at / 4).expect("below 160");
                bytes.extend([eye, quarter(y), quarter(x % SIDE), 0]);
            }
        }
        bytes
    }

    fn drawn(how: Homography, view: EyeView, filter: Filter) -> (Size, Vec<u8>) {
        let size = Size::new(2 * SIDE, SIDE);
        let (shown, parts) = eye_regions(size, 2, view);
        let parts: Vec<_> = (parts.into_iter())
            .map(|part| AimedRegion { part, how })
            .collect();
        let mut to = vec![0x77; shown.pixels() * 4];
        let bytes = &gradient()[..];
        draw(&Source { size, bytes }, &parts, filter, shown, &mut to);
        (shown, to)
    }

    #[test]
    fn an_unturned_head_changes_nothing() {
        let (_, copied) = drawn(Homography::SAME, EyeView::Both, Filter::Bilinear);
        assert!(copied == gradient());
        // The computed picture equals the copied one, within fixed-point rounding.
        for filter in [Filter::Nearest, Filter::Bilinear] {
            let (_, calculated) = drawn(by(0.0, 0.0, 0.0), EyeView::Both, filter);
            let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 1;
            assert!(calculated.iter().zip(&copied).all(near), "{filter:?}");
        }
    }

    #[test]
    fn every_pixel_matches_the_mathematics() {
        let how = by(12.0, -7.0, 20.0);
        for filter in [Filter::Nearest, Filter::Bilinear] {
            let (shown, found) = drawn(how, EyeView::Both, filter);
            for (i, pixel) in found.chunks_exact(4).enumerate() {
                let i = u32::try_from(i).expect("a picture");
                let (x, y) = (i % shown.width, i / shown.width);
                let eye = if x < SIDE { 50 } else { 200 };
                let place = how.source(f64::from(x % SIDE) + 0.5, f64::from(y) + 0.5);
                let [u, v] = place.expect("in front");
                let side = f64::from(SIDE);
                let inside = |at: f64| (0.6..side - 0.6).contains(&at);
                let outside = |at: f64| !(-0.6..side + 0.6).contains(&at);
                if inside(u) && inside(v) {
                    assert_eq!(pixel[0], eye, "{x} {y}: the same eye");
                    let near = |found: u8, at: f64| (f64::from(found) - (at - 0.5) / 4.0).abs();
                    let off = near(pixel[1], v).max(near(pixel[2], u));
                    assert!(off < 1.05, "{filter:?} {x} {y}: {pixel:?}, not {u} {v}");
                } else if outside(u) || outside(v) {
                    assert_eq!(pixel, [0; 4], "{x} {y}: black beyond the edge");
                }
            }
        }
    }

    #[test]
    fn interpolation_between_exact_pixels_is_accurate() {
        let how = by(20.0, 10.0, 5.0);
        let mut most: f64 = 0.0;
        for y in [0, 100, 639] {
            for x in 0..SIDE - 16 {
                let (start, i) = (x / 16 * 16, f64::from(x % 16));
                let y = f64::from(y) + 0.5;
                let at = |x: f64| how.source(x + 0.5, y).expect("in front");
                let (from, to) = (at(f64::from(start)), at(f64::from(start) + 16.0));
                let exact = at(f64::from(x));
                // Outside of the source picture, the error is not measured.
                if exact.iter().any(|at| !(0.0..640.0).contains(at)) {
                    continue;
                }
                for axis in [0, 1] {
                    let line = from[axis] + (to[axis] - from[axis]) * i / 16.0;
                    most = most.max((line - exact[axis]).abs());
                }
            }
        }
        assert!((0.01..0.25).contains(&most), "{most} pixels");
    }

    #[test]
    fn one_eye_or_both_over_each_other() {
        let (left, pixels) = drawn(Homography::SAME, EyeView::Left, Filter::Nearest);
        assert_eq!((left.width, pixels[0]), (SIDE, 50));
        let (_, pixels) = drawn(Homography::SAME, EyeView::Right, Filter::Nearest);
        assert_eq!(pixels[0], 200);
        let (size, pixels) = drawn(by(10.0, 0.0, 0.0), EyeView::Anaglyph, Filter::Bilinear);
        assert_eq!(size, left);
        let centre = (SIDE / 2 * SIDE + SIDE / 2) as usize * 4;
        // The pixel has the blue of the right eye, and the red of the left eye at the same position.
        assert_eq!(pixels[centre], 200);
        let expected = 320.0 * (1.0 - 10f64.to_radians().tan()) / 4.0;
        assert!((f64::from(pixels[centre + 2]) - expected).abs() < 1.0);
    }

    #[test]
    fn a_reversed_head_sees_black() {
        let (_, pixels) = drawn(by(180.0, 0.0, 0.0), EyeView::Both, Filter::Bilinear);
        assert!(pixels.iter().all(|byte| *byte == 0));
        // More than half of the picture is behind the eye.
        let (_, pixels) = drawn(by(100.0, 0.0, 0.0), EyeView::Both, Filter::Bilinear);
        assert!(pixels[..4] == [0; 4]);
    }

    #[test]
    fn short_buffers_are_not_written() {
        let size = Size::new(8, 8);
        let (shown, part) = eye_regions(size, 1, EyeView::Both);
        let aimed = part.into_iter().map(|part| AimedRegion {
            part,
            how: Homography::SAME,
        });
        let aimed: Vec<_> = aimed.collect();
        let bytes = &[1u8; 8 * 8 * 4][..];
        let mut short = [7u8; 100];
        draw(
            &Source { size, bytes },
            &aimed,
            Filter::Nearest,
            shown,
            &mut short,
        );
        let mut to = [7u8; 8 * 8 * 4];
        let bytes = &bytes[..100];
        draw(
            &Source { size, bytes },
            &aimed,
            Filter::Nearest,
            shown,
            &mut to,
        );
        assert!(short.iter().chain(&to).all(|byte| *byte == 7));
    }
}
