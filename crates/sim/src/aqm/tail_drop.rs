//! Tail drop: a first-in, first-out queue. A packet that finds it full is dropped.
//!
//! The other disciplines use it as their store. It records the arrival of each packet, from which they compute the
//! sojourn time.

use std::collections::VecDeque;
use std::fmt;

use openuvr_proto::time::Instant;

use super::{Actions, Aqm, Packet};

/// The queue.
#[derive(Debug)]
pub struct TailDrop<T> {
    limit: usize,
    packets: VecDeque<(Instant, Packet<T>)>,
    bytes: usize,
    actions: Actions,
}

impl<T> TailDrop<T> {
    /// An empty queue of at most `limit` bytes. A packet always fits into an empty queue.
    #[must_use]
    pub fn new(limit: usize) -> TailDrop<T> {
        TailDrop {
            limit,
            packets: VecDeque::new(),
            bytes: 0,
            actions: Actions::default(),
        }
    }

    /// Appends a packet. Returns whether it fitted.
    pub(super) fn push(&mut self, now: Instant, packet: Packet<T>) -> bool {
        if self.bytes > 0 && self.bytes + packet.len > self.limit {
            self.actions.overflowed += 1;
            return false;
        }
        self.bytes += packet.len;
        self.packets.push_back((now, packet));
        true
    }

    /// The oldest packet with its arrival.
    pub(super) fn pop(&mut self) -> Option<(Instant, Packet<T>)> {
        let (arrived, packet) = self.packets.pop_front()?;
        self.bytes -= packet.len;
        Some((arrived, packet))
    }

    /// The arrival of the oldest packet.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.packets.front().map(|(arrived, _)| *arrived)
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Bytes that wait.
    pub(super) fn held(&self) -> usize {
        self.bytes
    }

    /// The counter of packets that did not fit.
    pub(super) fn overflowed(&self) -> u64 {
        self.actions.overflowed
    }
}

impl<T: fmt::Debug + Send> Aqm<T> for TailDrop<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) {
        self.push(now, packet);
    }

    fn dequeue(&mut self, _: Instant) -> Option<Packet<T>> {
        self.pop().map(|(_, packet)| packet)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn actions(&self) -> Actions {
        self.actions
    }
}
