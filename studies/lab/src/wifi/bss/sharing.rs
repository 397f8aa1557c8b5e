//! OFDMA from the access point: one PPDU contains packets for several stations, each station's in a resource unit of
//! the channel.
//!
//! A trigger (MU-RTS) and CTS announce the PPDU. All stations acknowledge it simultaneously in their resource units.
//! Source: 802.11ax-2021, 27.3.2.2 (resource units), 27.3.11.8 (their table in the preamble), 9.3.1.22 (trigger). No
//! published measurement was available for a comparison.

use super::super::timing::{control, part_rate};
use super::super::{MICROSECOND, Nanos};
use super::exchange::{PpduLoad, Span};
use super::{Bss, Event, Sent};

/// For each channel width (given by its data subcarriers): pairs of the maximum number of resource units, and the data
/// subcarriers of each unit.
const PARTS: [(u64, [(usize, u64); 4]); 5] = [
    (234, [(2, 102), (4, 48), (9, 24), (9, 24)]),
    (468, [(2, 234), (4, 102), (8, 48), (18, 24)]),
    (980, [(2, 468), (4, 234), (8, 102), (16, 48)]),
    (1960, [(2, 980), (4, 468), (8, 234), (16, 102)]),
    (3920, [(2, 1960), (4, 980), (8, 468), (16, 234)]),
];

impl Bss {
    /// The contents of a shared PPDU of the access point, and the bits per symbol of each resource unit. Empty if only
    /// one station has packets in this category.
    pub(super) fn share(&mut self, index: usize, start: Nanos) -> Vec<(PpduLoad, u64)> {
        let sender = &self.senders[index];
        let count = sender.queues.len();
        let backlogged: Vec<usize> = (0..count)
            .map(|n| (sender.turn + n) % count)
            .filter(|queue| !sender.queues[*queue].mpdus.is_empty())
            .collect();
        let parts = PARTS
            .iter()
            .find(|(all, _)| *all == self.timing.subcarriers);
        let Some((_, parts)) = parts.filter(|_| backlogged.len() > 1) else {
            return Vec::new();
        };
        let fits = |(most, _): &&(usize, u64)| *most >= backlogged.len();
        let (most, subcarriers) = *parts.iter().find(fits).unwrap_or(&parts[3]);
        let room = self.room(index).saturating_sub(self.table(most));
        backlogged
            .into_iter()
            .take(most)
            .map(|queue| {
                let peer = &mut self.peers[queue];
                let signal = peer.air.signal(start);
                let mcs = peer.down.choose(start, signal, &self.timing);
                let rate = part_rate(subcarriers, self.timing.streams, mcs);
                (self.fill(index, queue, mcs, rate, room), rate)
            })
            .collect()
    }

    pub(super) fn send_shared(&mut self, index: usize, start: Nanos, shared: &[(PpduLoad, u64)]) {
        let timing = &self.timing;
        let stations = shared.len();
        let table = self.table(stations);
        // The trigger's header and common part have 28 bytes. Each station adds 5 bytes. The trigger is sent at the
        // rate of control frames, which follows from the duration of an RTS.
        let trigger_bits = 8 * (28 + 5 * stations as u64);
        let per_symbol = if timing.rts > 40 * MICROSECOND {
            24
        } else {
            96
        };
        let trigger = control(trigger_bits, per_symbol, 6);
        let begin = start + trigger + timing.sifs + timing.cts + timing.sifs;
        let symbols = |(load, rate): &(PpduLoad, u64)| {
            // The same PPDU contains the acknowledgement request, an MPDU of 33 bytes.
            let request = timing.mpdu(0) + 8 * 33;
            (timing.around_bits + load.bits + request).div_ceil(*rate)
        };
        let longest = shared.iter().map(symbols).max().unwrap_or(0);
        let data_end = begin + timing.preamble + table + longest * timing.symbol;
        // Each station acknowledges in its resource unit, with one stream at the robust MCS 2.
        let slowest = shared.iter().map(|(load, rate)| {
            let part = rate * part_rate(24, 1, 2) / part_rate(24, timing.streams, load.mcs).max(1);
            (16 + 448_u64).div_ceil(part.max(1))
        });
        let slowest = slowest.max().unwrap_or(0);
        let answer = (40 + 8) * MICROSECOND + slowest * timing.symbol;
        let end = data_end + timing.sifs + answer;
        let span = Span {
            // The resource unit table precedes the data.
            begin: begin + table,
            end,
        };
        let (mut events, mut delivered, mut attempted) = (Vec::new(), 0, 0);
        for (load, rate) in shared {
            attempted += load.count;
            delivered += self.deliver(index, *load, span, *rate, &mut events);
        }
        let sender = &mut self.senders[index];
        let last = shared.last().map_or(0, |(load, _)| load.queue);
        sender.turn = (last + 1) % sender.queues.len();
        events.push(Event::Sent(Sent {
            at: end,
            lasted: end - start,
            aifs: sender.aifs,
            direction: sender.direction(),
            stations: u16::try_from(stations).unwrap_or(u16::MAX),
            attempted: u32::try_from(attempted).unwrap_or(u32::MAX),
            delivered,
            mcs: shared.first().map_or(0, |(load, _)| load.mcs),
        }));
        self.end_turn(index, delivered, end, events);
    }

    /// Duration of the resource unit table (HE-SIG-B). The table has about 18 bits, and 26 bits for each station. From
    /// 40 MHz on, it is sent in two parallel halves. A symbol of 4 µs has 26 bits.
    fn table(&self, stations: usize) -> Nanos {
        let halves = if self.timing.subcarriers > 234 { 2 } else { 1 };
        let bits = 18 + 26 * (stations as u64).div_ceil(halves);
        bits.div_ceil(26) * 4 * MICROSECOND
    }
}
