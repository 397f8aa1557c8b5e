//! What was measured, as a table on the terminal, as rows, and as figures with series of points.
//!
//! It measures nothing.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::super::machine::Machine;
use super::super::report::QUIET;
use super::super::stats::percentile;
use super::clips::Kept;
use super::point::{Point, Traffic};
use super::{Condition, Vary};

/// Frames in a batch (OpenUVR's evaluation looks at its worst seconds alike).
const BATCH: usize = 150;

/// How late the emulated link may be before a point is doubtful: a sixteenth of a frame at 60 Hz.
const LATE: Duration = Duration::from_millis(1);

/// A point and what it is a point of.
pub(super) struct Measured {
    pub(super) content: String,
    pub(super) condition: Condition,
    pub(super) point: Point,
}

/// What is written of a run.
#[derive(Debug, Serialize)]
pub(super) struct File<'a> {
    machine: &'a Machine,
    quick: bool,
    /// The most cores that other processes used at a point.
    other_cores: f64,
    figures: Vec<Figure>,
}

/// A plot: lines over a number.
#[derive(Clone, Debug, Serialize)]
struct Figure {
    title: String,
    /// What the axes are, with units.
    x: String,
    y: String,
    series: Vec<Series>,
}

#[derive(Clone, Debug, Serialize)]
struct Series {
    name: String,
    points: Vec<Place>,
}

/// A place of a line. `worst` is the mean of the worst batch, `lo` and `hi` are the 5th and the 95th
/// percentile of the frames; for a load all are the mean.
#[derive(Clone, Debug, Serialize)]
struct Place {
    x: f64,
    /// What to write at `x`.
    label: String,
    mean: f64,
    worst: f64,
    lo: f64,
    hi: f64,
}

/// All points of a run.
pub(super) struct Table {
    machine: Machine,
    bitrate: String,
    fps: u32,
    all: Vec<Measured>,
    /// Points that could not be measured.
    missing: Vec<(String, Condition)>,
}

