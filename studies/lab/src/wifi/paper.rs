//! Reproduces the simulations of "Experimental Evaluation of Interactive Edge/Cloud Virtual Reality Gaming over Wi-Fi
//! using Unity Render Streaming" (Casasnovas et al., section 8.2): its figures 19 to 22 and table 4, next to the
//! paper's own values.
//!
//! Each ambiguity of the paper is resolved in the same way for all figures:
//! * Delays of figure 19 count from the access point's queue, as the paper's text says. Delays of figure 21 count from
//!   the server. The same scenario is in both figures, with 1.20 ms in one and 1.35 ms in the other.
//! * In figures 21 and 22, the number of batches is drawn from 1 to 3 for every interval. With the range of the
//!   paper's text, 1 to ⌈T/τ⌉, frames take far longer than the paper reports: [`Table::literally`].
//! * "Buffer occupancy" is the number of packets queued at the access point when a packet arrives.
//! * The size of an A-MPDU is the number of its packets that were delivered.

use super::scenario::Scenario;
use super::setup::Setup;
use super::statistics::Estimate;
use super::study::{Repetition, Spread, Summary, Unfinished};
use super::traffic::{Batches, Video, interval};
use super::{Nanos, timing::Timing};

/// Permitted deviation from the paper's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Relative.
    Share(f64),
    /// Absolute.
    Absolute(f64),
    /// Reported, not judged.
    Reported,
}

/// A value of the paper next to ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Section or figure of the paper.
    pub place: &'static str,
    /// Description.
    pub what: String,
    /// Unit of both values.
    pub unit: &'static str,
    /// The paper's value.
    pub paper: f64,
    /// Our value.
    pub ours: Estimate,
    /// Permitted deviation.
    pub tolerance: Tolerance,
}

/// A trend that the paper describes.
#[derive(Debug, Clone, PartialEq)]
pub struct Trend {
    /// Section or figure of the paper.
    pub place: &'static str,
    /// Description.
    pub what: &'static str,
    /// Our values, in the order in which they should rise or fall.
    pub values: Vec<f64>,
    /// Whether our values follow the trend.
    pub holds: bool,
}

/// A scenario of the paper and its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The parameters that distinguish the scenario from the others.
    pub name: String,
    /// The results.
    pub summary: Summary,
}

/// The complete reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Delay of a single packet.
    pub single_packet: Nanos,
    /// The cases with 30, 60 and 90 frames per second.
    pub rates: Vec<Case>,
    /// The cases with 60 frames per second and the intervals of figures 21 and 22.
    pub intervals: Vec<Case>,
    /// The same cases, but with the number of batches that the paper's text states.
    pub literally: Vec<Case>,
    /// The paper's values next to ours.
    pub rows: Vec<Row>,
    /// Values that contradict each other in the paper, next to ours.
    pub contradictions: Vec<Row>,
    /// The trends that the paper describes, with our values.
    pub trends: Vec<Trend>,
}

/// Frames per second of figures 19 and 20.
pub const RATES: [f64; 3] = [30.0, 60.0, 90.0];

/// Milliseconds between batches in figures 21 and 22.
pub const INTERVALS: [f64; 5] = [0.01, 1.0, 2.0, 4.0, 5.56];

const PACKETS_BY_RATE: [f64; 3] = [1.32, 1.20, 1.12];
const AMPDU_BY_RATE: [f64; 3] = [13.0, 12.0, 11.0];
const PACKETS_BY_INTERVAL: [f64; 5] = [1.68, 1.40, 1.30, 1.30, 1.35];
const FRAMES_BY_INTERVAL: [f64; 5] = [3.10, 3.52, 4.45, 6.40, 8.18];

/// Bytes of a packet.
pub const PACKET: u32 = 1243;

/// The paper's benchmark: delay of a single packet, in nanoseconds.
pub const SINGLE_PACKET: Nanos = 374_000;

/// Number of scenarios, each of which is repeated.
pub const CASES: usize = RATES.len() + 2 * (INTERVALS.len() - 1);

