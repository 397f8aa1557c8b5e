//! Unchanged areas are not converted again, and the converted pictures stay bit-exact. Almost all macroblocks that are
//! marked as unchanged keep their decoded pixels.
#![cfg(feature = "host")]
#![allow(clippy::cast_possible_truncation)] // values below 256, and pictures of a few hundred pixels

use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::damage::{Block, Damage};
use openuvr_media::decode::{self, Chunk, Decoder};
use openuvr_media::encode::{self, Encoder, FrameRequest, MacroblockRange, Settings, Slice};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

/// Deterministic pseudo-random numbers.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
}

/// A packed picture to draw on.
struct Drawing {
    size: Size,
    pixel: usize,
    stride: usize,
    bytes: Vec<u8>,
}

impl Drawing {
    fn new(size: Size, pixel: usize, numbers: &mut Numbers) -> Drawing {
        let stride = size.width as usize * pixel + 8;
        let whole = stride * (size.height as usize - 1) + size.width as usize * pixel;
        let bytes = (0..whole).map(|_| numbers.next() as u8).collect();
        Drawing {
            size,
            pixel,
            stride,
            bytes,
        }
    }

    /// Draws a random rectangle and returns it.
    fn draw(&mut self, numbers: &mut Numbers) -> Block {
        let Size { width, height } = self.size;
        let (left, top) = (numbers.below(width), numbers.below(height));
        let right = (left + 1 + numbers.below(60)).min(width);
        let bottom = (top + 1 + numbers.below(40)).min(height);
        let flat = numbers.below(2) == 0;
        let colour = numbers.next() as u8;
        for y in top..bottom {
            let at = y as usize * self.stride;
            let row = left as usize * self.pixel..right as usize * self.pixel;
            for byte in &mut self.bytes[at..][row] {
                *byte = if flat { colour } else { numbers.next() as u8 };
            }
        }
        Block {
            columns: left..right,
            rows: top..bottom,
        }
    }

    fn picture(&self, format: PixelFormat) -> Picture<'_> {
        let plane = Plane {
            data: &self.bytes,
            stride: self.stride,
        };
        Picture {
            size: self.size,
            format,
            rows: RowOrder::TopDown,
            planes: [plane, Plane::EMPTY, Plane::EMPTY],
        }
    }
}

fn planes(picture: &Picture<'_>) -> Vec<u8> {
    let (width, height) = (picture.size.width as usize, picture.size.height as usize);
    let rows = |n: usize, rows: usize| {
        let plane = picture.planes[n];
        (0..rows).flat_map(move |y| &plane.data[y * plane.stride..][..width])
    };
    rows(0, height)
        .chain(rows(1, height / 2))
        .copied()
        .collect()
}

#[test]
fn a_partial_conversion_is_bit_exact() {
    let mut numbers = Numbers(7);
    for size in [
        Size::new(320, 200),
        Size::new(1366, 70),
        Size::new(333, 161),
        Size::new(64, 64),
        Size::new(50, 33),
        Size::new(17, 1),
    ] {
        for format in [
            PixelFormat::Bgrx,
            PixelFormat::Rgbx,
            PixelFormat::Bgr,
            PixelFormat::Rgb,
        ] {
            let pixel = format.packed().expect("packed");
            let mut drawing = Drawing::new(size, pixel, &mut numbers);
            let (mut part, mut whole) = (Converter::new(), Converter::new());
            let mut damage = Damage::default();
            for frame in 0..60 {
                for _ in 0..numbers.below(4) {
                    let block = drawing.draw(&mut numbers);
                    damage.add(size, Some(&block));
                }
                if numbers.below(8) == 0 {
                    // This frame is not converted. Its damage is added to the next frame's damage.
                    continue;
                }
                let picture = drawing.picture(format);
                let want = whole.convert(&picture, PixelFormat::Nv12).expect("whole");
                let have = part.convert_changed(&picture, PixelFormat::Nv12, &damage);
                let have = have.expect("in part");
                assert!(
                    planes(&have) == planes(&want),
                    "{size} {format:?}, frame {frame}"
                );
                damage.clear(size);
                if numbers.below(16) == 0 {
                    // The converter is used for another picture in between.
                    let other = Drawing::new(Size::new(30, 20), 4, &mut numbers);
                    let other = other.picture(PixelFormat::Bgrx);
                    part.convert(&other, PixelFormat::Nv12).expect("other");
                }
            }
        }
    }
}

