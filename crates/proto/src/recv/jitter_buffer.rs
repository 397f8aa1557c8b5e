//! The audio jitter buffer: delays payloads as little as possible, but enough that late payloads can still be played.
//!
//! It takes the ordered output of a [`TimedReceiver`](super::timed::TimedReceiver) and decides the device's next input:
//! a payload, concealment of a missing or late payload, or silence. It holds coded payloads and is independent of the
//! codec. The playout delay counts from the fastest payload of the last seconds, so it needs no clock synchronisation.
//! The media time of a payload is counted in samples; the sender's timestamps only show pauses. The target delay is the
//! observed jitter plus the device's needs. Clock drift is compensated by the ratio of a resampler
//! ([`JitterBuffer::ratio`]).
//!
//! The receiver itself should not wait ([`TimedReceiver::set_wait`](super::timed::TimedReceiver::set_wait) with zero). A
//! lost payload arrives, if ever, with the datagram that overtakes it. If the receiver delayed that datagram, a device with
//! little data would underrun.
//!
//! The terms are those of RFC 3550 and RFC 5481. The adaptation follows Ramjee et al. ("Adaptive Playout Mechanisms for
//! Packetized Audio Applications in Wide-Area Networks", INFOCOM 1994), with a quantile in place of their estimates.

mod arrivals;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use arrivals::Arrivals;

use super::timed::TimedOutput;
use crate::time::{Instant, PeerInstant};
use crate::wire::timed::Payload;

/// Samples per channel and second.
pub const RATE: u32 = 48_000;

/// Maximum payload duration: 20 ms. Longer payloads are dropped.
pub const MAX_SAMPLES: u16 = 960;

/// Maximum concealment: 20 ms. Longer concealment sounds worse than silence (guess).
const MAX_CONCEALED: u32 = 960;

/// Maximum queue in samples: half a second. Beyond it, the oldest entries are dropped.
const MAX_QUEUED: u32 = RATE / 2;
/// Maximum queue in entries: half a second of the shortest Opus payloads.
const MAX_ENTRIES: usize = 200;

/// Maximum target delay. A longer delay between picture and sound is noticeable (ITU-R BT.1359: from 125 ms on).
const MAX_TARGET: i64 = 125 * MS;

/// Maximum excess over the target delay. Beyond it, payloads are dropped.
const MAX_EXCESS: i64 = 20 * MS;

/// Time for the player to wake up, decode and resample (guess).
const SLACK: i64 = MS;

/// Maximum change of speed, 0.5 %: 9 cents, a tenth of a semitone (guess: not noticeable without a
/// reference).
const MAX_STRETCH: f64 = 0.005;

/// Time constant of the delay control, two seconds: a drift of 100 ppm causes an error of 0.2 ms (guess).
const SETTLE: f64 = 2e9;

/// Maximum decrease of the target: 4 ms a second, which is less than the change of speed allows.
const FALL: f64 = 0.004;

/// Weight of a payload's error in the moving average, which spans about 32 payloads: 160 ms with payloads of 5 ms
/// (guess).
const SMOOTH: f64 = 1.0 / 32.0;

/// A timestamp gap above this is a pause of the sender, not drift.
const PAUSED: i64 = 10 * MS;
/// A timestamp gap above this indicates another clock.
const LONGEST_PAUSE: i64 = 3_600_000 * MS;

const MS: i64 = 1_000_000;

/// The state of the audio device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Time until all written samples are played, without the device's own latency.
    pub dry_in: Duration,
    /// The device's period. With less data than this, it may underrun.
    pub block: Duration,
}

/// The next action for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlayoutAction<'a> {
    /// Decode these bytes, resample them by [`JitterBuffer::ratio`] and write them.
    Payload {
        /// The coded bytes.
        bytes: &'a [u8],
        /// Samples per channel.
        samples: u16,
        /// Capture time of the first sample (sender clock).
        captured: PeerInstant,
    },
    /// Let the decoder conceal this many samples, then resample and write them.
    Conceal {
        /// Samples per channel.
        samples: u16,
    },
    /// Write this many zeros: before playback starts or resumes, or beyond the maximum concealment.
    Silence {
        /// Samples per channel.
        samples: u32,
    },
    /// Wait until this time (`None`: indefinitely) or the next payload.
    Wait(Option<Instant>),
}

/// Counters since the start. Samples are per channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JitterCounters {
    /// Played payloads.
    pub played: u64,
    /// Concealed samples.
    pub concealed: u64,
    /// The longest gap without a payload in samples: concealment and the silence after it.
    pub longest_concealment: u32,
    /// Samples of silence.
    pub silence: u64,
    /// Underruns that occurred, or that concealment avoided.
    pub underruns: u64,
    /// Payloads dropped because they were late or in excess.
    pub discarded: u64,
}

