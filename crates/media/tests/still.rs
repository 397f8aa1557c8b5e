//! A static picture is refined until it almost equals its source, with the real libx264 and the real
//! libavcodec, on a simulated clock.
#![allow(clippy::cast_possible_truncation)]

use std::time::Duration;

use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk, Decoder};
use openuvr_media::encode::{
    self, Chroma, Encoder, FrameRequest, MacroblockRange, Settings, Slice, macroblocks,
};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::id::FrameId;
use openuvr_proto::send::static_refinement::StaticRefinement;
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};

const SIZE: Size = Size::new(640, 368);
const INTERVAL: Duration = Duration::from_micros(16_667);

/// A desktop: flat areas, text-like shapes, a gradient, and photographic noise.
struct Desktop {
    planes: [Vec<u8>; 3],
    format: PixelFormat,
    rows: RowOrder,
}

/// Luma of the flat quarter.
const FLAT: u8 = 113;

impl Desktop {
    fn new(format: PixelFormat, rows: RowOrder) -> Desktop {
        let (width, height) = (SIZE.width, SIZE.height);
        let mut seed = 9u32;
        let mut noise = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 24
        };
        let mut luma = Vec::new();
        let mut chroma = [Vec::new(), Vec::new()];
        for y in 0..height {
            for x in 0..width {
                let right = x >= width / 2;
                let lower = y >= height / 2;
                let any = noise();
                luma.push(match (right, lower) {
                    (false, false) => FLAT,
                    (true, false) => match y % 14 < 9 && any % 3 == 0 {
                        true => 16,
                        false => 235,
                    },
                    (false, true) => (16 + (x + y) * 200 / (width + height)) as u8,
                    (true, true) => (60 + x * 100 / width + any % 32) as u8,
                });
                chroma[0].push((90 + x * 70 / width) as u8);
                chroma[1].push((160 - y * 70 / height) as u8);
            }
        }
        let [cb, cr] = chroma;
        let mut planes = match format {
            PixelFormat::I444 => [luma, cb, cr],
            _ => {
                let row = width as usize;
                let pairs = (0..height as usize / 2).flat_map(|y| {
                    let (cb, cr) = (&cb, &cr);
                    (0..row / 2)
                        .flat_map(move |x| [cb[y * 2 * row + x * 2], cr[y * 2 * row + x * 2]])
                });
                [luma, pairs.collect(), Vec::new()]
            }
        };
        if rows == RowOrder::BottomUp {
            for plane in &mut planes {
                let turned = plane.chunks(width as usize).rev().flatten().copied();
                *plane = turned.collect();
            }
        }
        Desktop {
            planes,
            format,
            rows,
        }
    }

    fn picture(&self) -> Picture<'_> {
        Picture {
            size: SIZE,
            format: self.format,
            rows: self.rows,
            planes: std::array::from_fn(|n| Plane {
                data: &self.planes[n],
                stride: SIZE.width as usize,
            }),
        }
    }

    /// The desktop's luma, top row first.
    fn luma(&self) -> Vec<u8> {
        let rows = self.planes[0].chunks(SIZE.width as usize);
        match self.rows {
            RowOrder::TopDown => rows.flatten().copied().collect(),
            RowOrder::BottomUp => rows.rev().flatten().copied().collect(),
        }
    }
}

/// A host and a client that are connected directly, without a network.
struct Line {
    encoder: Box<dyn Encoder>,
    decoder: Box<dyn Decoder>,
    static_refinement: StaticRefinement,
    target: Bitrate,
    now: Instant,
    frame: u32,
    /// The client's picture.
    luma: Vec<u8>,
}

impl Line {
    fn open(settings: &Settings, target: Bitrate) -> Line {
        let encoder = encode::open("x264", settings).expect("libx264");
        let (columns, rows) = macroblocks(SIZE).expect("a picture");
        let mut static_refinement = StaticRefinement::default();
        static_refinement.opened(columns * rows, encoder.supports_partial());
        Line {
            encoder,
            decoder: decode::open(Codec::H264).expect("libavcodec"),
            static_refinement,
            target,
            now: Instant(0),
            frame: 0,
            luma: Vec::new(),
        }
    }

