//! `openuvr bench link`: what is left of a stream on a bad link.
//!
//! The real scene, host, and client, with an emulated link between them; what became of each frame
//! is read from the host's record. Host and client are on one machine and one clock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;
use openuvr_lab::link::{BurstLoss, Impairment, Queue};
use openuvr_lab::schedule::ImpairmentSchedule;
use openuvr_lab::wifi::scenario::Scenario;
use openuvr_lab::wifi::words;
use openuvr_proto::units::{Bitrate, Size};
use serde::Serialize;

use super::emulated::Emulated;
use super::journey::{self, Row};
use super::machine::{Load, Machine};
use super::report::QUIET;
use super::rig::pass;
use super::sched::{Part, Sched};
use super::stats::Summary;
use crate::display::VirtualDisplay;
use crate::pair::{self, Pair, TemporaryDir};
use openuvr_runtime::clock;

/// Measure what loss, and a link that gets narrower, leave of a stream.
///
/// The scene is streamed over an emulated link that loses and delays datagrams with a seed. Whole
/// frames are those that were displayed with every byte and whose references were; the longest gap
/// is between two of them. Latency is from Captured to Submitted, of whole frames. Rates count IP and
/// UDP headers, parity, and what is sent again. Where other processes used more than 0.1 core, or the
/// emulated link was late itself, nothing is judged.
///
/// `loss` loses 1 % of the datagrams, each by itself. `bursts` loses 2 % in bursts of 4, with a delay
/// of 5 to 8 ms each way. `heavy` loses 10 %. `narrow` carries 50 Mb/s, then 8, then 50 again, each for
/// --seconds; of it the longest freeze is told, the p99 from two seconds after the drop to the end of
/// the narrow part, and how long it takes until the rate is back.
///
/// The other cases are Wi-Fi in the model of `openuvr lab hop --wifi`: `wifi` one station of which a
/// tenth of all MPDUs is lost, `wifi-far` one whose signal comes and goes, `wifi-shared` one of four,
/// while the others load 40 Mb/s and send 10. They are told beside the time that datagrams took there.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// What to measure
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "loss,bursts,heavy,narrow,wifi,wifi-far,wifi-shared"
    )]
    cases: Vec<Case>,
    /// What answers a loss, as the host's --recovery; each case is measured with each
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = ["skip-back", "key-frame", "refresh"],
        default_value = "skip-back"
    )]
    recovery: Vec<String>,
    /// Seconds to measure each case (narrow: each of its three parts)
    #[arg(long, default_value_t = 15.0)]
    seconds: f64,
    /// Size of the scene
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// What the stream aims at (default: 10M; 20M for narrow)
    #[arg(long)]
    bitrate: Option<String>,
    /// Three seconds, 640x360: shows that it works; the figures mean little
    #[arg(long, conflicts_with_all = ["seconds", "size"])]
    quick: bool,
    /// Decides which datagrams are lost
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Real-time scheduling of displays, link, host and client
    #[arg(long, value_enum, default_value = "auto")]
    sched: Sched,
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the host's record of each frame here (one case only)
    #[arg(long, value_name = "FILE")]
    host_csv: Option<PathBuf>,
    /// One more word for the host's command line; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
}

/// A link.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Case {
    /// 1 % random loss
    Loss,
    /// 2 % in bursts of 4, 5 to 8 ms of delay
    Bursts,
    /// 10 % random loss
    Heavy,
    /// 50, 8, 50 Mb/s
    Narrow,
    /// 802.11ax, one station, 10 % of the MPDUs lost
    Wifi,
    /// 802.11ax, a signal of 18 ± 3 dB, learned rates
    WifiFar,
    /// 802.11ax, four stations, of which three are busy
    WifiShared,
}

