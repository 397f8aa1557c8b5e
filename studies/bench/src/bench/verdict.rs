//! Whether a case reaches its targets, and by how much, or why this cannot be determined.

use openuvr_testbed::stats::Summary;
use serde::Serialize;

use super::case::Stream;
use super::report::{Report, Target};

/// A target and the measured value.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Verdict {
    what: &'static str,
    unit: &'static str,
    measured: Option<f64>,
    target: Target,
    at_least: bool,
    /// The reason why the target is not judged, or `None` if it is judged.
    withheld: Option<&'static str>,
}

/// The share of due frames that must be complete before any other target is judged. A missing frame counts as later
/// than every other, so the p99 does not exist if more than 1 % of the frames are missing.
pub(super) const LEAST_COMPLETE: f64 = 0.99;

/// Minimum number of presses (a guess). With fewer presses, their median is random.
const FEWEST_PRESSES: usize = 10;

/// The scene must reach this share of its target frame rate, or of the host's if that is lower (a guess). Otherwise,
/// CPU use and bitrate are not judged, because fewer frames cost less of everything.
const LEAST_DRAWN: f64 = 0.9;

/// Minimum number of compared pictures. With fewer pictures, their median is random. The targets require this number.
const FEWEST_COMPARED: usize = 10;

/// Maximum p99 of the emulated link's own lateness, in milliseconds: a sixteenth of a frame. Beyond this limit, the run
/// measures the emulator.
const LATE_MS: f64 = 1.0;

/// The reason why a quick run is not judged. A quick run only tests the bench.
pub(super) const QUICK: &str = "a quick run";

impl Verdict {
    pub(super) fn at_most(what: &'static str, unit: &'static str, bound: f64) -> Verdict {
        Verdict {
            what,
            unit,
            measured: None,
            target: Target::at(bound),
            at_least: false,
            withheld: None,
        }
    }

    pub(super) fn at_least(what: &'static str, unit: &'static str, bound: f64) -> Verdict {
        Verdict {
            at_least: true,
            ..Verdict::at_most(what, unit, bound)
        }
    }

    /// Adds the measured value, and the reason why the target is not judged, if there is one.
    pub(super) fn of(self, measured: Option<f64>, withheld: Option<&'static str>) -> Verdict {
        Verdict {
            measured,
            withheld,
            ..self
        }
    }

    pub(super) fn line(&self) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let bound = self.target.pass.unwrap_or(f64::INFINITY);
        let target = format!("{sign} {bound}");
        let (what, unit) = (self.what, self.unit);
        if let Some(why) = self.withheld {
            return format!(
                "{what:<36} {target:>10} {:>10} {unit:<4}  not judged: {why}",
                ""
            );
        }
        let Some(measured) = self.measured else {
            return format!("{what:<36} {target:>10} {:>10} {unit:<4}  not measured", "");
        };
        let beyond = |bound: f64| match self.at_least {
            true => bound - measured,
            false => measured - bound,
        };
        let judged = match self.target.aim {
            _ if beyond(bound) > 0.0 => format!("MISSED by {:.2} {unit}", beyond(bound)),
            None => "met".to_owned(),
            Some(aim) if beyond(aim) <= 0.0 => format!("met; the aim of {aim} is met, too"),
            Some(aim) => format!("met; {:.2} {unit} short of the aim of {aim}", beyond(aim)),
        };
        format!("{what:<36} {target:>10} {measured:>10.2} {unit:<4}  {judged}")
    }
}

/// Whether the emulated link was so late that the run measured the link instead of the stream. `p99_ms` is the p99 of
/// the link's own lateness; `None` without a link.
pub(super) fn is_link_late(p99_ms: Option<f64>) -> bool {
    p99_ms.is_some_and(|late| late > LATE_MS)
}

/// A case with its verdicts, for the result file.
#[derive(Debug, Serialize)]
pub(super) struct JudgedReport<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// Share of the due frames that are complete.
    complete_of_due: Option<f64>,
    /// (end to end - floor) / serial codec time.
    pipeline_ratio: Option<f64>,
    verdicts: Vec<Verdict>,
}

impl JudgedReport<'_> {
    pub(super) fn of(report: &Report) -> JudgedReport<'_> {
        JudgedReport {
            report,
            complete_of_due: report.complete_of_due(),
            pipeline_ratio: report.ratio(),
            verdicts: verdicts(report),
        }
    }
}

/// The reasons why targets are not judged.
struct Withheld {
    /// Other processes were busy.
    loud: Option<&'static str>,
    /// Frames are missing.
    lacking: Option<&'static str>,
    /// The scene did not draw as many frames as requested.
    slow: Option<&'static str>,
    /// Few presses had a visible effect.
    unseen: Option<&'static str>,
}

