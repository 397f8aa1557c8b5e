//! The controller against a model of a bottleneck with a queue, on a virtual clock.
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a model")]

mod l4s;

use super::*;

const MS: i64 = 1_000_000;
const FRAME: i64 = 16_666_667;
const DATAGRAM: u32 = 1400;

/// A sender of 60 frames/s behind a bottleneck with a queue, and a client 5 ms away with a different clock.
struct Path {
    congestion: Congestion,
    now: i64,
    busy_until: i64,
    /// Capacity of the bottleneck's queue in bytes.
    queue: i64,
    reports: VecDeque<(i64, FrameTransit)>,
    frame: u32,
    /// Display times of frames, and their latency in ms.
    displayed: Vec<(i64, i64)>,
    changes: Vec<(i64, RateChange)>,
    /// Loss in percent.
    loss: u32,
    /// Whether all reports are lost.
    without_reports: bool,
    /// The lowest target so far.
    least: Bitrate,
    /// The one-way delay in nanoseconds.
    delay: i64,
    /// The shortest recent round trip.
    round_trip: Duration,
    /// Maximum additional delay of a frame in milliseconds.
    jitter: i64,
    /// Offset of the client's clock.
    clock: i64,
    /// Arrivals are quantised to multiples of this many nanoseconds.
    grain: i64,
    /// For this many of the next frames, a client without kernel timestamps processes the second half late. The second
    /// value is the lateness in nanoseconds.
    pauses: (u32, i64),
    /// Maximum datagrams of a frame.
    most: u32,
    /// With L4S: the bottleneck marks datagrams that wait longer than this, in nanoseconds.
    marks_above: Option<i64>,
    /// Marked datagrams so far.
    marked: u32,
    /// With L4S: the share of datagrams that are marked at random because of other flows, in thousandths, and the state
    /// of the random number generator.
    random_marks: Option<(u64, u64)>,
}

impl Path {
    fn new(max: u64, queue: i64) -> Path {
        let max = Bitrate::from_mbps(max);
        Path {
            congestion: Congestion::new(
                Range {
                    min: Bitrate::from_mbps(1),
                    start: max,
                    max,
                },
                Duration::from_nanos(FRAME.unsigned_abs()),
            ),
            now: 1_000 * MS,
            busy_until: 0,
            queue,
            reports: VecDeque::new(),
            frame: 0,
            displayed: Vec::new(),
            changes: Vec::new(),
            loss: 0,
            without_reports: false,
            least: max,
            delay: 5 * MS,
            round_trip: Duration::from_millis(10),
            jitter: 0,
            clock: 77_000_000 * MS,
            grain: 1,
            pauses: (0, 0),
            most: u32::MAX,
            marks_above: None,
            marked: 0,
            random_marks: None,
        }
    }

    /// Runs for `ms` milliseconds with a capacity of `mbps`.
    fn run(&mut self, ms: i64, mbps: i64) {
        let end = self.now + ms * MS;
        while self.now < end {
            while self.reports.front().is_some_and(|(at, _)| *at <= self.now) {
                let Some((at, transit)) = self.reports.pop_front() else {
                    break;
                };
                let change = self.congestion.on_report(Instant(at), &transit);
                self.changes.extend(change.map(|c| (at, c)));
            }
            let now = Instant(self.now);
            let change = self.congestion.quiet(now, self.round_trip);
            self.changes.extend(change.map(|c| (self.now, c)));
            if self.congestion.held_until(now).is_none() {
                self.send(mbps);
            }
            self.now += FRAME;
            self.least = self.least.min(self.congestion.target());
        }
    }

