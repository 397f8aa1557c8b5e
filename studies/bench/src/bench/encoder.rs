//! `openuvr bench encoder`: measures one encoder with the pictures of the scene, without a network or a display.
//! `docs/hardware.md` asks users for the output of this bench.
//!
//! Each picture is read from a clip, converted and encoded at its due time, so that caches and processor clocks behave
//! as in a stream. The encoder's time is from the converted picture to the last slice, including an upload to a device.
//! The coded pictures are decoded on the CPU after the measurement, and compared with the originals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_clock as clock;
use openuvr_media::capture::clip::{Clip, picture_index};
use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::decode::{self, Chunk};
use openuvr_media::encode::{self, Backend, EncoderOptions, FrameRequest, Opening, Rate, Settings};
use openuvr_media::picture::{Picture, PixelFormat};
use openuvr_media::present::to_bgrx;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::rate::RateControl;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_runtime::host::SUBPEL_PIXELS;
use openuvr_runtime::host::config::encoder_threads;
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::picture_match::{Shot, psnr};
use openuvr_testbed::stats::Summary;
use serde::Serialize;

use super::heading::write_json;
use super::quality::clips::{self, Content, Format};
use crate::machine::{Load, Machine, QUIET};

/// Measure one encoder: milliseconds, bits and PSNR of the scene's pictures.
///
/// Times are in milliseconds: the duration of the conversion, and the times from its end to the first and to the last
/// slice of the picture. PSNR is luma PSNR, relative to the picture before its conversion. No stream is started. The
/// first run records the scene; later runs use the recording.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  openuvr bench encoder x264
  openuvr bench encoder h264_vaapi --encoder-option device=/dev/dri/renderD129
  openuvr bench encoder x264 --encoder-option preset=faster --encoder-option me=dia

For a hardware encoder, please send us the output (docs/hardware.md).")]
pub(crate) struct Args {
    /// Name of the encoder, as for openuvr host
    #[arg(value_name = "NAME")]
    encoder: String,
    /// Option of the encoder's library, as for openuvr host; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    encoder_option: Vec<String>,
    /// Size of the pictures; the sides must be even
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Pictures per second
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=240))]
    fps: u32,
    /// Target bitrate
    #[arg(long, default_value = "10M")]
    bitrate: Bitrate,
    /// Number of measured pictures, after a warm-up of half a second
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    frames: u32,
    /// Slices per picture, for encoders that support slices
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=64))]
    slices: u8,
    /// Encoder threads [default: as for openuvr host]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=64))]
    threads: Option<u8>,
    /// Write encoder.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Number of pictures of the clip, which is played forwards and backwards.
const CLIP: u32 = 120;

/// The results. Times are in milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    /// Time of the conversion from BGRX to the encoder's format.
    convert: Summary,
    first_slice: Summary,
    last_slice: Summary,
    /// Size of a coded picture in bits.
    bits: Summary,
    mbps: f64,
    /// PSNR of luma in decibels.
    psnr: Summary,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    /// PCI ids of the graphics devices: vendor and device.
    graphics: Vec<String>,
    encoder: &'static str,
    about: &'static str,
    options: EncoderOptions,
    size: String,
    fps: u32,
    bitrate: Bitrate,
    frames: u32,
    /// Number of cores used by other processes.
    other_cores: f64,
    #[serde(flatten)]
    figures: Figures,
}

/// Measures the encoder, prints the results, and writes them with --out.
pub(crate) fn run(args: &Args) -> Result<()> {
    let usage = |why: encode::EncodeError| UsageError::new(why.to_string());
    let backend = encode::find(&args.encoder).map_err(usage)?;
    let options: EncoderOptions = args
        .encoder_option
        .join("\n")
        .parse::<EncoderOptions>()
        .map_err(usage)?;
    ensure!(
        backend.codec != Codec::Null,
        UsageError::new("the encoder null codes no pictures: choose another encoder")
    );
    ensure!(
        args.size.width.is_multiple_of(2) && args.size.height.is_multiple_of(2),
        UsageError::new("--size must have even sides")
    );
    encode::check_options(backend, &options).map_err(usage)?;
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let format = Format {
        size: args.size,
        fps: args.fps,
        frames: CLIP,
    };
    let clip = clips::find(&Content::Scene, format, &stop)?;
    let before = Load::now();
    let setup = Setup {
        backend,
        options: &options,
        clip: &clip.path,
        fps: args.fps,
        bitrate: args.bitrate,
        frames: args.frames,
        slices: args.slices,
        threads: args.threads.unwrap_or_else(encoder_threads),
    };
    let coded = encode_all(&setup, &stop)?;
    let other_cores = Load::now().since(&before).other_cores;
    let figures = coded.figures(&setup, &stop)?;
    let report = Report {
        machine: Machine::this(),
        graphics: graphics(),
        encoder: backend.name,
        about: backend.about,
        options,
        size: args.size.to_string(),
        fps: args.fps,
        bitrate: args.bitrate,
        frames: args.frames,
        other_cores,
        figures,
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "encoder", &report)?;
    }
    Ok(())
}

