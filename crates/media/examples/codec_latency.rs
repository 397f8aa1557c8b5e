//! Prints the latency of libx264 and libavcodec per slice on this machine: `codec_latency [slices]
//! [threads] [qp] [frames]` (defaults: 8 1 24 300).
//!
//! Frames are paced at 60 Hz. `first` and `last` are the times from the frame's submission until its first and last
//! slice are encoded. `tail` is the time from feeding the last slice to the decoder until the picture is decoded.
//! `pipelined` is the time from the frame's submission until the picture is decoded, with the decoder in a second
//! thread.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

#[path = "../tests/moving/mod.rs"]
mod moving;

use std::error::Error;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use moving::Nv12;
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk};
use openuvr_media::encode::{self, FrameRequest, Settings};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

/// Number of prepared pictures, played forwards and backwards.
const FILM: u32 = 30;
/// Number of frames at the start that are not measured, because caches and quantiser have not settled yet.
const WARM_UP: u32 = 10;
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 60);

struct Piece {
    frame: FrameId,
    start: Instant,
    index: u8,
    last: bool,
    first_mb: u16,
    mbs: u16,
    bytes: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| {
        arguments
            .next()
            .map_or(Ok(default), |text| text.parse::<u32>())
    };
    let slices = u8::try_from(number(8)?)?;
    let threads = u8::try_from(number(1)?)?;
    let qp = u8::try_from(number(24)?)?;
    let frames = number(300)?.max(WARM_UP + 1);
    println!("{slices} slices, {threads} encoder threads, qp {qp}, {frames} frames; times in ms");
    for size in [Size::new(1280, 720), Size::new(1920, 1080)] {
        let settings = Settings {
            slices,
            threads,
            ..Settings::of(size)
        };
        measure(&settings, qp, frames)?;
    }
    Ok(())
}

fn measure(settings: &Settings, qp: u8, frames: u32) -> Result<(), Box<dyn Error>> {
    let film: Vec<_> = (0..FILM).map(|t| Nv12::frame(settings.size, t)).collect();
    let mut encoder = encode::open("x264", settings)?;
    let mut decoder = decode::open(Codec::H264)?;
    // There is space for all slices of a frame, so that the encoder need not wait for the decoder.
    let (sender, receiver) = sync_channel::<Piece>(64);
    let decoding = std::thread::spawn(move || -> Result<_, decode::DecodeError> {
        let (mut tail, mut whole) = (Vec::new(), Vec::new());
        for piece in receiver {
            let fed = Instant::now();
            let picture = decoder.feed(&Chunk {
                frame: piece.frame,
                first: piece.index == 0,
                last: piece.last,
                first_mb: piece.first_mb,
                mbs: piece.mbs,
                bytes: Some(&piece.bytes),
            })?;
            if picture.is_some() && piece.frame.0 > WARM_UP {
                tail.push(fed.elapsed());
                whole.push(piece.start.elapsed());
            }
        }
        Ok((tail, whole))
    });

    let (mut first, mut last, mut bytes) = (Vec::new(), Vec::new(), 0);
    let begin = Instant::now();
    for frame in 1..=frames {
        let place = frame % (2 * FILM - 2);
        let source = &film[place.min(2 * FILM - 2 - place) as usize];
        let due = begin + PERIOD * frame;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: frame == 1,
            reference: FrameId::NONE,
            refresh: false,
            qp,
            part: None,
            unchanged: None,
        };
        let start = Instant::now();
        let encoded = encoder.encode(&source.picture(), &ask, &mut |slice| {
            if frame > WARM_UP && slice.index == 0 {
                first.push(start.elapsed());
            }
            if frame > WARM_UP && slice.last {
                last.push(start.elapsed());
            }
            // This fails only if the decoding thread has ended with an error, which is reported below.
            let _ = sender.send(Piece {
                frame: ask.frame,
                start,
                index: slice.index,
                last: slice.last,
                first_mb: slice.first_mb,
                mbs: slice.mbs,
                bytes: slice.bytes.to_vec(),
            });
        })?;
        bytes += encoded.bytes;
    }
    drop(sender);
    let (tail, whole) = decoding.join().map_err(|_| "the decoder panicked")??;
    let mean = bytes as f64 / f64::from(frames) / 1000.0;
    println!(
        "{}: {} slices, {mean:.1} kB a frame",
        settings.size,
        encoder.slices()
    );
    for (what, mut times) in [
        ("first", first),
        ("last", last),
        ("tail", tail),
        ("pipelined", whole),
    ] {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        println!("  {what:9}  p50 {:6.2}  p99 {:6.2}", at(50), at(99));
    }
    Ok(())
}
