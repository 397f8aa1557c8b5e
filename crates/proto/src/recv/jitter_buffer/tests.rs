//! Simulated audio over simulated links for an hour. The sender, the link and the device have their own clocks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::timed::TimedReceiver;
use super::*;
use crate::id::PayloadSeq;
use crate::wire::media::{StreamId, StreamKind};
use crate::wire::timed::TimedWriter;

const AUDIO: StreamId = StreamId::first(StreamKind::Audio);
const FRAME: u64 = 240;
/// Offset between the local clock and the sender's.
const OFFSET: i64 = 987_654_321_000;
/// The link's minimum delay.
const DELAY: i64 = 3 * MS;

/// A deterministic random generator (xorshift64*, Vigna).
struct Rng(u64);

impl Rng {
    /// A random number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = u32::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32).unwrap();
        f64::from(high) / f64::from(u32::MAX)
    }
}

/// A device with a period of 2.5 ms and its own clock.
struct Sink {
    ppm: f64,
    blocks: u64,
    /// Queued samples, with the resampler's fraction.
    waiting: f64,
    gaps: u64,
    heard: bool,
}

const BLOCK: f64 = 120.0;

impl Sink {
    /// Plays until `now` in nanoseconds.
    fn advance(&mut self, now: i64) {
        let block = 2.5e6 / (1.0 + self.ppm * 1e-6);
        while real(now) >= block * (self.blocks + 1) as f64 {
            self.blocks += 1;
            if self.waiting < BLOCK {
                self.gaps += u64::from(self.heard);
                self.heard = false;
            }
            self.waiting = (self.waiting - BLOCK).max(0.0);
        }
    }

    fn device(&self) -> Device {
        Device {
            dry_in: duration(whole(self.waiting.max(0.0) * 1e9 / f64::from(RATE))),
            block: Duration::from_micros(2500),
        }
    }

    fn write(&mut self, samples: f64) {
        self.waiting += samples;
        self.heard = true;
    }
}

struct World {
    buffer: JitterBuffer,
    receiver: TimedReceiver,
    sink: Sink,
    /// Drift of the sender's sample clock.
    ppm: f64,
    /// Repetitions per payload.
    repeats: u64,
    sent: u64,
    arriving: BTreeMap<(i64, u64), Vec<u8>>,
    /// Delays from capture to playback of each payload's first sample, in ns.
    delays: Vec<i64>,
}

impl World {
    fn new(sender: f64, device: f64) -> World {
        let mut receiver = TimedReceiver::new(AUDIO);
        receiver.set_wait(Duration::ZERO);
        World {
            buffer: JitterBuffer::new(),
            receiver,
            sink: Sink {
                ppm: device,
                blocks: 0,
                waiting: 0.0,
                gaps: 0,
                heard: false,
            },
            ppm: sender,
            repeats: 1,
            sent: 0,
            arriving: BTreeMap::new(),
            delays: Vec::new(),
        }
    }

    /// Start of payload `n` on the simulation's clock.
    fn begins(&self, n: u64) -> i64 {
        whole(n as f64 * 5e6 / (1.0 + self.ppm * 1e-6))
    }

    /// Plays this many payloads. `link` returns the delay of each payload beyond [`DELAY`], or `None` for a loss.
    fn run(&mut self, payloads: u64, mut link: impl FnMut(u64) -> Option<i64>) {
        for n in self.sent..self.sent + payloads {
            let sent = self.begins(n + 1);
            if let Some(late) = link(n) {
                let body = self.body(n);
                self.arriving.insert((sent + DELAY + late, n), body);
            }
            while let Some(next) = self.arriving.first_entry().filter(|e| e.key().0 <= sent) {
                let ((at, _), body) = next.remove_entry();
                self.play_until(at);
                self.receiver.handle_body(Instant(at), &body).unwrap();
                self.play(at);
            }
        }
        self.sent += payloads;
    }

