//! The controller on paths with an L4S queue, which marks datagrams that wait for more than a millisecond.

use super::*;

/// A path with L4S from 1 to 20 Mb/s.
fn l4s() -> Path {
    let mut path = Path::new(20, 64 << 10);
    path.marks_above = Some(MS);
    path
}

/// Runs for this many seconds. Returns the target at each tenth of a second, in Mb/s.
fn targets(path: &mut Path, seconds: i64, mbps: i64) -> Vec<f64> {
    let step = |_| {
        path.run(100, mbps);
        path.congestion.target().0 as f64 / 1e6
    };
    (0..seconds * 10).map(step).collect()
}

/// Latencies of the frames displayed since `from`, in ms, sorted.
fn latencies(path: &Path, from: i64) -> Vec<i64> {
    let mut all: Vec<_> = path.since(from).map(|(_, latency)| *latency).collect();
    all.sort_unstable();
    all
}

#[test]
fn marks_keep_the_rate_near_the_capacity_without_a_queue() {
    for mbps in [5, 8, 12] {
        let mut path = l4s();
        path.run(3_000, mbps);
        let from = path.now;
        let targets = targets(&mut path, 17, mbps);
        let mean = targets.iter().sum::<f64>() / targets.len() as f64;
        let share = mean / mbps as f64;
        // The pacing rate, 1.75 times the target, settles near the capacity, so the target stays well below the
        // capacity.
        assert!((0.5..0.75).contains(&share), "{mbps}: {mean} Mb/s");
        let marked = path.marked;
        assert!(marked > 0, "{mbps}");
        // 5 ms to the client, less than a frame interval for sending, and a short queue.
        let sorted = latencies(&path, from);
        let p99 = sorted[sorted.len() * 99 / 100];
        assert!(p99 <= 22, "{mbps}: p99 {p99} ms");
        assert!(path.longest_gap(from) <= 60, "{mbps}");
    }
}

/// At a marked share p, Prague's rate is 2/p segments per round trip: a decrease by p/2 of the window then equals an
/// increase by one segment. The path's round trip of 10 ms counts as 25 ms.
#[test]
fn the_marked_share_determines_the_rate_as_in_prague() {
    for thousandths in [50, 100, 200] {
        for seed in [1, 2, 3] {
            let mut path = Path::new(40, 256 << 10);
            path.random_marks = Some((thousandths, seed));
            path.run(10_000, 1000);
            let targets = targets(&mut path, 20, 1000);
            let mean = targets.iter().sum::<f64>() / targets.len() as f64;
            let share = thousandths as f64 / 1000.0;
            let prague = 2.0 / share * 8.0 * 1400.0 * 40.0 / 1e6;
            let ratio = mean / prague;
            assert!((0.7..1.4).contains(&ratio), "{share}, {seed}: {ratio}");
        }
    }
}

/// On a link with spare capacity, only bursts are marked. The pacing rate then approaches the link's rate.
#[test]
fn marked_bursts_hardly_lower_the_rate() {
    let mut path = l4s();
    path.run(5_000, 50);
    let from = path.now;
    let targets = targets(&mut path, 20, 50);
    let least = targets.iter().copied().fold(f64::MAX, f64::min);
    assert!(least >= 18.0, "{least} Mb/s");
    let sorted = latencies(&path, from);
    let median = sorted[sorted.len() / 2];
    // A frame of 42 kB takes 6.7 ms at the link's rate, and 9.5 ms at the minimum pacing rate of 35 Mb/s. The path adds
    // 5 ms.
    assert!(median <= 15, "{median} ms");
}

#[test]
fn without_marks_l4s_changes_nothing() {
    let mut plain = Path::new(20, 64 << 10);
    let mut path = Path::new(20, 64 << 10);
    path.marks_above = Some(i64::MAX);
    for (ms, mbps) in [(3_000, 50), (8_000, 8), (8_000, 50)] {
        plain.run(ms, mbps);
        path.run(ms, mbps);
    }
    assert_eq!(path.changes, plain.changes);
    assert_eq!(path.displayed, plain.displayed);
    assert_eq!(path.congestion.target(), plain.congestion.target());
}

/// A marking queue drops only when it is overloaded, so a small loss on such a path is congestion.
#[test]
fn a_small_loss_on_a_marking_path_is_congestion() {
    let lost = |(_, change): &(i64, RateChange)| matches!(change, RateChange::Loss { .. });
    for (marks_above, counts) in [(Some(MS), true), (Some(i64::MAX), false), (None, false)] {
        let mut path = Path::new(20, 256 << 10);
        path.marks_above = marks_above;
        path.loss = 8;
        path.run(10_000, 50);
        let found = path.changes.iter().any(lost);
        assert_eq!(found, counts, "{marks_above:?}: {:?}", path.changes);
    }
}

#[test]
fn a_new_path_is_not_paced_before_its_first_mark() {
    let mut path = l4s();
    path.run(3_000, 8);
    assert!(path.congestion.paced_rate(Instant(path.now)).is_some());
    path.congestion.path_changed();
    assert_eq!(path.congestion.paced_rate(Instant(path.now)), None);
}
