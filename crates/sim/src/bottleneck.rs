//! The bottleneck of a link: a queue discipline, and a transmitter that sends one packet after another.
//!
//! The caller computes the transmission times, so that the rate may follow a schedule.

use std::collections::VecDeque;
use std::fmt;

use openuvr_proto::time::Instant;

use crate::aqm::{Actions, Aqm, Discipline, Packet};

/// A bottleneck.
#[derive(Debug)]
pub struct Bottleneck<T> {
    queue: Box<dyn Aqm<T>>,
    /// The packet on the transmitter, and the time at which its last bit leaves.
    sending: Option<(Instant, Packet<T>)>,
    /// Packets that have left and have not been polled yet, each with the time at which its last bit left.
    left: VecDeque<(Instant, Packet<T>)>,
}

impl<T: fmt::Debug + Send + 'static> Bottleneck<T> {
    /// An idle bottleneck whose queue holds at most `limit` bytes.
    #[must_use]
    pub fn new(discipline: Discipline, limit: usize, seed: u64) -> Bottleneck<T> {
        Bottleneck {
            queue: discipline.open(limit, seed),
            sending: None,
            left: VecDeque::new(),
        }
    }

    /// Takes a packet at `now`, which must not decrease between calls. `sent_out` maps the start of a packet's
    /// transmission and the length in bytes to the time at which the last bit has been sent.
    pub fn send(
        &mut self,
        now: Instant,
        packet: Packet<T>,
        sent_out: impl Fn(Instant, usize) -> Instant,
    ) {
        self.advance(now, &sent_out);
        self.queue.enqueue(now, packet);
        if self.sending.is_none() {
            self.start(now, &sent_out);
            // With an unlimited rate, the packet leaves at once.
            self.advance(now, &sent_out);
        }
    }

    /// The next packet that has left by `now`, and when its last bit left.
    pub fn poll(
        &mut self,
        now: Instant,
        sent_out: impl Fn(Instant, usize) -> Instant,
    ) -> Option<(Instant, Packet<T>)> {
        self.advance(now, &sent_out);
        self.left.pop_front()
    }

    /// The time at which the next packet leaves. Call [`Bottleneck::poll`] then.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let next = self.left.front().or(self.sending.as_ref());
        next.map(|(at, _)| *at)
    }

    /// The discipline's counters until now.
    #[must_use]
    pub fn actions(&self) -> Actions {
        self.queue.actions()
    }

    /// Bytes that wait, without the packet that is being sent.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    fn advance(&mut self, now: Instant, sent_out: &impl Fn(Instant, usize) -> Instant) {
        while let Some((at, packet)) = self.sending.take_if(|(at, _)| *at <= now) {
            self.left.push_back((at, packet));
            self.start(at, sent_out);
        }
    }

    fn start(&mut self, at: Instant, sent_out: &impl Fn(Instant, usize) -> Instant) {
        let next = self.queue.dequeue(at);
        self.sending = next.map(|packet| (sent_out(at, packet.len), packet));
    }
}