/// The current state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JitterStatus {
    /// Jitter: nearly all recent payloads arrived within this time after the fastest.
    pub jitter: Duration,
    /// Target playout delay, from the fastest payload's arrival until the device has taken all earlier data:
    /// jitter plus the device's needs.
    pub target: Duration,
    /// The mean playout delay.
    pub delay: Duration,
    /// Duration of the audio in this buffer, without the audio in the device ([`Device::dry_in`]).
    pub queued: Duration,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// Whether this entry is a payload. Otherwise, it stands for missing payloads.
    whole: bool,
    samples: u32,
    captured: PeerInstant,
    /// Media time of its first sample in nanoseconds, from the stream's start.
    media: i64,
    bytes: Vec<u8>,
}

/// Schedules the playout of one stream.
#[derive(Debug, Default)]
pub struct JitterBuffer {
    queue: VecDeque<Entry>,
    /// The last played entry.
    current: Entry,
    /// Storage for reuse.
    spent: Vec<Entry>,
    queued: u32,
    arrivals: Arrivals,
    /// Media time before the next payload: the number of samples, and the sender's pauses in nanoseconds.
    position: u64,
    paused: i64,
    /// The expected capture time of the last payload's successor, and the last payload's samples.
    expected: Option<PeerInstant>,
    frame: u16,
    playing: bool,
    /// Samples concealed since the last payload. Of these samples, `inserted` were concealed because the queue was
    /// empty.
    concealed: u32,
    inserted: u32,
    /// Length of the current gap in samples: concealment and silence.
    gap_length: u32,
    /// When the device ran dry, and the sender's total pause by then.
    dry: Option<(i64, i64)>,
    /// The device's period.
    block: i64,
    target: f64,
    moved: Option<Instant>,
    /// Mean of the playout delay minus the target, in nanoseconds.
    error: f64,
    counters: JitterCounters,
}

/// The duration of samples in nanoseconds.
fn nanos(samples: u64) -> i64 {
    let rate = u64::from(RATE);
    let (seconds, rest) = (samples / rate, samples % rate);
    let nanos = (seconds.saturating_mul(1_000_000_000)).saturating_add(rest * 1_000_000_000 / rate);
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

fn as_nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "delays are far below 2^52 ns"
)]
fn whole(nanos: f64) -> i64 {
    nanos as i64
}

#[expect(clippy::cast_precision_loss, reason = "delays are far below 2^52 ns")]
fn real(nanos: i64) -> f64 {
    nanos as f64
}

impl JitterBuffer {
    /// An empty buffer.
    #[must_use]
    pub fn new() -> JitterBuffer {
        JitterBuffer {
            frame: 240,
            ..JitterBuffer::default()
        }
    }

    /// Takes the output of the stream's receiver.
    pub fn push(&mut self, step: &TimedOutput<'_>) {
        match step {
            TimedOutput::Payload(payload, arrived) => self.payload(payload, *arrived),
            TimedOutput::Missing { count, .. } => self.missing(*count),
        }
    }

    fn payload(&mut self, payload: &Payload<'_>, arrived: Instant) {
        if payload.samples == 0 || payload.samples > MAX_SAMPLES {
            self.counters.discarded += 1;
            return;
        }
        if let Some(PeerInstant(expected)) = self.expected {
            let pause = payload.captured.0.saturating_sub(expected);
            if (PAUSED..LONGEST_PAUSE).contains(&pause) {
                self.paused = self.paused.saturating_add(pause);
            }
        }
        let samples = u32::from(payload.samples);
        let media = self.media();
        self.arrivals.push(arrived.0.saturating_sub(media));
        self.frame = payload.samples;
        self.position += u64::from(samples);
        let length = Duration::from_nanos(u64::try_from(nanos(samples.into())).unwrap_or(0));
        let after = (Instant(payload.captured.0) + length).0;
        self.expected = Some(PeerInstant(after));
        let mut entry = self.spent.pop().unwrap_or_default();
        entry.bytes.clear();
        entry.bytes.extend_from_slice(payload.bytes);
        (entry.whole, entry.samples, entry.media) = (true, samples, media);
        entry.captured = payload.captured;
        self.append(entry);
    }

    fn missing(&mut self, count: u64) {
        let samples = count.saturating_mul(self.frame.into());
        let Some(samples) = u32::try_from(samples).ok().filter(|n| *n <= MAX_QUEUED) else {
            // A gap of this length may separate two streams. The next payload's timestamp gives the length of the gap.
            return;
        };
        if samples == 0 {
            return;
        }
        let media = self.media();
        self.position += u64::from(samples);
        if let Some(PeerInstant(expected)) = &mut self.expected {
            *expected = expected.saturating_add(nanos(samples.into()));
        }
        let mut entry = self.spent.pop().unwrap_or_default();
        (entry.whole, entry.samples, entry.media) = (false, samples, media);
        self.append(entry);
    }