struct Setup<'a> {
    backend: &'a Backend,
    options: &'a EncoderOptions,
    clip: &'a Path,
    fps: u32,
    bitrate: Bitrate,
    frames: u32,
    slices: u8,
    threads: u8,
}

impl Setup<'_> {
    /// Number of pictures that are encoded before the measurement, until caches and rate control have settled.
    fn warm_up(&self) -> u32 {
        self.fps.div_ceil(2)
    }
}

struct CodedSlice {
    first_mb: u16,
    mbs: u16,
    bytes: Vec<u8>,
}

/// All coded pictures, and the times in milliseconds and sizes in bits of the pictures after the warm-up.
#[derive(Default)]
struct Coded {
    pictures: Vec<Vec<CodedSlice>>,
    convert: Vec<f64>,
    first: Vec<f64>,
    last: Vec<f64>,
    bits: Vec<f64>,
}

/// Encodes the pictures of the clip, each at its due time.
fn encode_all(setup: &Setup<'_>, stop: &AtomicBool) -> Result<Coded> {
    let mut clip = Clip::open(setup.clip)?;
    let size = clip.size();
    let usual = setup.backend.settings(size, setup.bitrate);
    let settings = Settings {
        fps: setup.fps,
        slices: setup.slices,
        threads: setup.threads,
        subpel: size.pixels() <= SUBPEL_PIXELS,
        ..usual
    };
    let mut encoder = encode::open_with(&Opening {
        backend: setup.backend,
        settings: &settings,
        options: setup.options,
    })?;
    let mut rate = RateControl::new(setup.bitrate, f64::from(setup.fps));
    rate.opened(size, None);
    let (mut converter, mut bgrx) = (Converter::new(), Vec::new());
    let mut coded = Coded::default();
    let begin = clock::now();
    for number in 1..=setup.frames + setup.warm_up() {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        clip.read(picture_index(number, clip.count()), &mut bgrx)?;
        let due = Duration::from_secs_f64(f64::from(number) / f64::from(setup.fps));
        clock::sleep_until(begin + due);
        let start = clock::now();
        let picture = Picture::bgrx(size, &bgrx, size.width as usize * 4);
        let picture = converter.convert(&picture, encoder.input_for(PixelFormat::Bgrx))?;
        let converted = clock::now();
        let key_frame = number == 1;
        let ask = FrameRequest {
            frame: FrameId(number),
            key_frame,
            reference: FrameId::NONE,
            refresh: false,
            qp: rate.qp(key_frame),
            part: None,
            unchanged: None,
        };
        let (mut parts, mut first) = (Vec::new(), None);
        let encoded = encoder.encode(&picture, &ask, &mut |slice| {
            first.get_or_insert_with(clock::now);
            parts.push(CodedSlice {
                first_mb: slice.first_mb,
                mbs: slice.mbs,
                bytes: slice.bytes.to_vec(),
            });
        })?;
        let last = clock::now();
        let bits = encoded.bytes as u64 * 8;
        if settings.rate == Rate::Own {
            rate.coded(key_frame, ask.qp, bits);
        }
        coded.pictures.push(parts);
        if number > setup.warm_up() {
            let ms = |at: openuvr_proto::time::Instant| at.since(converted).as_secs_f64() * 1e3;
            coded
                .convert
                .push(converted.since(start).as_secs_f64() * 1e3);
            coded.first.push(ms(first.unwrap_or(last)));
            coded.last.push(ms(last));
            coded.bits.push(bits as f64);
        }
    }
    Ok(coded)
}

impl Coded {
    fn figures(&self, setup: &Setup<'_>, stop: &AtomicBool) -> Result<Figures> {
        let of = |samples: &[f64]| Summary::of(samples).context("the encoder returned no picture");
        let bits = of(&self.bits)?;
        Ok(Figures {
            convert: of(&self.convert)?,
            first_slice: of(&self.first)?,
            last_slice: of(&self.last)?,
            bits,
            mbps: bits.mean * f64::from(setup.fps) / 1e6,
            psnr: of(&self.compare(setup, stop)?)?,
        })
    }

    /// Decodes all pictures. Returns the PSNR of each picture after the warm-up.
    fn compare(&self, setup: &Setup<'_>, stop: &AtomicBool) -> Result<Vec<f64>> {
        let mut clip = Clip::open(setup.clip)?;
        let size = clip.size();
        let mut decoder = decode::open(setup.backend.codec)?;
        let mut all = Vec::new();
        for (number, parts) in (1..).zip(&self.pictures) {
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            let mut shown = vec![0; size.pixels() * 4];
            let mut complete = false;
            for (index, part) in parts.iter().enumerate() {
                let chunk = Chunk {
                    frame: FrameId(number),
                    first: index == 0,
                    last: index + 1 == parts.len(),
                    first_mb: part.first_mb,
                    mbs: part.mbs,
                    bytes: Some(&part.bytes),
                };
                if let Some(picture) = decoder.feed(&chunk)? {
                    to_bgrx(&picture.cropped(size), &mut shown)?;
                    complete = true;
                }
            }
            ensure!(
                complete,
                "the decoder returned no picture for frame {number}"
            );
            if number <= setup.warm_up() {
                continue;
            }
            let mut original = Vec::new();
            clip.read(picture_index(number, clip.count()), &mut original)?;
            let shot = |pixels| Shot {
                size,
                stamp: None,
                pixels: Arc::new(pixels),
            };
            all.extend(psnr(&shot(original), &shot(shown)));
        }
        Ok(all)
    }
}

