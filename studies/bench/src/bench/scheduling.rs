//! `openuvr bench scheduling`: the latency from a send in one thread to the receipt in another, and the time to seal a
//! frame. Both are parts of the stream's latency that do not depend on the codec.
//!
//! The primitives are those of the runtime: a polled eventfd, which wakes capture and links, and a bounded channel of
//! the standard library. The sender sends one message per period, so that the receiver sleeps before each message, as
//! it does between frames. In a closed loop, in which the sender waits for each answer, the receiver would hardly
//! sleep, so a different latency would be measured.

mod idle;
mod one;
mod recording;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, ensure};
use openuvr_proto::control::handshake::{Established, SessionSecret};
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::id::{ConfigEpoch, FrameId, SessionId};
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::wire::video::{Extensions, FrameHeader, InputEcho, SlicePlace};
use openuvr_terminal::usage::UsageError;
use openuvr_testbed::stats::percentile;
use serde::Serialize;

use self::one::{CONDITIONS, Cell, Pace};
use self::recording::Cost;
use super::heading::write_json;
use crate::durations;
use crate::machine::{Load, Machine, QUIET};
use openuvr_clock as clock;

/// Measure scheduling latency between threads, and the time to seal (encrypt) a frame.
///
/// The figures are the microseconds from the send in one thread to the receipt in another, for an eventfd and for a
/// channel. The threads are ordinary or real-time threads, and run on any cores or both on one core. Two ways to
/// shorten this latency are also measured with real-time threads: all cores of the machine are kept awake
/// (/dev/cpu_dma_latency), or the receiver spins from 150 µs before the next message is due. Further figures are the
/// cost of recording scheduling latency (--scheduling-trace of host and client), and the microseconds to packetise and
/// seal a frame of 42 kB, whole and in eight slices.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Messages per second
    #[arg(long, default_value_t = 240.0)]
    rate: f64,
    /// Duration of each measurement
    #[arg(long = "duration", value_name = "TIME", default_value = "10s", value_parser = durations::seconds)]
    seconds: f64,
    /// Run each measurement for one second, at 1000 messages per second
    #[arg(long, conflicts_with_all = ["rate", "seconds"])]
    quick: bool,
    /// Write scheduling.json into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Targets of real-time threads: p99 and p99.9, in µs.
const TARGET_P99: f64 = 10.0;
const TARGET_P999: f64 = 50.0;
/// Minimum number of messages. With fewer, p99.9 would be the maximum.
const ENOUGH: usize = 1000;
/// Target for the median time to packetise and seal a frame, in µs.
const TARGET_SEAL: f64 = 10.0;
/// The mean size of a frame at 20 Mb/s and 60 frames per second, in bytes.
const FRAME: usize = 42_000;

/// Order statistics in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Micros {
    count: usize,
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Micros {
    fn of(mut samples: Vec<f64>) -> Option<Micros> {
        samples.sort_by(f64::total_cmp);
        Some(Micros {
            count: samples.len(),
            p50: percentile(&samples, 50.0)?,
            p99: percentile(&samples, 99.0)?,
            p999: percentile(&samples, 99.9)?,
            max: *samples.last()?,
        })
    }
}

#[derive(Debug, Serialize)]
struct Report {
    machine: Machine,
    #[serde(rename = "messages_per_s")]
    rate: f64,
    seconds: f64,
    quick: bool,
    other_cores: f64,
    wake_ups: Vec<Cell>,
    /// Conditions that were not measured, and why.
    left_out: Vec<String>,
    recording_ns: Cost,
    /// Time to seal a frame of 42 kB, first as one slice, then as eight slices.
    sealing_us: [Micros; 2],
}

/// Measures, prints the results, and writes them to a file if requested.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (rate, seconds) = match args.quick {
        true => (1000.0, 1.0),
        false => (args.rate, args.seconds),
    };
    ensure!(
        (1.0..=10_000.0).contains(&rate) && (0.1..=3600.0).contains(&seconds),
        UsageError::new("--rate must be 1 to 10000, --duration 0.1s to 1h")
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let before = Load::now();
    let (mut wake_ups, mut left_out) = (Vec::new(), Vec::new());
    let pace = Pace { rate, seconds };
    for way in CONDITIONS {
        for primitive in way.primitives() {
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            match one::cell(*primitive, way, pace, &stop)? {
                Ok(cell) => wake_ups.push(cell),
                Err(why) => left_out.push(format!("{}: {why}", way.words())),
            }
        }
    }
    left_out.dedup();
    let recording_ns = recording::cost()?;
    let sealing_us = [sealing(1)?, sealing(8)?];
    let report = Report {
        machine: Machine::this(),
        rate,
        seconds,
        quick: args.quick,
        other_cores: Load::now().since(&before).other_cores,
        wake_ups,
        left_out,
        recording_ns,
        sealing_us,
    };
    print(&report);
    if let Some(folder) = &args.out {
        write_json(folder, "scheduling", &report)?;
    }
    Ok(())
}

