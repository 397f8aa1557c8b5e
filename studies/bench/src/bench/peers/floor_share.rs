//! The latency of OpenUVR's own client as a share of GStreamer's, both without the floor. The floor is the time that
//! the displays and the reader take without a stream.

use openuvr_proto::units::Size;
use openuvr_testbed::stats::Range;
use serde::Serialize;

use super::Row;
use crate::bench::case::Case;
use crate::bench::verdict::Verdict;

/// The latency of a program that copies pictures from one display to the other, over its repetitions.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Floor {
    pub(super) p50_ms: Range,
    pub(super) p99_ms: Range,
}

impl Floor {
    /// `None` if no picture was seen.
    pub(super) fn of(cases: &[Case]) -> Option<Floor> {
        let seen = || cases.iter().filter_map(|case| case.latency_ms);
        let [p50, p99] = [
            seen().map(|latency| latency.p50).collect::<Vec<_>>(),
            seen().map(|latency| latency.p99).collect(),
        ];
        Some(Floor {
            p50_ms: Range::of(&p50)?,
            p99_ms: Range::of(&p99)?,
        })
    }
}

/// The targets for the shares of p50 and p99, for pictures of at most this many pixels.
const TARGETS: [(usize, f64, f64); 2] = [(1280 * 720, 0.16, 0.15), (1920 * 1080, 0.20, 0.15)];

/// The verdicts, if floor, OpenUVR and GStreamer were measured and `size` has targets. `loud` is the reason why nothing
/// is judged; `None` if the figures are judged.
pub(super) fn verdicts(
    rows: &[Row],
    floor: Option<&Floor>,
    size: Size,
    loud: Option<&'static str>,
) -> Vec<Verdict> {
    let direct = |name: &str| rows.iter().find(|row| row.name == name)?.direct.as_ref();
    let target = TARGETS.iter().find(|(most, ..)| size.pixels() <= *most);
    let (Some(floor), Some(ours), Some(peer), Some((_, p50, p99))) =
        (floor, direct("openuvr"), direct("gstreamer"), target)
    else {
        return Vec::new();
    };
    let of = |ours: &Option<Range>, peer: &Option<Range>, floor: &Range| {
        share(ours.as_ref()?.median, peer.as_ref()?.median, floor.median)
    };
    vec![
        Verdict::at_most("p50 / GStreamer's p50, without floor", "", *p50)
            .of(of(&ours.p50_ms, &peer.p50_ms, &floor.p50_ms), loud),
        Verdict::at_most("p99 / GStreamer's p99, without floor", "", *p99)
            .of(of(&ours.p99_ms, &peer.p99_ms, &floor.p99_ms), loud),
    ]
}

/// The share of a latency in a peer's latency, both without the floor. `None` if the peer's latency does not exceed the
/// floor.
fn share(ours: f64, peer: f64, floor: f64) -> Option<f64> {
    (peer > floor).then(|| (ours - floor) / (peer - floor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_computed_without_the_floor() {
        assert!((share(5.0, 21.0, 1.0).expect("a share") - 0.2).abs() < 1e-9);
        assert_eq!(share(5.0, 1.0, 1.0), None);
    }
}
