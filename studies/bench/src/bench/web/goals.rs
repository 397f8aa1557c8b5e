//! Targets of browsers and observers, and the verdicts.

use openuvr_testbed::stats::Range;
use serde::Serialize;

use super::Output;
use super::observers::{Beside, MANY};
use crate::bench::verdict::{Verdict, is_link_late};

/// Targets at 1280x720, 60 frames per second and 10 Mb/s, on a quiet machine with two cores shared by all processes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Goals {
    /// Maximum p50 of the time from drawing to the hand-over to the compositor. `p99_ms` is the maximum p99.
    p50_ms: f64,
    p99_ms: f64,
    /// Maximum median time of a press from the page to the application.
    input_ms: f64,
    /// Over the link with 1 % loss: the minimum rate of complete frames per second, and the maximum length of the
    /// longest freeze.
    complete_fps: f64,
    freeze_ms: f64,
    /// Maximum median A/V offset, in either direction.
    offset_ms: f64,
    /// Maximum increase that observers cause in the p50 and p99 latency of OpenUVR's own client, which has the player
    /// role.
    player_p50_ms: f64,
    player_p99_ms: f64,
    /// Maximum CPU use of the host for each additional video player, in percent of a core.
    further_percent: f64,
}

impl Default for Goals {
    fn default() -> Goals {
        Goals {
            p50_ms: 7.0,
            p99_ms: 16.0,
            input_ms: 1.0,
            complete_fps: 58.0,
            freeze_ms: 150.0,
            offset_ms: 40.0,
            player_p50_ms: 0.3,
            player_p99_ms: 1.0,
            further_percent: 3.0,
        }
    }
}

/// One verdict per target of the measured parts.
pub(super) fn verdicts(found: &Output) -> Vec<Verdict> {
    let goals = &found.goals;
    let loud = found.head.withheld();
    let median = |range: &Option<Range>| range.as_ref().map(|range| range.median);
    let mut all = Vec::new();
    let browser = |name| found.browsers.iter().find(|browser| browser.name == name);
    if let Some(direct) = browser("direct") {
        let sound = direct.offset_ms.map(|offset| offset.p50.abs());
        all.extend([
            Verdict::at_most("drawn -> compositor p50", "ms", goals.p50_ms)
                .of(median(&direct.p50_ms), loud),
            Verdict::at_most("drawn -> compositor p99", "ms", goals.p99_ms)
                .of(median(&direct.p99_ms), loud),
            Verdict::at_most("key, page -> application p50", "ms", goals.input_ms).of(
                direct.input_ms.map(|input| input.p50),
                loud.or(direct.few_presses()),
            ),
            Verdict::at_most("A/V offset, p50", "ms", goals.offset_ms)
                .of(sound, loud.or(direct.few_heard())),
        ]);
    }
    if let Some(lossy) = browser("1 % lost") {
        let freeze = lossy.freeze_ms.as_ref().map(|freeze| freeze.max);
        let late = is_link_late(lossy.link_late_ms).then_some("the link was late");
        let doubt = loud.or(late);
        all.extend([
            Verdict::at_least(
                "1 % lost: complete frames decoded",
                "/s",
                goals.complete_fps,
            )
            .of(median(&lossy.decoded_fps), doubt),
            Verdict::at_most("1 % lost: longest freeze", "ms", goals.freeze_ms).of(freeze, doubt),
        ]);
    }
    let way = |name| found.beside.iter().find(|way| way.name == name);
    let less = |of: &dyn Fn(&Beside) -> Option<Range>, more: &Beside, base: &Beside| {
        Some(median(&of(more))? - median(&of(base))?)
    };
    if let (Some(alone), Some(beside)) = (way("alone"), way("beside")) {
        let more = |of: &dyn Fn(&Beside) -> Option<Range>| less(of, beside, alone);
        all.extend([
            Verdict::at_most("player beside both, p50 added", "ms", goals.player_p50_ms)
                .of(more(&|way| way.p50_ms.clone()), loud),
            Verdict::at_most("player beside both, p99 added", "ms", goals.player_p99_ms)
                .of(more(&|way| way.p99_ms.clone()), loud),
        ]);
        if let Some(many) = way("many") {
            let further = less(&|way| way.host_cores.clone(), many, beside);
            let each = further.map(|cores| cores * 100.0 / (MANY - 1) as f64);
            all.push(
                Verdict::at_most(
                    "share of a core per further observer",
                    "%",
                    goals.further_percent,
                )
                .of(each, loud),
            );
        }
    }
    if let (Some(alone), Some(stalled)) = (way("alone"), way("stalled")) {
        let more = |of: &dyn Fn(&Beside) -> Option<Range>| less(of, stalled, alone);
        all.extend([
            Verdict::at_most(
                "beside a stalled player, p50 added",
                "ms",
                goals.player_p50_ms,
            )
            .of(more(&|way| way.p50_ms.clone()), loud),
            Verdict::at_most(
                "beside a stalled player, p99 added",
                "ms",
                goals.player_p99_ms,
            )
            .of(more(&|way| way.p99_ms.clone()), loud),
        ]);
    }
    if !found.beside.is_empty() {
        // These targets are judged on a busy machine, too.
        let quick = found.head.quick();
        let opened = found.beside.iter().map(|way| way.encoders_opened).max();
        let unaccounted: usize = found.beside.iter().map(|way| way.unaccounted).sum();
        all.extend([
            Verdict::at_most("encoders opened by a host", "", 1.0)
                .of(opened.map(|opened| opened as f64), quick),
            Verdict::at_most("frames without a record", "", 0.0)
                .of(Some(unaccounted as f64), quick),
        ]);
    }
    all
}
