//! An experiment that measures a wavelet codec on the processor: `wavelet PICTURES.y4m FRAMES STEP [two]`.
//!
//! The encoder writes the block format of PyroWave's published bitstream (draft of August 2026): the wavelet CDF 9/7
//! with five levels, independently coded blocks of 32x32 coefficients, and bit planes without entropy coding. PICTURES
//! is a video in YUV4MPEG2 with 4:2:0 and 8 bits. The video is repeated until FRAMES pictures are encoded. STEP, at
//! least 0.25, is the quantiser's step in pixel values, for a coefficient whose error has the weight of one pixel. With
//! a larger step, coded pictures are smaller.
//!
//! The output is one line: p50 and p99 of the time per picture for the transform, for quantiser and packing, and for
//! both; the bitrate at 60 pictures per second; and the PSNR of luma after decoding. One thread encodes. With the
//! fourth argument `two`, a second thread encodes the right half of each picture as a separate picture. The decoder is
//! written for clarity, and its time is not measured. [ADR 36](../../../../docs/adr/0036-intra-codecs.md) has the
//! results.
//!
//! Compile with `RUSTFLAGS="-C target-cpu=native"`, so that the compiler vectorises the loops for this processor.

#![allow(clippy::print_stdout, reason = "the example prints its results")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "ranges of samples are stated where they are computed"
)]
#![allow(
    clippy::cast_sign_loss,
    reason = "reciprocals, clamped samples and indices are not negative"
)]
#![allow(
    clippy::cast_precision_loss,
    reason = "samples and times have few digits"
)]

mod blocks;
mod inverse;
mod transform;
mod video;

use std::error::Error;
use std::time::{Duration, Instant};

use blocks::{Packer, Quantiser};
use transform::{Band, Wavelet};
use video::{Plane, Video};

/// The encoder of a picture or of a half of it: luma, and two chroma planes with half the width and height.
struct Encoder {
    planes: [(Wavelet, Quantiser); 3],
    packer: Packer,
}

impl Encoder {
    fn new(width: usize, height: usize, step: f32) -> Encoder {
        let plane = |width, height, levels| {
            let wavelet = Wavelet::new(width, height, levels);
            let quantiser = Quantiser::new(step, &inverse::norms(levels));
            (wavelet, quantiser)
        };
        // A chroma plane has half the width and height, and thus one level less.
        let chroma = || plane(width / 2, height / 2, 4);
        Encoder {
            planes: [plane(width, height, 5), chroma(), chroma()],
            packer: Packer::default(),
        }
    }

    /// Encodes the planes. Returns the time of the transform, and that of quantiser and packing.
    fn encode(&mut self, picture: &[Plane; 3]) -> (Duration, Duration) {
        let begun = Instant::now();
        for ((wavelet, _), plane) in self.planes.iter_mut().zip(picture) {
            wavelet.forward(plane);
        }
        let transformed = Instant::now();
        self.packer.clear();
        for (plane, band) in order() {
            let (wavelet, quantiser) = &self.planes[plane];
            self.packer.band(&wavelet.samples(band), quantiser, band);
        }
        (transformed - begun, transformed.elapsed())
    }

    /// Decodes the last picture's luma.
    fn decoded_luma(&self, width: usize, height: usize) -> Vec<u8> {
        inverse::decode(&self.packer.coded, &self.planes, width, height)
    }
}

/// The planes and bands in the order of the bitstream: coarse levels before fine levels, and the low-pass band only at
/// the coarsest level. Chroma has half the size, so its level n belongs to luma's level n + 1.
fn order() -> impl Iterator<Item = (usize, Band)> {
    let levels = (0..5_usize).rev();
    let levels = levels.flat_map(|level| (0..3_usize).map(move |plane| (level, plane)));
    levels.flat_map(|(level, plane)| {
        let own = level.checked_sub(usize::from(plane > 0));
        let all = [(false, false), (true, false), (false, true), (true, true)];
        let bands = all.into_iter().skip(usize::from(level < 4));
        bands.filter_map(move |high| Some((plane, Band { level: own?, high })))
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: wavelet PICTURES.y4m FRAMES STEP [two]";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (path, frames, step, parts) = match words[..] {
        [path, frames, step] => (path, frames, step, 1),
        [path, frames, step, "two"] => (path, frames, step, 2),
        _ => return Err(usage.into()),
    };
    let frames: usize = frames.parse()?;
    let step: f32 = step.parse()?;
    let video = Video::read(path)?;
    if frames == 0 || step.is_nan() || step < 0.25 || video.pictures.is_empty() {
        return Err(usage.into());
    }
    let (width, height) = (video.width / parts, video.height);
    let mut encoders: Vec<Encoder> = (0..parts)
        .map(|_| Encoder::new(width, height, step))
        .collect();
    let (mut transforms, mut packings, mut bytes, mut error) = (Vec::new(), Vec::new(), 0, 0.0);
    for number in 0..frames {
        let picture = &video.pictures[number % video.pictures.len()];
        let pieces: Vec<[Plane; 3]> = (0..parts)
            .map(|part| picture.columns(part, parts))
            .collect();
        let times: Vec<(Duration, Duration)> = std::thread::scope(|scope| {
            let running: Vec<_> = encoders
                .iter_mut()
                .zip(&pieces)
                .map(|(encoder, piece)| scope.spawn(|| encoder.encode(piece)))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("encoding does not panic"))
                .collect()
        });
        // The picture is complete when the slower thread has finished.
        let slowest = times
            .iter()
            .max_by_key(|(transform, packing)| *transform + *packing);
        let (transform, packing) = slowest.copied().unwrap_or_default();
        transforms.push(transform);
        packings.push(packing);
        for (encoder, piece) in encoders.iter().zip(&pieces) {
            bytes += encoder.packer.coded.len();
            error += piece[0].squared_error(&encoder.decoded_luma(width, height));
        }
    }
    let pixels = (video.width * video.height * frames) as f64;
    let psnr = 10.0 * (255.0 * 255.0 * pixels / error).log10();
    let megabits = bytes as f64 / frames as f64 * 8.0 * 60.0 / 1e6;
    let totals = transforms
        .iter()
        .zip(&packings)
        .map(|(one, other)| *one + *other);
    let mut totals: Vec<Duration> = totals.collect();
    println!(
        "{}x{} step {step}, {parts} thread(s): transform {} ms, packing {} ms, both {} ms; \
         {megabits:.1} Mb/s, {psnr:.1} dB",
        video.width,
        video.height,
        quantiles(&mut transforms),
        quantiles(&mut packings),
        quantiles(&mut totals),
    );
    Ok(())
}

/// The median and the 99th percentile in milliseconds.
fn quantiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at =
        |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3;
    format!("{:.2} / {:.2}", at(0.5), at(0.99))
}
