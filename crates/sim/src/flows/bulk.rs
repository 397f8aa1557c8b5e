//! The transport of a bulk transfer.

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::time::Instant;

use super::{Ack, Control, Loss, PACKET};
use crate::aqm::Packet;

/// A packet counts as lost if a packet that was sent this many packets later has arrived (RFC 9002, section 6.1.1).
const REORDERING: u64 = 3;
/// The minimum timeout, and the timeout as a multiple of the smoothed round trip (guess; a simplification of RFC 9002,
/// section 6.2).
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
const TIMEOUT_FACTOR: u32 = 3;
/// The minimum window in bytes: two packets, so that a flow never stops.
const LEAST_WINDOW: f64 = 2.0 * PACKET as f64;

/// A flow with unlimited data.
#[derive(Debug)]
pub struct Bulk {
    flow: u64,
    control: Box<dyn Control>,
    next: u64,
    sent: BTreeMap<u64, Sent>,
    in_flight: f64,
    smoothed: Option<Duration>,
    delivered: u64,
    delivered_at: Instant,
    /// The earliest time at which pacing permits the next packet.
    paced: Instant,
    /// The first packet of the next round trip.
    round_from: u64,
}

/// A packet in flight.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
}

impl Bulk {
    /// A flow that starts at `start`. The number `flow` distinguishes the flow from others in the bottleneck.
    #[must_use]
    pub fn new(flow: u64, control: Box<dyn Control>, start: Instant) -> Bulk {
        Bulk {
            flow,
            control,
            next: 0,
            sent: BTreeMap::new(),
            in_flight: 0.0,
            smoothed: None,
            delivered: 0,
            delivered_at: start,
            paced: start,
            round_from: 0,
        }
    }

    /// Bytes that have been acknowledged.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The next packet to send at `now`, if one may be sent. The packet's content is its number.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet<u64>> {
        if now < self.paced || !self.has_room() {
            return None;
        }
        if self.sent.is_empty() {
            // An idle flow starts a new interval of the delivery rate.
            self.delivered_at = now;
        }
        let number = self.next;
        self.next += 1;
        let sent = Sent {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
        };
        self.sent.insert(number, sent);
        self.in_flight += PACKET as f64;
        if let Some(rate) = self.control.pacing() {
            let seconds = PACKET as f64 * 8.0 / rate.max(1.0);
            self.paced = now + Duration::from_secs_f64(seconds.min(1.0));
        }
        Some(Packet {
            flow: self.flow,
            len: PACKET,
            ecn: self.control.ecn(),
            content: number,
        })
    }

    /// Handles the acknowledgement of a packet. Unknown packets are ignored.
    pub fn on_ack(&mut self, now: Instant, number: u64, marked: bool) {
        let Some(sent) = self.sent.remove(&number) else {
            return;
        };
        self.in_flight -= PACKET as f64;
        self.delivered += PACKET as u64;
        let round_trip = now.since(sent.at);
        let smoothed = match self.smoothed {
            None => round_trip,
            Some(before) => (before * 7 + round_trip) / 8,
        };
        self.smoothed = Some(smoothed);
        let seconds = now.since(sent.delivered_at).as_secs_f64().max(1e-6);
        let round = number >= self.round_from;
        if round {
            self.round_from = self.next;
        }
        let delivered = self.delivered - sent.delivered;
        self.delivered_at = now;
        self.control.on_ack(&Ack {
            now,
            round_trip,
            smoothed,
            bytes: PACKET as f64,
            marked,
            in_flight: self.in_flight,
            delivery_rate: delivered as f64 * 8.0 / seconds,
            round,
        });
        while let Some((&oldest, &lost)) = self.sent.first_key_value()
            && oldest + REORDERING <= number
        {
            self.lose(now, oldest, lost, false);
        }
    }

    /// Handles a timeout: all packets in flight count as lost.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.timeout().is_none_or(|at| now < at) {
            return;
        }
        while let Some((&oldest, &lost)) = self.sent.first_key_value() {
            self.lose(now, oldest, lost, true);
        }
    }

    /// The time at which to call [`Bulk::handle_timeout`] and [`Bulk::poll_transmit`] next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let sends = self.has_room().then_some(self.paced);
        sends.into_iter().chain(self.timeout()).min()
    }

    fn has_room(&self) -> bool {
        let window = self.control.window().max(LEAST_WINDOW);
        self.in_flight + PACKET as f64 <= window
    }

    fn timeout(&self) -> Option<Instant> {
        let (_, oldest) = self.sent.first_key_value()?;
        let wait = self.smoothed.unwrap_or(LEAST_TIMEOUT) * TIMEOUT_FACTOR;
        Some(oldest.at + wait.max(LEAST_TIMEOUT))
    }

    fn lose(&mut self, now: Instant, number: u64, sent: Sent, timeout: bool) {
        self.sent.remove(&number);
        self.in_flight -= PACKET as f64;
        self.control.on_loss(&Loss {
            now,
            sent: sent.at,
            timeout,
        });
    }
}
