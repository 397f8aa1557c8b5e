//! Figures of a browser's runs. This module computes from recorded values; it reads no clock and starts no process.

use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_testbed::chromium::Statistics;
use openuvr_testbed::clicks::Lateness;
use openuvr_testbed::journey::{self, Step};
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::variant::Variant;
use crate::bench::rig::BrowserMeasurement;

/// The steps of a frame on its way to a browser. A browser does not report Decoded.
const STEPS: [(&str, &str); 8] = [
    ("drawn", "Captured"),
    ("Captured", "Converted"),
    ("Converted", "FirstSlice"),
    ("FirstSlice", "Encoded"),
    ("Encoded", "LastSent"),
    ("LastSent", "Recoverable"),
    ("Recoverable", "Submitted"),
    ("Captured", "Submitted"),
];

/// Maximum time from the arrival of a press at the page to its arrival at the X client. A later arrival belongs to
/// another press.
const LATEST: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Run {
    pub(super) browsing: BrowserMeasurement,
    /// Delays of the audio, or `None` without sound.
    pub(super) lateness: Option<Lateness>,
}

/// The figures of a browser over all its repetitions.
#[derive(Debug, Serialize)]
pub(super) struct Browser {
    pub(super) name: String,
    /// The variant of the host's stream.
    pub(super) variant: Variant,
    /// The rate at which the host sent media, with IP and UDP headers, in Mb/s.
    pub(super) sent_mbps: Option<Range>,
    /// From drawing to the hand-over to the compositor (Submitted), for every picture with a readable number.
    pub(super) p50_ms: Option<Range>,
    pub(super) p99_ms: Option<Range>,
    /// Frames per second drawn by the scene (`drawn_fps`); decoded by the browser (`decoded_fps`); passed to the
    /// browser's compositor (`presented_fps`); complete in the host's record (`complete_fps`); and reported to the page
    /// as handed over (`handed_fps`). The browser decodes only complete frames, because it does not decode a frame that
    /// lacks a packet. Its compositor takes one picture in each of its 60 slots per second. If two pictures fall into
    /// one slot, only the second is reported to the page.
    pub(super) drawn_fps: Option<Range>,
    pub(super) decoded_fps: Option<Range>,
    pub(super) presented_fps: Option<Range>,
    pub(super) complete_fps: Option<Range>,
    pub(super) handed_fps: Option<Range>,
    /// The longest time without a new picture.
    pub(super) freeze_ms: Option<Range>,
    /// Durations of the steps, over all repetitions.
    pub(super) steps: Vec<Step>,
    /// From a key press's arrival at the page to its arrival at an X client on the host's display.
    pub(super) input_ms: Option<Summary>,
    /// From the browser's creation of the event to its arrival at the page.
    pub(super) page_ms: Option<Summary>,
    pub(super) presses_lost: usize,
    /// `sound_ms`: the latency of an audio click from the host's sink to the browser's sink. `offset_ms`: that latency
    /// minus the latency of the click's flash, from its drawing to the hand-over to the compositor.
    pub(super) sound_ms: Option<Summary>,
    pub(super) offset_ms: Option<Summary>,
    /// Number of clicks at the host's sink without a counterpart at the browser's sink. `None` without sound.
    pub(super) unheard: Option<usize>,
    pub(super) host_cores: Option<Range>,
    pub(super) browser_cores: Option<Range>,
    /// The p99 of the emulated link's own lateness: the maximum of all runs.
    pub(super) link_late_ms: Option<f64>,
    /// The browser's own counters, one set for each run. They count from the start of the run.
    pub(super) statistics: Vec<Statistics>,
    /// Number of pictures with an unreadable bar code, and number of pictures replaced before they could be read.
    pub(super) unreadable: u64,
    pub(super) replaced: u64,
}

