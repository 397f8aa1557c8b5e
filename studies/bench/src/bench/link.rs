//! `openuvr bench link`: a stream over an impaired link.
//!
//! The real scene, host and client run with an emulated link between host and client. The outcome of each frame is from
//! the host's record. Host and client are on one machine with one clock.

mod contest;
mod figures;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_lab::wifi::{live, words};
use openuvr_proto::time::Instant;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_sim::link::{BurstLoss, Impairment, Queue};
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_terminal::usage::UsageError;
use openuvr_terminal::wrap::wrapped;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::hop::Report;
use openuvr_testbed::journey::{self, Row};
use openuvr_testbed::pair::{self, Pair, TemporaryDir};
use openuvr_testbed::reader::Reader;
use openuvr_testbed::sched::{Participant, Sched};
use openuvr_testbed::screen::Screen;
use serde_json::json;

use super::rig::pass;
use crate::durations;
use crate::machine::{Load, Machine, QUIET};
use crate::result_file;
use contest::{ContestArgs, Shared};
use figures::{Figures, Measured, Recorded};
use openuvr_clock as clock;

/// Measure a stream under loss and under a drop of the link's rate.
///
/// The scene is streamed over an emulated link, which loses and delays datagrams reproducibly from a seed, in both
/// directions: reports, requests and input are lost just like video. A frame is complete if it was displayed with all
/// of its bytes, and its references were complete. The longest gap is the longest time without a complete frame.
/// Latency is the time from Captured to Submitted, for complete frames. Input latency is from a key press in the
/// client's window to the first frame that may show its effect. Rates include IP and UDP headers, FEC and
/// retransmissions. If other processes used more than 0.1 core, or the emulated link itself was late, there is no
/// verdict. A quick run has no verdict either.
///
/// `loss` loses 1 % of the datagrams independently. `bursts` loses 2 % in bursts of 4, with a delay of 5 to 8 ms each
/// way. `heavy` loses 10 %. `narrow` carries 50 Mb/s, then 8, then 50 again, each for --duration. The figures of
/// `narrow` are the longest gap, the p99 latency from two seconds after the drop to the end of the narrow part, and the
/// time until the rate has recovered. `start` carries 8 Mb/s, less than the stream's 10, with a queue of 64 KiB, and is
/// measured from the first frame on.
///
/// The other cases use the Wi-Fi model of `openuvr lab hop`. `wifi` has one station, which loses a tenth of all MPDUs.
/// `wifi-far` has one station with a fading signal. `wifi-shared` has four stations: the client, and three that
/// together receive 40 Mb/s and send 10 Mb/s. The figures of these cases include the p99 of the link's own delay to the
/// client.
///
/// With --aqm, the bench instead simulates a rate controller (OpenUVR's, GCC or SCReAM) that shares a bottleneck with
/// competing flows. The bench prints latency, complete frames, rates and fairness. With --json, it also writes time
/// series.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Cases to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "loss,bursts,heavy,narrow,start,wifi,wifi-far,wifi-shared"
    )]
    cases: Vec<Case>,
    /// The host's reaction to a loss; each case is measured with each value. With the value none, the host sends one key
    /// frame per second
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = ["reference-invalidation", "key-frame", "intra-refresh", "none"],
        default_value = "reference-invalidation"
    )]
    recovery: Vec<String>,
    /// Duration of each case (for narrow: of each of its three parts)
    #[arg(long = "duration", value_name = "TIME", default_value = "15s", value_parser = durations::seconds)]
    seconds: f64,
    /// Size of the scene
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Target bitrate of the stream (default: 10M; 20M for narrow)
    #[arg(long)]
    bitrate: Option<String>,
    /// Smoke test with three seconds at 640x360; the figures are unreliable
    #[arg(long, conflicts_with_all = ["seconds", "size"])]
    quick: bool,
    /// Seed of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Real-time scheduling of displays, link, host and client
    #[arg(long, value_enum, default_value = "auto")]
    sched: Sched,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the host's record of each frame to this file (one case only)
    #[arg(long, value_name = "FILE")]
    host_csv: Option<PathBuf>,
    /// Additional argument for the host; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
    #[command(flatten)]
    contest: ContestArgs,
}

