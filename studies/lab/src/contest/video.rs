//! The video sender and its client: frames at the target rate, slices, pacing, reports and repeated datagrams.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use openuvr_proto::time::Instant;
use openuvr_sim::aqm::{Ecn, Packet};
use openuvr_sim::random::Random;

use super::controller::{Controller, Datagram, FrameReport, whole};

/// Time from capture to the first slice, time between two slices, and number of slices per frame, as in the product's
/// simulation (`crates/sim/src/world/source.rs`).
const FIRST_SLICE: Duration = Duration::from_millis(1);
const SLICE_EVERY: Duration = Duration::from_micros(250);
const SLICES: u32 = 8;
/// Largest datagram on the link in bytes.
const DATAGRAM: usize = 1400;
/// Smallest slice in bytes, which is the size of its headers.
const LEAST_SLICE: usize = 64;
/// Maximum deviation of a frame's size from the target, as a share (guess: rate control with a moving scene).
const VARIATION: f64 = 0.15;
/// If data waits longer than this at the sender, frames are skipped (guess: six frames).
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// If no message arrives for this time, all bytes in flight count as lost, so that a full window opens again (guess:
/// several round trips).
const SILENT: Duration = Duration::from_millis(500);
/// Number of newest frames for which reports and repetitions are possible. The state of older frames is discarded.
const KEPT: u32 = 600;

/// Identifies a datagram on the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramId {
    /// The number of the frame.
    pub frame: u32,
    /// The datagram's index in the frame.
    pub index: usize,
    /// Whether this is the repetition of a lost datagram.
    pub again: bool,
}

/// A message from the client to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// The report on a frame of which each datagram has arrived or is lost. The value is the frame's number.
    Report(u32),
    /// A datagram is missing.
    Missing(DatagramId),
    /// A datagram has arrived. The value is its size in bytes.
    Arrived(usize),
}

/// Totals of the sender and the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that were due.
    pub due: u32,
    /// Frames that were skipped.
    pub skipped: u32,
    /// Datagrams that were lost.
    pub lost: u32,
    /// Bytes that arrived, including repeated datagrams.
    pub arrived_bytes: u64,
}

/// A frame that is complete at the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Complete {
    /// The time at which the frame was captured.
    pub captured: Instant,
    /// The time at which the frame's last datagram arrived.
    pub at: Instant,
}

/// A waiting datagram: the time at which its slice is encoded, its id, and its size in bytes.
type UnsentDatagram = (Instant, DatagramId, usize);

/// The video sender and its client.
#[derive(Debug)]
pub struct Video {
    flow: u64,
    controller: Box<dyn Controller>,
    interval: Duration,
    noise: Random,
    next_capture: Instant,
    next_frame: u32,
    queue: VecDeque<UnsentDatagram>,
    paced: Instant,
    in_flight: usize,
    /// The time of the client's last message.
    heard_at: Instant,
    frames: BTreeMap<u32, Frame>,
    totals: Totals,
}

#[derive(Debug)]
struct Frame {
    captured: Instant,
    datagrams: Vec<Datagram>,
    /// For each datagram, whether its first transmission or its repetition has arrived.
    arrived: Vec<bool>,
    /// The number of datagrams whose first transmission has arrived or is known to be lost.
    resolved: usize,
    complete: bool,
}