impl Browser {
    /// The figures over this link; `None` without runs.
    pub(super) fn of(link: &str, variant: Variant, runs: &[Run]) -> Option<Browser> {
        let all = || runs.iter().map(|run| &run.browsing);
        let range = |of: &dyn Fn(&BrowserMeasurement) -> Option<f64>| {
            Range::of(&all().filter_map(of).collect::<Vec<_>>())
        };
        let latency = |run: &BrowserMeasurement| {
            let spans: Vec<f64> = run.sightings.iter().map(Sighting::latency_ms).collect();
            Summary::of(&spans)
        };
        let pairs = Vec::from_iter(all().map(|run| presses(&run.watched.keys, &run.pressed)));
        let spans = |of: &dyn Fn(&Press) -> f64| {
            Summary::of(&pairs.iter().flatten().map(of).collect::<Vec<_>>())
        };
        let mut lateness: Option<Lateness> = None;
        for one in runs.iter().filter_map(|run| run.lateness.as_ref()) {
            lateness.get_or_insert_default().extend(one);
        }
        let received = |of: &dyn Fn(&Lateness) -> Vec<f64>| Summary::of(&of(lateness.as_ref()?));
        let made: usize = all().map(|run| run.watched.keys.len()).sum();
        (!runs.is_empty()).then(|| Browser {
            name: variant.case(link),
            variant,
            sent_mbps: range(&|run| Some(sent_mbps(run))),
            p50_ms: range(&|run| Some(latency(run)?.p50)),
            p99_ms: range(&|run| Some(latency(run)?.p99)),
            drawn_fps: range(&|run| Some(run.drawn.clone().count() as f64 / seconds(run))),
            decoded_fps: range(&|run| run.decoded_fps),
            presented_fps: range(&presented),
            complete_fps: range(&|run| Some(complete(run) as f64 / seconds(run))),
            handed_fps: range(&|run| Some(run.sightings.len() as f64 / seconds(run))),
            freeze_ms: range(&|run| Some(longest_freeze(run))),
            steps: steps(runs),
            input_ms: spans(&|press| press.arrived_ms),
            page_ms: spans(&|press| press.page_ms),
            presses_lost: made - pairs.iter().map(Vec::len).sum::<usize>(),
            sound_ms: received(&|lateness| lateness.sound_ms.clone()),
            offset_ms: received(&|lateness| lateness.offset_ms.clone()),
            unheard: lateness.as_ref().map(|lateness| lateness.unheard),
            host_cores: range(&|run| Some(run.host_cores)),
            browser_cores: range(&|run| Some(run.browser_cores)),
            link_late_ms: all().filter_map(|run| run.link_late_ms).reduce(f64::max),
            statistics: all().map(|run| run.watched.statistics).collect(),
            unreadable: all().map(|run| run.watched.unreadable).sum(),
            replaced: all().map(|run| run.watched.replaced).sum(),
        })
    }
}

/// A percentile excludes the samples that got lost, which would be the latest ones. If more than a tenth of the samples
/// got lost, it is not judged.
fn is_sparse(lost: usize, measured: Option<Summary>) -> bool {
    lost * 10 > lost + measured.map_or(0, |summary| summary.count)
}

impl Browser {
    /// The reason why the time of a key press is not judged, if there is one.
    pub(super) fn few_presses(&self) -> Option<&'static str> {
        is_sparse(self.presses_lost, self.input_ms).then_some("presses did not arrive")
    }

    /// The reason why the delay of the audio is not judged, if there is one.
    pub(super) fn few_heard(&self) -> Option<&'static str> {
        let unheard = self.unheard.unwrap_or(0);
        is_sparse(unheard, self.sound_ms).then_some("clicks were not heard")
    }
}

fn seconds(run: &BrowserMeasurement) -> f64 {
    let [from, to] = run.window;
    to.since(from).as_secs_f64()
}

/// The rows of the host's record for frames that were captured during the run.
fn captured(run: &BrowserMeasurement) -> impl Iterator<Item = &journey::Row> {
    let [from, to] = run.window.map(|at| at.0);
    let inside =
        move |row: &&journey::Row| row.at("Captured").is_some_and(|at| at >= from && at < to);
    run.record.iter().filter(inside)
}

/// Frames captured during the run that are complete in the host's record.
fn complete(run: &BrowserMeasurement) -> usize {
    captured(run).filter(|row| row.is_whole()).count()
}

/// The rate at which the host sent the frames that were captured during the run, in Mb/s.
fn sent_mbps(run: &BrowserMeasurement) -> f64 {
    let bytes: u64 = captured(run).map(|row| row.wire_bytes).sum();
    bytes as f64 * 8e-6 / seconds(run)
}

/// Pictures per second that the browser passed to its compositor. Counts from the first to the last picture reported to
/// the page in the window.
fn presented(run: &BrowserMeasurement) -> Option<f64> {
    let [from, to] = run.window;
    let pictures = run.watched.pictures.iter();
    let mut inside = pictures.filter(|picture| (from..=to).contains(&picture.at));
    let first = inside.next()?;
    let last = inside.next_back()?;
    let seconds = last.at.since(first.at).as_secs_f64();
    (seconds > 0.0).then(|| last.presented.saturating_sub(first.presented) as f64 / seconds)
}

/// The longest time without a new picture, in ms. The start and the end of the measurement count as pictures.
fn longest_freeze(run: &BrowserMeasurement) -> f64 {
    let [from, to] = run.window;
    let seen = run.watched.pictures.iter().map(|picture| picture.at);
    let inside = seen.filter(|at| (from..=to).contains(at));
    let times = Vec::from_iter([from].into_iter().chain(inside).chain([to]));
    let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
    gaps.max().unwrap_or_default().as_secs_f64() * 1e3
}