const SIZE: Size = Size::new(320, 192);
const COLUMNS: usize = 20;
const MBS: usize = 20 * 12;

/// The video path of a host: damage, conversion and encoding.
struct Line {
    converter: Converter,
    encoder: Box<dyn Encoder>,
    damage: Damage,
    frame: u32,
}

/// A coded frame.
struct Coded {
    slices: Vec<(u16, u16, bool, Vec<u8>)>,
    unchanged: Vec<bool>,
}

impl Line {
    fn open(threads: u8) -> Line {
        let settings = Settings {
            slices: 4,
            threads,
            subpel: true,
            ..Settings::of(SIZE)
        };
        Line {
            converter: Converter::new(),
            encoder: encode::open("x264", &settings).expect("libx264"),
            damage: Damage::default(),
            frame: 0,
        }
    }

    /// Encodes the drawing as the next frame, predicted from frame `reference` (0: a key frame). `part` makes it a
    /// refinement.
    fn code(
        &mut self,
        drawing: &Drawing,
        reference: u32,
        qp: u8,
        part: Option<MacroblockRange>,
    ) -> Coded {
        self.frame += 1;
        let unchanged: Vec<bool> = match self.damage.is_partial(SIZE) {
            true => (0..MBS).map(|mb| !self.damage.has(mb)).collect(),
            false => vec![false; MBS],
        };
        let picture = drawing.picture(PixelFormat::Bgrx);
        let picture = (self.converter)
            .convert_changed(&picture, PixelFormat::Nv12, &self.damage)
            .expect("converted");
        let ask = FrameRequest {
            frame: FrameId(self.frame),
            key_frame: reference == 0,
            reference: FrameId(reference),
            refresh: false,
            qp,
            part,
            unchanged: part.is_none().then_some(&unchanged),
        };
        let mut slices = Vec::new();
        let sink = &mut |s: Slice<'_>| slices.push((s.first_mb, s.mbs, s.last, s.bytes.to_vec()));
        let encoded = self.encoder.encode(&picture, &ask, sink).expect("encoded");
        assert_eq!(encoded.key_frame, reference == 0);
        self.damage.clear(SIZE);
        Coded { slices, unchanged }
    }
}

/// Decodes a frame and returns its luma. With `lost`, all slices but the first are lost.
fn decode(decoder: &mut dyn Decoder, frame: u32, coded: &Coded, lost: bool) -> Vec<u8> {
    for (n, (first_mb, mbs, last, bytes)) in coded.slices.iter().enumerate() {
        let chunk = Chunk {
            frame: FrameId(frame),
            first: n == 0,
            last: *last,
            first_mb: *first_mb,
            mbs: *mbs,
            bytes: (n == 0 || !lost).then_some(bytes),
        };
        if let Some(picture) = decoder.feed(&chunk).expect("decoded") {
            let plane = picture.planes[0];
            let rows = (0..SIZE.height as usize).map(|y| &plane.data[y * plane.stride..]);
            return rows
                .flat_map(|row| &row[..SIZE.width as usize])
                .copied()
                .collect();
        }
    }
    panic!("frame {frame} has no picture");
}

/// The pixels of a macroblock.
fn block(luma: &[u8], mb: usize) -> impl Iterator<Item = &[u8]> {
    let (x, y) = (mb % COLUMNS * 16, mb / COLUMNS * 16);
    (y..y + 16).map(move |y| &luma[y * SIZE.width as usize + x..][..16])
}