    fn send(&mut self, mbps: i64) {
        self.frame += 1;
        let share = self.congestion.target().0 / 60 / 8;
        let count = (share as u32 / DATAGRAM).clamp(1, self.most);
        let paused = self.pauses.0 > 0;
        self.pauses.0 -= u32::from(paused);
        let (mut first, mut last, mut missing, mut marked) = (None, None, 0, 0);
        let paced = self.congestion.paced_rate(Instant(self.now));
        let over = paced.map_or(3 * MS, |rate| {
            let takes = i64::from(count * DATAGRAM) * 8_000_000_000 / rate.0 as i64;
            takes.clamp(3 * MS, 3 * FRAME)
        });
        let jitter = i64::from(self.frame) * 7919 % 1000 * self.jitter * MS / 1000;
        let mut left = self.now;
        for i in 0..count {
            left = self.now + i64::from(i) * over / i64::from(count);
            let wait = (self.busy_until - left).max(0);
            let lost = self.loss > 0 && (self.frame * 31 + i * 17) % 100 < self.loss;
            if wait * mbps / 8000 > self.queue || lost {
                missing += 1;
                continue;
            }
            marked += u32::from(self.marks_above.is_some_and(|above| wait > above));
            marked += u32::from(self.is_marked_at_random());
            self.busy_until = left.max(self.busy_until) + i64::from(DATAGRAM) * 8000 / mbps;
            let together = (self.busy_until + self.grain - 1) / self.grain * self.grain;
            let late = if paused && i >= count / 2 {
                self.pauses.1
            } else {
                0
            };
            let arrives = together + self.delay + jitter + late;
            first.get_or_insert(arrives);
            last = Some(arrives);
        }
        self.marked += marked;
        let frame = FrameId(self.frame);
        let bytes = count * DATAGRAM;
        self.congestion.sent(Instant(left), frame, bytes);
        let clock = |at: i64| PeerInstant(at + self.clock);
        let whole = missing == 0;
        let transit = FrameTransit {
            frame,
            bytes,
            data: count,
            sent: (Instant(self.now), Instant(left)),
            first: first.map(clock),
            recoverable: last.filter(|_| whole).map(clock),
            datagrams: ((count - missing) as u16, missing as u16),
            ecn: self.has_l4s().then(|| EcnCounts {
                ect1: (count - missing - marked) as u16,
                ce: marked as u16,
                ..EcnCounts::default()
            }),
        };
        let done = last.unwrap_or(left + 40 * MS);
        if whole {
            self.displayed.push((done, (done - self.now) / MS));
        }
        if !self.without_reports {
            self.reports.push_back((done + self.delay, transit));
        }
    }

    fn has_l4s(&self) -> bool {
        self.marks_above.is_some() || self.random_marks.is_some()
    }

    /// The next random decision (xorshift).
    fn is_marked_at_random(&mut self) -> bool {
        let Some((share, state)) = &mut self.random_marks else {
            return false;
        };
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % 1000 < *share
    }

    fn since(&self, from: i64) -> impl Iterator<Item = &(i64, i64)> {
        self.displayed.iter().filter(move |(at, _)| *at >= from)
    }

    /// The longest time without a displayed frame, in ms.
    fn longest_gap(&self, from: i64) -> i64 {
        let times: Vec<_> = self.since(from).map(|(at, _)| *at).collect();
        times
            .windows(2)
            .map(|w| (w[1] - w[0]) / MS)
            .max()
            .unwrap_or(i64::MAX)
    }
}

#[test]
fn a_link_that_slows_and_recovers_causes_no_freeze() {
    for queue in [32 << 10, 64 << 10, 256 << 10] {
        let mut path = Path::new(20, queue);
        path.run(3_000, 50);
        assert_eq!(path.changes, [], "nothing to change at first");
        let dropped = path.now;
        path.run(15_000, 8);
        assert!(
            path.longest_gap(dropped) <= 200,
            "{queue}: {} ms",
            path.longest_gap(dropped)
        );
        let mut later: Vec<_> = path.since(dropped + 2_000 * MS).map(|(_, l)| *l).collect();
        later.sort_unstable();
        let p99 = later[later.len() * 99 / 100];
        assert!(p99 <= 30, "{queue}: p99 {p99} ms {:?}", path.changes);
        let target = path.congestion.target();
        assert!(
            (Bitrate::from_mbps(4)..=Bitrate::from_mbps(9)).contains(&target),
            "{target:?}"
        );
        let restored = path.now;
        path.run(10_000, 50);
        assert_eq!(path.congestion.target(), Bitrate::from_mbps(20), "{queue}");
        assert!(path.longest_gap(restored) <= 50);
    }
}

/// The rate stays below the capacity of a link that was full, so that the link is not filled again and again.
#[test]
fn a_part_of_a_full_link_stays_free() {
    let mut path = Path::new(10, 64_000);
    path.run(2_000, 8);
    path.changes.clear();
    path.run(6_000, 8);
    let full = |(_, change): &(i64, RateChange)| matches!(change, RateChange::Queue { .. });
    assert!(!path.changes.iter().any(full), "{:?}", path.changes);
    let target = path.congestion.target();
    assert!((6_000_000..7_000_000).contains(&target.0), "{target:?}");
    // A little more capacity is used at once.
    path.run(4_000, 10);
    let target = path.congestion.target();
    assert!(target.0 > 7_200_000, "{target:?}");
}

#[test]
fn a_link_that_is_too_narrow_from_the_start_is_detected() {
    let mut path = Path::new(20, 64 << 10);
    path.run(20_000, 5);
    let shown = path.since(path.now - 10_000 * MS).count();
    assert!(
        shown >= 550,
        "{shown} of 600 frames in the last ten seconds"
    );
    assert!(path.congestion.target() <= Bitrate::from_mbps(6));
    assert!(path.congestion.target() >= Bitrate::from_mbps(3));
}