/// PCI ids of the graphics devices, such as `10de:2684`.
fn graphics() -> Vec<String> {
    let cards = std::fs::read_dir("/sys/class/drm");
    let mut found: Vec<String> = cards
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|card| {
            let id = |name: &str| {
                let text = std::fs::read_to_string(card.path().join("device").join(name)).ok()?;
                Some(text.trim().trim_start_matches("0x").to_owned())
            };
            Some(format!("{}:{}", id("vendor")?, id("device")?))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn print(report: &Report) {
    println!(
        "== encoder: {}, {} at {} frames/s and {:.1} Mb/s, {} frames ==",
        report.encoder,
        report.size,
        report.fps,
        report.bitrate.0 as f64 / 1e6,
        report.frames
    );
    println!("machine  {}", report.machine);
    if !report.graphics.is_empty() {
        println!("graphics {} (PCI)", report.graphics.join(", "));
    }
    println!("encoder  {}", report.about);
    for (name, value) in report.options.iter() {
        println!("option   {name}={value}");
    }
    if report.other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used {:.1} cores; times are unreliable",
            report.other_cores
        );
    }
    let Figures {
        convert,
        first_slice,
        last_slice,
        bits,
        mbps,
        psnr,
    } = &report.figures;
    println!("{:<24} {:>8} {:>8} {:>8}", "", "p50", "p99", "max");
    for (what, times) in [
        ("convert, ms", convert),
        ("first slice, ms", first_slice),
        ("last slice, ms", last_slice),
    ] {
        println!(
            "{what:<24} {:>8.2} {:>8.2} {:>8.2}",
            times.p50, times.p99, times.max
        );
    }
    println!(
        "{:<24} {:>8.1} {:>8.1} {:>8.1}",
        "picture, kbit",
        bits.p50 / 1e3,
        bits.p99 / 1e3,
        bits.max / 1e3
    );
    println!("bitrate                  {mbps:>8.2} Mb/s");
    println!(
        "luma PSNR, mean          {:>8.1} dB (least {:.1})",
        psnr.mean, psnr.min
    );
}

#[cfg(test)]
mod tests {
    use openuvr_media::capture::clip::ClipWriter;

    use super::*;

    /// A clip of moving stripes.
    fn clip(folder: &Path) -> PathBuf {
        let size = Size::new(320, 192);
        let path = folder.join("stripes.y4m");
        let mut writer = ClipWriter::create(&path, size, 60).unwrap();
        for t in 0..12_usize {
            let pixels: Vec<u8> = (0..size.pixels() * 4)
                .map(|i| {
                    let (x, y) = (i / 4 % 320, i / 4 / 320);
                    u8::try_from((x + 2 * y + 5 * t) / 2 % 200 + 20).unwrap()
                })
                .collect();
            writer.add(&pixels).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn every_picture_is_timed_and_compared() {
        let folder = tempfile::tempdir().unwrap();
        let path = clip(folder.path());
        let stop = AtomicBool::new(false);
        for (name, options) in [
            ("x264", "preset=superfast"),
            ("libx264", ""),
            ("libx265", ""),
            ("jpeg", ""),
        ] {
            let options: EncoderOptions = options.parse().unwrap();
            let setup = Setup {
                backend: encode::find(name).unwrap(),
                options: &options,
                clip: &path,
                fps: 200,
                bitrate: Bitrate::from_mbps(20),
                frames: 40,
                slices: 4,
                threads: 2,
            };
            let coded = encode_all(&setup, &stop).expect(name);
            assert_eq!(coded.pictures.len(), 140, "{name}");
            let slices = if name.starts_with("lib") { 1 } else { 4 };
            let count = coded.pictures.iter().map(Vec::len);
            assert!(count.into_iter().all(|count| count == slices), "{name}");
            let figures = coded.figures(&setup, &stop).expect(name);
            assert_eq!((figures.last_slice.count, figures.psnr.count), (40, 40));
            assert!(figures.first_slice.max <= figures.last_slice.max, "{name}");
            assert!(figures.psnr.min > 20.0, "{name}: {:?}", figures.psnr);
            assert!(figures.bits.min > 0.0 && figures.mbps > 0.1, "{name}");
        }
        stop.store(true, Ordering::Relaxed);
        let options = EncoderOptions::NONE;
        let setup = Setup {
            backend: encode::find("x264").unwrap(),
            options: &options,
            clip: &path,
            fps: 200,
            bitrate: Bitrate::from_mbps(20),
            frames: 40,
            slices: 4,
            threads: 2,
        };
        let error = encode_all(&setup, &stop).err().unwrap();
        assert_eq!(error.to_string(), "interrupted");
    }
}
