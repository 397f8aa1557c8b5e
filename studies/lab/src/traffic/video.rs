//! The second pass determines the batches and frames of a video stream, and their timing at the capture point.
//!
//! A batch ends at a gap that is longer than usual in the stream. An RTP frame is the set of packets with one
//! timestamp. OpenUVR's frames are sealed, so only batches and the cleartext send timestamps are available.

use std::collections::VecDeque;

use serde::Serialize;

use super::distribution::Distribution;
use super::kind::{Content, Rtp};
use super::reader::StreamDatagram;
use super::sequence::Sequence;
use super::survey::ArrivalPattern;

/// Minimum gap that ends a batch: the larger of a time in ns and a multiple of the stream's median gap. In the study,
/// batches are 5.56 ms apart, and the packets of a batch 5 to 50 µs (a guess with margin on both sides).
const LEAST_PAUSE: u64 = 500_000;
const PAUSE_GAPS: u64 = 20;

/// Maximum number of frames in flight. If there are more, the oldest frame is finished. Packets of it that arrive later
/// count as another, incomplete frame.
const MOST_FRAMES: usize = 32;

/// One video stream.
#[derive(Debug, Serialize)]
pub struct Video {
    /// Minimum gap that ends a batch, ns.
    pub pause_ns: u64,
    /// Packets of each batch.
    pub batch_packets: Distribution,
    /// Bytes on Ethernet of each batch.
    pub batch_bytes: Distribution,
    /// Duration of a batch, ns.
    pub batch_lasted_ns: Distribution,
    /// Interval from the start of a batch to the start of the next batch, ns.
    pub batch_interval_ns: Distribution,
    /// Frames, if they can be distinguished.
    pub frames: Option<Frames>,
    /// The jitter of RFC 3550, section 6.4.1, after each packet, ns.
    pub jitter_ns: Distribution,
    /// The same jitter in ns, but updated only at the first packet of each frame, from the last packet of the previous
    /// frame. It reflects the duration of frames.
    pub frame_jitter_ns: Distribution,
    /// The arrival pattern of the stream's packets, without those of other streams.
    #[serde(skip)]
    pub arrivals: ArrivalPattern,
    #[serde(skip)]
    state: State,
}

/// Frames of a stream. The first and the last frame of the capture are excluded, because they may be incomplete.
#[derive(Debug, Default, Serialize)]
pub struct Frames {
    /// Complete frames.
    pub complete: u64,
    /// Frames with missing packets, and frames whose sequence numbers do not directly follow those of the previous
    /// frame.
    pub broken: u64,
    /// Bytes on Ethernet.
    pub bytes: Distribution,
    /// Packets.
    pub packets: Distribution,
    /// Interval from the first packet of a frame to the first packet of the next frame, ns.
    pub interval_ns: Distribution,
    /// Number of batches per frame.
    pub batches: Distribution,
    /// Time from the first packet of a frame to its last, ns.
    pub assembly_ns: Distribution,
}

#[derive(Debug, Default)]
struct State {
    /// Nanoseconds per tick of the RTP clock. 0 if the stream is not RTP.
    tick: f64,
    batch: Option<Batch>,
    number: u64,
    sequence: Sequence,
    in_flight: VecDeque<Frame>,
    finished: Option<Frame>,
    last: Option<Last>,
    jitter: f64,
    frame_jitter: f64,
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    first: u64,
    last: u64,
    packets: u64,
    bytes: u64,
}

/// The previous packet.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: u64,
    /// Time on the sender's clock: ticks for RTP, otherwise nanoseconds.
    sent: i64,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    timestamp: u32,
    first: u64,
    last: u64,
    bytes: u64,
    packets: u64,
    numbers: (u64, u64),
    has_end: bool,
    batches: u64,
    batch: u64,
}

impl Video {
    /// Starts the analysis of a stream with this median gap. `rate` is the clock rate of an RTP stream.
    #[must_use]
    pub fn new(median_gap: u64, rate: Option<u32>) -> Video {
        Video {
            pause_ns: LEAST_PAUSE.max(PAUSE_GAPS * median_gap),
            batch_packets: Distribution::default(),
            batch_bytes: Distribution::default(),
            batch_lasted_ns: Distribution::default(),
            batch_interval_ns: Distribution::default(),
            frames: rate.map(|_| Frames::default()),
            jitter_ns: Distribution::default(),
            frame_jitter_ns: Distribution::default(),
            arrivals: ArrivalPattern::default(),
            state: State {
                tick: rate.map_or(0.0, |rate| 1e9 / f64::from(rate)),
                ..State::default()
            },
        }
    }

