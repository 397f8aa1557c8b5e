//! Our own client with observers of the same encode.

use anyhow::Result;
use openuvr_testbed::pair::TemporaryDir;
use openuvr_testbed::stats::Range;
use serde::Serialize;

use super::Bench;
use crate::bench::case::Stream;
use crate::bench::peers::moonlight;
use crate::bench::rig::{ObserverResults, Observers, Rig, Source, StreamSetup};

/// Number of video players in the largest case. A host serves at most this many video players from one network.
pub(super) const MANY: usize = 4;

/// The case with one observer of each kind.
const KINDS: &str = "kinds";

/// The sets of observers, in the order of the runs.
const CASES: [(&str, &str, ObserverMix); 5] = [
    (
        "alone",
        "no observer",
        ObserverMix {
            browser: false,
            moonlight: false,
            players: 0,
            stalled: false,
        },
    ),
    (
        "beside",
        "a browser and a video player",
        ObserverMix {
            browser: true,
            moonlight: false,
            players: 1,
            stalled: false,
        },
    ),
    (
        "many",
        "a browser and four video players",
        ObserverMix {
            browser: true,
            moonlight: false,
            players: MANY,
            stalled: false,
        },
    ),
    (
        KINDS,
        "a browser, a video player and a Moonlight client",
        ObserverMix {
            browser: true,
            moonlight: true,
            players: 1,
            stalled: false,
        },
    ),
    (
        "stalled",
        "a stopped video player that reads nothing",
        ObserverMix {
            browser: false,
            moonlight: false,
            players: 1,
            stalled: true,
        },
    ),
];

#[derive(Clone, Copy, Debug)]
struct ObserverMix {
    browser: bool,
    moonlight: bool,
    players: usize,
    stalled: bool,
}

/// A configuration, and its runs.
pub(super) struct ObserverCase {
    name: &'static str,
    what: &'static str,
    kind: ObserverMix,
    runs: Vec<(Stream, ObserverResults)>,
}

/// The figures of our own client in one configuration over all its repetitions.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// Drawn to visible.
    pub(super) p50_ms: Option<Range>,
    pub(super) p99_ms: Option<Range>,
    /// Share of drawn frames displayed completely; the minimum of the repetitions.
    pub(super) complete: Option<f64>,
    pub(super) host_cores: Option<Range>,
    /// Number of encoders that a host opened: the maximum of the repetitions.
    pub(super) encoders_opened: usize,
    /// Number of missing and duplicate rows in the host's record, for all subscribers together.
    pub(super) unaccounted: usize,
    /// For each repetition, the subscribers and the outcomes of their frames.
    pub(super) company: Vec<ObserverResults>,
}

/// All configurations whose programs are installed, without runs. The bench as a whole requires the browser.
pub(super) fn ways() -> Vec<ObserverCase> {
    let missing = moonlight::missing();
    if let Some(what) = &missing {
        eprintln!("bench web: {KINDS}: skipped: install {what}");
    }
    let empty = |(name, what, kind): &(&'static str, &'static str, ObserverMix)| ObserverCase {
        name,
        what,
        kind: *kind,
        runs: Vec::new(),
    };
    let installed = CASES
        .iter()
        .filter(|(.., kind)| !kind.moonlight || missing.is_none());
    installed.map(empty).collect()
}

impl ObserverCase {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.runs.iter().map(|(stream, _)| stream)
    }

    /// Measures the configuration once.
    pub(super) fn measure(&mut self, bench: &Bench<'_>) -> Result<()> {
        let dir = TemporaryDir::new()?;
        let mut rig = Rig::start(bench.setup, bench.stop)?;
        let off = ["--sound", "off"].map(str::to_owned);
        let of = StreamSetup {
            pads: None,
            source: Source::Screen,
            cable: None,
            impaired: None,
            fps: bench.fps(),
            bitrate: &bench.args.options.bitrate,
            seconds: bench.turns.seconds,
            presses: 0,
            compare: false,
            dir: dir.path(),
            csv: &dir.path().join("frames.csv"),
            sound: None,
            more_host: &off,
            more_client: &off,
        };
        let ObserverMix {
            browser,
            moonlight: has_moonlight,
            players,
            stalled,
        } = self.kind;
        let python = moonlight::python();
        let watchers = Observers {
            moonlight: has_moonlight.then_some(python.as_path()),
            browser: browser.then_some(bench.program),
            players,
            stalled,
        };
        self.runs.push(rig.stream_beside(&of, watchers)?);
        Ok(())
    }

    /// The figures of all runs of this configuration, or `None` without runs.
    pub(super) fn figures(&self) -> Option<Beside> {
        let range = |of: &dyn Fn(&Stream) -> Option<f64>| {
            Range::of(&self.streams().filter_map(of).collect::<Vec<_>>())
        };
        let company = || self.runs.iter().map(|(_, company)| company);
        (!self.runs.is_empty()).then(|| Beside {
            name: self.name,
            what: self.what,
            p50_ms: range(&|stream| Some(stream.case.latency_ms?.p50)),
            p99_ms: range(&|stream| Some(stream.case.latency_ms?.p99)),
            complete: self
                .streams()
                .filter_map(Stream::complete_share)
                .reduce(f64::min),
            host_cores: range(&|stream| stream.cores_of("host")),
            encoders_opened: company().map(|one| one.encoders_opened).max().unwrap_or(0),
            unaccounted: company().map(ObserverResults::unaccounted).sum(),
            company: company().cloned().collect(),
        })
    }
}