#[test]
fn loss_that_a_radio_has_by_itself_is_no_congestion() {
    let mut path = Path::new(20, 256 << 10);
    path.loss = 5;
    path.run(10_000, 50);
    assert_eq!(path.congestion.target(), Bitrate::from_mbps(20));
    path.loss = 30;
    path.run(3_000, 50);
    assert!(path.congestion.target() < Bitrate::from_mbps(12));
    path.loss = 0;
    path.run(10_000, 50);
    assert_eq!(path.congestion.target(), Bitrate::from_mbps(20));
}

#[test]
fn the_rate_for_a_silent_client_decreases_to_the_minimum() {
    let mut path = Path::new(20, 64 << 10);
    path.run(1_000, 50);
    path.without_reports = true;
    path.run(4_000, 50);
    assert_eq!(path.congestion.target(), Bitrate::from_mbps(1));
    path.without_reports = false;
    path.run(10_000, 50);
    assert_eq!(path.congestion.target(), Bitrate::from_mbps(20));
}

#[test]
fn a_single_stall_is_compensated_quickly() {
    let mut path = Path::new(20, 256 << 10);
    path.run(2_000, 100);
    // The link stalls for 100 ms, then delivers everything at once.
    path.busy_until = path.now + 100 * MS;
    path.run(2_500, 100);
    assert_eq!(
        path.congestion.target(),
        Bitrate::from_mbps(20),
        "{:?}",
        path.changes
    );
    assert!(path.longest_gap(0) <= 200);
}

/// After a change to a longer path, the rate drops only briefly, with and without jitter, and on links with much or
/// little capacity. A jump of the client's clock does not change the rate.
#[test]
fn a_longer_path_is_not_taken_for_a_full_link() {
    for (longer, mbps, jitter) in [
        (12, 50, 0),
        (20, 50, 0),
        (20, 30, 0),
        (50, 50, 12),
        (100, 24, 0),
        (100, 50, 12),
        (200, 24, 0),
        (200, 50, 0),
    ] {
        let mut path = Path::new(20, 256 << 10);
        path.jitter = jitter;
        path.run(3_000, mbps);
        let stepped = path.now;
        path.delay += longer * MS;
        path.run(4_000, mbps);
        let what = format!("{longer} ms, {mbps} Mb/s, {jitter}: {:?}", path.changes);
        assert!(path.least >= Bitrate::from_mbps(10), "{what}");
        assert_eq!(path.congestion.target(), Bitrate::from_mbps(20), "{what}");
        assert!(path.longest_gap(stepped) <= longer.max(120) + 20, "{what}");
        // The new delay is the reference from here on.
        let dropped = path.now;
        path.run(2_000, 8);
        assert!(path.congestion.target() <= Bitrate::from_mbps(10), "{what}");
        assert!(path.longest_gap(dropped) <= 200 + longer, "{what}");
    }
    for hours in [-1, 1] {
        let mut path = Path::new(20, 256 << 10);
        path.run(3_000, 50);
        path.clock += hours * 3_600_000 * MS;
        path.run(2_000, 50);
        let full = Bitrate::from_mbps(20);
        assert_eq!((path.least, path.congestion.target()), (full, full));
    }
}

/// Late reports of the old path must not affect the new path.
#[test]
fn a_new_path_is_measured_again() {
    let mut path = Path::new(20, 256 << 10);
    path.run(3_000, 50);
    path.congestion.path_changed();
    path.delay += 100 * MS;
    path.run(2_000, 50);
    assert_eq!(path.changes, []);
}

/// A radio sends its queue at once in its time slot, so the spread of a frame does not measure the link.
#[test]
fn a_narrow_link_that_delivers_in_bursts_is_followed() {
    for grain in [20, 40, 100] {
        for mbps in [5, 8, 12] {
            let mut path = Path::new(20, 256 << 10);
            path.grain = grain * MS;
            path.run(3_000, 100);
            let dropped = path.now;
            path.run(10_000, mbps);
            let what = format!("{grain} ms, {mbps} Mb/s: {:?}", path.changes);
            let gap = path.longest_gap(dropped);
            assert!(gap <= 200, "{gap} ms without a frame, {what}");
            let from = dropped + 2_000 * MS;
            let mut later: Vec<_> = path.since(from).map(|(_, l)| *l).collect();
            later.sort_unstable();
            let p99 = later[later.len() * 99 / 100];
            assert!(p99 <= grain + 30, "{p99} ms, {what}");
        }
    }
}

