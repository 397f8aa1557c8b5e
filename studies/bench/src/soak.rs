//! `openuvr lab soak`: observes a long stream between a host and a client from outside. Checks whether the memory of
//! host and client grows, and whether every captured frame has exactly one outcome.
//!
//! This study measures no latency (`openuvr bench latency` does). It cannot find a leak that becomes visible only after
//! a longer run.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_sim::script;
use openuvr_terminal::usage::UsageError;

use openuvr_clock as clock;
use openuvr_testbed::child::Child;
use openuvr_testbed::display::VirtualDisplay;
use openuvr_testbed::pair::{self, Options, Pair, TemporaryDir};

/// Soak test: stream for a long time, and check that memory does not grow and every frame has one outcome.
///
/// Starts a host and a client on this machine, reads their resident memory (as in `top`) every few seconds, and fits a
/// line to the second half of the readings. The line's slope is the median of the slopes between any two readings
/// (Theil-Sen), which is robust against single jumps. Memory is flat if this line grows over the second half by less
/// than 1 MiB or 1 %, whichever is more. The first half does not count, because buffers and the codecs' pools fill
/// meanwhile.
///
/// Then checks each row of the host's record: every captured frame must occur once, with one outcome. A run cannot pass
/// if it was interrupted, took less than a minute, or completed fewer than half of the requested frames. Exit status: 0
/// if the run passed, 1 if not.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Duration of the stream, such as 60s, 10m or 1h
    #[arg(long = "duration", value_name = "TIME", default_value = "1h", value_parser = script::time)]
    lasting: Duration,
    /// Source of the stream
    #[arg(long, value_enum, default_value_t)]
    source: Source,
    /// Size of the picture
    #[arg(long, default_value = "1280x720")]
    size: Size,
    /// Frames per second
    #[arg(long, default_value_t = 60.0)]
    fps: f64,
    /// Bitrate of the host
    #[arg(long, default_value = "10M")]
    bitrate: String,
    /// Interval between memory readings, at most 5s; a longer one is shortened to 5s [default: a 200th of --duration]
    #[arg(long, value_name = "TIME", value_parser = script::time)]
    every: Option<Duration>,
    /// Additional argument for the host; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    host_arg: Vec<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Source {
    /// The built-in scene on a virtual display, shown in a window on a second virtual display
    #[default]
    Scene,
    /// The host's test pattern, decoded but not displayed. It needs no display
    Pattern,
}

/// Maximum interval between readings.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// Warm-up time before the first reading, until frames flow.
const WARM_UP: Duration = Duration::from_secs(1);

/// Minimum duration of a run (a guess). In a shorter run, growth within the tolerance could mean gigabytes per hour.
const LEAST: Duration = Duration::from_secs(60);

/// Minimum share of requested frames that must be complete (a guess). With fewer, the run did not test streaming.
const LEAST_COMPLETE: f64 = 0.5;

/// Minimum number of readings to which a line is fitted.
const FEWEST: usize = 8;

/// Tolerated growth in bytes, for caches of the allocator and of the C library (a guess).
const SLACK: f64 = 1_048_576.0;