    /// Skips this many payloads.
    fn pause(&mut self, payloads: u64) -> u64 {
        let until = self.begins(self.sent + payloads);
        while let Some(((at, _), body)) = self.arriving.pop_first() {
            self.play_until(at);
            self.receiver.handle_body(Instant(at), &body).unwrap();
            self.play(at);
        }
        self.play_until(until);
        self.sent + payloads
    }

    fn body(&self, n: u64) -> Vec<u8> {
        let mut body = Vec::new();
        let payload = |n| Payload {
            seq: PayloadSeq(n),
            captured: PeerInstant(self.begins(n) + OFFSET),
            samples: u16::try_from(FRAME).unwrap(),
            bytes: b"sound",
        };
        let mut writer = TimedWriter::new(&mut body, AUDIO, &payload(n));
        for back in 1..=self.repeats.min(n) {
            assert!(writer.repeat(&payload(n - back)));
        }
        body
    }

    /// Wakes the player at the times that it requested.
    fn play_until(&mut self, until: i64) {
        while let Some(next) = self.wake().filter(|next| *next < until) {
            self.play(next);
        }
    }

    fn wake(&mut self) -> Option<i64> {
        let now = self.moved();
        let next = match self.buffer.next(Instant(now), self.sink.device()) {
            PlayoutAction::Wait(next) => next.map(|next| next.0.max(now + 1)),
            _ => panic!("unexpected action after a wait"),
        };
        let deadline = self
            .receiver
            .next_timeout()
            .map(|deadline| deadline.0.max(now + 1));
        next.into_iter().chain(deadline).min()
    }

    fn moved(&self) -> i64 {
        self.buffer.moved.map_or(0, |at| at.0)
    }

    /// Processes all events, like the client's thread.
    fn play(&mut self, now: i64) {
        while let Some(step) = self.receiver.poll(Instant(now)) {
            self.buffer.push(&step);
        }
        self.sink.advance(now);
        loop {
            let device = self.sink.device();
            let ratio = self.buffer.ratio();
            match self.buffer.next(Instant(now), device) {
                PlayoutAction::Payload {
                    samples, captured, ..
                } => {
                    let played = now + as_nanos(device.dry_in);
                    self.delays.push(played - (captured.0 - OFFSET));
                    self.sink.write(f64::from(samples) * ratio);
                }
                PlayoutAction::Conceal { samples } => self.sink.write(f64::from(samples) * ratio),
                PlayoutAction::Silence { samples } => {
                    self.sink.write(f64::from(samples));
                }
                PlayoutAction::Wait(_) => break,
            }
        }
    }

    /// The quantile of the delays of the last payloads, in ms.
    fn delay(&self, last: usize, quantile: f64) -> f64 {
        let mut delays = self.delays[self.delays.len().saturating_sub(last)..].to_vec();
        delays.sort_unstable();
        let place = whole(quantile * (delays.len() - 1) as f64);
        real(delays[usize::try_from(place).unwrap()]) / 1e6
    }
}

const SECOND: u64 = 200;
const MINUTE: u64 = 60 * SECOND;

#[test]
fn an_hour_of_two_clocks_has_no_gap_and_no_growth() {
    for (sender, device) in [(100.0, 0.0), (-50.0, 50.0)] {
        let mut world = World::new(sender, device);
        let mut rng = Rng(7);
        let mut link = |_| Some(whole(rng.draw() * 2e6));
        world.run(MINUTE, &mut link);
        let (early, gaps) = (world.delay(6000, 0.5), world.sink.gaps);
        world.run(59 * MINUTE, &mut link);
        let (late, worst) = (world.delay(6000, 0.5), world.delay(700_000, 1.0));
        let counters = world.buffer.counters();
        assert_eq!(
            (gaps, world.sink.gaps),
            (0, 0),
            "{sender} {device}: {counters:?}"
        );
        assert_eq!(
            (counters.concealed, counters.discarded),
            (0, 0),
            "{sender} {device}"
        );
        assert!(counters.played >= 60 * MINUTE - 20);
        assert!(
            (early - late).abs() < 1.5,
            "{sender} {device}: {early} ms, then {late} ms"
        );
        // The delay in ms: 5 for the payload, 3 for the link, 2 for jitter, 2.5 for the device, 1 for slack and 1 for
        // drift.
        assert!(worst < 18.0, "{sender} {device}: {worst} ms");
    }
}

