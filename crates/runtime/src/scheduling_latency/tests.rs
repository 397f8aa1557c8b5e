use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::ring::{CAPACITY, Ring};
use super::*;

fn all(ring: &Ring) -> Vec<[i64; 3]> {
    let mut all = Vec::new();
    ring.drain(|sample| all.push(sample));
    all
}

/// Sends from another thread, because a thread that wakes itself is not recorded.
fn send(ring: &Ring, at: i64) {
    thread::scope(|scope| scope.spawn(|| ring.sent(Instant(at))).join().expect("sent"));
}

#[test]
fn the_first_unreceived_wakeup_counts() {
    let ring = Ring::new("it", 1);
    ring.received(Instant(5));
    assert_eq!(all(&ring), [[0; 3]; 0], "no wake-up was sent");
    send(&ring, 10);
    send(&ring, 20);
    ring.received(Instant(30));
    ring.received(Instant(40));
    send(&ring, 50);
    ring.received(Instant(45));
    assert_eq!(all(&ring), [[10, 10, 30], [50, 50, 50]]);
}

#[test]
fn a_thread_that_wakes_itself_is_not_recorded() {
    let ring = Ring::new("it", 1);
    ring.received(Instant(1));
    ring.sent(Instant(2));
    ring.received(Instant(3));
    assert!(all(&ring).is_empty());
}

#[test]
fn timer_latency_is_counted_from_the_deadline() {
    let ring = Ring::new("it", 1);
    ring.woke(Instant(100), Instant(99));
    ring.woke(Instant(100), Instant(107));
    assert_eq!(
        all(&ring),
        [[100, 100, 107]],
        "an early wake-up is not recorded"
    );
}

#[test]
fn a_full_ring_drops_the_newest_and_counts_them() {
    let ring = Ring::new("it", 1);
    let count = i64::try_from(CAPACITY).expect("small");
    for n in 1..=count + 7 {
        ring.woke(Instant(n), Instant(n));
    }
    assert_eq!(ring.lost(), 7);
    let kept = all(&ring);
    assert_eq!((kept.len(), kept[0][0]), (CAPACITY, 1));
    ring.woke(Instant(1), Instant(2));
    assert_eq!(all(&ring), [[1, 1, 2]], "there is room again");
}

#[test]
fn nothing_is_lost_or_torn_while_it_is_drained() {
    const COUNT: i64 = 200_000;
    let (ring, done) = (Ring::new("it", 1), AtomicBool::new(false));
    let mut seen = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=COUNT {
                ring.woke(Instant(n), Instant(2 * n));
            }
            done.store(true, Ordering::Release);
        });
        loop {
            let over = done.load(Ordering::Acquire);
            ring.drain(|sample| seen.push(sample));
            if over {
                break;
            }
        }
    });
    let lost = ring.lost();
    assert_eq!(seen.len() as u64 + lost, COUNT.unsigned_abs());
    assert!(seen.iter().all(|[a, b, c]| a == b && *c == 2 * a), "torn");
    assert!(seen.is_sorted(), "in order");
}

#[test]
fn without_a_recording_sites_do_nothing() {
    let site = SchedulingLatencies::default().site("it");
    site.sent();
    site.received();
    site.woke(Instant(1));
    assert!(site.0.is_none());
}