impl Args {
    /// The duration of a part of a case, and the size of the scene.
    fn shape(&self) -> (Duration, Size) {
        let (seconds, size) = match self.quick {
            true => (3.0, Size::new(640, 360)),
            false => (self.seconds, self.size),
        };
        (Duration::from_secs_f64(seconds), size)
    }
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    /// Random loss of 1 %
    Loss,
    /// Loss of 2 % in bursts of 4, delay of 5 to 8 ms
    Bursts,
    /// Random loss of 10 %
    Heavy,
    /// 50, then 8, then 50 Mb/s
    Narrow,
    /// 8 Mb/s with a 64 KiB queue, measured from the first frame on
    Start,
    /// 802.11ax, one station, 10 % of the MPDUs lost
    Wifi,
    /// 802.11ax, SNR of 18 ± 3 dB, adaptive rate
    WifiFar,
    /// 802.11ax, four stations, three of them busy
    WifiShared,
}

/// Frames per second.
const FPS: f64 = 60.0;
/// Default one-way delay, which is typical of a local network with Wi-Fi.
const NEAR: Duration = Duration::from_millis(2);
/// Maximum time until the scene's first picture (guess: a busy machine needs some seconds).
const FIRST_PICTURE: Duration = Duration::from_secs(30);
/// Warm-up before the measurement, for pairing and the first pictures.
const WARM_UP: Duration = Duration::from_secs(4);
/// Interval between key presses. It is not a multiple of the frame period, so every phase occurs.
const PRESS_EVERY: Duration = Duration::from_millis(87);
/// Time allowed for the reports of the last frames.
const REPORTED: Duration = Duration::from_millis(500);

impl Case {
    fn schedule(self, part: Duration) -> ImpairmentSchedule {
        let near = Impairment {
            delay: NEAR,
            ..Impairment::default()
        };
        let rate = |mbps| Impairment {
            rate: Some(Bitrate::from_mbps(mbps)),
            queue: Queue::Time(Duration::from_millis(100)),
            ..near.clone()
        };
        match self {
            Case::Loss => Impairment { loss: 0.01, ..near }.into(),
            Case::Heavy => Impairment { loss: 0.1, ..near }.into(),
            Case::Bursts => Impairment {
                delay: Duration::from_millis(5),
                jitter: Duration::from_millis(3),
                burst: Some(BurstLoss {
                    enter: 0.25 * 0.02 / 0.98,
                    leave: 0.25,
                    loss: 1.0,
                }),
                ..Impairment::default()
            }
            .into(),
            Case::Narrow => ImpairmentSchedule::from(rate(50))
                .then(WARM_UP + part, rate(8))
                .then(WARM_UP + part * 2, rate(50)),
            Case::Start => Impairment {
                queue: Queue::Bytes(64 << 10),
                ..rate(8)
            }
            .into(),
            Case::Wifi | Case::WifiFar | Case::WifiShared => ImpairmentSchedule::default(),
        }
    }

    /// The Wi-Fi network; `None` for cases without Wi-Fi.
    fn wifi(self) -> Result<Option<Scenario>> {
        let words = match self {
            Case::Wifi => "profile=he-su per=10%",
            Case::WifiFar => "profile=he-su per=1% signal=18,3 rate=learned",
            Case::WifiShared => {
                "profile=he-su per=1% signal=30,3 rate=learned background=20M,down \
                 background=20M,down background=10M,up"
            }
            Case::Loss | Case::Bursts | Case::Heavy | Case::Narrow | Case::Start => {
                return Ok(None);
            }
        };
        Ok(Some(words::parse(words)?))
    }

    fn bitrate(self) -> &'static str {
        match self {
            Case::Narrow => "20M",
            _ => "10M",
        }
    }
}