#[test]
fn a_link_without_jitter_has_a_short_play_out_delay() {
    let mut world = World::new(0.0, 0.0);
    world.run(MINUTE, |_| Some(0));
    let status = world.buffer.status();
    assert_eq!(status.jitter, Duration::ZERO);
    assert!(status.target <= Duration::from_micros(4750), "{status:?}");
    let (p50, p99) = (world.delay(4000, 0.5), world.delay(4000, 0.99));
    assert!(p50 < 14.0 && p99 < 15.0, "{p50} {p99}");
    assert_eq!(world.buffer.counters().concealed, 0);
}

#[test]
fn one_percent_lost_is_concealed_by_single_payloads() {
    let mut world = World::new(20.0, 0.0);
    world.repeats = 0;
    let mut rng = Rng(11);
    world.run(10 * MINUTE, |_| (rng.draw() >= 0.01).then_some(0));
    let counters = world.buffer.counters();
    let lost = 10 * MINUTE - counters.played;
    assert!((1000..1500).contains(&lost), "{counters:?}");
    assert_eq!(world.sink.gaps, 0);
    assert!(counters.longest_concealment <= 3 * 240, "{counters:?}");
    assert!(counters.concealed <= (lost + 5) * FRAME, "{counters:?}");
    assert!(world.delay(6000, 0.99) < 16.0);
}

#[test]
fn one_percent_loss_with_repetition_is_hardly_audible() {
    let mut world = World::new(20.0, 0.0);
    let mut rng = Rng(12);
    world.run(10 * MINUTE, |_| (rng.draw() >= 0.01).then_some(0));
    let counters = world.buffer.counters();
    assert_eq!(world.sink.gaps, 0);
    assert!(counters.concealed < 60 * FRAME, "{counters:?}");
    assert!(
        world.delay(6000, 0.99) < 20.0,
        "{}",
        world.delay(6000, 0.99)
    );
}

/// Gilbert–Elliott: two percent loss, mean run length two.
#[test]
fn few_bursts_are_concealed_for_longer_than_20_ms() {
    for seed in 1..5 {
        let mut world = World::new(-20.0, 0.0);
        world.repeats = 7; // the sender's choice for such a link
        let mut rng = Rng(seed);
        let mut bad = false;
        let mut lost = 0;
        let mut link = |_| {
            bad = rng.draw() < if bad { 0.5 } else { 0.0102 };
            lost += u64::from(bad);
            (!bad).then_some(0)
        };
        world.run(MINUTE, &mut link);
        world.run(9 * MINUTE, &mut link);
        assert!((1800..3000).contains(&lost), "{lost}");
        let counters = world.buffer.counters();
        // Of 1200 bursts, one in 512 has ten datagrams or more. The longest burst with these seeds has 14. Such bursts
        // exceed the delay and the concealment together, so they are partly silent.
        assert!(counters.longest_concealment <= 48 * 50, "{counters:?}");
        assert!(
            world.sink.gaps <= 8,
            "{seed}: {} {counters:?}",
            world.sink.gaps
        );
        assert!(
            world.delay(6000, 0.99) < 45.0,
            "{}",
            world.delay(6000, 0.99)
        );
    }
}

#[test]
fn pauses_of_the_link_raise_the_delay_for_a_while() {
    let mut world = World::new(0.0, 0.0);
    // Nothing arrives for 30 ms every two seconds, then everything at once.
    let spikes = |n: u64| Some((6 - i64::try_from(n % 400).unwrap().min(6)) * 5 * MS);
    world.run(10 * SECOND, spikes);
    let counters = world.buffer.counters();
    world.run(MINUTE, spikes);
    let later = world.buffer.counters();
    assert_eq!(
        counters.concealed, later.concealed,
        "after adaptation nothing is missed"
    );
    assert_eq!(counters.discarded, later.discarded);
    let status = world.buffer.status();
    assert!(
        status.target <= status.jitter + Duration::from_millis(20),
        "{status:?}"
    );
    assert!(
        world.delay(6000, 0.99) < 45.0,
        "{}",
        world.delay(6000, 0.99)
    );
    world.run(MINUTE, |_| Some(0));
    assert!(
        world.delay(2000, 0.99) < 14.0,
        "{}",
        world.delay(2000, 0.99)
    );
    assert_eq!(world.buffer.counters().concealed, later.concealed);
}

