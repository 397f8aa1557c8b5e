//! The adaptive bitrate of the shipped host on a bottleneck with a constant rate, after the bitrate has settled.
#![allow(clippy::cast_possible_truncation, reason = "a test knows its numbers")]

mod l4s;
mod narrow;

use std::time::Duration;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::SecondPlayer;
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::l4s::L4sMode;
use openuvr_proto::trace::Fidelity;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Discipline;
use openuvr_sim::link::{Counters, Impairment, Queue};
use openuvr_sim::world::{Device, World};

/// Seconds in which the bitrate settles.
const SETTLED: u32 = 5;

/// A stream over a bottleneck.
struct Case {
    delay: Duration,
    rate: Bitrate,
    queue: Queue,
    discipline: Discipline,
    l4s: L4sMode,
    range: Range,
    /// Bits of a picture at quantiser 0.
    complexity: f64,
    /// Number of evaluated seconds.
    counted: u32,
}

/// Results of a run, from the time at which the bitrate has settled. The counters also include the time before.
#[derive(Debug)]
struct Run {
    /// Complete frames per second.
    whole: u32,
    /// Link utilisation, in percent.
    used: u64,
    /// p90 latency of complete frames, beyond the link's own delay.
    p90: Duration,
    counters: Counters,
}

impl Case {
    fn run(&self) -> Run {
        let link = Impairment {
            delay: self.delay,
            rate: Some(self.rate),
            queue: self.queue,
            ..Impairment::default()
        };
        let mut world = World::new(77, SecondPlayer::Refuse);
        world.adapt_with(self.l4s, self.range, self.complexity);
        let device = Device::new(1, Role::Player).behind(&link);
        let player = world.connect(&device.queued_by(self.discipline));
        world.rest(Duration::from_millis(300));
        world.frames(60 * SETTLED);
        let (begin, before) = (world.now(), world.downstream(player).sent_bytes);
        world.frames(60 * self.counted);
        let bytes = world.downstream(player).sent_bytes - before;
        world.rest(Duration::from_secs(3));
        world.check_conservation(player);
        let shown = world.machine(player).shown.iter();
        let shown = shown.filter(|s| !world.repeated.contains(&s.frame));
        let whole: Vec<_> = shown
            .filter(|s| s.fidelity == Fidelity::Complete && s.captured >= begin)
            .collect();
        let mut delays: Vec<_> = whole.iter().map(|s| s.at.since(s.captured)).collect();
        delays.sort();
        let run = Run {
            whole: whole.len() as u32 / self.counted,
            used: bytes * 8 * 100 / (u64::from(self.counted) * self.rate.0),
            p90: delays[delays.len() * 9 / 10].saturating_sub(self.delay),
            counters: world.downstream(player),
        };
        let Case {
            delay,
            rate,
            queue,
            discipline,
            l4s,
            ..
        } = self;
        world.step(&format!(
            "{rate:?}, {delay:?}, {queue:?}, {discipline}, {l4s:?}: {run:?}"
        ));
        run
    }
}