fn apart(one: &[u8], other: &[u8], mb: usize) -> f64 {
    let pairs = block(one, mb).flatten().zip(block(other, mb).flatten());
    let squares: u32 = pairs.map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2)).sum();
    f64::from(squares) / 256.0
}

/// Draws randomly. Sometimes a client loses slices of two consecutive frames, and the next frame refers to the frame
/// before them. This reference invalidates the encoder's information about the previous frame.
#[test]
fn unchanged_areas_stay_and_the_rest_is_as_good() {
    for threads in [1, 2] {
        let mut numbers = Numbers(3);
        let mut drawing = Drawing::new(SIZE, 4, &mut numbers);
        let mut line = Line::open(threads);
        let mut sound = decode::open(Codec::H264).expect("libavcodec");
        // The decoder of a client that loses slices, and a converter that converts each picture completely.
        let mut lossy = decode::open(Codec::H264).expect("libavcodec");
        let mut full = Converter::new();
        let mut shown: Vec<Vec<u8>> = vec![Vec::new()];
        let (mut lost, mut losses) = (0u32, 0);
        for frame in 1..=150u32 {
            for _ in 0..numbers.below(3) {
                let block = drawing.draw(&mut numbers);
                line.damage.add(SIZE, Some(&block));
            }
            let qp = 20 + numbers.below(3) as u8 * 4;
            let reference = match frame {
                1 => 0,
                // The reference skips the two damaged frames.
                _ if lost == 2 => frame - 3,
                _ => frame - 1,
            };
            let part = (numbers.below(10) == 0 && reference + 1 == frame && frame > 1).then(|| {
                let first_mb = numbers.below(MBS as u32 - 40) as u16;
                // Only a static picture is refined, see below.
                MacroblockRange { first_mb, mbs: 40 }
            });
            let still = line.damage.blocks().next().is_none();
            let part = part.filter(|_| still && line.damage.is_partial(SIZE));
            let coded = line.code(&drawing, reference, qp, part);
            let luma = decode(&mut *sound, frame, &coded, false);
            let picture = drawing.picture(PixelFormat::Bgrx);
            let source = full.convert(&picture, PixelFormat::Nv12).expect("whole");
            let source: Vec<u8> = planes(&source);
            let before = &shown[reference as usize];
            for mb in 0..MBS {
                let within = part.is_none_or(|part| {
                    (part.first_mb..part.first_mb + part.mbs).contains(&(mb as u16))
                });
                let what = format!("{threads} threads, frame {frame}, macroblock {mb}");
                if !within {
                    assert!(
                        block(&luma, mb).eq(block(before, mb)),
                        "{what}: not in the part"
                    );
                }
                // At quantiser 28, the step is 16, and each coefficient's error is below the step.
                let error = apart(&luma, &source, mb);
                assert!(error < 100.0, "{what}: {error}");
            }
            let follows = reference + 1 == frame && reference != 0 && part.is_none();
            if follows && qp >= 28 {
                // All macroblocks were already encoded with this quantiser or a finer one. Next to motion, libx264
                // still encodes a few unchanged macroblocks.
                let skipped = coded.unchanged.iter().enumerate();
                let skipped = skipped.filter(|(_, same)| **same).map(|(mb, _)| mb);
                let (same, other): (Vec<usize>, Vec<usize>) =
                    skipped.partition(|mb| block(&luma, *mb).eq(block(before, *mb)));
                assert!(other.len() * 20 <= same.len(), "frame {frame}: {other:?}");
            }
            // Slices are lost in pairs of frames. The frame after a pair refers to the frame before the pair.
            lost = match lost {
                0 if frame > 10 && numbers.below(12) == 0 => 1,
                1 => 2,
                _ => 0,
            };
            let repaired = decode(&mut *lossy, frame, &coded, lost > 0);
            let same = repaired == luma;
            assert!(same || lost > 0, "{threads} threads, frame {frame}");
            losses += u32::from(!same);
            shown.push(luma);
        }
        assert!(losses > 5, "{losses}");
    }
}
