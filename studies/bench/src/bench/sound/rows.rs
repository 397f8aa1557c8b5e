//! The rows and targets of `bench sound`, and their output.

use openuvr_testbed::clicks::Lateness;
use openuvr_testbed::stats::{Range, Summary};
use serde::Serialize;

use super::super::case::Stream;
use super::super::heading::Heading;
use super::super::verdict::line;
use super::Measured;

/// Targets of audio with null sinks and packets of 5 ms, on a quiet machine with two cores.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Targets {
    /// Latency from the host's sink to the client's.
    p50_ms: f64,
    p99_ms: f64,
    /// Median offset to the video, in either direction.
    offset_ms: f64,
    /// Cores used by audio, for the host and for the client.
    cores: f64,
    /// Duration of the longest concealment on a lossy link.
    concealment_ms: f64,
}

impl Default for Targets {
    fn default() -> Targets {
        Targets {
            p50_ms: 25.0,
            p99_ms: 40.0,
            offset_ms: 15.0,
            cores: 0.02,
            concealment_ms: 20.0,
        }
    }
}

/// One configuration, over its repetitions.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    name: &'static str,
    /// Drawn to visible.
    p50_ms: Option<Range>,
    p99_ms: Option<Range>,
    /// Share of drawn frames displayed completely; the minimum of the repetitions.
    complete: Option<f64>,
    host_cores: Option<Range>,
    client_cores: Option<Range>,
    /// Number of these cores that the audio threads used.
    host_audio_cores: Option<Range>,
    client_audio_cores: Option<Range>,
    /// Latency of clicks from the host's sink to the client's. This and all following fields are `None` without sound.
    sound_ms: Option<Summary>,
    /// The same latency minus that of the flash. If it is positive, the sound is later than the picture.
    offset_ms: Option<Summary>,
    /// Time from the drawing of a flash to its click at the host's sink.
    made_ms: Option<Summary>,
    unheard: Option<usize>,
    /// Audio latency from capture to playback, as the client reports it: one median per second.
    reported_ms: Option<Summary>,
    /// The target playout delay in the client's last report of each repetition.
    delay_ms: Option<Range>,
    /// Total number of concealed sample frames.
    concealed: Option<u64>,
}

/// Cores used by audio: the median of the repetitions with sound minus the median of those without.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    host: f64,
    client: f64,
}

/// Figures of one lossy link.
#[derive(Debug, Serialize)]
pub(super) struct LinkRow {
    name: &'static str,
    sound_ms: Option<Summary>,
    offset_ms: Option<Summary>,
    unheard: usize,
    /// The target playout delay in the client's last report.
    delay_ms: Option<f64>,
    concealed: Option<u64>,
    /// The duration of the longest concealment, including the silence after it.
    longest_ms: Option<f64>,
}

/// The JSON output.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) head: Heading,
    pub(super) targets: Targets,
    pub(super) ways: Vec<Row>,
    pub(super) cost: Option<Cost>,
    pub(super) links: Vec<LinkRow>,
}

fn range(all: &[Measured], of: &dyn Fn(&Stream) -> Option<f64>) -> Option<Range> {
    let values: Vec<f64> = all.iter().filter_map(|m| of(&m.stream)).collect();
    Range::of(&values)
}

impl Row {
    pub(super) fn of(name: &'static str, all: &[Measured]) -> Row {
        let audio =
            |end: &'static str| range(all, &move |s: &Stream| s.case.audio_cores.get(end).copied());
        let mut lateness: Option<Lateness> = None;
        for one in all.iter().filter_map(|m| m.lateness.as_ref()) {
            lateness.get_or_insert_default().extend(one);
        }
        let figures = || all.iter().filter_map(|m| m.figures.as_ref());
        let reported: Vec<f64> = figures().flat_map(|f| f.latencies.clone()).collect();
        let delays: Vec<f64> = figures().map(|f| f.delay).collect();
        let of = |samples: &dyn Fn(&Lateness) -> Vec<f64>| {
            Summary::of(&lateness.as_ref().map(samples).unwrap_or_default())
        };
        Row {
            name,
            p50_ms: range(all, &|s| Some(s.case.latency_ms?.p50)),
            p99_ms: range(all, &|s| Some(s.case.latency_ms?.p99)),
            complete: (all.iter())
                .filter_map(|m| m.stream.complete_share())
                .reduce(f64::min),
            host_cores: range(all, &|s| s.cores_of("host")),
            client_cores: range(all, &|s| s.cores_of("client")),
            host_audio_cores: audio("host"),
            client_audio_cores: audio("client"),
            sound_ms: of(&|l| l.sound_ms.clone()),
            offset_ms: of(&|l| l.offset_ms.clone()),
            made_ms: of(&|l| l.made_ms.clone()),
            unheard: lateness.as_ref().map(|l| l.unheard),
            reported_ms: Summary::of(&reported),
            delay_ms: Range::of(&delays),
            concealed: figures()
                .next()
                .map(|_| figures().map(|f| f.concealed).sum()),
        }
    }
}

impl Row {
    /// The reason why percentiles of the clicks are not judged: more than this percentage of the clicks was not heard.
    /// Clicks that were not heard are missing from the percentiles, but they would be the latest ones.
    fn few_heard(&self, percent: usize) -> Option<&'static str> {
        let unheard = self.unheard.unwrap_or(0);
        let made = unheard + self.sound_ms.map_or(0, |summary| summary.count);
        (unheard * 100 > made * percent).then_some("clicks were not heard")
    }
}

impl Cost {
    pub(super) fn of(without: &[Measured], with: &[Measured]) -> Option<Cost> {
        let median = |all: &[Measured], end| Some(range(all, &|s| s.cores_of(end))?.median);
        let of = |end| Some(median(with, end)? - median(without, end)?);
        Some(Cost {
            host: of("host")?,
            client: of("client")?,
        })
    }
}

