//! Writes the measurements as a table on the terminal, as CSV rows, and as figures with series of points.
//!
//! This module measures nothing.

use std::fmt::Write as _;
use std::time::Duration;

use openuvr_proto::units::{Bitrate, Size};
use openuvr_testbed::stats::percentile;
use serde::Serialize;

use super::clips::StoredClip;
use super::condition::{Condition, Vary};
use super::point::{Point, Traffic};
use crate::machine::{Machine, QUIET};

/// Number of frames in a batch. The results include the mean of the worst batch.
pub(super) const BATCH: usize = 150;

/// Maximum lateness of the emulated link: a sixteenth of a frame at 60 Hz. If the link is later, the point is
/// unreliable.
const LATE: Duration = Duration::from_millis(1);

/// The results of a point, with its clip and conditions.
pub(super) struct Measured {
    pub(super) content: String,
    pub(super) condition: Condition,
    pub(super) point: Point,
}

/// The conditions that all points have in common.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Conditions {
    pub(super) bitrate: String,
    pub(super) fps: u32,
    #[serde(serialize_with = "as_text")]
    pub(super) size: Size,
    pub(super) seconds: f64,
}

fn as_text<S: serde::Serializer>(size: &Size, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(size)
}

/// The JSON output of a run.
#[derive(Debug, Serialize)]
pub(super) struct File<'a> {
    #[serde(flatten)]
    conditions: &'a Conditions,
    target_mbps: Option<f64>,
    height_pixels: u32,
    quick: bool,
    /// Number of cores that other processes used during a measurement: the maximum over all points.
    other_cores: f64,
    /// The points without a measurement.
    incomplete: Vec<String>,
    /// The unreliable points, each with the reason: the emulated link was late, or the bench missed many pictures.
    unreliable: Vec<String>,
    figures: Vec<Figure>,
}

/// A line plot.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    title: String,
    /// `PSNR`, `SSIM`, or a measure of the network load: `bit rate`, `packet rate`, `payload`.
    measure: &'static str,
    /// The varied quantity; `None` for a figure of the network load.
    varied: Option<&'static str>,
    /// Axis labels, with units.
    x: String,
    y: String,
    series: Vec<Series>,
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    name: String,
    constant_rate: bool,
    loss_percent: u32,
    points: Vec<PlotPoint>,
}

/// A point of a line. `worst` is the mean of the worst batch. `lo` and `hi` are the 5th and the 95th percentiles of the
/// frames. For a network load, all three are equal to `mean`.
#[derive(Clone, Debug, Serialize)]
struct PlotPoint {
    x: f64,
    /// Label at `x`.
    label: String,
    mean: f64,
    worst: f64,
    lo: f64,
    hi: f64,
    /// The mean of each batch, or the network load in each second. Confidence intervals are computed from these values.
    batch_means: Vec<f64>,
}

/// All points of a run.
pub(super) struct Table {
    conditions: Conditions,
    all: Vec<Measured>,
    /// Points without a measurement.
    missing: Vec<(String, Condition)>,
}