impl Table {
    pub(super) fn new(machine: Machine, bitrate: String, fps: u32) -> Table {
        println!("machine  {machine}");
        Table {
            machine,
            bitrate,
            fps,
            all: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Whether nothing was measured.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many points could not be measured.
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }

    /// Notes that a point could not be measured, and says why.
    pub(super) fn miss(&mut self, content: String, condition: Condition, why: &anyhow::Error) {
        println!("{condition:<26} missing: {why:#}");
        self.missing.push((content, condition));
    }

    /// Prints the head of a clip's lines.
    pub(super) fn begin(&self, clip: &Kept) {
        println!(
            "\n{} at {} frames/s, bitrate {}\n{:<26} {:>13} {:>15} {:>13} {:>13} {:>7} {:>6}",
            clip.name, self.fps, self.bitrate, "", "PSNR dB", "SSIM", "down", "up", "shown", "left"
        );
        println!(
            "{:<26} {:>6} {:>6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>7} {:>6}",
            "", "mean", "worst", "mean", "worst", "Mb/s", "pkt/s", "Mb/s", "pkt/s", "whole", "out"
        );
    }

    /// Keeps a point and prints its line.
    pub(super) fn add(&mut self, measured: Measured) {
        println!("{}", measured.line());
        self.all.push(measured);
    }

    /// Says what is doubtful.
    pub(super) fn print_verdict(&self) {
        for (content, condition) in &self.missing {
            println!("missing: {content} {condition}");
        }
        for one in &self.all {
            if let Some(late) = one.point.link_late.filter(|late| *late > LATE) {
                println!(
                    "doubtful: at {} {}, 1 % of the datagrams left the emulated link {late:.1?} late",
                    one.content, one.condition
                );
            }
            if one.point.other_cores > QUIET {
                println!(
                    "doubtful: at {} {}, other processes used {:.1} cores",
                    one.content, one.condition, one.point.other_cores
                );
            }
            let judged = one.point.psnr.len();
            let unseen = one.point.unseen as usize;
            if unseen * 10 > judged + unseen {
                println!(
                    "doubtful: at {} {}, the bench itself missed {unseen} of {} pictures",
                    one.content,
                    one.condition,
                    judged + unseen
                );
            }
        }
    }

    /// A row for each point, with names in the first.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "content,delay_ms,loss_percent,link_mbps,gop,rate,frames,psnr_mean,psnr_worst,\
             psnr_lo,psnr_hi,ssim_mean,ssim_worst,ssim_lo,ssim_hi,down_mbps,down_packets,\
             down_payload,up_mbps,up_packets,up_payload,whole,concealed,tainted,dropped,\
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
            for word in ["whole", "concealed", "tainted", "dropped", "not captured"] {
                let _ = write!(text, ",{}", point.ended(word));
            }
            let _ = writeln!(text, ",{},{late},{:.3}", point.unseen, point.other_cores);
        }
        text
    }

    /// All that is written for others to draw.
    pub(super) fn file(&self, varied: &[Vary], quick: bool) -> File<'_> {
        File {
            machine: &self.machine,
            quick,
            other_cores: (self.all.iter())
                .map(|one| one.point.other_cores)
                .fold(0.0, f64::max),
            figures: self.figures(varied),
        }
    }

    /// The figures of what was varied, and the network load.
    fn figures(&self, varied: &[Vary]) -> Vec<Figure> {
        let mut figures = Vec::new();
        for vary in varied {
            for (name, y, of) in [
                ("PSNR", "luma PSNR, dB", psnr as fn(&Point) -> &[f64]),
                ("SSIM", "luma SSIM", ssim),
            ] {
                figures.push(Figure {
                    title: format!("{name} against {}", vary.title()),
                    x: vary.axis().to_owned(),
                    y: y.to_owned(),
                    series: self.series(*vary, of),
                });
            }
        }
        figures.extend(self.loads());
        for figure in &mut figures {
            figure.title.push_str(&format!(
                " ({} frames/s, {}, {} cores)",
                self.fps, self.bitrate, self.machine.cores
            ));
        }
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
                let Some(Spread([mean, worst, lo, hi])) = Spread::of(of(&one.point)) else {
                    continue;
                };
                let name = format!("{}{}", one.content, vary.kinds()[kind]);
                let place = Place {
                    x,
                    label,
                    mean,
                    worst,
                    lo,
                    hi,
                };
                match series.iter_mut().find(|series| series.name == name) {
                    Some(series) => series.points.push(place),
                    None => series.push(Series {
                        name,
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

    /// Bit rate, packets and their length on a perfect link, by content.
    fn loads(&self) -> Vec<Figure> {
        let best = |one: &&Measured| one.condition == Condition::default();
        let figure = |title: &str, y: &str, of: fn(&Traffic) -> f64| {
            let line = |name: &str, way: fn(&Point) -> &Traffic| {
                let place = |(index, one): (usize, &Measured)| {
                    let value = of(way(&one.point));
                    Place {
                        x: index as f64,
                        label: one.content.clone(),
                        mean: value,
                        worst: value,
                        lo: value,
                        hi: value,
                    }
                };
                Series {
                    name: name.to_owned(),
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
                x: "content".into(),
                y: y.to_owned(),
                series: vec![line("down", |p| &p.down), line("up", |p| &p.up)],
            }
        };
        vec![
            figure("bit rate", "Mb/s", |t| t.mbps),
            figure("packet rate", "packets/s", |t| t.rate),
            figure("payload", "bytes in a packet", |t| t.payload),
        ]
    }
}

fn psnr(point: &Point) -> &[f64] {
    &point.psnr
}

fn ssim(point: &Point) -> &[f64] {
    &point.ssim
}

/// Mean, mean of the worst batch, 5th and 95th percentile.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Spread([f64; 4]);

impl Spread {
    /// Of values in the order of frames; `None` without any. A last batch of less than half the
    /// frames of one belongs to the one before.
    fn of(values: &[f64]) -> Option<Spread> {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let batches = ((values.len() + BATCH / 2) / BATCH).max(1);
        let worst = (0..batches)
            .map(|index| {
                let to = if index + 1 == batches {
                    values.len()
                } else {
                    (index + 1) * BATCH
                };
                mean(&values[index * BATCH..to])
            })
            .min_by(f64::total_cmp)?;
        let (lo, hi) = (percentile(&sorted, 5.0)?, percentile(&sorted, 95.0)?);
        Some(Spread([mean(values), worst, lo, hi]))
    }
}

impl Point {
    /// Captured frames whose outcome begins with this word.
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
        let whole = point.ended("whole");
        let all: u32 = point.outcomes.values().sum();
        let [p, s] = [psnr, ssim].map(|spread| spread.map_or([f64::NAN; 4], |spread| spread.0));
        format!(
            "{:<26} {:>6.2} {:>6.2} {:>7.4} {:>7.4} {:>6.2} {:>6.0} {:>6.3} {:>6.0} {:>5.1} % {:>6}",
            self.condition.to_string(),
            p[0],
            p[1],
            s[0],
            s[1],
            point.down.mbps,
            point.down.rate,
            point.up.mbps,
            point.up.rate,
            f64::from(whole) * 100.0 / f64::from(all.max(1)),
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

    /// What tells its two lines apart.
    fn kinds(self) -> [&'static str; 2] {
        match self {
            Vary::Delay | Vary::Loss => ["", ""],
            Vary::Bandwidth => [", adaptive rate", ", constant rate"],
            Vary::Gop => [", no loss", ", 1 % loss"],
        }
    }

    /// On which line a condition is, where, and what is written there; `None` if it is not of this
    /// figure.
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
                // One step beyond the widest stands for no limit.
                let label = mbps.map_or("unlimited".into(), |mbps| mbps.to_string());
                Some((constant.into(), f64::from(mbps.unwrap_or(7)), label))
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
                // Beyond the longest: none at all.
                let label = gop.map_or("none".into(), |gop| gop.to_string());
                Some((line, f64::from(gop.unwrap_or(300)), label))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_batch_is_the_one_with_the_least_mean() {
        let values = |parts: &[(f64, usize)]| -> Vec<f64> {
            let of = |(value, count): &(f64, usize)| vec![*value; *count];
            parts.iter().flat_map(of).collect()
        };
        let worst = |parts: &[(f64, usize)]| Spread::of(&values(parts)).unwrap().0[1];
        assert_eq!(worst(&[(40.0, 150), (30.0, 150), (35.0, 150)]), 30.0);
        // Too few for a batch of their own: 150 frames of 40 and 20 of 23.
        assert_eq!(worst(&[(40.0, 300), (23.0, 20)]), 38.0);
        assert_eq!(worst(&[(40.0, 20)]), 40.0);
        assert_eq!(Spread::of(&[]), None);
        let all: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Spread::of(&all), Some(Spread([50.5, 50.5, 5.0, 95.0])));
    }

    fn measured(content: &str, condition: Condition, psnr: f64) -> Measured {
        let point = Point {
            psnr: vec![psnr; 10],
            ssim: vec![0.9; 10],
            outcomes: [
                ("whole".to_owned(), 9),
                ("dropped before X: Y".to_owned(), 1),
            ]
            .into(),
            ..Point::default()
        };
        Measured {
            content: content.to_owned(),
            condition,
            point,
        }
    }

    fn table() -> Table {
        let best = Condition::default();
        let narrow = |constant| Condition {
            mbps: Some(2),
            constant,
            ..best
        };
        let slow = Condition {
            delay_ms: 100,
            ..best
        };
        let wide = Condition {
            constant: true,
            ..best
        };
        let mut all = Vec::new();
        for (content, plus) in [("scene", 0.0), ("game", 1.0)] {
            for (condition, psnr) in [
                (best, 40.0),
                (slow, 39.0),
                (narrow(false), 35.0),
                (narrow(true), 25.0),
                (wide, 41.0),
            ] {
                all.push(measured(content, condition, psnr + plus));
            }
        }
        Table {
            missing: Vec::new(),
            machine: Machine::this(),
            bitrate: "3M".into(),
            fps: 50,
            all,
        }
    }

    #[test]
    fn points_come_on_the_lines_they_belong_to() {
        let figures = table().figures(&[Vary::Delay, Vary::Loss, Vary::Bandwidth]);
        let lines = |title: &str| -> Vec<(String, Vec<(f64, f64)>)> {
            let figure = figures.iter().find(|f| f.title.starts_with(title)).unwrap();
            let line = |series: &Series| {
                let points = series.points.iter().map(|p| (p.x, p.mean)).collect();
                (series.name.clone(), points)
            };
            figure.series.iter().map(line).collect()
        };
        let want = |name: &str, points: &[(f64, f64)]| (name.to_owned(), points.to_vec());
        assert_eq!(
            lines("PSNR against network delay"),
            [
                want("scene", &[(0.0, 40.0), (100.0, 39.0)]),
                want("game", &[(0.0, 41.0), (100.0, 40.0)])
            ]
        );
        assert!(
            lines("PSNR against packet loss").is_empty(),
            "one point is no line"
        );
        assert_eq!(
            lines("PSNR against bandwidth"),
            [
                want("scene, adaptive rate", &[(2.0, 35.0), (7.0, 40.0)]),
                want("game, adaptive rate", &[(2.0, 36.0), (7.0, 41.0)]),
                want("scene, constant rate", &[(2.0, 25.0), (7.0, 41.0)]),
                want("game, constant rate", &[(2.0, 26.0), (7.0, 42.0)]),
            ]
        );
        let load = figures
            .iter()
            .filter(|f| f.title.starts_with("Network load"));
        assert_eq!(load.clone().count(), 3);
        assert!(load.flat_map(|f| &f.series).all(|s| s.points.len() == 2));
    }

    #[test]
    fn rows_have_a_value_for_each_name_and_lines_fit() {
        let table = table();
        let csv = table.csv();
        let fields = |line: &str| line.split(',').count();
        let mut lines = csv.lines();
        let names = lines.next().unwrap();
        assert_eq!(lines.clone().count(), 10);
        assert!(lines.all(|line| fields(line) == fields(names)), "{csv}");
        assert!(csv.contains("scene,100,0,none,none,adaptive,10,39.0000,"));
        assert!(
            table
                .all
                .iter()
                .all(|one| one.line().chars().count() <= 110)
        );
        assert_eq!(table.all[0].point.ended("dropped"), 1);
    }
}