/// Measures, prints, and writes the figures.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(
        args.seconds >= 1.0,
        UsageError::new("--duration must be at least 1s")
    );
    ensure!(
        args.host_csv.is_none() || args.cases.len() * args.recovery.len() == 1,
        UsageError::new(
            "--host-csv keeps the record of one run: choose a single case with --cases, and a single --recovery"
        )
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    if args.contest.is_selected() {
        let how = Shared {
            lasting: args.shape().0,
            seed: args.seed,
            quick: args.quick,
            json: args.json.as_deref(),
        };
        return contest::run(&args.contest, &how, &stop);
    }
    println!("machine  {}", Machine::this());
    let mut all = Vec::new();
    for case in &args.cases {
        for recovery in &args.recovery {
            let figures = measure(args, *case, recovery, &stop)?;
            print(*case, &figures);
            all.push(figures);
        }
    }
    if let Some(path) = &args.json {
        result_file::write(path, "bench.link", &json!({ "cases": all }))?;
    }
    Ok(())
}

/// The result of a case: the host's record, and the other observations.
struct StreamResult {
    record: Vec<Row>,
    time: Measured,
    other_cores: f64,
    link: Report,
}

/// Streams the scene over the link of a case.
fn stream(args: &Args, case: Case, recovery: &str, stop: &AtomicBool) -> Result<StreamResult> {
    let (part, size) = args.shape();
    let bitrate = args.bitrate.as_deref().unwrap_or(case.bitrate());
    let (near, far) = (VirtualDisplay::start(size)?, VirtualDisplay::start(size)?);
    for display in [&near, &far] {
        args.sched.raise(display.id(), Participant::Display);
    }
    let mut scene = pair::scene(&pair::scene_words(near.name(), size, FPS))?;
    first_picture(near.name(), args.sched, stop, &mut || scene.check())?;
    let dir = TemporaryDir::new()?;
    let own_csv = dir.path().join("frames.csv");
    let csv = args.host_csv.as_ref().unwrap_or(&own_csv);
    let (mut more_host, mut more_client) = (args.host_arg.clone(), Vec::new());
    more_host.extend(["--recovery", recovery].map(String::from));
    if recovery == "none" {
        more_host.extend(["--key-frame-interval".to_owned(), FPS.to_string()]);
    }
    if args.sched == Sched::Off {
        for more in [&mut more_host, &mut more_client] {
            more.extend(["--realtime", "off"].map(String::from));
        }
    }
    let options = pair::Options {
        serve: pair::Serve::Host,
        host_display: near.name(),
        client_display: far.name(),
        fps: FPS,
        bitrate,
        dir: dir.path(),
        csv: Some(csv),
        sound: None,
        pads: None,
        show_host: false,
        more_host: &more_host,
        more_client: &more_client,
    };
    let mut begin = clock::now();
    let mut link = None;
    let mut pair = Pair::start_over(&options, |host| {
        begin = clock::now();
        let courses = [case.schedule(part), case.schedule(part)];
        let real_time = args.sched == Sched::Auto;
        let network = case.wifi()?;
        let medium = network
            .map(|network| live::medium(&network, args.seed))
            .transpose()?;
        let started = Emulated::start(courses, medium, host, args.seed, real_time)?;
        let listens = started.listens;
        link = Some(started);
        Ok(listens)
    })?;
    let link = link.context("no link")?;
    let parts = if case == Case::Narrow { 3 } else { 1 };
    let (from, to) = (begin + WARM_UP, begin + WARM_UP + part * parts);
    let mut well = || {
        pair.check()?;
        scene.check()
    };
    pass(from, stop, &mut well)?;
    let load = Load::now();
    press_keys(far.name(), from, to, |until| pass(until, stop, &mut well))?;
    let used = Load::now().since(&load);
    // Wait for the reports of the last frames.
    pass(to + REPORTED, stop, &mut well)?;
    pair.client.stop();
    pair.host.stop();
    let link = link.end()?;
    let text = std::fs::read_to_string(csv)
        .with_context(|| format!("can't read the host's record {}", csv.display()))?;
    let record = journey::parse(&text)?;
    let from = match case {
        Case::Start => first_captured(&record).context("no frame was captured")?,
        _ => from.0,
    };
    Ok(StreamResult {
        record,
        time: Measured { from, part, parts },
        other_cores: used.other_cores,
        link,
    })
}