#[test]
fn the_delay_is_the_same_after_a_pause_of_the_sender() {
    let mut world = World::new(0.0, 0.0);
    world.run(MINUTE, |_| Some(0));
    let (before, counters) = (world.delay(1000, 0.5), world.buffer.counters());
    // The sequence numbers continue, but the timestamps skip 7 s.
    let begins = world.pause(1400);
    let skipped = begins - world.sent;
    let gap = world.begins(skipped);
    for n in 0..MINUTE {
        let number = world.sent + n;
        let mut body = Vec::new();
        let payload = Payload {
            seq: PayloadSeq(number),
            captured: PeerInstant(world.begins(number) + gap + OFFSET),
            samples: 240,
            bytes: b"sound",
        };
        drop(TimedWriter::new(&mut body, AUDIO, &payload));
        let at = world.begins(number + 1) + gap + DELAY;
        world.play_until(at);
        world.receiver.handle_body(Instant(at), &body).unwrap();
        world.play(at);
    }
    let after = world.delay(1000, 0.5);
    assert!((after - before).abs() < 1.5, "{before} ms, then {after} ms");
    let later = world.buffer.counters();
    assert!(later.played.abs_diff(counters.played + MINUTE) <= 1);
    assert!(later.concealed - counters.concealed <= 960);
    assert_eq!(later.discarded, counters.discarded);
}

#[test]
fn a_shorter_path_is_followed_at_once() {
    let mut world = World::new(0.0, 0.0);
    world.run(MINUTE, |_| Some(40 * MS));
    world.run(MINUTE, |_| Some(0));
    assert!(world.delay(2000, 1.0) < 14.0, "{}", world.delay(2000, 1.0));
}

proptest! {
    #[test]
    fn absurd_times_keep_memory_and_delay_bounded(
        steps in prop::collection::vec(
            (any::<i64>(), any::<u16>(), any::<u64>(), 0i64..100 * MS, any::<bool>(), 0u8..4),
            1..300,
        ),
    ) {
        let mut buffer = JitterBuffer::new();
        let (mut now, mut dry) = (0i64, 0u64);
        for (captured, samples, count, passed, small, kind) in steps {
            now += passed;
            dry = dry.saturating_sub(u64::try_from(passed).unwrap());
            let step = match kind {
                0 => TimedOutput::Missing {
                    first: PayloadSeq(0),
                    count: if small { count % 8 } else { count },
                },
                _ => TimedOutput::Payload(
                    Payload {
                        seq: PayloadSeq(0),
                        captured: PeerInstant(captured),
                        samples: if small { samples % 1000 } else { samples },
                        bytes: &[1, 2, 3],
                    },
                    Instant(now),
                ),
            };
            buffer.push(&step);
            buffer.check_invariants();
            for turn in 0.. {
                prop_assert!(turn < 1000, "it terminates");
                let device = Device {
                    dry_in: Duration::from_nanos(dry),
                    block: Duration::from_micros(2500),
                };
                let samples = match buffer.next(Instant(now), device) {
                    PlayoutAction::Payload { samples, .. } | PlayoutAction::Conceal { samples } => u32::from(samples),
                    PlayoutAction::Silence { samples } => samples,
                    PlayoutAction::Wait(_) => break,
                };
                dry += u64::try_from(nanos(samples.into())).unwrap();
                buffer.check_invariants();
            }
            prop_assert!(dry < 700_000_000, "{dry} ns are queued in the device");
        }
    }
}