/// Frames a second.
const FPS: f64 = 60.0;
/// The one-way delay where it is not what is measured: a local network with a radio.
const NEAR: Duration = Duration::from_millis(2);
/// How long pairing and the first pictures may take, before anything is counted.
const WARM_UP: Duration = Duration::from_secs(4);
/// How long the reports of the last frames may take.
const REPORTED: Duration = Duration::from_millis(500);
/// How late 1 % of the datagrams may leave the emulated link before it has measured itself, in
/// milliseconds: a sixteenth of a frame.
const LATE_MS: f64 = 1.0;
/// How long after the drop the queue may still be full.
const SETTLED: Duration = Duration::from_secs(2);

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
            Case::Wifi | Case::WifiFar | Case::WifiShared => ImpairmentSchedule::default(),
        }
    }

    /// The network, where it is one.
    fn wifi(self) -> Result<Option<Scenario>> {
        let words = match self {
            Case::Wifi => "profile=he-su per=10%",
            Case::WifiFar => "profile=he-su per=1% signal=18,3 rate=learned",
            Case::WifiShared => {
                "profile=he-su per=1% signal=30,3 rate=learned background=20M,down \
                 background=20M,down background=10M,up"
            }
            Case::Loss | Case::Bursts | Case::Heavy | Case::Narrow => return Ok(None),
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

/// What came of a case.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    case: String,
    /// What answered losses.
    recovery: String,
    size: String,
    bitrate: String,
    seconds: f64,
    quick: bool,
    /// Cores that processes which are not ours used meanwhile.
    other_cores: f64,
    /// How captured frames ended.
    outcomes: BTreeMap<String, u32>,
    whole_per_second: f64,
    /// Between two whole frames, in milliseconds.
    longest_gap_ms: f64,
    /// From Captured to Submitted, of whole frames.
    latency_ms: Option<Summary>,
    wire_mbps: f64,
    /// `narrow` only.
    narrow: Option<Narrow>,
    /// How late the latest 1 % of the datagrams left the emulated link, in milliseconds.
    link_late_ms: Option<f64>,
    /// Wi-Fi only: the 99th percentile of the time that datagrams took to the client, in milliseconds.
    link_p99_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Narrow {
    /// The 99th percentile from two seconds after the drop on.
    settled_p99_ms: Option<f64>,
    /// The mean rate before the drop, in the narrow part, and at the end.
    mbps: [f64; 3],
    /// From the end of the narrow part until the rate of a second was 90 % of what it was before.
    back_after_s: Option<f64>,
}

impl Figures {
    /// Why nothing is judged by them.
    fn doubt(&self) -> Option<&'static str> {
        let late = self.link_late_ms.is_some_and(|late| late > LATE_MS);
        match self.other_cores > QUIET {
            true => Some("not quiet"),
            false => late.then_some("the link was late"),
        }
    }
}

/// Measures, prints, and writes the figures.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.seconds >= 1.0, "--seconds must be at least 1");
    ensure!(
        args.host_csv.is_none() || args.cases.len() * args.recovery.len() == 1,
        "--host-csv keeps one record: choose one of --cases, and one --recovery"
    );
    let stop = openuvr_terminal::signals::stop_on_signals()?;
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
        let text = serde_json::to_string_pretty(&all)?;
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

fn measure(args: &Args, case: Case, recovery: &str, stop: &AtomicBool) -> Result<Figures> {
    let (seconds, size) = match args.quick {
        true => (3.0, Size::new(640, 360)),
        false => (args.seconds, args.size),
    };
    let part = Duration::from_secs_f64(seconds);
    let bitrate = args.bitrate.as_deref().unwrap_or(case.bitrate());
    let (near, far) = (VirtualDisplay::start(size)?, VirtualDisplay::start(size)?);
    for display in [&near, &far] {
        args.sched.raise(display.id(), Part::Display);
    }
    let mut scene = pair::scene(&pair::scene_words(near.name(), size, FPS))?;
    let dir = TemporaryDir::new()?;
    let own_csv = dir.path().join("frames.csv");
    let csv = args.host_csv.as_ref().unwrap_or(&own_csv);
    let (mut more_host, mut more_client) = (args.host_arg.clone(), Vec::new());
    more_host.extend(["--recovery", recovery].map(String::from));
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
        show_host: false,
        more_host: &more_host,
        more_client: &more_client,
    };
    let mut begin = clock::now();
    let mut link = None;
    let mut pair = Pair::start_over(&options, |host| {
        begin = clock::now();
        let courses = [case.schedule(part), case.schedule(part)];
        let (wifi, real_time) = (case.wifi()?, args.sched == Sched::Auto);
        let started = Emulated::start(courses, wifi, host, args.seed, real_time)?;
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
    pass(to, stop, &mut well)?;
    let used = Load::now().since(&load);
    // The last frames' reports are to be in the record.
    pass(to + REPORTED, stop, &mut well)?;
    pair.client.stop();
    pair.host.stop();
    let report = link.end()?;
    let text = std::fs::read_to_string(csv)
        .with_context(|| format!("can't read the host's record {}", csv.display()))?;
    let rows = journey::parse(&text)?;
    let of = |from: i64, to: i64| {
        let captured = move |row: &&Row| {
            row.at("Captured")
                .is_some_and(|at| (from..to).contains(&at))
        };
        rows.iter().filter(captured).collect::<Vec<_>>()
    };
    let rows = of(from.0, to.0);
    let whole: Vec<_> = rows.iter().filter(|row| row.is_whole()).copied().collect();
    let all = seconds * f64::from(parts);
    let mut outcomes = BTreeMap::new();
    for row in &rows {
        *outcomes.entry(row.outcome.clone()).or_insert(0) += 1;
    }
    Ok(Figures {
        case: (case.to_possible_value()).map_or(String::new(), |value| value.get_name().to_owned()),
        recovery: recovery.to_owned(),
        size: size.to_string(),
        bitrate: bitrate.to_owned(),
        seconds: all,
        quick: args.quick,
        other_cores: used.other_cores,
        outcomes,
        whole_per_second: whole.len() as f64 / all,
        longest_gap_ms: longest_gap(&whole, from.0, to.0),
        latency_ms: Summary::of(&latencies(&whole)),
        wire_mbps: mbps(&rows, all),
        narrow: (case == Case::Narrow).then(|| {
            let drop = (from + part).0;
            let back = (from + part * 2).0;
            let settled: Vec<_> = whole
                .iter()
                .filter(|row| {
                    row.at("Captured")
                        .is_some_and(|at| at >= drop + SETTLED.as_nanos() as i64 && at < back)
                })
                .copied()
                .collect();
            narrow(
                &of(from.0, drop),
                &of(drop, back),
                &of(back, to.0),
                &settled,
                seconds,
            )
        }),
        link_late_ms: report
            .lateness
            .quantile(990)
            .map(|late| late.as_secs_f64() * 1e3),
        link_p99_ms: (report.crossing)
            .and_then(|crossing| crossing.quantile(990))
            .map(|took| took.as_secs_f64() * 1e3),
    })
}

fn latencies(whole: &[&Row]) -> Vec<f64> {
    let span = |row: &&Row| Some((row.at("Submitted")? - row.at("Captured")?) as f64 / 1e6);
    whole.iter().filter_map(span).collect()
}

/// The longest time without a whole frame, both ends of the run counted as frames.
fn longest_gap(whole: &[&Row], from: i64, to: i64) -> f64 {
    let mut shown: Vec<i64> = whole.iter().filter_map(|row| row.at("Submitted")).collect();
    shown.extend([from, to]);
    shown.sort_unstable();
    let gaps = shown.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(0) as f64 / 1e6
}

fn mbps(rows: &[&Row], seconds: f64) -> f64 {
    let bytes: u64 = rows.iter().map(|row| row.wire_bytes).sum();
    bytes as f64 * 8.0 / 1e6 / seconds
}

fn narrow(
    before: &[&Row],
    within: &[&Row],
    after: &[&Row],
    settled: &[&Row],
    seconds: f64,
) -> Narrow {
    let usual = mbps(before, seconds);
    let start = after.iter().filter_map(|row| row.at("Captured")).min();
    let second = |from: i64| {
        let in_it = |row: &&&Row| {
            row.at("Captured")
                .is_some_and(|at| (from..from + 1_000_000_000).contains(&at))
        };
        mbps(
            &after.iter().filter(in_it).copied().collect::<Vec<_>>(),
            1.0,
        )
    };
    let steps = (seconds * 10.0) as i64 - 10;
    let back = start.and_then(|start| {
        (0..=steps.max(0)).find(|step| second(start + step * 100_000_000) >= usual * 0.9)
    });
    Narrow {
        settled_p99_ms: Summary::of(&latencies(settled)).map(|s| s.p99),
        mbps: [usual, mbps(within, seconds), mbps(after, seconds)],
        back_after_s: back.map(|step| step as f64 / 10.0 + 1.0),
    }
}

fn print(case: Case, f: &Figures) {
    println!();
    println!(
        "== {}: {} at {FPS} frames/s, {}, {} ==",
        f.case, f.size, f.bitrate, f.recovery
    );
    let outcomes: Vec<_> = f
        .outcomes
        .iter()
        .map(|(how, n)| format!("{how} {n}"))
        .collect();
    println!("frames   {}", outcomes.join(", "));
    println!(
        "whole    {:.1} a second, longest gap {:.0} ms",
        f.whole_per_second, f.longest_gap_ms
    );
    if let Some(l) = &f.latency_ms {
        println!(
            "latency  p50 {:.1} ms, p99 {:.1}, max {:.1}  (Captured -> Submitted)",
            l.p50, l.p99, l.max
        );
    }
    println!("wire     {:.1} Mb/s", f.wire_mbps);
    if let Some(p99) = f.link_p99_ms {
        println!("Wi-Fi    99 % of the datagrams took up to {p99:.1} ms to the client");
    }
    if let Some(n) = &f.narrow {
        let or_never =
            |s: Option<f64>| s.map_or("not in this run".to_owned(), |s| format!("{s:.1} s"));
        println!(
            "rate     {:.1} Mb/s before, {:.1} while narrow, {:.1} after; back after {}",
            n.mbps[0],
            n.mbps[1],
            n.mbps[2],
            or_never(n.back_after_s)
        );
    }
    if let Some(late) = f.link_late_ms {
        println!("link     p99 of its own lateness {late:.2} ms");
    }
    if f.other_cores > QUIET {
        println!(
            "NOT QUIET: other processes used {:.1} cores; the figures mean little",
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
    let p99 = f.latency_ms.map_or(f64::INFINITY, |l| l.p99);
    match case {
        Case::Loss => vec![
            least("whole frames a second", 59.0, f.whole_per_second),
            most("longest gap, ms", 34.0, f.longest_gap_ms),
        ],
        Case::Bursts => vec![
            least("whole frames a second", 56.0, f.whole_per_second),
            most("p99: delay + 20 ms", 28.0, p99),
        ],
        Case::Wifi | Case::WifiFar => vec![
            least("whole frames a second", 59.0, f.whole_per_second),
            most(
                "p99: the link's p99 + 8 ms",
                f.link_p99_ms.unwrap_or(0.0) + 8.0,
                p99,
            ),
        ],
        Case::WifiShared => vec![
            least("whole frames a second", 57.0, f.whole_per_second),
            most("longest freeze, ms", 150.0, f.longest_gap_ms),
        ],
        Case::Heavy => Vec::new(),
        Case::Narrow => {
            let narrow = f.narrow.as_ref();
            let settled = narrow.and_then(|n| n.settled_p99_ms);
            let back = narrow.and_then(|n| n.back_after_s);
            vec![
                most("longest freeze, ms", 200.0, f.longest_gap_ms),
                most(
                    "p99 from 2 s on, ms",
                    30.0,
                    settled.unwrap_or(f64::INFINITY),
                ),
                most("rate back after, s", 10.0, back.unwrap_or(f64::INFINITY)),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of frames `from..to` at 60 a second, each of `bytes` bytes and whole, 10 ms on
    /// their way.
    fn record(frames: std::ops::Range<i64>, bytes: u32) -> Vec<Row> {
        let header = "outcome,stage,cause,Captured,Converted,FirstSlice,Encoded,FirstSent,LastSent,\
            FirstReceived,Recoverable,Decoded,Submitted,datagrams,bytes";
        let rows = frames.map(|frame| {
            let at = frame * 16_666_667;
            let shown = at + 10_000_000;
            format!("whole,,,{at},,,,,,,,,{shown},0,{bytes}")
        });
        let text: Vec<_> = std::iter::once(header.to_owned()).chain(rows).collect();
        journey::parse(&text.join("\n")).expect("a record")
    }

    fn of(rows: &[Row]) -> Vec<&Row> {
        rows.iter().collect()
    }

    #[test]
    fn every_case_has_a_link_that_can_be() {
        let wifi = |case: &&Case| case.wifi().unwrap().is_some();
        assert_eq!(Case::value_variants().iter().filter(wifi).count(), 3);
        let shared = Case::WifiShared.wifi().unwrap().unwrap();
        assert_eq!((shared.viewers(), shared.setup.stations.len()), (1, 4));
    }

    #[test]
    fn the_longest_gap_counts_both_ends_of_the_run() {
        let rows = record(0..60, 1000);
        let (from, to) = (0, 1_000_000_000);
        let gap = longest_gap(&of(&rows), from, to);
        assert!((gap - 16.67).abs() < 0.1, "{gap}");
        let gap = longest_gap(&of(&rows[10..]), from, to);
        assert!((gap - 176.67).abs() < 0.1, "{gap}");
        assert!((longest_gap(&[], from, to) - 1000.0).abs() < 0.1);
        assert_eq!(latencies(&of(&rows)), [10.0; 60]);
    }

    #[test]
    fn the_rate_is_back_when_a_second_carries_nine_tenths_of_it() {
        let before = record(0..360, 10_000);
        let within = record(360..720, 3_000);
        // Three seconds at half the rate, then as before.
        let mut after = record(720..900, 5_000);
        let never = narrow(&of(&before), &of(&within), &of(&after), &of(&within), 6.0);
        assert_eq!(never.back_after_s, None);
        assert_eq!(never.settled_p99_ms, Some(10.0));
        after.extend(record(900..1080, 10_000));
        let all = narrow(&of(&before), &of(&within), &of(&after), &[], 6.0);
        let back = all.back_after_s.expect("it comes back");
        assert!((3.5..=4.1).contains(&back), "{back}");
        assert!((all.mbps[0] - 4.8).abs() < 0.1, "{:?}", all.mbps);
        assert_eq!(all.settled_p99_ms, None, "no frame, no figure");
    }
}
