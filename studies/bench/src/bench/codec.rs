//! The cost of the codec by itself, measured on pictures of the scene, without a network or a display. It is measured
//! step by step, and pipelined as in host and client.
//!
//! **Serial time** is defined here and nowhere else. It consists of four steps: conversion from BGRX to NV12 (SIMD);
//! x264 with one slice, one thread and its own rate control (CBR, a buffer of one frame); decoding of the whole
//! picture; and conversion back to BGRX (SIMD). Each step starts when the previous step has finished. Motion search is
//! the same as in the stream, so that both make the same effort. **Pipelined time** is the time from a picture to its
//! decoded copy in BGRX, with the host's default slices, threads and rate control. Each slice is decoded while the next
//! slice is encoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use openuvr_media::codec::Codec;
use openuvr_media::convert::Nv12Buffer;
use openuvr_media::decode::{self, Chunk, Decoder};
use openuvr_media::encode::{self, FrameRequest, Rate, Settings};
use openuvr_media::picture::Picture;
use openuvr_media::present::to_bgrx;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::rate::RateControl;
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::host::SUBPEL_PIXELS;
use openuvr_runtime::sched::{Scheduler, ThreadRole};
use serde::Serialize;

use openuvr_clock as clock;
use openuvr_testbed::picture_match::Shot;
use openuvr_testbed::sched::Sched;
use openuvr_testbed::stats::Summary;

/// Number of frames after which caches and rate control have settled.
const WARM_UP: u32 = 30;

/// The host's default number of slices.
const SLICES: u8 = 8;