/// If another thread takes the client's CPU core during two consecutive frames, the link looks full. The next frames
/// contradict that.
#[test]
fn a_decrease_that_later_frames_contradict_is_reverted() {
    let mut path = Path::new(20, 256 << 10);
    path.run(2_000, 100);
    path.pauses = (2, 70 * MS);
    path.run(1_000, 100);
    let full = Bitrate::from_mbps(20);
    assert!(path.least < full, "{:?}", path.changes);
    let back = |(_, change): &(i64, RateChange)| *change == RateChange::Reverted { to: full };
    assert!(path.changes.iter().any(back), "{:?}", path.changes);
    assert_eq!(path.congestion.target(), full);
    // A decrease is kept if the link really became narrow.
    path.run(3_000, 8);
    assert!(path.congestion.target() <= Bitrate::from_mbps(9));
}

/// One frame with a pause in it indicates a busy machine. So do several such frames with complete frames in between.
#[test]
fn one_frame_with_a_pause_in_it_cuts_nothing() {
    let mut path = Path::new(20, 256 << 10);
    path.run(2_000, 100);
    for pause in [30, 70, 100, 250] {
        path.pauses = (1, pause * MS);
        path.run(700, 100);
    }
    assert_eq!(path.least, Bitrate::from_mbps(20), "{:?}", path.changes);
}

/// Late frames of one or two datagrams are no evidence about a link.
#[test]
fn late_frames_of_a_few_datagrams_cut_nothing() {
    for most in [1, 2] {
        let mut path = Path::new(20, 256 << 10);
        path.most = most;
        path.run(2_000, 100);
        for late in [20, 45, 70, 30, 100] {
            path.delay += late * MS;
            path.run(50, 100);
            path.delay -= late * MS;
            path.run(200, 100);
        }
        assert_eq!(path.least, Bitrate::from_mbps(20), "{:?}", path.changes);
    }
}

/// Datagrams that are reported lost within a round trip after a decrease were sent before it.
#[test]
fn a_loss_with_a_long_round_trip_is_answered_once() {
    for delay in [5, 50, 150, 300] {
        let mut path = Path::new(20, 64 << 10);
        path.delay = delay * MS;
        path.round_trip = Duration::from_millis(2 * delay.unsigned_abs());
        path.run(3_000, 50);
        path.least = Bitrate::from_mbps(20);
        path.run(8_000, 8);
        let what = format!("{delay} ms: {:?}", path.changes);
        assert!(path.least >= Bitrate::from_mbps(4), "{what}");
        assert!(path.congestion.target() <= Bitrate::from_mbps(9), "{what}");
    }
}

/// At the minimum rate there is nothing to lower or report.
#[test]
fn the_minimum_rate_is_reported_once() {
    let mut path = Path::new(20, 64 << 10);
    path.congestion.range.min = Bitrate::from_mbps(2);
    path.run(5_000, 1);
    let to = |change: &RateChange| match *change {
        RateChange::Queue { to, .. }
        | RateChange::Loss { to, .. }
        | RateChange::Silence { to }
        | RateChange::Marked { to, .. }
        | RateChange::ClassicMarks { to, .. } => Some(to),
        RateChange::Increase { .. }
        | RateChange::Maximum { .. }
        | RateChange::Reverted { .. }
        | RateChange::LongerPath { .. }
        | RateChange::Estimate { .. }
        | RateChange::Stall { .. } => None,
    };
    let cuts: Vec<_> = path.changes.iter().filter_map(|(_, c)| to(c)).collect();
    assert!(cuts.is_sorted_by(|a, b| a > b), "{:?}", path.changes);
    assert_eq!(cuts.last(), Some(&Bitrate::from_mbps(2)));
}

/// If even the minimum rate is too high, frames are skipped so that the queue drains periodically.
#[test]
fn a_link_narrower_than_the_least_rate_drains() {
    for (least, mbps, queue, at_least, at_most) in [
        (2, 1, 20, 400, 500),
        (5, 2, 200, 230, 300),
        (8, 3, 300, 220, 300),
        (8, 1, 100, 35, 150),
    ] {
        let mut path = Path::new(least, queue << 10);
        let rate = Bitrate::from_mbps(least);
        path.congestion = Congestion::new(
            Range {
                min: rate,
                start: rate,
                max: rate,
            },
            Duration::from_nanos(FRAME.unsigned_abs()),
        );
        path.run(3_000, 50);
        let (narrow, before) = (path.now, path.frame);
        path.run(10_000, mbps);
        let (sent, whole) = (path.frame - before, path.since(narrow).count());
        let what = format!("{least} Mb/s over {mbps}: {whole} complete of {sent} of 600");
        assert!(whole >= at_least && sent <= at_most, "{what}");
    }
}