/// Streams, observes, and prints the verdict.
///
/// # Errors
/// Returns a one-line error if host, client or display cannot be started, or has ended early.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let every = args.every.unwrap_or(args.lasting / 200).min(MAX_INTERVAL);
    if every.is_zero() || args.lasting / 2 < every * u32::try_from(FEWEST).unwrap_or(8) {
        bail!(UsageError::new(format!(
            "--duration must be at least {} times --every",
            2 * FEWEST
        )));
    }
    let stop = openuvr_terminal::signals::stop_on_signals()?;
    let dir = TemporaryDir::new()?;
    let mut stage = Stage::set(args)?;
    let csv = dir.path().join("frames.csv");
    let mut pair = stage.pair(args, dir.path(), &csv)?;
    let streaming = clock::now();
    clock::sleep_until(streaming + WARM_UP);
    eprintln!("soak: streaming {} at {} frames/s", args.size, args.fps);

    let ids = [pair.host.id(), pair.client.id()];
    let mut readings: [Vec<MemoryReading>; 2] = Default::default();
    let begun = clock::now();
    let mut next = begun;
    while clock::now().since(begun) < args.lasting && !stop.load(Ordering::Relaxed) {
        pair.check()?;
        stage.check()?;
        for (readings, id) in readings.iter_mut().zip(ids) {
            readings.push(MemoryReading::at(begun, id)?);
        }
        next = next + every;
        clock::sleep_until(next);
    }
    let (ran, streamed) = (clock::now().since(begun), clock::now().since(streaming));
    // The client ends first. It closes the session, so that the host learns the outcome of every frame.
    pair.client.stop();
    pair.host.stop();
    let words = pair.host.last_words();
    drop(stage);

    let mut good = true;
    for (name, readings) in ["host", "client"].into_iter().zip(&readings) {
        let Some(trend) = Trend::of(readings) else {
            println!("{name:8} too few readings of its memory use");
            continue;
        };
        println!("{name:8} {trend}");
        good &= trend.is_flat() != Some(false);
    }
    let rows = BufReader::new(
        std::fs::File::open(&csv).with_context(|| format!("the host wrote no record{words}"))?,
    );
    let account = Account::of(rows.lines().map_while(Result::ok));
    println!("{:8} {}", "frames", account.words());
    good &= account.adds_up();
    let complete = account.complete as f64 / streamed.as_secs_f64();
    println!(
        "{:8} {:.0} s of {:.0}, {complete:.1} complete frames/s of {}",
        "time",
        ran.as_secs_f64(),
        args.lasting.as_secs_f64(),
        args.fps
    );
    let doubt = doubt(ran, args.lasting, complete / args.fps);
    let (verdict, code) = match (good, doubt) {
        (false, _) => ("FAILED".to_owned(), ExitCode::FAILURE),
        (true, Some(why)) => (format!("NOT JUDGED: {why}"), ExitCode::FAILURE),
        (true, None) => ("passed".to_owned(), ExitCode::SUCCESS),
    };
    println!("{:8} {verdict}", "soak");
    Ok(code)
}

/// The reason why the run is not judged, or `None` if it is judged. `complete` is the share of requested frames that
/// were complete.
fn doubt(ran: Duration, asked: Duration, complete: f64) -> Option<String> {
    let of = |span: Duration| format!("{:.0} s", span.as_secs_f64());
    match () {
        () if ran < asked => Some(format!("interrupted after {} of {}", of(ran), of(asked))),
        () if ran < LEAST => Some(format!("the test ran for less than {}", of(LEAST))),
        () if complete < LEAST_COMPLETE => Some(format!(
            "only {:.0} % of the requested frames were complete",
            complete * 100.0
        )),
        () => None,
    }
}

/// The application and the displays, if the source needs them. The fields are dropped in this order.
struct Stage {
    scene: Option<Child>,
    displays: Option<[VirtualDisplay; 2]>,
}

impl Stage {
    fn set(args: &Args) -> Result<Stage> {
        if args.source == Source::Pattern {
            return Ok(Stage {
                scene: None,
                displays: None,
            });
        }
        let displays = [
            VirtualDisplay::start(args.size)?,
            VirtualDisplay::start(args.size)?,
        ];
        let scene = pair::scene(&pair::scene_words(displays[0].name(), args.size, args.fps))?;
        Ok(Stage {
            scene: Some(scene),
            displays: Some(displays),
        })
    }

    /// Returns an error if the application has ended.
    fn check(&mut self) -> Result<()> {
        self.scene.as_mut().map_or(Ok(()), Child::check)
    }

