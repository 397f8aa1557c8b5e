//! `openuvr bench foveation`: measures whether stereo pictures cost less with fewer pixels at their edges, or with one
//! encoder per eye.
//!
//! There is no stream: this process encodes and decodes frames at several quantisers. The frames show a room, as a
//! turning head sees it. Bits and times are compared at equal quality of the middle third of each eye's picture.

mod coder;
mod room;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openuvr_clock as clock;
use openuvr_proto::quantile::nearest_rank;
use openuvr_proto::units::Size;
use openuvr_terminal::usage::UsageError;
use serde::Serialize;

use self::coder::Coder;
use self::room::Room;
use self::table::Table;
use super::heading::write_json;
use crate::machine::{Load, Machine, QUIET};

/// Compare stereo encoding: both eyes side by side, foveated, and one encoder per eye.
///
/// Foveated: along each side, the middle half keeps all pixels, the adjacent eighths keep every second pixel, and the
/// outer eighths every fourth pixel. The encoder averages pixels, and the decoder repeats them. Each method uses the
/// quantiser at which the middle third of each eye has the same quality (luma PSNR) as without foveation. The figures
/// at this quantiser are bits per frame; milliseconds to shrink, encode, decode and enlarge a frame; and the PSNR of
/// the whole picture.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Size of the picture of one eye
    #[arg(long, default_value = "640x640")]
    eye: String,
    /// Number of frames in each measurement
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    frames: u32,
    /// Quantiser of the pictures without foveation, which are the reference
    #[arg(long, default_value_t = 26, value_parser = clap::value_parser!(u8).range(10..=44))]
    qp: u8,
    /// The encoder
    #[arg(long, default_value = "x264")]
    encoder: String,
    /// Write foveation.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
enum Method {
    SideBySide,
    Foveated,
    EncoderEach,
}

const METHODS: [Method; 3] = [Method::SideBySide, Method::Foveated, Method::EncoderEach];

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::SideBySide => "side by side",
            Method::Foveated => "foveated",
            Method::EncoderEach => "an encoder each",
        }
    }
}

/// The figures of one method at one quantiser: the mean size of a frame, the median times per frame, and the PSNR over
/// all frames.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Figures {
    qp: f64,
    kilobits: f64,
    /// Median times.
    shrink_ms: f64,
    encode_ms: f64,
    decode_ms: f64,
    enlarge_ms: f64,
    middle_db: f64,
    whole_db: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    eye: String,
    coded: String,
    encoder: String,
    frames: u32,
    /// Number of cores used by other processes.
    other_cores: f64,
    rows: Vec<(Method, Figures)>,
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let sides = args
        .eye
        .split_once('x')
        .context("--eye must be WIDTHxHEIGHT")?;
    let eye = Size::new(sides.0.parse()?, sides.1.parse()?);
    let even = eye.width.is_multiple_of(32) && eye.height.is_multiple_of(32);
    ensure!(
        even && (128..=2048).contains(&eye.width) && (128..=2048).contains(&eye.height),
        UsageError::new("--eye must have sides of 128 to 2048 pixels that are multiples of 32")
    );
    let tables = [Table::new(eye.width), Table::new(eye.height)];
    let small = Size::new(tables[0].coded(), tables[1].coded());
    let before = Load::now();
    let mut rows = Vec::new();
    let mut wanted = None;
    for way in METHODS {
        // Measure at three quantisers: the requested quantiser, and those that are 3 lower and 3 higher. The middle of
        // a foveated picture reaches the reference quality near the requested quantiser; `at` interpolates between two
        // of the three.
        let mut points = Vec::new();
        for qp in [args.qp - 3, args.qp, args.qp + 3] {
            points.push(measure(args, way, qp, eye, &tables)?);
        }
        let wanted = *wanted.get_or_insert(points[1].middle_db);
        rows.push((way, at(&points, wanted)));
    }
    let report = Report {
        machine: Machine::this(),
        eye: eye.to_string(),
        coded: small.to_string(),
        encoder: args.encoder.clone(),
        frames: args.frames,
        other_cores: Load::now().since(&before).other_cores,
        rows,
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "foveation", &report)?;
    }
    Ok(())
}