/// Runs the paper's simulations. Before each run, `keep_going` is called with the name of the scenario. If it returns
/// false, the simulations stop.
///
/// # Errors
/// Returns an error if `keep_going` has returned false.
pub fn run(
    repetition: &Repetition,
    lasting: Nanos,
    keep_going: &mut dyn FnMut(&str) -> bool,
) -> Result<Table, Unfinished> {
    let mut case = |name: String, reading: &str, video: Video| {
        let scenario = Scenario {
            video,
            lasting,
            ..Scenario::paper()
        };
        let label = format!("{name}{reading}");
        let summary = repetition.run(&scenario, &mut || keep_going(&label))?;
        Ok::<Case, Unfinished>(Case { name, summary })
    };
    let mut rates = Vec::new();
    for fps in RATES {
        let video = Video {
            fps,
            ..Video::default()
        };
        rates.push(case(format!("{fps} frames/s"), "", video)?);
    }
    let (mut intervals, mut literally) = (Vec::new(), Vec::new());
    for tau in INTERVALS {
        // The case with 5.56 ms equals the case with 60 frames/s above.
        let (name, known) = (format!("tau {tau} ms"), tau == 5.56);
        let readings = [
            (3, ", up to 3 batches", &mut intervals),
            (0, ", up to T/τ batches", &mut literally),
        ];
        for (batches, reading, cases) in readings {
            let video = Video {
                interval: interval(tau),
                batches: Batches::UpTo(batches),
                ..Video::default()
            };
            cases.push(match known {
                true => Case {
                    name: name.clone(),
                    summary: rates[1].summary.clone(),
                },
                false => case(name.clone(), reading, video)?,
            });
        }
    }
    let timing = Setup::paper().timing()?;
    Ok(Table::new(&timing, rates, intervals, literally))
}

impl Table {
    fn new(timing: &Timing, rates: Vec<Case>, intervals: Vec<Case>, literally: Vec<Case>) -> Table {
        let single_packet = timing.single_packet(PACKET, 11, 2);
        let mut table = Table {
            single_packet,
            rows: Vec::new(),
            contradictions: Vec::new(),
            trends: Vec::new(),
            rates,
            intervals,
            literally,
        };
        table.rows = table.rows();
        table.contradictions = table.contradictions();
        table.trends = table.trends();
        table
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |place, what: String, unit, paper, ours: Option<Estimate>, tolerance| {
            rows.extend(ours.map(|ours| Row {
                place,
                what,
                unit,
                paper,
                ours,
                tolerance,
            }));
        };
        let near = Tolerance::Share(0.05);
        for (case, paper) in self.rates.iter().zip(PACKETS_BY_RATE) {
            let what = format!("packet delay from its arrival in the queue, {}", case.name);
            let ours = mean(case.summary.packets_from_queue);
            add("fig. 19", what, "ms", paper, ours, near);
        }
        for (case, paper) in self.rates.iter().zip(AMPDU_BY_RATE) {
            let what = format!("A-MPDU, packets delivered, {}", case.name);
            let ours = mean(case.summary.delivered);
            add("fig. 20", what, "", paper, ours, Tolerance::Absolute(1.0));
        }
        for (case, paper) in [(&self.rates[0], 26.0), (&self.rates[2], 17.0)] {
            let what = format!(
                "packets that an arriving packet finds queued, {}",
                case.name
            );
            let ours = case.summary.found;
            add("8.2.1", what, "", paper, ours, Tolerance::Share(0.15));
        }
        for (case, paper) in self.intervals.iter().zip(PACKETS_BY_INTERVAL) {
            let what = format!("packet delay from the server, {}", case.name);
            let ours = mean(case.summary.packets);
            add("fig. 21", what, "ms", paper, ours, near);
        }
        for (case, paper) in self.intervals.iter().zip(FRAMES_BY_INTERVAL) {
            let what = format!("frame delay, {}", case.name);
            let ours = mean(case.summary.frames);
            add("fig. 22", what, "ms", paper, ours, Tolerance::Share(0.04));
        }
        rows
    }