/// The result, in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) serial: Summary,
    pub(super) pipelined: Summary,
    /// The steps of the serial time, in order.
    pub(super) steps: [(&'static str, Summary); 4],
    pub(super) serial_mbps: f64,
    pub(super) pipelined_mbps: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CodecSetup {
    /// Pictures per second. Both paths keep this rate, so that caches are as cold as in a stream.
    pub(super) fps: f64,
    pub(super) bitrate: Bitrate,
    /// Number of pictures on each path after the warm-up.
    pub(super) frames: u32,
    pub(super) sched: Sched,
}

/// Encodes and decodes the pictures of `film` on both paths. The pictures are played forwards and backwards.
///
/// # Errors
/// Returns an error if there are fewer than two pictures, or if a codec cannot be opened.
pub(super) fn measure(film: &[Shot], how: CodecSetup, stop: &Arc<AtomicBool>) -> Result<Cost> {
    ensure!(film.len() >= 2, "the scene drew fewer than two pictures");
    let scheduler = match how.sched {
        Sched::Auto => Scheduler::new(),
        Sched::Off => Scheduler::ordinary(),
    };
    let (pictures, stopped) = (film.to_vec(), Arc::clone(stop));
    let serial = scheduler.spawn(ThreadRole::Encode, "serial", move || {
        serial(&pictures, how, &stopped)
    })?;
    let (steps, serial_mbps) = joined(serial.join())?;
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    let (pieces, inbox) = sync_channel(64);
    let decoding = scheduler.spawn(ThreadRole::Decode, "decode", move || decode_all(&inbox))?;
    let (pictures, stopped) = (film.to_vec(), Arc::clone(stop));
    let encoding = scheduler.spawn(ThreadRole::Encode, "encode", move || {
        encode_all(&pictures, how, &stopped, &pieces)
    })?;
    let (encoded, decoded) = (encoding.join(), decoding.join());
    ensure!(!stop.load(Ordering::Relaxed), "interrupted");
    let pipelined_mbps = joined(encoded)?;
    let pipelined = Summary::of(&joined(decoded)?).context("the codec returned no picture")?;
    let [convert, encode, decode, back] = steps;
    let all: Vec<f64> = (0..convert.len())
        .map(|i| convert[i] + encode[i] + decode[i] + back[i])
        .collect();
    let of = |name, samples: &[f64]| Summary::of(samples).map(|s| (name, s));
    let steps = [
        of("BGRX to NV12", &convert),
        of("encode", &encode),
        of("decode", &decode),
        of("to BGRX", &back),
    ];
    let [Some(a), Some(b), Some(c), Some(d)] = steps else {
        return Err(anyhow!("the codec returned no picture"));
    };
    Ok(Cost {
        serial: Summary::of(&all).context("the codec returned no picture")?,
        pipelined,
        steps: [a, b, c, d],
        serial_mbps,
        pipelined_mbps,
    })
}

fn joined<T>(outcome: std::thread::Result<Result<T>>) -> Result<T> {
    outcome.map_err(|_| anyhow!("a thread of the codec's measurement panicked"))?
}

/// Measures the serial path. Returns the samples of its four steps, and the bitrate in megabits per second.
fn serial(film: &[Shot], how: CodecSetup, stop: &AtomicBool) -> Result<([Vec<f64>; 4], f64)> {
    let size = film[0].size;
    let settings = Settings {
        slices: 1,
        threads: 1,
        rate: Rate::Cbr(how.bitrate),
        ..usual(size, how)
    };
    let mut encoder = encode::open("x264", &settings)?;
    let mut decoder = decode::open(Codec::H264)?;
    let (mut nv12, mut bgrx) = (Nv12Buffer::new(), vec![0; size.pixels() * 4]);
    let mut stream = Vec::new();
    let (mut steps, mut bytes) = (<[Vec<f64>; 4]>::default(), 0);
    for (frame, picture) in paced(film, how, stop) {
        let begin = clock::now();
        let converted = nv12.convert(&picture)?;
        let at_converted = clock::now();
        let ask = FrameRequest {
            frame,
            key_frame: frame.0 == 1,
            reference: FrameId::NONE,
            refresh: false,
            qp: 0,
            part: None,
            unchanged: None,
        };
        stream.clear();
        let mut mbs = 0;
        encoder.encode(&converted, &ask, &mut |slice| {
            stream.extend_from_slice(slice.bytes);
            mbs = slice.mbs;
        })?;
        let at_encoded = clock::now();
        let chunk = Chunk {
            frame,
            first: true,
            last: true,
            first_mb: 0,
            mbs,
            bytes: Some(&stream),
        };
        let decoded = decoder.feed(&chunk)?.context("a picture is missing")?;
        let at_decoded = clock::now();
        to_bgrx(&decoded, &mut bgrx)?;
        let times = [begin, at_converted, at_encoded, at_decoded, clock::now()];
        if frame.0 > WARM_UP {
            bytes += stream.len();
            for (step, pair) in steps.iter_mut().zip(times.windows(2)) {
                step.push(ms(pair[0], pair[1]));
            }
        }
    }
    Ok((steps, mbps(bytes, how)))
}

/// A slice in transit from encoder to decoder.
struct Piece {
    frame: FrameId,
    begin: Instant,
    first: bool,
    last: bool,
    first_mb: u16,
    mbs: u16,
    bytes: Vec<u8>,
}

/// Encodes as the host does by default. Returns the bitrate in megabits per second.
fn encode_all(
    film: &[Shot],
    how: CodecSetup,
    stop: &AtomicBool,
    pieces: &SyncSender<Piece>,
) -> Result<f64> {
    let size = film[0].size;
    let mut encoder = encode::open("x264", &usual(size, how))?;
    let mut rate = RateControl::new(how.bitrate, how.fps);
    rate.opened(size, None);
    let (mut nv12, mut bytes) = (Nv12Buffer::new(), 0);
    for (frame, picture) in paced(film, how, stop) {
        let begin = clock::now();
        let converted = nv12.convert(&picture)?;
        let key_frame = frame.0 == 1;
        let ask = FrameRequest {
            frame,
            key_frame,
            reference: FrameId::NONE,
            refresh: false,
            qp: rate.qp(key_frame),
            part: None,
            unchanged: None,
        };
        let encoded = encoder.encode(&converted, &ask, &mut |slice| {
            // Sending fails only if the decoder has failed, which the decoder's thread reports.
            let _ = pieces.send(Piece {
                frame,
                begin,
                first: slice.index == 0,
                last: slice.last,
                first_mb: slice.first_mb,
                mbs: slice.mbs,
                bytes: slice.bytes.to_vec(),
            });
        })?;
        rate.coded(key_frame, ask.qp, encoded.bytes as u64 * 8);
        if frame.0 > WARM_UP {
            bytes += encoded.bytes;
        }
    }
    Ok(mbps(bytes, how))
}

/// Decodes each slice on arrival. Returns, for each picture after the warm-up, the time from the start of its
/// conversion until its decoded copy is in BGRX.
fn decode_all(pieces: &Receiver<Piece>) -> Result<Vec<f64>> {
    let mut decoder: Box<dyn Decoder> = decode::open(Codec::H264)?;
    let (mut bgrx, mut samples) = (Vec::new(), Vec::new());
    while let Ok(piece) = pieces.recv() {
        let chunk = Chunk {
            frame: piece.frame,
            first: piece.first,
            last: piece.last,
            first_mb: piece.first_mb,
            mbs: piece.mbs,
            bytes: Some(&piece.bytes),
        };
        let Some(picture) = decoder.feed(&chunk)? else {
            continue;
        };
        bgrx.resize(picture.size.pixels() * 4, 0);
        to_bgrx(&picture, &mut bgrx)?;
        if piece.frame.0 > WARM_UP {
            samples.push(ms(piece.begin, clock::now()));
        }
    }
    Ok(samples)
}

/// The host's default encoder settings.
fn usual(size: Size, how: CodecSetup) -> Settings {
    Settings {
        fps: how.fps.ceil() as u32,
        slices: SLICES,
        threads: openuvr_runtime::host::config::encoder_threads(),
        subpel: size.pixels() <= SUBPEL_PIXELS,
        ..Settings::of(Nv12Buffer::padded(size))
    }
}

/// Plays the pictures forwards and backwards, each at its due time, until `how.frames` and the warm-up are done or
/// `stop` is set.
fn paced<'a>(
    film: &'a [Shot],
    how: CodecSetup,
    stop: &'a AtomicBool,
) -> impl Iterator<Item = (FrameId, Picture<'a>)> {
    let begin = clock::now();
    let turn = 2 * film.len() - 2;
    let all = (1..=how.frames + WARM_UP).take_while(|_| !stop.load(Ordering::Relaxed));
    all.map(move |number| {
        let place = number as usize % turn;
        let shot = &film[place.min(turn - place)];
        clock::sleep_until(begin + Duration::from_secs_f64(f64::from(number) / how.fps));
        let picture = Picture::bgrx(shot.size, &shot.pixels, shot.size.width as usize * 4);
        (FrameId(number), picture)
    })
}

fn ms(from: Instant, to: Instant) -> f64 {
    to.since(from).as_secs_f64() * 1e3
}

fn mbps(bytes: usize, how: CodecSetup) -> f64 {
    bytes as f64 * 8.0 / 1e6 / (f64::from(how.frames) / how.fps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_is_coded_on_both_paths_and_the_rate_is_kept() {
        let size = Size::new(320, 192);
        let film: Vec<Shot> = (0..12_usize)
            .map(|t| Shot {
                size,
                stamp: None,
                pixels: Arc::new(
                    (0..size.pixels() * 4)
                        .map(|i| u8::try_from((i / 64 * 37 + i % 97 * t + 5 * t) % 256).unwrap())
                        .collect(),
                ),
            })
            .collect();
        let how = CodecSetup {
            fps: 200.0,
            bitrate: Bitrate::from_mbps(8),
            frames: 60,
            sched: Sched::Off,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let cost = measure(&film, how, &stop).unwrap();
        assert_eq!((cost.serial.count, cost.pipelined.count), (60, 60));
        let least: f64 = cost.steps.iter().map(|(_, step)| step.min).sum();
        assert!(
            least <= cost.serial.min,
            "the fastest steps together take {least} ms, longer than the fastest serial run"
        );
        assert!(
            (0.5..=9.0).contains(&cost.serial_mbps),
            "the serial path has {} Mb/s, but the target is 8",
            cost.serial_mbps
        );
        assert!(
            measure(&film[..1], how, &stop).is_err(),
            "one picture has no motion"
        );
        stop.store(true, Ordering::Relaxed);
        let enough = measure(&film, how, &stop).unwrap_err();
        assert_eq!(enough.to_string(), "interrupted");
    }
}