/// Waits until the scene has drawn a picture. Otherwise, the stream would begin with a blank display, and the pauses
/// before the first picture would count as gaps.
fn first_picture(
    display: &str,
    sched: Sched,
    stop: &AtomicBool,
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let reader = Reader::start_as(display, sched)?;
    let until = clock::now() + FIRST_PICTURE;
    while reader
        .wait(0, Duration::from_millis(100), |_| true)?
        .is_none()
    {
        pass(clock::now(), stop, check)?;
        ensure!(
            clock::now() < until,
            "the scene drew no picture within {} s",
            FIRST_PICTURE.as_secs()
        );
    }
    Ok(())
}

/// Presses a key periodically on a display.
fn press_keys(
    display: &str,
    from: Instant,
    to: Instant,
    mut wait: impl FnMut(Instant) -> Result<()>,
) -> Result<()> {
    let keyboard = Screen::open(display)?;
    let mut press = from;
    while press < to {
        keyboard.press_key()?;
        press = press + PRESS_EVERY;
        wait(press)?;
    }
    Ok(())
}

/// Capture time of the first frame, in nanoseconds of the clock.
fn first_captured(record: &[Row]) -> Option<i64> {
    record.iter().filter_map(|row| row.at("Captured")).min()
}

fn measure(args: &Args, case: Case, recovery: &str, stop: &AtomicBool) -> Result<Figures> {
    let streamed = stream(args, case, recovery, stop)?;
    let recorded = Recorded::of(&streamed.record, streamed.time);
    let millis = |span: Duration| span.as_secs_f64() * 1e3;
    let crossing = streamed.link.crossing.as_ref();
    Ok(Figures {
        case: (case.to_possible_value()).map_or(String::new(), |value| value.get_name().to_owned()),
        recovery: recovery.to_owned(),
        size: args.shape().1.to_string(),
        bitrate: args.bitrate.as_deref().unwrap_or(case.bitrate()).to_owned(),
        quick: args.quick,
        other_cores: streamed.other_cores,
        recorded,
        link_late_ms: streamed.link.lateness.quantile(990).map(millis),
        link_p99_ms: crossing.and_then(|took| took.quantile(990)).map(millis),
    })
}

fn print(case: Case, f: &Figures) {
    println!();
    println!(
        "== {}: {} at {FPS} frames/s, {}, {} ==",
        f.case, f.size, f.bitrate, f.recovery
    );
    let outcomes: Vec<_> = f
        .recorded
        .outcomes
        .iter()
        .map(|(how, n)| format!("{how} {n}"))
        .collect();
    for (place, line) in wrapped(&outcomes.join(", "), 86).iter().enumerate() {
        println!("{:<8} {line}", if place == 0 { "frames" } else { "" });
    }
    println!(
        "complete {:.1}/s, longest gap {:.0} ms",
        f.recorded.complete_per_second, f.recorded.longest_gap_ms
    );
    if let Some(l) = &f.recorded.latency_ms {
        println!(
            "latency  p50 {:.1} ms, p99 {:.1}, max {:.1}  (Captured -> Submitted)",
            l.p50, l.p99, l.max
        );
    }
    if let (Some(i), Some(p95)) = (&f.recorded.input_ms, f.recorded.input_p95_ms) {
        println!(
            "input    p50 {:.1} ms, p95 {p95:.1}, max {:.1}  (key press -> Submitted, {} seen)",
            i.p50, i.max, i.count
        );
    }
    println!("wire     {:.1} Mb/s", f.recorded.wire_mbps);
    if let Some(p99) = f.link_p99_ms {
        println!("Wi-Fi    p99 of the datagrams' delay to the client: {p99:.1} ms");
    }
    if let Some(n) = &f.recorded.narrow {
        let or_never =
            |s: Option<f64>| s.map_or("none in this run".to_owned(), |s| format!("{s:.1} s"));
        println!(
            "rate     {:.1} Mb/s before, {:.1} while narrow, {:.1} after; recovery: {}",
            n.mbps[0],
            n.mbps[1],
            n.mbps[2],
            or_never(n.back_after_s)
        );
    }
    if let Some(late) = f.link_late_ms {
        println!("link     p99 of the emulated link's own lateness: {late:.2} ms");
    }
    if f.other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used {:.1} cores; the figures are unreliable",
            f.other_cores
        );
    }
    let doubt = f.doubt();
    for (what, limit, measured, met) in verdicts(case, f) {
        let word = match (doubt, met) {
            (Some(why), _) => format!("not judged: {why}"),
            (None, true) => "met".to_owned(),
            (None, false) => "MISSED".to_owned(),
        };
        println!("target   {what:<28} {limit:>10}   {measured:>10}   {word}");
    }
}