impl Table {
    pub(super) fn new(conditions: Conditions) -> Table {
        println!("machine  {}", Machine::this());
        Table {
            conditions,
            all: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Whether no point has been measured.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of points without a measurement.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Records and prints that a point could not be measured, with the reason.
    pub(super) fn miss(&mut self, content: String, condition: Condition, why: &anyhow::Error) {
        println!("{condition:<26} missing: {why:#}");
        self.missing.push((content, condition));
    }

    /// Prints the heading above the lines of a clip.
    pub(super) fn print_heading(&self, clip: &StoredClip) {
        println!(
            "\n{} at {} frames/s, bitrate {}\n{:<26} {:>13} {:>15} {:>13} {:>13} {:>8} {:>6}",
            clip.name,
            self.conditions.fps,
            self.conditions.bitrate,
            "",
            "PSNR dB",
            "SSIM",
            "down",
            "up",
            "shown",
            "not"
        );
        println!(
            "{:<26} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>8} {:>6}",
            "",
            "mean",
            "worst",
            "mean",
            "worst",
            "Mb/s",
            "pkt/s",
            "Mb/s",
            "pkt/s",
            "complete",
            "read"
        );
    }

    /// Adds a point and prints its line.
    pub(super) fn add(&mut self, measured: Measured) {
        println!("{}", measured.line());
        self.all.push(measured);
    }

    /// Prints which points are missing and which are unreliable.
    pub(super) fn print_verdict(&self) {
        for (content, condition) in &self.missing {
            println!("missing: {content} {condition}");
        }
        for words in self.unreliable() {
            println!("unreliable: {words}");
        }
        for one in &self.all {
            if one.point.other_cores > QUIET {
                println!(
                    "unreliable: at {} {}, other processes used {:.1} cores",
                    one.content, one.condition, one.point.other_cores
                );
            }
        }
    }

    /// The points at which the emulated link was late, or at which the bench missed many pictures.
    fn unreliable(&self) -> Vec<String> {
        let mut found = Vec::new();
        for one in &self.all {
            let place = format!("at {} {}", one.content, one.condition);
            if let Some(late) = one.point.link_late.filter(|late| *late > LATE) {
                found.push(format!(
                    "{place}, the p99 of the emulated link's own lateness was {late:.1?}"
                ));
            }
            let unseen = one.point.unseen as usize;
            let all = one.point.psnr.len() + unseen;
            if unseen * 10 > all {
                found.push(format!(
                    "{place}, the bench itself failed to see {unseen} of {all} pictures"
                ));
            }
        }
        found
    }

    /// CSV with a header and a row per point.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "content,delay_ms,loss_percent,link_mbps,gop,rate,frames,psnr_mean,psnr_worst,\
             psnr_lo,psnr_hi,ssim_mean,ssim_worst,ssim_lo,ssim_hi,down_mbps,down_packets,\
             down_payload,up_mbps,up_packets,up_payload,complete,concealed,tainted,dropped,\
             not_captured,unseen,link_late_us,other_cores\n",
        );
        for Measured {
            content,
            condition: c,
            point,
        } in &self.all
        {
            let or_none = |value: Option<u32>| value.map_or("none".into(), |v| v.to_string());
            let rate = if c.constant { "constant" } else { "adaptive" };
            let late = point.link_late.map_or(0, |late| late.as_micros());
            let _ = write!(
                text,
                "{content},{},{},{},{},{rate},{}",
                c.delay_ms,
                c.loss_percent,
                or_none(c.mbps),
                or_none(c.gop),
                point.psnr.len()
            );
            for values in [&point.psnr, &point.ssim] {
                let [mean, worst, lo, hi] = Spread::of(values).map_or([f64::NAN; 4], |s| s.0);
                let _ = write!(text, ",{mean:.4},{worst:.4},{lo:.4},{hi:.4}");
            }
            for Traffic {
                mbps,
                rate,
                payload,
            } in [point.down, point.up]
            {
                let _ = write!(text, ",{mbps:.4},{rate:.1},{payload:.1}");
            }
            for word in [
                "complete",
                "concealed",
                "tainted",
                "dropped",
                "not captured",
            ] {
                let _ = write!(text, ",{}", point.ended(word));
            }
            let _ = writeln!(text, ",{},{late},{:.3}", point.unseen, point.other_cores);
        }
        text
    }