    /// Contradictions in the paper, with our value for each way of reading it.
    fn contradictions(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |place, what: String, unit, paper, ours: Option<Estimate>| {
            rows.extend(ours.map(|ours| Row {
                place,
                what,
                unit,
                paper,
                ours,
                tolerance: Tolerance::Reported,
            }));
        };
        for (case, paper) in [(&self.rates[0], 16.0), (&self.rates[2], 35.0)] {
            let Summary { down, up, .. } = &case.summary;
            let what = format!("airtime of the access point, {}", case.name);
            add("8.2.1", what, "%", paper, *down);
            let both = down.zip(*up).map(|(down, up)| Estimate {
                mean: down.mean + up.mean,
                half: None,
            });
            let what = format!("airtime both ways, {}", case.name);
            add("8.2.1", what, "%", paper, both);
        }
        for (case, paper) in self.rates.iter().zip(PACKETS_BY_RATE) {
            let what = format!("packet delay from the server, {}", case.name);
            add("fig. 19", what, "ms", paper, mean(case.summary.packets));
        }
        for (case, paper) in self.literally.iter().zip(FRAMES_BY_INTERVAL) {
            let what = format!("frame delay with 1 to ⌈T/τ⌉ batches, {}", case.name);
            add("fig. 22", what, "ms", paper, mean(case.summary.frames));
        }
        rows
    }

    fn trends(&self) -> Vec<Trend> {
        let of = |cases: &[Case], value: fn(&Summary) -> Option<Estimate>| -> Vec<f64> {
            let values = cases.iter().map(|case| value(&case.summary));
            values.map(|e| e.map_or(f64::NAN, |e| e.mean)).collect()
        };
        let rises = |values: &[f64]| values.is_sorted_by(|a, b| a < b);
        let falls = |values: &[f64]| values.is_sorted_by(|a, b| a > b);
        let mut trends = Vec::new();
        let mut add = |place, what, values: Vec<f64>, is: &dyn Fn(&[f64]) -> bool| {
            trends.push(Trend {
                place,
                what,
                holds: is(&values),
                values,
            });
        };
        add(
            "fig. 19",
            "packet delay falls as the frame rate rises, ms",
            of(&self.rates, |s| mean(s.packets_from_queue)),
            &falls,
        );
        add(
            "fig. 20",
            "A-MPDUs become smaller as the frame rate rises",
            of(&self.rates, |s| mean(s.delivered)),
            &falls,
        );
        add(
            "8.2.1",
            "airtime of the access point rises with the frame rate, %",
            of(&self.rates, |s| s.down),
            &rises,
        );
        // From 4 ms on, batches don't overlap, so a longer interval has no effect.
        add(
            "8.2.2",
            "airtime of the access point falls as the interval becomes shorter (4 to 0.01 ms), %",
            of(&self.intervals[..4], |s| s.down),
            &rises,
        );
        add(
            "fig. 22",
            "frame delay rises with the interval, ms",
            of(&self.intervals, |s| mean(s.frames)),
            &rises,
        );
        trends
    }

    /// Mean relative error of our values.
    #[must_use]
    pub fn mean_error(&self) -> f64 {
        let errors = self.rows.iter().map(|row| row.error().abs());
        errors.sum::<f64>() / self.rows.len() as f64
    }

    /// Whether all judged figures and trends are reproduced.
    #[must_use]
    pub fn is_reproduced(&self) -> bool {
        self.single_packet == SINGLE_PACKET
            && self.rows.iter().all(Row::is_within)
            && self.trends.iter().all(|trend| trend.holds)
    }
}

impl Row {
    /// Relative error of our value.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.ours.mean - self.paper) / self.paper
    }

    /// Whether our value is within the tolerance.
    #[must_use]
    pub fn is_within(&self) -> bool {
        match self.tolerance {
            Tolerance::Share(share) => self.error().abs() <= share,
            Tolerance::Absolute(most) => (self.ours.mean - self.paper).abs() <= most,
            Tolerance::Reported => true,
        }
    }
}

fn mean(spread: Option<Spread>) -> Option<Estimate> {
    spread.map(|spread| spread.mean)
}