/// Durations of each step, from all runs.
fn steps(runs: &[Run]) -> Vec<Step> {
    let (mut sightings, mut rows) = (Vec::new(), Vec::new());
    for Run { browsing, .. } in runs {
        sightings.extend(&browsing.sightings);
        rows.extend(journey::join(&browsing.sightings, &browsing.record));
    }
    journey::these_steps(&STEPS, &sightings, &rows)
}

/// A press that arrived at the application.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Press {
    /// From the browser's creation of the event to its arrival at the page, ms.
    page_ms: f64,
    /// From the page to the application, ms.
    arrived_ms: f64,
}

/// The page's key presses that arrived at the host, each paired with the first arrival after it.
fn presses(keys: &[[Instant; 2]], received: &[Instant]) -> Vec<Press> {
    let mut left = received.iter().copied().peekable();
    let mut found = Vec::new();
    for [made, got] in keys {
        while left.next_if(|at| at < got).is_some() {}
        if let Some(at) = left.next_if(|at| at.since(*got) < LATEST) {
            found.push(Press {
                page_ms: got.since(*made).as_secs_f64() * 1e3,
                arrived_ms: at.since(*got).as_secs_f64() * 1e3,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use openuvr_testbed::chromium::{ComposedPicture, PageObservations};

    use super::*;

    fn at(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// A measurement with these pictures: frame number, and times of drawing and of hand-over in milliseconds after the
    /// start.
    fn browsing(pictures: &[(u32, u64, i64)]) -> BrowserMeasurement {
        let handed = pictures
            .iter()
            .map(|(frame, drawn, handed)| ComposedPicture {
                presented: u64::from(*frame),
                frame: *frame,
                drawn_us: drawn * 1000,
                inputs: 0,
                at: at(*handed),
            });
        let sightings = pictures.iter().map(|(frame, drawn, handed)| Sighting {
            frame: *frame,
            drawn_us: drawn * 1000,
            seen_us: u64::try_from(handed * 1000).unwrap(),
            inputs: 0,
        });
        BrowserMeasurement {
            window: [at(1000), at(2000)],
            drawn: 1..=60,
            decoded_fps: Some(59.5),
            sightings: sightings.collect(),
            watched: PageObservations {
                pictures: handed.collect(),
                keys: vec![[at(1500), at(1501)], [at(1600), at(1601)]],
                ..PageObservations::default()
            },
            record: Vec::new(),
            pressed: vec![at(1499), at(1502)],
            other_cores: 0.0,
            host_cores: 0.3,
            browser_cores: 0.5,
            link_late_ms: None,
        }
    }

    #[test]
    fn a_freeze_is_between_pictures_and_at_both_ends() {
        let between = browsing(&[(1, 1000, 1005), (2, 1016, 1205), (30, 1790, 1800)]);
        assert!((longest_freeze(&between) - 595.0).abs() < 1e-6);
        let at_the_end = browsing(&[(1, 1000, 1010), (2, 1016, 1100)]);
        assert!((longest_freeze(&at_the_end) - 900.0).abs() < 1e-6);
    }

    #[test]
    fn a_press_is_matched_with_the_first_arrival_after_it() {
        let run = Run {
            browsing: browsing(&[(1, 1000, 1006), (2, 1016, 1024)]),
            lateness: None,
        };
        let browser = Browser::of("direct", Variant::USUAL, &[run]).unwrap();
        // One of the two presses did not arrive.
        assert_eq!(browser.few_presses(), Some("presses did not arrive"));
        assert_eq!(browser.few_heard(), None);
        let input = browser.input_ms.unwrap();
        assert_eq!((input.count, browser.presses_lost), (1, 1));
        assert!((input.p50 - 1.0).abs() < 1e-6);
        assert_eq!(browser.p50_ms.map(|range| range.median), Some(6.0));
        assert_eq!(browser.p99_ms.map(|range| range.median), Some(8.0));
        assert_eq!(browser.drawn_fps.map(|range| range.median), Some(60.0));
        assert_eq!(browser.decoded_fps.map(|range| range.median), Some(59.5));
        // The second picture was handed over 18 ms after the first.
        let presented = browser.presented_fps.unwrap().median;
        assert!((presented - 1.0 / 0.018).abs() < 1e-6, "{presented}");
        assert_eq!((browser.unheard, browser.sound_ms), (None, None));
        assert_eq!(browser.name, "direct");
        assert!(Browser::of("direct", Variant::USUAL, &[]).is_none());
    }
}
