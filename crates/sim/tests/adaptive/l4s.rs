//! A bottleneck of 20 Mb/s with a queue discipline. The stream of 15 seconds could use a higher rate. Only the last ten
//! seconds are evaluated.

use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::link::Queue;

use super::{Case, Run};

fn run(l4s: L4sMode, discipline: Discipline) -> Run {
    let range = Range {
        min: Bitrate(500_000),
        start: Bitrate::from_mbps(10),
        max: Bitrate::from_mbps(40),
    };
    let case = Case {
        delay: Duration::from_millis(10),
        rate: Bitrate::from_mbps(20),
        queue: Queue::Bytes(250_000),
        discipline,
        l4s,
        range,
        complexity: 3e7,
        counted: 10,
    };
    case.run()
}

#[test]
fn a_dual_queue_marks_a_stream_with_l4s_and_drops_little() {
    let run = run(L4sMode::Auto, Discipline::DualPi2);
    assert!(run.counters.marked > 0, "{run:?}");
    assert!(run.counters.overflowed * 100 < run.counters.sent, "{run:?}");
    assert!(run.whole >= 50, "{run:?}");
    // The queue marks from the first frames on, and the marks keep the stream at this share of the link.
    assert!(run.used >= 35, "{run:?}");
    assert!(run.p90 <= Duration::from_millis(30), "{run:?}");
}

#[test]
fn without_l4s_no_queue_marks_a_stream() {
    for (_, discipline) in Discipline::ALL {
        let run = run(L4sMode::Off, discipline);
        assert_eq!(run.counters.marked, 0, "{run:?}");
        assert!(run.whole >= 40, "{run:?}");
    }
}

/// Tail drop marks nothing, so L4S changes nothing.
#[test]
fn a_queue_without_marks_is_no_different_with_l4s() {
    let [with, without] = [L4sMode::Auto, L4sMode::Off].map(|mode| run(mode, Discipline::TailDrop));
    assert_eq!(with.counters.marked, 0);
    assert!(
        with.whole.abs_diff(without.whole) <= 2,
        "{with:?} {without:?}"
    );
    assert!(
        with.used.abs_diff(without.used) <= 10,
        "{with:?} {without:?}"
    );
}