/// Interpolates the figures at the quantiser at which the middle of the picture has this quality.
fn at(points: &[Figures], middle_db: f64) -> Figures {
    let pair = points
        .windows(2)
        .find(|pair| pair[1].middle_db <= middle_db);
    let (better, worse) = match (pair, points) {
        (Some([better, worse]), _) => (better, worse),
        (_, [.., better, worse]) => (better, worse),
        _ => return Figures::default(),
    };
    let span = better.middle_db - worse.middle_db;
    let part = match span.abs() < 1e-9 {
        true => 0.0,
        false => (better.middle_db - middle_db) / span,
    };
    let mix = |of: fn(&Figures) -> f64| of(better) + (of(worse) - of(better)) * part;
    Figures {
        qp: mix(|f| f.qp),
        // The number of bits falls exponentially as the quantiser rises.
        kilobits: mix(|f| f.kilobits.ln()).exp(),
        shrink_ms: mix(|f| f.shrink_ms),
        encode_ms: mix(|f| f.encode_ms),
        decode_ms: mix(|f| f.decode_ms),
        enlarge_ms: mix(|f| f.enlarge_ms),
        middle_db: mix(|f| f.middle_db),
        whole_db: mix(|f| f.whole_db),
    }
}

/// Encodes and decodes frames of a room with one method at one quantiser.
fn measure(args: &Args, way: Method, qp: u8, eye: Size, tables: &[Table; 2]) -> Result<Figures> {
    let both = Size::new(eye.width * 2, eye.height);
    let coded = match way {
        Method::SideBySide => both,
        Method::Foveated => Size::new(tables[0].coded() * 2, tables[1].coded()),
        Method::EncoderEach => eye,
    };
    let coders = match way {
        Method::EncoderEach => 2,
        _ => 1,
    };
    // Use the same total number of threads for each method.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let own = u8::try_from((threads / coders).clamp(1, 8)).unwrap_or(1);
    let mut coders: Vec<Coder> = (0..coders)
        .map(|_| Coder::open(&args.encoder, coded, own))
        .collect::<Result<_>>()?;
    let room = Room::new();
    let (mut times, mut bits) = (Times::default(), 0_u64);
    let (mut middle, mut whole) = (Deviation::default(), Deviation::default());
    for frame in 0..args.frames {
        let eyes = [0, 1].map(|side| room.seen(frame, side, eye));
        let began = clock::now();
        let pictures: Vec<Vec<u8>> = match way {
            Method::SideBySide => vec![beside(&eyes, eye)],
            Method::Foveated => {
                let small = eyes.each_ref().map(|eye_| table::shrink(eye_, eye, tables));
                let size = Size::new(tables[0].coded(), tables[1].coded());
                vec![beside(&small, size)]
            }
            Method::EncoderEach => eyes.to_vec(),
        };
        // This time counts only for foveation. With the other methods, joining the two pictures is part of the
        // read-back, not of the encoding.
        times.shrink.push(match way {
            Method::Foveated => clock::now().since(began),
            _ => Duration::ZERO,
        });
        let began = clock::now();
        let coded_bytes = code_all(&mut coders, &pictures, frame, qp)?;
        times.encode.push(clock::now().since(began));
        bits += coded_bytes
            .iter()
            .map(|bytes| bytes.len() as u64 * 8)
            .sum::<u64>();
        let began = clock::now();
        let shown = decode_all(&mut coders, &coded_bytes, frame)?;
        times.decode.push(clock::now().since(began));
        let began = clock::now();
        let shown: Vec<Vec<u8>> = match way {
            Method::EncoderEach => shown,
            _ => {
                let size = Size::new(coded.width / 2, coded.height);
                let apart = [0, 1].map(|side| half(&shown[0], side, size));
                match way {
                    Method::Foveated => apart
                        .map(|eye_| table::enlarge(&eye_, eye, tables))
                        .to_vec(),
                    _ => apart.to_vec(),
                }
            }
        };
        times.enlarge.push(match way {
            Method::Foveated => clock::now().since(began),
            _ => Duration::ZERO,
        });
        for (sent, seen) in eyes.iter().zip(&shown) {
            middle.add(sent, seen, eye, true);
            whole.add(sent, seen, eye, false);
        }
    }
    Ok(Figures {
        qp: f64::from(qp),
        kilobits: bits as f64 / 1e3 / f64::from(args.frames),
        shrink_ms: median(times.shrink),
        encode_ms: median(times.encode),
        decode_ms: median(times.decode),
        enlarge_ms: median(times.enlarge),
        middle_db: middle.psnr(),
        whole_db: whole.psnr(),
    })
}