type Verdict = (&'static str, String, String, bool);

fn verdicts(case: Case, f: &Figures) -> Vec<Verdict> {
    let least = |what, limit: f64, value: f64| {
        (
            what,
            format!(">= {limit}"),
            format!("{value:.1}"),
            value >= limit,
        )
    };
    let most = |what, limit: f64, value: f64| {
        (
            what,
            format!("<= {}", (limit * 10.0).round() / 10.0),
            format!("{value:.1}"),
            value <= limit,
        )
    };
    let p99 = f.recorded.latency_ms.map_or(f64::INFINITY, |l| l.p99);
    match case {
        Case::Loss => vec![
            least(
                "complete frames per second",
                59.0,
                f.recorded.complete_per_second,
            ),
            most("longest gap, ms", 34.0, f.recorded.longest_gap_ms),
        ],
        Case::Bursts => vec![
            least(
                "complete frames per second",
                56.0,
                f.recorded.complete_per_second,
            ),
            most("p99 (target: delay + 20), ms", 28.0, p99),
        ],
        Case::Wifi | Case::WifiFar => vec![
            least(
                "complete frames per second",
                59.0,
                f.recorded.complete_per_second,
            ),
            most(
                "p99 (target: p99 of the link + 8), ms",
                f.link_p99_ms.unwrap_or(0.0) + 8.0,
                p99,
            ),
        ],
        Case::WifiShared => vec![
            least(
                "complete frames per second",
                57.0,
                f.recorded.complete_per_second,
            ),
            most("longest freeze, ms", 150.0, f.recorded.longest_gap_ms),
        ],
        Case::Heavy => vec![
            least(
                "complete frames per second",
                59.5,
                f.recorded.complete_per_second,
            ),
            most("longest gap, ms", 40.0, f.recorded.longest_gap_ms),
            most(
                "input p95, ms",
                40.0,
                f.recorded.input_p95_ms.unwrap_or(f64::INFINITY),
            ),
        ],
        Case::Start => vec![
            least(
                "complete frames per second",
                58.0,
                f.recorded.complete_per_second,
            ),
            most("p99, ms", 25.0, p99),
            most(
                "slowest frame, ms",
                60.0,
                f.recorded.latency_ms.map_or(f64::INFINITY, |l| l.max),
            ),
        ],
        Case::Narrow => {
            let narrow = f.recorded.narrow.as_ref();
            let settled = narrow.and_then(|n| n.settled_p99_ms);
            let back = narrow.and_then(|n| n.back_after_s);
            vec![
                most("longest freeze, ms", 200.0, f.recorded.longest_gap_ms),
                most(
                    "p99 from 2 s after drop, ms",
                    30.0,
                    settled.unwrap_or(f64::INFINITY),
                ),
                most(
                    "rate recovered after, s",
                    10.0,
                    back.unwrap_or(f64::INFINITY),
                ),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_link_that_can_be() {
        let wifi = |case: &&Case| case.wifi().unwrap().is_some();
        assert_eq!(Case::value_variants().iter().filter(wifi).count(), 3);
        let shared = Case::WifiShared.wifi().unwrap().unwrap();
        assert_eq!((shared.viewers(), shared.setup.stations.len()), (1, 4));
    }
}