impl Video {
    /// Makes a sender that captures its first frame at `start`. `flow` is its flow number at the bottleneck.
    #[must_use]
    pub fn new(
        flow: u64,
        controller: Box<dyn Controller>,
        interval: Duration,
        start: Instant,
        seed: u64,
    ) -> Video {
        Video {
            flow,
            controller,
            interval,
            noise: Random::new(seed, 7),
            next_capture: start,
            next_frame: 1,
            queue: VecDeque::new(),
            paced: start,
            in_flight: 0,
            heard_at: start,
            frames: BTreeMap::new(),
            totals: Totals::default(),
        }
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &dyn Controller {
        &*self.controller
    }

    /// The totals since the start.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Captures a frame if one is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now < self.next_capture {
            return;
        }
        self.next_capture = self.next_capture + self.interval;
        if now.since(self.heard_at) > SILENT {
            self.in_flight = 0;
        }
        self.totals.due += 1;
        let waited = self.queue.front().map(|(coded, ..)| now.since(*coded));
        let waited = waited.unwrap_or_default();
        self.controller.before_frame(now, waited);
        let held = self
            .controller
            .held_until(now)
            .is_some_and(|until| until > now);
        if held || waited > LONGEST_WAIT {
            self.totals.skipped += 1;
            return;
        }
        self.code(now);
    }

    /// Encodes a frame. The datagrams of its slices are queued with the times at which the slices are encoded.
    fn code(&mut self, now: Instant) {
        let share = 1.0 + VARIATION * (2.0 * self.noise.unit() - 1.0);
        let bits = self.controller.target().0 as f64 * self.interval.as_secs_f64() * share;
        let slice = whole(bits / 8.0 / f64::from(SLICES));
        let slice = usize::try_from(slice)
            .unwrap_or(usize::MAX)
            .max(LEAST_SLICE);
        let frame = self.next_frame;
        self.next_frame += 1;
        let mut index = 0;
        for number in 0..SLICES {
            let coded = now + FIRST_SLICE + SLICE_EVERY * number;
            let count = slice.div_ceil(DATAGRAM);
            for _ in 0..count {
                let id = DatagramId {
                    frame,
                    index,
                    again: false,
                };
                self.queue.push_back((coded, id, slice.div_ceil(count)));
                index += 1;
            }
        }
        let unsent = Datagram {
            sent: now,
            arrived: None,
            bytes: slice.div_ceil(slice.div_ceil(DATAGRAM)),
            ecn: Ecn::NotEct,
        };
        let new = Frame {
            captured: now,
            datagrams: vec![unsent; index],
            arrived: vec![false; index],
            resolved: 0,
            complete: false,
        };
        self.frames.insert(frame, new);
        self.frames.retain(|number, _| *number + KEPT > frame);
    }

    /// The next datagram to send at `now`, if there is one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet<DatagramId>> {
        if self.sends_at().is_none_or(|at| at > now) {
            return None;
        }
        let (_, id, bytes) = self.queue.pop_front()?;
        if let Some(rate) = self.controller.pacing(now) {
            let seconds = bytes as f64 * 8.0 / (rate.0 as f64).max(1.0);
            self.paced = now + Duration::from_secs_f64(seconds.min(1.0));
        }
        let ecn = self.controller.ecn();
        if !id.again {
            self.in_flight += bytes;
            if let Some(frame) = self.frames.get_mut(&id.frame) {
                frame.datagrams[id.index].sent = now;
                frame.datagrams[id.index].ecn = ecn;
                if id.index + 1 == frame.datagrams.len() {
                    let all: usize = frame.datagrams.iter().map(|one| one.bytes).sum();
                    self.controller.on_sent(now, id.frame, all);
                }
            }
        }
        Some(Packet {
            flow: self.flow,
            len: bytes,
            ecn,
            content: id,
        })
    }

    /// The time at which the first datagram of the queue may be sent; `None` if the queue is empty or the window is
    /// full.
    fn sends_at(&self) -> Option<Instant> {
        let (coded, _, bytes) = self.queue.front()?;
        let window = self.controller.window();
        let full =
            window.is_some_and(|window| self.in_flight > 0 && self.in_flight + bytes > window);
        (!full).then(|| self.paced.max(*coded))
    }

    /// The time of the next call of [`Video::handle_timeout`] and [`Video::poll_transmit`].
    #[must_use]
    pub fn next_timeout(&self) -> Instant {
        let sends = self.sends_at().unwrap_or(self.next_capture);
        sends.min(self.next_capture)
    }

    /// The client receives a datagram at `now`. Appends the client's messages to `feedback`. Returns the frame if this
    /// datagram completes it.
    pub fn on_arrival(
        &mut self,
        now: Instant,
        packet: &Packet<DatagramId>,
        feedback: &mut Vec<Feedback>,
    ) -> Option<Complete> {
        let id = packet.content;
        self.totals.arrived_bytes += packet.len as u64;
        if !id.again {
            self.find_gaps(id, feedback);
            feedback.push(Feedback::Arrived(packet.len));
        }
        let frame = self.frames.get_mut(&id.frame)?;
        frame.arrived[id.index] = true;
        if !id.again {
            frame.datagrams[id.index].arrived = Some(now);
            frame.datagrams[id.index].ecn = packet.ecn;
            frame.resolved = id.index + 1;
            if frame.resolved == frame.datagrams.len() {
                feedback.push(Feedback::Report(id.frame));
            }
        }
        let complete = !frame.complete && frame.arrived.iter().all(|one| *one);
        frame.complete |= complete;
        complete.then_some(Complete {
            captured: frame.captured,
            at: now,
        })
    }

    /// Reports the datagrams that are lost: the datagrams of a flow arrive in order, so each earlier one that has not
    /// arrived is lost.
    fn find_gaps(&mut self, id: DatagramId, feedback: &mut Vec<Feedback>) {
        for (number, frame) in self.frames.range_mut(..=id.frame) {
            let until = match *number == id.frame {
                true => id.index,
                false => frame.datagrams.len(),
            };
            if frame.resolved >= until {
                continue;
            }
            for index in frame.resolved..until {
                self.totals.lost += 1;
                feedback.push(Feedback::Missing(DatagramId {
                    frame: *number,
                    index,
                    again: true,
                }));
            }
            frame.resolved = until;
            if *number != id.frame {
                feedback.push(Feedback::Report(*number));
            }
        }
    }

    /// The sender receives a message at `now`.
    pub fn on_feedback(&mut self, now: Instant, feedback: Feedback) {
        self.heard_at = now;
        match feedback {
            Feedback::Missing(id) => {
                let frame = self.frames.get(&id.frame);
                if let Some(bytes) = frame.map(|frame| frame.datagrams[id.index].bytes) {
                    self.in_flight = self.in_flight.saturating_sub(bytes);
                    self.queue.push_front((now, id, bytes));
                }
            }
            Feedback::Arrived(bytes) => {
                self.in_flight = self.in_flight.saturating_sub(bytes);
            }
            Feedback::Report(number) => {
                let Some(frame) = self.frames.get(&number) else {
                    return;
                };
                let report = FrameReport {
                    frame: number,
                    datagrams: &frame.datagrams,
                    in_flight: self.in_flight,
                };
                self.controller.on_report(now, &report);
            }
        }
    }
}