    fn pair(&self, args: &Args, dir: &Path, csv: &Path) -> Result<Pair> {
        let words = |words: &[&str]| -> Vec<String> { words.iter().map(|&w| w.into()).collect() };
        let (mut host, mut client) = (args.host_arg.clone(), Vec::new());
        // `:` is a display name without a number, to which no program can connect.
        let (mut here, mut there) = (":", ":");
        match &self.displays {
            Some([a, b]) => (here, there) = (a.name(), b.name()),
            None => {
                host.extend(words(&[
                    "--source",
                    "pattern",
                    "--size",
                    &args.size.to_string(),
                ]));
                client = words(&["--present", "null"]);
            }
        }
        Pair::start(&Options {
            serve: openuvr_testbed::pair::Serve::Host,
            host_display: here,
            client_display: there,
            fps: args.fps,
            bitrate: &args.bitrate,
            dir,
            csv: Some(csv),
            sound: None,
            pads: None,
            show_host: false,
            more_host: &host,
            more_client: &client,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct MemoryReading {
    /// Seconds since the first reading.
    at: f64,
    bytes: f64,
}

impl MemoryReading {
    fn at(begun: Instant, id: u32) -> Result<MemoryReading> {
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))
            .with_context(|| format!("can't read the status of process {id}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(MemoryReading {
            at: clock::now().since(begun).as_secs_f64(),
            bytes: kilobytes.with_context(|| format!("process {id} has ended"))? * 1024.0,
        })
    }
}

/// A line through the second half of the readings.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Trend {
    first: f64,
    middle: f64,
    last: f64,
    /// Bytes per second.
    slope: f64,
    /// Duration of the second half in seconds.
    span: f64,
}

impl Trend {
    /// Fits the line. Returns `None` if there are too few readings.
    fn of(readings: &[MemoryReading]) -> Option<Trend> {
        let half = readings.get(readings.len() / 2..)?;
        if half.len() < FEWEST {
            return None;
        }
        let (first, middle, last) = (readings.first()?, half.first()?, half.last()?);
        let mut slopes: Vec<f64> = half
            .iter()
            .enumerate()
            .flat_map(|(i, a)| half.iter().skip(i + 1).map(move |b| (a, b)))
            .filter(|(a, b)| b.at > a.at)
            .map(|(a, b)| (b.bytes - a.bytes) / (b.at - a.at))
            .collect();
        slopes.sort_unstable_by(f64::total_cmp);
        Some(Trend {
            first: first.bytes,
            middle: middle.bytes,
            last: last.bytes,
            slope: *slopes.get(slopes.len() / 2)?,
            span: last.at - middle.at,
        })
    }

    /// Whether memory is flat along this line. `None` if the line is too short to determine this.
    fn is_flat(&self) -> Option<bool> {
        // The factor is less than a half, because the last reading is one interval before the end.
        (self.span >= LEAST.as_secs_f64() * 0.4)
            .then(|| self.slope * self.span < SLACK.max(self.middle / 100.0))
    }
}

impl std::fmt::Display for Trend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: f64| bytes / 1_048_576.0;
        let (first, middle, last) = (mib(self.first), mib(self.middle), mib(self.last));
        let word = match self.is_flat() {
            Some(true) => "flat",
            Some(false) => "GROWS",
            None => "too short to tell",
        };
        write!(
            f,
            "{first:.1} MiB at the start, {middle:.1} half-way, {last:.1} at the end; in the second half \
             {:+.2} MiB/h: {word}",
            mib(self.slope) * 3600.0
        )
    }
}

/// The client's frames in the host's record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Account {
    frames: BTreeSet<u32>,
    rows: usize,
    complete: usize,
    displayed: usize,
    dropped: usize,
    /// Unreadable rows.
    unread: usize,
}

impl Account {
    /// Reads the rows that follow the header.
    fn of(lines: impl Iterator<Item = String>) -> Account {
        let mut account = Account::default();
        for line in lines.skip(1) {
            account.rows += 1;
            let mut fields = line.split(',').skip(1);
            let frame = fields.next().and_then(|frame| frame.parse().ok());
            match (frame, fields.next()) {
                (Some(frame), Some(outcome)) => {
                    account.frames.insert(frame);
                    match outcome {
                        "complete" => account.complete += 1,
                        "concealed" | "tainted" => account.displayed += 1,
                        "dropped" => account.dropped += 1,
                        _ => account.unread += 1,
                    }
                }
                _ => account.unread += 1,
            }
        }
        account
    }

