//! Measures the time that the client's media thread needs for a decoded picture: `submit_cost WIDTHxHEIGHT FRAMES`.
//!
//! `conversion` is the conversion of the colours, which the decoder does slice by slice. `submit` is the rest, from the
//! complete picture until the display has accepted it: the composition in a buffer, and the request to the driver. By
//! default, the buffer is ordinary memory, and there is no request. `submit_cost WIDTHxHEIGHT FRAMES card` uses a
//! display of this machine, so it must be started on a text console.

#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;
use std::time::{Duration, Instant};

use openuvr_kms::{KmsConfig, MemoryDisplay};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_media::present::{Presenter as _, to_bgrx};
use openuvr_media::window::WindowConfig;
use openuvr_proto::id::FrameId;
use openuvr_proto::quantile::nearest_rank;
use openuvr_proto::units::Size;

/// The time between two pictures on a display: 60 pictures in a second.
const INTERVAL: Duration = Duration::from_micros(16_667);

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: submit_cost WIDTHxHEIGHT FRAMES [card]";
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (size, frames, card) = match words[..] {
        [size, frames] => (size, frames, false),
        [size, frames, "card"] => (size, frames, true),
        _ => return Err(usage.into()),
    };
    let (width, height) = size.split_once('x').ok_or(usage)?;
    let size = Size::new(width.parse()?, height.parse()?);
    let frames: u32 = frames.parse()?;
    if !size.is_valid() || frames == 0 {
        return Err(usage.into());
    }
    let planes = Planes::new(size);
    let picture = planes.picture(size);
    let (mut conversions, mut submits) = if card {
        on_card(&picture, frames)?
    } else {
        in_memory(&picture, frames)?
    };
    print("conversion", &mut conversions);
    print("submit", &mut submits);
    Ok(())
}

/// The durations of conversions and of submits.
type Durations = (Vec<Duration>, Vec<Duration>);

fn in_memory(picture: &Picture<'_>, frames: u32) -> Result<Durations, Box<dyn Error>> {
    let mut display = MemoryDisplay::new(picture.size);
    let (mut conversions, mut submits) = (Vec::new(), Vec::new());
    for _ in 0..frames {
        let begun = Instant::now();
        display.convert(picture)?;
        let converted = Instant::now();
        let rows = display.compose();
        submits.push(converted.elapsed());
        conversions.push(converted - begun);
        if rows != picture.size.height as usize {
            return Err(format!("only {rows} rows were composed").into());
        }
    }
    Ok((conversions, submits))
}

fn on_card(picture: &Picture<'_>, frames: u32) -> Result<Durations, Box<dyn Error>> {
    let size = picture.size;
    let window = WindowConfig {
        size,
        ..WindowConfig::default()
    };
    let (mut presenter, _input) = openuvr_kms::open(&KmsConfig::default(), &window, None)?;
    let (mut conversions, mut submits) = (Vec::new(), Vec::new());
    for number in 1..=frames {
        let begun = Instant::now();
        let canvas = presenter.canvas().ok_or("the display has no canvas")?;
        let rows = canvas.rows(size, 0..size.height);
        to_bgrx(picture, rows.ok_or("the display lends no memory")?)?;
        let converted = Instant::now();
        canvas.show(FrameId(number), size)?;
        submits.push(converted.elapsed());
        conversions.push(converted - begun);
        while presenter.presented().is_some() {}
        std::thread::sleep(INTERVAL);
    }
    Ok((conversions, submits))
}

fn print(name: &str, durations: &mut [Duration]) {
    durations.sort_unstable();
    let at = |percent| {
        let value = nearest_rank(durations, percent).unwrap_or_default();
        value.as_secs_f64() * 1000.0
    };
    println!("{name}: p50 {:.3} ms, p99 {:.3} ms", at(50), at(99));
}

/// A gradient in the format of H.264's decoders.
struct Planes {
    luma: Vec<u8>,
    chroma: Vec<u8>,
}

impl Planes {
    fn new(size: Size) -> Planes {
        let gradient = |count: usize| (0..=u8::MAX).cycle().take(count).collect();
        let half = Size::new(size.width.div_ceil(2), size.height.div_ceil(2));
        Planes {
            luma: gradient(size.pixels()),
            chroma: gradient(half.pixels()),
        }
    }

    fn picture(&self, size: Size) -> Picture<'_> {
        let stride = size.width as usize;
        let chroma = Plane {
            data: &self.chroma,
            stride: stride.div_ceil(2),
        };
        let luma = Plane {
            data: &self.luma,
            stride,
        };
        Picture {
            size,
            format: PixelFormat::I420,
            rows: RowOrder::TopDown,
            planes: [luma, chroma, chroma],
        }
    }
}