impl Withheld {
    fn of(report: &Report, stream: &Stream) -> Withheld {
        let setting = &report.setting;
        let lacking = report
            .complete_of_due()
            .is_none_or(|share| share < LEAST_COMPLETE);
        let wanted = setting.scene_fps.min(setting.fps);
        let slow = stream.case.drawn_fps() < wanted * LEAST_DRAWN;
        let reactions = [&stream.reaction_ms, &report.application_reaction_ms];
        let seen = reactions.map(Vec::len).into_iter().min().unwrap_or(0);
        // Presses without a visible effect are missing from the median. They would be the slowest presses.
        let unseen = seen < FEWEST_PRESSES || seen * 10 < setting.presses as usize * 9;
        Withheld {
            loud: report.is_loud().then_some("the machine was busy"),
            lacking: lacking.then_some("frames are missing"),
            slow: slow.then_some("the scene was slow"),
            unseen: unseen.then_some("few presses seen"),
        }
    }

    /// The reason why times are not judged.
    fn time(&self) -> Option<&'static str> {
        self.loud.or(self.lacking)
    }
}

/// The verdict on each target that the case has.
pub(super) fn verdicts(report: &Report) -> Vec<Verdict> {
    let Some(stream) = &report.stream else {
        return Vec::new();
    };
    let (targets, why) = (&report.setting.targets, Withheld::of(report, stream));
    let median = |samples: &[f64]| Summary::of(samples).map(|s| s.p50);
    let latency = stream.case.latency_ms;
    let reaction = median(&stream.reaction_ms)
        .zip(median(&report.application_reaction_ms))
        .map(|(all, own)| all - own);
    let psnr = Some(&stream.psnr_db).filter(|all| all.len() >= FEWEST_COMPARED);
    let most = |what, unit, measured, target: Target, withheld| Verdict {
        what,
        unit,
        measured,
        target,
        at_least: false,
        withheld,
    };
    let least = |what, unit, measured, target, withheld| Verdict {
        at_least: true,
        ..most(what, unit, measured, target, withheld)
    };
    let mut all = vec![
        least(
            "complete frames, of those due",
            "%",
            report.complete_of_due().map(|share| share * 100.0),
            targets.complete.in_percent(),
            why.loud,
        ),
        most(
            "drawn -> visible p50",
            "ms",
            latency.map(|s| s.p50),
            targets.p50_ms,
            why.time(),
        ),
        most(
            "drawn -> visible p99",
            "ms",
            latency.map(|s| s.p99),
            targets.p99_ms,
            why.time(),
        ),
        most(
            "reaction beyond the application's",
            "ms",
            reaction,
            targets.reaction_ms,
            why.time().or(why.unseen),
        ),
        most(
            "(end to end - floor) / serial",
            "",
            report.ratio(),
            targets.ratio,
            why.time(),
        ),
        most(
            "host + client, of a core",
            "%",
            Some(stream.cores() * 100.0),
            targets.cores.in_percent(),
            why.time().or(why.slow),
        ),
        most(
            "on the wire",
            "Mb/s",
            stream.wire_mbps,
            targets.wire_mbps,
            why.lacking.or(why.slow),
        ),
        least(
            "luma PSNR, median",
            "dB",
            psnr.and_then(|all| median(all)),
            targets.psnr_db,
            why.lacking,
        ),
    ];
    all.retain(|verdict| verdict.target.pass.is_some());
    if report.setting.quick {
        for verdict in &mut all {
            verdict.withheld = Some(QUICK);
        }
    }
    all
}