impl LinkRow {
    pub(super) fn of(name: &'static str, measured: &Measured) -> LinkRow {
        let lateness = measured.lateness.clone().unwrap_or_default();
        let figures = measured.figures.as_ref();
        LinkRow {
            name,
            sound_ms: Summary::of(&lateness.sound_ms),
            offset_ms: Summary::of(&lateness.offset_ms),
            unheard: lateness.unheard,
            delay_ms: figures.map(|f| f.delay),
            concealed: figures.map(|f| f.concealed),
            longest_ms: figures.map(|f| f.longest_ms()),
        }
    }
}

impl Report {
    pub(super) fn print(&self) {
        self.head.print("sound", "");
        println!(
            "\n{:<10} {:>20} {:>6} {:>8} {:>17} {:>17} {:>15}",
            "",
            "p50 ms (range)",
            "p99",
            "complete",
            "host's cores",
            "client's cores",
            "sound's threads"
        );
        let in_words = |range: &Option<Range>| {
            range.as_ref().map_or("no data".to_owned(), |range| {
                format!("{:.2} ({:.2}-{:.2})", range.median, range.min, range.max)
            })
        };
        let share = |range: &Option<Range>| {
            range
                .as_ref()
                .map_or("-".to_owned(), |r| format!("{:.3}", r.median))
        };
        for row in &self.ways {
            println!(
                "{:<10} {:>20} {:>6.2} {:>6.0} % {:>17} {:>17} {:>15}",
                row.name,
                in_words(&row.p50_ms),
                row.p99_ms.as_ref().map_or(f64::NAN, |range| range.median),
                row.complete.unwrap_or(f64::NAN) * 100.0,
                in_words(&row.host_cores),
                in_words(&row.client_cores),
                format!(
                    "{} {}",
                    share(&row.host_audio_cores),
                    share(&row.client_audio_cores)
                )
            );
        }
        println!();
        let Some(row) = self.ways.last() else { return };
        let all = |name: &str, summary: Option<Summary>| {
            if let Some(s) = summary {
                println!(
                    "{name:<36} p50 {:.1} ms, p99 {:.1}, {:.1} to {:.1}, of {}",
                    s.p50, s.p99, s.min, s.max, s.count
                );
            }
        };
        all("click, host's sink to client's", row.sound_ms);
        all("click's latency minus the flash's", row.offset_ms);
        all("from drawing the flash to the click", row.made_ms);
        all("client-reported latency, each second", row.reported_ms);
        if let Some(delay) = &row.delay_ms {
            println!("{:<36} {:.1} ms", "target buffer", delay.median);
        }
        if let (Some(concealed), Some(unheard)) = (row.concealed, row.unheard) {
            println!(
                "{:<36} {concealed} sample frames; {unheard} clicks not heard",
                "concealed"
            );
        }
        for link in &self.links {
            println!("\n{}", link.name);
            all("click, host's sink to client's", link.sound_ms);
            all("click's latency minus the flash's", link.offset_ms);
            if let (Some(delay), Some(concealed), Some(longest)) =
                (link.delay_ms, link.concealed, link.longest_ms)
            {
                println!("{:<36} {delay:.1} ms", "target buffer");
                println!(
                    "{:<36} {concealed} sample frames, longest gap {longest:.0} ms; {} clicks not heard",
                    "concealed", link.unheard
                );
            }
        }
        println!();
        for line in self.verdicts() {
            println!("{line}");
        }
    }

    fn verdicts(&self) -> Vec<String> {
        let (targets, withheld) = (self.targets, self.head.withheld());
        let with = self.ways.last();
        let sound = with.and_then(|row| row.sound_ms);
        let offset = with.and_then(|row| row.offset_ms);
        let [few, too_few] = [1, 10].map(|percent| with.and_then(|row| row.few_heard(percent)));
        let mut lines = vec![
            line(
                "sink to sink, p50",
                sound.map(|s| s.p50),
                targets.p50_ms,
                "ms",
                withheld.or(too_few),
            ),
            line(
                "sink to sink, p99",
                sound.map(|s| s.p99),
                targets.p99_ms,
                "ms",
                withheld.or(few),
            ),
            line(
                "offset to the video, p50",
                offset.map(|s| s.p50),
                targets.offset_ms,
                "ms",
                withheld.or(too_few),
            ),
            line(
                "audio cores at the host",
                self.cost.map(|cost| cost.host),
                targets.cores,
                "",
                withheld,
            ),
            line(
                "audio cores at the client",
                self.cost.map(|cost| cost.client),
                targets.cores,
                "",
                withheld,
            ),
        ];
        for link in &self.links {
            let what = format!("{}: longest concealment", link.name);
            lines.push(line(
                &what,
                link.longest_ms,
                targets.concealment_ms,
                "ms",
                self.head.quick(),
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_without_the_latest_clicks_are_not_judged() {
        let row = |heard: usize, unheard: usize| Row {
            sound_ms: Summary::of(&vec![20.0; heard]),
            unheard: Some(unheard),
            ..Row::of("with sound", &[])
        };
        let judged = |row: Row| [1, 10].map(|percent| row.few_heard(percent).is_none());
        assert_eq!(judged(row(100, 0)), [true, true]);
        assert_eq!(judged(row(99, 1)), [true, true]);
        assert_eq!(judged(row(95, 5)), [false, true]);
        assert_eq!(judged(row(50, 50)), [false, false]);
        assert_eq!(judged(row(0, 3)), [false, false]);
        assert_eq!(judged(Row::of("without", &[])), [true, true]);
    }
}