/// Packetises and seals frames, as the host does for one subscriber.
fn sealing(slices: u8) -> Result<Micros> {
    const WARM_UP: u32 = 200;
    const FRAMES: u32 = 2_000;
    let mut sender = MediaSender::new(&Established {
        session: SessionId(1),
        secret: SessionSecret([7; 32]),
        peer: PublicKey([0; 32]),
        version: 1,
    })
    .video();
    let slice = vec![0x5a; FRAME / usize::from(slices)];
    let mut out = SendBuf::default();
    let mut samples = Vec::new();
    for frame in 0..WARM_UP + FRAMES {
        let header = FrameHeader {
            frame: FrameId(frame),
            reference: FrameId(frame.wrapping_sub(1)),
            epoch: ConfigEpoch(1),
            stream: 0,
            view: 0,
            captured: 0,
            clock_epoch: 0,
            echo: InputEcho::default(),
        };
        let begin = clock::now();
        for index in 0..slices {
            let place = SlicePlace {
                index,
                count: slices,
                first_mb: 0,
                mbs: 1,
            };
            let none = Extensions::default();
            sender.slice(begin, &header, none, place, &slice, &mut out);
        }
        if frame >= WARM_UP {
            samples.push(clock::now().since(begin).as_secs_f64() * 1e6);
        }
        std::hint::black_box(out.iter().count());
    }
    Micros::of(samples).context("no frame was sealed")
}

fn print(report: &Report) {
    println!(
        "== scheduling latency between threads, {} messages/s ==",
        report.rate
    );
    println!("machine  {}", report.machine);
    let loud = report.other_cores > QUIET;
    if loud {
        println!(
            "NOT QUIET: other processes used {:.1} cores; nothing is judged",
            report.other_cores
        );
    }
    let is_judged = !loud && !report.quick;
    if report.quick {
        println!("a quick run: nothing is judged");
    }
    println!(
        "\n{:<34} {:>13} {:>8} {:>8} {:>8} {:>9} {:>5}",
        "microseconds", "received/sent", "p50", "p99", "p99.9", "max", "cores"
    );
    let line = |name: &str, sent: usize, us: &Micros, cores: Option<f64>, judged: &str| {
        let Micros {
            count,
            p50,
            p99,
            p999,
            max,
        } = us;
        let count = format!("{count}/{sent}");
        let cores = cores.map_or(String::new(), |cores| format!("{cores:.2}"));
        println!(
            "{name:<34} {count:>13} {p50:>8.1} {p99:>8.1} {p999:>8.1} {max:>9.1} {cores:>5}  {judged}"
        );
    };
    for cell in &report.wake_ups {
        let judged = match cell.real_time && is_judged {
            false => "",
            true if cell.us.count < ENOUGH => "too few",
            true if cell.us.count < cell.sent => "MISSED",
            true if cell.us.p99 <= TARGET_P99 && cell.us.p999 <= TARGET_P999 => "met",
            true => "MISSED",
        };
        let cores = Some(cell.receiver_cores);
        line(&cell.name(), cell.sent, &cell.us, cores, judged);
    }
    for way in &report.left_out {
        println!("left out: {way}");
    }
    for (name, us) in ["sealing 42 kB", "sealing 42 kB in 8 slices"]
        .iter()
        .zip(&report.sealing_us)
    {
        let judged = match us.p50 <= TARGET_SEAL {
            _ if !is_judged => "",
            true => "met",
            false => "MISSED",
        };
        line(name, us.count, us, None, judged);
    }
    let Cost { off, sent, woke } = report.recording_ns;
    println!(
        "recording of a wake-up: {sent:.0} ns in the waker, {woke:.0} ns in the woken thread; switched off: \
         {off:.1} ns"
    );
    println!(
        "targets in µs: p99 <= {TARGET_P99}, p99.9 <= {TARGET_P999} under SCHED_FIFO; sealing p50 <= {TARGET_SEAL}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_sealed_each_time() {
        assert_eq!(sealing(8).unwrap().count, 2_000);
    }
}