    /// Records the next datagram of the stream.
    pub fn record(&mut self, seen: &StreamDatagram<'_>) {
        self.arrivals.record(seen.at, seen.bytes);
        self.record_batch(seen);
        match seen.content {
            Content::Rtp(rtp) => {
                let (number, is_new) = self.state.sequence.record16(rtp.sequence);
                if is_new {
                    self.record_jitter(seen.at, i64::from(rtp.timestamp));
                    self.record_frame(seen, &rtp, number);
                }
            }
            Content::OpenUvr(_, sealed) => {
                if self.state.sequence.record(sealed.number) {
                    self.record_jitter(seen.at, sealed.sent);
                }
            }
            Content::Plain(_) => {}
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self) {
        self.arrivals.end_run();
        self.end_batch();
        while self.state.in_flight.len() > 1 {
            self.finish_frame();
        }
    }

    /// The usual interval between batches in ns, if there is one.
    #[must_use]
    pub fn usual_interval(&self) -> Option<f64> {
        // Batches can't be closer than the minimum gap.
        self.batch_interval_ns.mode(self.pause_ns)
    }

    /// Divides the time into slots of the usual interval. Returns the number of slots, and the share of slots without a
    /// batch.
    #[must_use]
    pub fn idle(&self) -> Option<(u64, f64)> {
        let usual = self.usual_interval()?;
        let times = |interval: u64| (interval as f64 / usual).round().max(1.0);
        let slots = self.batch_interval_ns.values();
        let slots: f64 = slots.map(|(at, count)| times(at) * f64::from(count)).sum();
        let busy = self.batch_interval_ns.count() as f64;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // The value is integral and not negative.
        let count = slots as u64;
        Some((count, 1.0 - busy / slots))
    }

    fn record_batch(&mut self, seen: &StreamDatagram<'_>) {
        let continues = |batch: &Batch| seen.at.saturating_sub(batch.last) <= self.pause_ns;
        let Some(batch) = self.state.batch.as_mut().filter(|batch| continues(batch)) else {
            if let Some(before) = self.state.batch {
                self.batch_interval_ns
                    .record(seen.at.saturating_sub(before.first));
            }
            self.end_batch();
            self.state.number += 1;
            self.state.batch = Some(Batch {
                first: seen.at,
                last: seen.at,
                packets: 1,
                bytes: seen.bytes,
            });
            return;
        };
        batch.last = batch.last.max(seen.at);
        batch.packets += 1;
        batch.bytes += seen.bytes;
    }

    fn end_batch(&mut self) {
        if let Some(batch) = self.state.batch.take() {
            self.batch_packets.record(batch.packets);
            self.batch_bytes.record(batch.bytes);
            self.batch_lasted_ns.record(batch.last - batch.first);
        }
    }

    /// Updates the jitter according to RFC 3550, appendix A.8, with times in nanoseconds.
    fn record_jitter(&mut self, at: u64, sent: i64) {
        let state = &mut self.state;
        if let Some(last) = state.last {
            let between = match state.tick {
                0.0 => sent.wrapping_sub(last.sent) as f64,
                // Timestamps have 32 bits and wrap around.
                #[allow(clippy::cast_possible_truncation)]
                tick => f64::from((sent - last.sent) as i32) * tick,
            };
            let apart = (at as f64 - last.at as f64 - between).abs();
            state.jitter += (apart - state.jitter) / 16.0;
            self.jitter_ns.record(whole(state.jitter));
            if state.tick > 0.0 && sent != last.sent {
                state.frame_jitter += (apart - state.frame_jitter) / 16.0;
                self.frame_jitter_ns.record(whole(state.frame_jitter));
            }
        }
        state.last = Some(Last { at, sent });
    }

    fn record_frame(&mut self, seen: &StreamDatagram<'_>, rtp: &Rtp, number: u64) {
        let batch = self.state.number;
        let frames = &mut self.state.in_flight;
        if let Some(frame) = frames.iter_mut().find(|f| f.timestamp == rtp.timestamp) {
            frame.last = frame.last.max(seen.at);
            frame.bytes += seen.bytes;
            frame.packets += 1;
            frame.numbers = (frame.numbers.0.min(number), frame.numbers.1.max(number));
            frame.has_end |= rtp.marker;
            frame.batches += u64::from(frame.batch != batch);
            frame.batch = batch;
            return;
        }
        frames.push_back(Frame {
            timestamp: rtp.timestamp,
            first: seen.at,
            last: seen.at,
            bytes: seen.bytes,
            packets: 1,
            numbers: (number, number),
            has_end: rtp.marker,
            batches: 1,
            batch,
        });
        if frames.len() > MOST_FRAMES {
            self.finish_frame();
        }
    }

    /// Finishes the oldest frame.
    fn finish_frame(&mut self) {
        let Some(frame) = self.state.in_flight.pop_front() else {
            return;
        };
        let before = self.state.finished.replace(frame);
        let (Some(before), Some(frames)) = (before, &mut self.frames) else {
            return;
        };
        let (first, last) = frame.numbers;
        // If the numbers do not directly follow those of the frame before, the first packets of this frame may be
        // missing, or the frames were reordered. This frame then does not count as complete.
        let follows = before.numbers.1 + 1 == first;
        let is_whole = frame.has_end && last - first + 1 == frame.packets && follows;
        match is_whole {
            true => frames.complete += 1,
            false => frames.broken += 1,
        }
        frames.bytes.record(frame.bytes);
        frames.packets.record(frame.packets);
        frames
            .interval_ns
            .record(frame.first.saturating_sub(before.first));
        frames.batches.record(frame.batches);
        frames.assembly_ns.record(frame.last - frame.first);
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Not negative, and small enough.
fn whole(nanos: f64) -> u64 {
    nanos.round() as u64
}