    /// The next payload's media time.
    fn media(&self) -> i64 {
        nanos(self.position).saturating_add(self.paused)
    }

    fn append(&mut self, entry: Entry) {
        self.queued += entry.samples;
        self.queue.push_back(entry);
        while self.queued > MAX_QUEUED || self.queue.len() > MAX_ENTRIES {
            self.discard();
        }
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.queue.pop_front()?;
        self.queued -= entry.samples;
        Some(entry)
    }

    fn discard(&mut self) {
        if let Some(entry) = self.pop() {
            self.counters.discarded += u64::from(entry.whole);
            self.keep(entry);
        }
    }

    fn keep(&mut self, entry: Entry) {
        if self.spent.len() < MAX_ENTRIES {
            self.spent.push(entry);
        }
    }

    /// Whether no payload, missing or received, waits to be played.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The action at `now`. Call it with the current device state and perform each action until it returns
    /// [`PlayoutAction::Wait`].
    pub fn next(&mut self, now: Instant, device: Device) -> PlayoutAction<'_> {
        self.block = as_nanos(device.block);
        self.aim(now);
        let dry_in = as_nanos(device.dry_in);
        // The device ran dry because the calling thread was late. If samples were inserted, the underrun is already
        // counted.
        let late = self.playing && dry_in == 0 && self.inserted == 0;
        loop {
            let Some(front) = self.queue.front() else {
                return self.nothing(now, dry_in);
            };
            let (length, whole) = (nanos(front.samples.into()), front.whole);
            let excess = self.excess(now, dry_in, front.media);
            if !self.playing && !whole {
                self.discard();
                continue;
            }
            if !self.playing && excess < 0 {
                (self.playing, self.error) = (true, 0.0);
                let samples = u64::from(RATE) * excess.unsigned_abs() / 1_000_000_000;
                let samples = u32::try_from(samples).unwrap_or(0).min(MAX_QUEUED);
                if samples > 0 {
                    self.counters.silence += u64::from(samples);
                    return PlayoutAction::Silence { samples };
                }
            }
            // An entry is dropped if inserted samples have replaced it, or if the excess is large. Before playback
            // starts, dropping an entry loses nothing.
            let was_inserted = self.inserted > 0 || !self.playing;
            if was_inserted && excess > length / 2 || excess > MAX_EXCESS {
                self.error = real(excess - length);
                self.discard();
                continue;
            }
            let full = 2 * self.block + nanos(self.frame.into());
            if dry_in >= full {
                // The device's level changes once in a period, so shorter waits would find the same level several times.
                return self.wait_for(now, (dry_in - full).max(self.block / 2));
            }
            if !std::mem::replace(&mut self.playing, true) {
                self.error = real(excess);
            }
            return if whole {
                self.counters.underruns += u64::from(late);
                self.resume(now, dry_in);
                self.play(excess)
            } else {
                self.conceal_missing()
            };
        }
    }

    /// The delay of an entry with this media time, minus the target delay.
    fn excess(&self, now: Instant, dry_in: i64, media: i64) -> i64 {
        let played = now.0.saturating_add(dry_in);
        let earliest = media.saturating_add(self.arrivals.fastest());
        let delay = played.saturating_sub(earliest);
        delay.saturating_sub(whole(self.target))
    }

    /// Raises the target at once, and lowers it as the change of speed allows.
    fn aim(&mut self, now: Instant) {
        // The device's fill level is known only to within a period: it may be half a period above or below the mean.
        let device = self.block + self.block / 2;
        let wanted = (self.arrivals.jitter() + device + SLACK).min(MAX_TARGET);
        let since = self
            .moved
            .replace(now)
            .map_or(Duration::ZERO, |moved| now.since(moved));
        let fallen = self.target - FALL * real(as_nanos(since));
        let target = fallen.max(real(wanted));
        // The target has changed, but the delay has not.
        self.error -= target - self.target;
        self.target = target;
    }

    /// Resumes playback with a payload. Counts the silence if the device had run dry, unless the sender paused.
    fn resume(&mut self, now: Instant, dry_in: i64) {
        if let Some((dry, paused)) = self.dry.take()
            && paused == self.paused
        {
            let silent = now.0.saturating_add(dry_in).saturating_sub(dry).max(0);
            let samples = i128::from(silent) * i128::from(RATE) / 1_000_000_000;
            self.lack(u32::try_from(samples).unwrap_or(u32::MAX));
        }
        self.gap_length = 0;
    }

    /// Counts samples that replace payloads.
    fn lack(&mut self, samples: u32) {
        self.gap_length = self.gap_length.saturating_add(samples);
        let longest = &mut self.counters.longest_concealment;
        *longest = (*longest).max(self.gap_length);
    }

    fn play(&mut self, excess: i64) -> PlayoutAction<'_> {
        self.error += (real(excess) - self.error) * SMOOTH;
        (self.concealed, self.inserted) = (0, 0);
        self.counters.played += 1;
        let entry = self.pop().unwrap_or_default();
        let samples = u16::try_from(entry.samples).unwrap_or(0);
        let spent = std::mem::replace(&mut self.current, entry);
        self.keep(spent);
        PlayoutAction::Payload {
            bytes: &self.current.bytes,
            samples,
            captured: self.current.captured,
        }
    }

    /// Conceals the missing entry at the front, completely or in part.
    fn conceal_missing(&mut self) -> PlayoutAction<'_> {
        let (frame, concealed) = (u32::from(self.frame), self.concealed);
        let Some(front) = self.queue.front_mut() else {
            return PlayoutAction::Wait(None);
        };
        let part = match concealed < MAX_CONCEALED {
            true => front.samples.min(frame).min(MAX_CONCEALED - concealed),
            false => front.samples,
        };
        front.samples -= part;
        front.media = front.media.saturating_add(nanos(part.into()));
        let over = front.samples == 0;
        self.queued -= part;
        if over && let Some(entry) = self.pop() {
            self.keep(entry);
        }
        if concealed < MAX_CONCEALED {
            return self.conceal(part);
        }
        self.counters.silence += u64::from(part);
        self.lack(part);
        PlayoutAction::Silence { samples: part }
    }

    /// Waits for this time, but at least for a quarter of a period. The fill level is known only to within a period, so
    /// more frequent calls are useless.
    fn wait_for(&self, now: Instant, nanos: i64) -> PlayoutAction<'_> {
        PlayoutAction::Wait(Some(
            now + duration(nanos.max(self.block / 4).max(SLACK / 4)),
        ))
    }

    fn conceal(&mut self, samples: u32) -> PlayoutAction<'_> {
        self.concealed += samples;
        self.counters.concealed += u64::from(samples);
        self.lack(samples);
        PlayoutAction::Conceal {
            samples: u16::try_from(samples).unwrap_or(MAX_SAMPLES),
        }
    }

    /// Called when the queue is empty: waits while the device has data, then conceals, then stops playback, so that the
    /// device runs dry.
    fn nothing(&mut self, now: Instant, dry_in: i64) -> PlayoutAction<'_> {
        if !self.playing {
            return PlayoutAction::Wait(None);
        }
        // If the period is a single sample, waiting until the last period would be too late: the device would already
        // be dry.
        let latest = dry_in - self.block.max(SLACK);
        if latest >= 0 {
            return self.wait_for(now, latest);
        }
        self.counters.underruns += u64::from(self.inserted == 0);
        let part = u32::from(self.frame).min(MAX_CONCEALED.saturating_sub(self.concealed));
        if part == 0 {
            self.playing = false;
            (self.concealed, self.inserted) = (0, 0);
            self.dry = Some((now.0.saturating_add(dry_in), self.paused));
            return PlayoutAction::Wait(None);
        }
        self.inserted += part;
        self.conceal(part)
    }

    /// Output samples per decoded sample, within 0.5 % of 1. Above 1, the delay grows.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        1.0 - (self.error / SETTLE).clamp(-MAX_STRETCH, MAX_STRETCH)
    }

    /// The current state.
    #[must_use]
    pub fn status(&self) -> JitterStatus {
        JitterStatus {
            jitter: duration(self.arrivals.jitter()),
            target: duration(whole(self.target)),
            delay: duration(whole(self.target + self.error)),
            queued: duration(nanos(self.queued.into())),
        }
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> JitterCounters {
        self.counters
    }

    /// Drops the queue, for a new stream or device, and keeps the jitter statistics.
    pub fn clear(&mut self) {
        while let Some(entry) = self.pop() {
            self.keep(entry);
        }
        self.playing = false;
        (self.concealed, self.inserted, self.error) = (0, 0, 0.0);
        (self.gap_length, self.dry) = (0, None);
    }

    /// Panics if an invariant does not hold: for tests and fuzzing.
    pub fn check_invariants(&self) {
        let queued: u32 = self.queue.iter().map(|entry| entry.samples).sum();
        assert_eq!(queued, self.queued);
        assert!(queued <= MAX_QUEUED && self.queue.len() <= MAX_ENTRIES);
        assert!(self.spent.len() <= MAX_ENTRIES);
        assert!(self.concealed <= MAX_CONCEALED && self.inserted <= self.concealed);
        assert!((self.ratio() - 1.0).abs() <= MAX_STRETCH + 1e-12);
        assert!(self.target <= real(MAX_TARGET));
    }
}
