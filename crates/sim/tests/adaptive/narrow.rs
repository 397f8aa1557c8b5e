//! Narrow links: twenty seconds of a game that would take 3 Mb/s at 60 frames/s. Only the last fifteen seconds are
//! evaluated.

use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::link::Queue;

use super::{Case, Run};

/// Delay in ms, rate in kb/s.
fn run(delay: u64, kbps: u64, queue: Queue) -> Run {
    run_with(Discipline::TailDrop, delay, kbps, queue)
}

fn run_with(discipline: Discipline, delay: u64, kbps: u64, queue: Queue) -> Run {
    let max = Bitrate::from_mbps(3);
    let case = Case {
        delay: Duration::from_millis(delay),
        rate: Bitrate(kbps * 1000),
        queue,
        discipline,
        l4s: L4sMode::Off,
        range: Range {
            min: Bitrate(500_000),
            start: max,
            max,
        },
        // The frames need about quantiser 34 at 3 Mb/s.
        complexity: 2.5e6,
        counted: 15,
    };
    case.run()
}

#[test]
fn a_narrow_link_is_used_and_its_queue_stays_short() {
    for queue in [Queue::Bytes(75_000), Queue::Time(Duration::from_millis(40))] {
        for delay in [1, 50] {
            for kbps in [1500, 2000, 2500, 3000] {
                let run = run(delay, kbps, queue);
                assert!(run.whole >= 50, "{run:?}");
                assert!(run.used >= 60, "{run:?}");
                assert!(run.p90 <= Duration::from_millis(20), "{run:?}");
            }
        }
    }
}

/// The early drops of a queue discipline must not lower the rate far below the link's rate.
#[test]
fn a_queue_discipline_leaves_the_link_usable() {
    for (name, discipline) in Discipline::ALL {
        let run = run_with(discipline, 20, 2500, Queue::Bytes(75_000));
        assert!(run.whole >= 40, "{name}: {run:?}");
        assert!(run.used >= 45, "{name}: {run:?}");
        assert!(run.p90 <= Duration::from_millis(60), "{name}: {run:?}");
    }
}

/// On a link with a third of the initial bitrate, frames may be skipped, but the picture does not freeze.
#[test]
fn one_megabit_shows_fewer_frames_but_shows_them() {
    for queue in [Queue::Bytes(75_000), Queue::Time(Duration::from_millis(40))] {
        for delay in [1, 50] {
            let run = run(delay, 1000, queue);
            assert!(run.whole >= 20, "{run:?}");
            assert!(run.p90 <= Duration::from_millis(45), "{run:?}");
        }
    }
}

/// Data in flight on a long round trip is not a queue, and must not cause frames to be skipped
/// permanently.
#[test]
fn a_round_trip_of_600_ms_is_no_full_queue() {
    for kbps in [1500, 2000, 3000] {
        let run = run(300, kbps, Queue::Bytes(75_000));
        assert!(run.whole >= 45, "{run:?}");
        assert!(run.used >= 50, "{run:?}");
    }
}