    /// The JSON output for plotting.
    pub(super) fn file(&self, varied: &[Vary], quick: bool) -> File<'_> {
        let bitrate = self.conditions.bitrate.parse::<Bitrate>();
        File {
            conditions: &self.conditions,
            target_mbps: bitrate.ok().map(|bitrate| bitrate.0 as f64 / 1e6),
            height_pixels: self.conditions.size.height,
            quick,
            other_cores: (self.all.iter())
                .map(|one| one.point.other_cores)
                .fold(0.0, f64::max),
            incomplete: (self.missing.iter())
                .map(|(content, condition)| format!("{content} {condition}"))
                .collect(),
            unreliable: self.unreliable(),
            figures: self.figures(varied),
        }
    }

    /// The figures for each varied quantity, and the figures of the network load.
    fn figures(&self, varied: &[Vary]) -> Vec<Figure> {
        let mut figures = Vec::new();
        for vary in varied {
            for (name, y, of) in [
                ("PSNR", "luma PSNR, dB", psnr as fn(&Point) -> &[f64]),
                ("SSIM", "luma SSIM", ssim),
            ] {
                figures.push(Figure {
                    title: format!("{name} against {}", vary.title()),
                    measure: name,
                    varied: Some(vary.word()),
                    x: vary.axis().to_owned(),
                    y: y.to_owned(),
                    series: self.series(*vary, of),
                });
            }
        }
        figures.extend(self.loads());
        figures
    }

    fn series(&self, vary: Vary, of: fn(&Point) -> &[f64]) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        for kind in 0..2 {
            for one in &self.all {
                let place = vary.place(&one.condition);
                let Some((_, x, label)) = place.filter(|(line, ..)| *line == kind) else {
                    continue;
                };
                let values = of(&one.point);
                let Some(Spread([mean, worst, lo, hi])) = Spread::of(values) else {
                    continue;
                };
                let name = format!("{}{}", one.content, vary.kinds()[kind]);
                let place = PlotPoint {
                    x,
                    label,
                    mean,
                    worst,
                    lo,
                    hi,
                    batch_means: batch_means(values),
                };
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(place),
                    None => series.push(Series {
                        name,
                        constant_rate: one.condition.constant,
                        loss_percent: match vary {
                            Vary::Loss => 0,
                            _ => one.condition.loss_percent,
                        },
                        points: vec![place],
                    }),
                }
            }
        }
        for line in &mut series {
            line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        series.retain(|line| line.points.len() > 1);
        series
    }

    /// The figures of the network load on a perfect link, by clip: bit rate, packet rate and payload per packet.
    fn loads(&self) -> Vec<Figure> {
        let best = |one: &&Measured| one.condition == Condition::default();
        let figure = |title: &'static str, y: &str, of: fn(&Traffic) -> f64| {
            let line = |name: &str, way: usize| {
                let place = |(index, one): (usize, &Measured)| {
                    let value = of([&one.point.up, &one.point.down][way]);
                    let each_second = one.point.each_second.iter();
                    PlotPoint {
                        x: index as f64,
                        label: one.content.clone(),
                        mean: value,
                        worst: value,
                        lo: value,
                        hi: value,
                        batch_means: each_second.map(|ways| of(&ways[way])).collect(),
                    }
                };
                Series {
                    name: name.to_owned(),
                    constant_rate: false,
                    loss_percent: 0,
                    points: self
                        .all
                        .iter()
                        .filter(best)
                        .enumerate()
                        .map(place)
                        .collect(),
                }
            };
            Figure {
                title: format!("Network load: {title}"),
                measure: title,
                varied: None,
                x: "content".into(),
                y: y.to_owned(),
                series: vec![line("down", 1), line("up", 0)],
            }
        };
        vec![
            figure("bit rate", "bit rate, Mb/s", |t| t.mbps),
            figure("packet rate", "packets per second", |t| t.rate),
            figure("payload", "payload per packet, bytes", |t| t.payload),
        ]
    }
}

fn psnr(point: &Point) -> &[f64] {
    &point.psnr
}

fn ssim(point: &Point) -> &[f64] {
    &point.ssim
}

/// The mean, the mean of the worst batch, the 5th percentile and the 95th percentile.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spread([f64; 4]);

impl Spread {
    /// Computes the spread of values in frame order; `None` if there are no values.
    fn of(values: &[f64]) -> Option<Spread> {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let worst = batch_means(values).into_iter().min_by(f64::total_cmp)?;
        let (lo, hi) = (percentile(&sorted, 5.0)?, percentile(&sorted, 95.0)?);
        Some(Spread([mean(values), worst, lo, hi]))
    }
}

/// The mean of each batch of values in frame order. If fewer values than half a batch remain at the end, they belong to
/// the last whole batch.
fn batch_means(values: &[f64]) -> Vec<f64> {
    let batches = ((values.len() + BATCH / 2) / BATCH).max(1);
    let batch = |index: usize| {
        let to = if index + 1 == batches {
            values.len()
        } else {
            (index + 1) * BATCH
        };
        let batch = &values[index * BATCH..to];
        batch.iter().sum::<f64>() / batch.len() as f64
    };
    match values.is_empty() {
        true => Vec::new(),
        false => (0..batches).map(batch).collect(),
    }
}

impl Point {
    /// The number of captured frames whose outcome begins with this word.
    fn ended(&self, word: &str) -> u32 {
        let of = self
            .outcomes
            .iter()
            .filter(|(name, _)| name.starts_with(word));
        of.map(|(_, count)| count).sum()
    }
}