    /// Encodes and decodes a frame. Returns the size of the coded frame in bits.
    fn code(&mut self, picture: &Picture<'_>, qp: u8, part: Option<MacroblockRange>) -> u64 {
        self.frame += 1;
        let ask = FrameRequest {
            frame: FrameId(self.frame),
            key_frame: self.frame == 1,
            reference: FrameId(self.frame - 1),
            refresh: false,
            qp,
            part,
            unchanged: None,
        };
        let mut slices = Vec::new();
        let encoded = self.encoder.encode(picture, &ask, &mut |s: Slice<'_>| {
            slices.push((s.first_mb, s.mbs, s.last, s.bytes.to_vec()));
        });
        let encoded = encoded.expect("encoded");
        for (n, (first_mb, mbs, last, bytes)) in slices.iter().enumerate() {
            let chunk = Chunk {
                frame: FrameId(self.frame),
                first: n == 0,
                last: *last,
                first_mb: *first_mb,
                mbs: *mbs,
                bytes: Some(bytes),
            };
            if let Some(shown) = self.decoder.feed(&chunk).expect("decoded") {
                let plane = shown.planes[0];
                self.luma = (0..SIZE.height as usize)
                    .flat_map(|y| &plane.data[y * plane.stride..][..SIZE.width as usize])
                    .copied()
                    .collect();
            }
        }
        encoded.bytes as u64 * 8
    }

    /// Refines until no refinement is due. Returns the size of each coded frame in bits.
    fn stand_still(&mut self, picture: &Picture<'_>) -> Vec<u64> {
        let mut all = Vec::new();
        while let Some(at) = self.static_refinement.due(self.target) {
            assert!(all.len() < 1000, "it does not end");
            self.now = self.now.max(at);
            let what = self.static_refinement.next(self.target).expect("due");
            let part = self.encoder.supports_partial().then_some(MacroblockRange {
                first_mb: what.first_mb,
                mbs: what.mbs,
            });
            let bits = self.code(picture, what.qp, part);
            let frame = FrameId(self.frame);
            (self.static_refinement).improved(self.now, frame, &what, bits, self.target, INTERVAL);
            all.push(bits);
        }
        all
    }
}

fn psnr(a: &[u8], b: &[u8]) -> f64 {
    let squares = a
        .iter()
        .zip(b)
        .map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    10.0 * (255.0 * 255.0 * a.len() as f64 / squares.sum::<f64>().max(1e-9)).log10()
}

fn settings(pixels: Chroma) -> Settings {
    Settings {
        slices: 8,
        threads: 2,
        pixels,
        ..Settings::of(SIZE)
    }
}

#[test]
fn a_static_picture_becomes_exact_and_then_nothing_is_sent() {
    for (pixels, format, rows) in [
        (Chroma::Yuv420, PixelFormat::Nv12, RowOrder::TopDown),
        (Chroma::Yuv420, PixelFormat::Nv12, RowOrder::BottomUp),
        (Chroma::Yuv444, PixelFormat::I444, RowOrder::TopDown),
    ] {
        for start in [20, 32, 45, 51] {
            let desktop = Desktop::new(format, rows);
            let source = desktop.luma();
            let target = Bitrate::from_mbps(10);
            let mut line = Line::open(&settings(pixels), target);
            let bits = line.code(&desktop.picture(), start, None);
            line.static_refinement
                .coded(line.now, FrameId(1), start, bits);
            let before = psnr(&line.luma, &source);
            let frames = line.stand_still(&desktop.picture());
            let after = psnr(&line.luma, &source);
            let total: u64 = frames.iter().sum();
            let what = format!(
                "{format:?} {rows:?} from {start}: {before:.1} to {after:.1} dB in {} frames, {total} bits, most {:?}",
                frames.len(),
                frames.iter().max()
            );
            assert!(after >= 50.0, "{what}");
            let flat = line
                .luma
                .chunks(SIZE.width as usize)
                .take(SIZE.height as usize / 2);
            let flat = flat.flat_map(|row| &row[..SIZE.width as usize / 2]);
            let worst = flat.map(|shown| shown.abs_diff(FLAT)).max();
            assert!(worst <= Some(1), "{what}: {worst:?} levels");
            assert_eq!(line.static_refinement.due(target), None);
        }
    }
}