/// A line with a target, the measured value, and the verdict, for a bench with few targets. `withheld` is the reason
/// why the target is not judged, or `None`.
pub(super) fn line(
    what: &str,
    measured: Option<f64>,
    target: f64,
    unit: &str,
    withheld: Option<&str>,
) -> String {
    let judged = match (measured, withheld) {
        (None, _) => "not measured".to_owned(),
        (Some(_), Some(why)) => format!("not judged: {why}"),
        (Some(measured), None) if measured.abs() <= target => "met".to_owned(),
        (Some(_), None) => "MISSED".to_owned(),
    };
    let measured = measured.map_or(String::new(), |measured| format!("{measured:.2}"));
    format!("{what:<36} <= {target:>6} {measured:>8} {unit:<4} {judged}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use openuvr_proto::time::Instant;
    use openuvr_proto::units::Size;
    use openuvr_testbed::stats::Frames;

    use super::super::case::Case;
    use super::super::report::{Setting, Targets};
    use super::*;
    use crate::machine::Machine;

    fn verdict(measured: Option<f64>, at_least: bool) -> Verdict {
        Verdict {
            what: "it",
            unit: "ms",
            measured,
            target: Target::at(8.0),
            at_least,
            withheld: None,
        }
    }

    #[test]
    fn a_verdict_says_by_how_much_or_why_not() {
        let judged = |verdict: Verdict| verdict.line();
        assert!(judged(verdict(Some(8.0), false)).ends_with("met"));
        assert!(judged(verdict(Some(9.5), false)).ends_with("MISSED by 1.50 ms"));
        assert!(judged(verdict(Some(9.5), true)).ends_with("met"));
        assert!(judged(verdict(Some(7.0), true)).ends_with("MISSED by 1.00 ms"));
        assert!(judged(verdict(None, false)).ends_with("not measured"));
        let hoped = |measured| Verdict {
            target: Target::aiming(8.0, 6.0),
            ..verdict(Some(measured), false)
        };
        assert!(judged(hoped(5.9)).ends_with("met; the aim of 6 is met, too"));
        assert!(judged(hoped(7.5)).ends_with("met; 1.50 ms short of the aim of 6"));
        assert!(judged(hoped(9.0)).ends_with("MISSED by 1.00 ms"));
        let withheld = Verdict {
            withheld: Some("frames are missing"),
            ..hoped(5.0)
        };
        assert!(judged(withheld).ends_with("not judged: frames are missing"));
    }

    #[test]
    fn a_line_is_met_missed_or_not_judged() {
        let judged = |measured, withheld| line("it", measured, 8.0, "ms", withheld);
        assert!(judged(Some(-8.0), None).ends_with(" met"));
        assert!(judged(Some(-8.1), None).ends_with(" MISSED"));
        assert!(judged(Some(8.1), Some(QUICK)).ends_with(" not judged: a quick run"));
        assert!(judged(None, Some(QUICK)).ends_with(" not measured"));
    }

    /// A report of 10 s at 60 frames per second. The scene drew `drawn` frames, and `complete` of them are complete.
    /// Other processes used `other_cores`.
    fn report(drawn: usize, complete: usize, other_cores: f64) -> Report {
        let setting = Setting {
            name: "it".into(),
            size: "1280x720".into(),
            pixels: Size::new(1280, 720),
            fps: 60.0,
            scene_fps: 60.25,
            encoder: "x264".into(),
            bitrate: "10M".into(),
            seconds: 10,
            presses: 0,
            real_time: false,
            quick: false,
            targets: Targets {
                p50_ms: Target::at(6.2),
                wire_mbps: Target::at(10.0),
                complete: Target::at(LEAST_COMPLETE),
                ..Targets::default()
            },
        };
        let case = Case {
            frames: Frames {
                drawn,
                visible: complete,
                missed: drawn - complete,
            },
            window: [Instant(0); 2],
            seconds: 10.0,
            latency_ms: Summary::of(&vec![5.0; complete]),
            unreadable: 0,
            other_cores,
            cores: BTreeMap::new(),
            audio_cores: BTreeMap::new(),
            loopback_mbps: 0.0,
            package_joules: None,
            carried_mbps: None,
            threads: Vec::new(),
            samples: Vec::new(),
        };
        let mut report = Report::new(Machine::this(), setting);
        report.stream = Some(Stream {
            case,
            link: None,
            incomplete: 0,
            steps: Vec::new(),
            outcomes: BTreeMap::new(),
            wire_mbps: Some(9.0),
            reaction_ms: Vec::new(),
            psnr_db: Vec::new(),
            compared: Vec::new(),
            still_cores: None,
        });
        report
    }

    #[test]
    fn nothing_is_judged_where_frames_are_missing() {
        let lines = |report: Report| -> Vec<String> {
            verdicts(&report).iter().map(Verdict::line).collect()
        };
        let ends = |report: Report, ends: [&str; 3]| {
            let lines = lines(report);
            for (line, end) in lines.iter().zip(ends) {
                assert!(
                    line.ends_with(end) && line.chars().count() <= 100,
                    "{lines:?}"
                );
            }
            assert_eq!(lines.len(), 3);
        };
        ends(report(602, 600, 0.0), ["met", "met", "met"]);
        let lacking = "not judged: frames are missing";
        ends(
            report(602, 330, 0.0),
            ["MISSED by 44.18 %", lacking, lacking],
        );
        let slow = "not judged: the scene was slow";
        ends(report(330, 330, 0.0), ["met", "met", slow]);
        let loud = "not judged: the machine was busy";
        ends(report(602, 602, 0.5), [loud, loud, "met"]);
        let mut quick = report(602, 600, 0.0);
        quick.setting.quick = true;
        ends(quick, ["not judged: a quick run"; 3]);
        let nothing = Report::new(Machine::this(), report(1, 1, 0.0).setting);
        assert!(verdicts(&nothing).is_empty());
        // Frames beyond the host's frame rate limit are not due.
        let mut fast = report(1200, 600, 0.0);
        fast.setting.scene_fps = 120.0;
        assert_eq!(fast.complete_of_due(), Some(1.0));
    }
}