#[derive(Default)]
struct Times {
    shrink: Vec<Duration>,
    encode: Vec<Duration>,
    decode: Vec<Duration>,
    enlarge: Vec<Duration>,
}

fn median(mut spans: Vec<Duration>) -> f64 {
    spans.sort_unstable();
    nearest_rank(&spans, 50).map_or(0.0, |span| span.as_secs_f64() * 1e3)
}

/// Encodes one picture with each coder. Several coders run in parallel, each in its own thread.
fn code_all(
    coders: &mut [Coder],
    pictures: &[Vec<u8>],
    frame: u32,
    qp: u8,
) -> Result<Vec<Vec<u8>>> {
    each(coders, pictures, |coder, picture| {
        coder.encode(picture, frame, qp)
    })
}

fn decode_all(coders: &mut [Coder], coded: &[Vec<u8>], frame: u32) -> Result<Vec<Vec<u8>>> {
    each(coders, coded, |coder, bytes| coder.decode(bytes, frame))
}

fn each(
    coders: &mut [Coder],
    work: &[Vec<u8>],
    act: impl Fn(&mut Coder, &[u8]) -> Result<Vec<u8>> + Sync,
) -> Result<Vec<Vec<u8>>> {
    if let ([coder], [one]) = (&mut *coders, work) {
        return Ok(vec![act(coder, one)?]);
    }
    std::thread::scope(|scope| {
        let act = &act;
        let threads = coders.iter_mut().zip(work);
        let threads = threads.map(|(coder, one)| scope.spawn(move || act(coder, one)));
        let threads: Vec<_> = threads.collect();
        let panicked = |_| anyhow::anyhow!("a coder's thread panicked");
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().map_err(panicked)?);
        ends.collect()
    })
}

/// Joins two 8-bit pictures side by side.
fn beside(eyes: &[Vec<u8>; 2], size: Size) -> Vec<u8> {
    let width = size.width as usize;
    let rows = eyes[0].chunks_exact(width).zip(eyes[1].chunks_exact(width));
    rows.flat_map(|(left, right)| [left, right].concat())
        .collect()
}

/// One of the two pictures of `size` that `both` contains side by side.
fn half(both: &[u8], side: usize, size: Size) -> Vec<u8> {
    let width = size.width as usize;
    let rows = both.chunks_exact(width * 2);
    rows.flat_map(|row| row[side * width..(side + 1) * width].to_vec())
        .collect()
}

/// Sum of the squared differences between pictures.
#[derive(Default)]
struct Deviation {
    squares: f64,
    pixels: f64,
}

impl Deviation {
    fn add(&mut self, sent: &[u8], seen: &[u8], size: Size, middle: bool) {
        let (width, height) = (size.width as usize, size.height as usize);
        let (columns, rows) = match middle {
            true => (
                width / 3..width - width / 3,
                height / 3..height - height / 3,
            ),
            false => (0..width, 0..height),
        };
        for y in rows {
            for x in columns.clone() {
                let at = y * width + x;
                self.squares += f64::from(i32::from(sent[at]) - i32::from(seen[at])).powi(2);
                self.pixels += 1.0;
            }
        }
    }

    fn psnr(&self) -> f64 {
        10.0 * (255.0 * 255.0 / (self.squares / self.pixels).max(1e-9)).log10()
    }
}

fn print(report: &Report) {
    println!(
        "== foveation: 2 x {}, coded 2 x {}, {}, {} frames ==",
        report.eye, report.coded, report.encoder, report.frames
    );
    println!("machine  {}", report.machine);
    if report.other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used {:.1} cores; times are unreliable",
            report.other_cores
        );
    }
    println!(
        "{:<16} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "qp", "kbit", "shrink", "encode", "decode", "enlarge", "middle", "whole"
    );
    for (way, f) in &report.rows {
        println!(
            "{:<16} {:>5.1} {:>9.1} {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>6.2} ms {:>6.1} dB {:>6.1} dB",
            way.name(),
            f.qp,
            f.kilobits,
            f.shrink_ms,
            f.encode_ms,
            f.decode_ms,
            f.enlarge_ms,
            f.middle_db,
            f.whole_db
        );
    }
}