    /// Number of frames from the first to the last, both included. The host numbers them without a gap.
    fn captured(&self) -> usize {
        match (self.frames.first(), self.frames.last()) {
            (Some(first), Some(last)) => (last - first) as usize + 1,
            _ => 0,
        }
    }

    /// Whether at least one frame was captured, and each captured frame occurs once, with an outcome.
    fn adds_up(&self) -> bool {
        let ended = self.complete + self.displayed + self.dropped;
        let captured = self.captured();
        captured > 0 && captured == self.frames.len() && captured == self.rows && captured == ended
    }

    fn words(&self) -> String {
        let (captured, complete, displayed, dropped) =
            (self.captured(), self.complete, self.displayed, self.dropped);
        let verdict = match self.adds_up() {
            true => "adds up".to_owned(),
            false => format!(
                "DOES NOT ADD UP: {} rows for {} frames, {} unreadable",
                self.rows,
                self.frames.len(),
                self.unread
            ),
        };
        format!(
            "{captured} captured = {complete} complete + {displayed} concealed or tainted + {dropped} \
             dropped: {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(bytes: impl Fn(f64) -> f64) -> Vec<MemoryReading> {
        let at = (0..200).map(f64::from);
        at.map(|at| MemoryReading {
            at,
            bytes: bytes(at),
        })
        .collect()
    }

    #[test]
    fn growth_of_the_second_half_is_found_and_single_jumps_are_not() {
        const MIB: f64 = 1_048_576.0;
        // The memory grows at first, and then stays flat with occasional peaks.
        let filled = readings(|at| {
            let peak = if at as u64 % 10 == 3 { 30.0 * MIB } else { 0.0 };
            at.min(60.0) * MIB + peak
        });
        let trend = Trend::of(&filled).unwrap();
        assert_eq!(trend.is_flat(), Some(true), "{trend}");
        assert_eq!(trend.slope.to_bits(), 0.0_f64.to_bits());
        // The memory grows by 36 kB per second, under noise of half a MiB.
        let leak = readings(|at| 40.0 * MIB + at * 36e3 + (at as u64 % 7) as f64 * 75e3);
        let trend = Trend::of(&leak).unwrap();
        assert_eq!(trend.is_flat(), Some(false), "{trend}");
        let short = Trend::of(&leak[..40]).unwrap();
        assert_eq!(short.is_flat(), None, "{short}");
        assert!((trend.slope - 36e3).abs() < 2e3, "{trend:?}");
        assert_eq!(Trend::of(&leak[..FEWEST]), None);
    }

    #[test]
    fn interrupted_or_sparse_runs_are_not_judged() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        assert_eq!(doubt(minutes(60), minutes(60), 0.99), None);
        for (ran, asked, complete, why) in [
            (
                minutes(30),
                minutes(60),
                1.0,
                "interrupted after 1800 s of 3600 s",
            ),
            (
                Duration::from_secs(1),
                Duration::from_secs(1),
                1.0,
                "less than 60 s",
            ),
            (
                minutes(60),
                minutes(60),
                0.02,
                "only 2 % of the requested frames",
            ),
        ] {
            let doubt = doubt(ran, asked, complete).unwrap();
            assert!(doubt.contains(why), "{doubt}");
        }
    }

    #[test]
    fn gaps_repetitions_and_missing_outcomes_are_detected() {
        let of = |rows: &[&str]| {
            let header = std::iter::once("session,frame,outcome,…");
            Account::of(header.chain(rows.iter().copied()).map(str::to_owned))
        };
        let good = of(&[
            "7,3,complete,,",
            "7,5,dropped,Recoverable,Lost",
            "7,4,tainted,,",
        ]);
        assert!(good.adds_up());
        assert_eq!(
            good.words(),
            "3 captured = 1 complete + 1 concealed or tainted + 1 dropped: adds up"
        );
        for rows in [
            &["7,3,complete,,", "7,5,complete,,"][..],
            &["7,3,complete,,", "7,3,complete,,"],
            &["7,3,complete,,", "7,4,,,"],
            &["7,3,complete,,", "nonsense"],
            &[],
        ] {
            assert!(!of(rows).adds_up(), "{rows:?}");
        }
    }
}