impl Measured {
    fn line(&self) -> String {
        let point = &self.point;
        let [psnr, ssim] = [&point.psnr, &point.ssim].map(|values| Spread::of(values));
        let complete = point.ended("complete");
        let all: u32 = point.outcomes.values().sum();
        let [p, s] = [psnr, ssim].map(|spread| spread.map_or([f64::NAN; 4], |spread| spread.0));
        format!(
            "{:<26} {:>6.2} {:>6.2} {:>7.4} {:>7.4} {:>6.2} {:>6.0} {:>6.3} {:>6.0} {:>6.1} % {:>6}",
            self.condition.to_string(),
            p[0],
            p[1],
            s[0],
            s[1],
            point.down.mbps,
            point.down.rate,
            point.up.mbps,
            point.up.rate,
            f64::from(complete) * 100.0 / f64::from(all.max(1)),
            point.unseen
        )
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = Vec::new();
        if self.delay_ms > 0 {
            words.push(format!("{} ms", self.delay_ms));
        }
        if self.loss_percent > 0 {
            words.push(format!("{} % loss", self.loss_percent));
        }
        if let Some(mbps) = self.mbps {
            words.push(format!("{mbps} Mb/s"));
        }
        if let Some(gop) = self.gop {
            words.push(format!("GOP {gop}"));
        }
        if self.constant {
            words.push("constant rate".into());
        }
        if words.is_empty() {
            words.push("perfect link".into());
        }
        f.pad(&words.join(", "))
    }
}

impl Vary {
    /// The name of the quantity in result files.
    fn word(self) -> &'static str {
        match self {
            Vary::Delay => "delay",
            Vary::Loss => "loss",
            Vary::Bandwidth => "bandwidth",
            Vary::Gop => "gop",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Vary::Delay => "network delay",
            Vary::Loss => "packet loss",
            Vary::Bandwidth => "bandwidth",
            Vary::Gop => "size of a group of pictures",
        }
    }

    fn axis(self) -> &'static str {
        match self {
            Vary::Delay => "round trip, ms",
            Vary::Loss => "lost, %",
            Vary::Bandwidth => "link, Mb/s",
            Vary::Gop => "frames between key frames",
        }
    }

    /// Suffixes of the names of the figure's two lines.
    fn kinds(self) -> [&'static str; 2] {
        match self {
            Vary::Delay | Vary::Loss => ["", ""],
            Vary::Bandwidth => [", adaptive rate", ", constant rate"],
            Vary::Gop => [", no loss", ", 1 % loss"],
        }
    }

    /// The line, the x value and the label of a condition; `None` if the condition does not belong to this figure.
    fn place(self, of: &Condition) -> Option<(usize, f64, String)> {
        let best = Condition::default();
        let only = |changed: Condition| (changed == *of).then_some(());
        match self {
            Vary::Delay => {
                let delay_ms = of.delay_ms;
                only(Condition { delay_ms, ..best })?;
                Some((0, f64::from(delay_ms), delay_ms.to_string()))
            }
            Vary::Loss => {
                let loss_percent = of.loss_percent;
                only(Condition {
                    loss_percent,
                    ..best
                })?;
                Some((0, f64::from(loss_percent), loss_percent.to_string()))
            }
            Vary::Bandwidth => {
                let (mbps, constant) = (of.mbps, of.constant);
                only(Condition {
                    mbps,
                    constant,
                    ..best
                })?;
                // The point without a limit is drawn beyond the largest bandwidth that --points takes.
                let label = mbps.map_or("unlimited".into(), |mbps| mbps.to_string());
                Some((constant.into(), f64::from(mbps.unwrap_or(1001)), label))
            }
            Vary::Gop => {
                let (gop, loss_percent) = (of.gop, of.loss_percent);
                only(Condition {
                    gop,
                    loss_percent,
                    ..best
                })?;
                let line = match loss_percent {
                    0 => 0,
                    1 => 1,
                    _ => return None,
                };
                // The point without periodic key frames is drawn beyond the longest interval that --points takes.
                let label = gop.map_or("none".into(), |gop| gop.to_string());
                Some((line, f64::from(gop.unwrap_or(100_001)), label))
            }
        }
    }
}

#[cfg(test)]
mod tests;
