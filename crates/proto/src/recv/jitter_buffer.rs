//! The jitter buffer of sound: when each payload is played, so that those that come late are in time, and
//! nothing waits longer than that.
//!
//! It takes what a [`TimedReceiver`](super::timed::TimedReceiver) gives, in order, and says what the device
//! is to get next: a payload, a concealment where one is missing or late, silence before the first. It holds
//! coded payloads and knows no codec. The play-out delay is counted from the fastest payload of the last
//! seconds, so it needs no agreement between clocks; the time of a payload is its number of samples, not
//! the time that the sender wrote. The target is the jitter seen and what the device needs. Two clocks
//! that differ are brought together by the ratio of a resampler ([`JitterBuffer::ratio`]).
//!
//! The receiver should wait for nothing itself ([`TimedReceiver::set_wait`](super::timed::TimedReceiver::set_wait) with
//! zero): what is lost comes, if ever, with the datagram that overtakes it, and while the receiver
//! holds that back, a device with little to play runs dry.
//!
//! The words are those of RFC 3550 and RFC 5481; adapting in this way is due to Ramjee et al. ("Adaptive
//! Playout Mechanisms for Packetized Audio Applications in Wide-Area Networks", INFOCOM 1994), with a
//! quantile in place of their estimates.

mod arrivals;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use arrivals::Arrivals;

use super::timed::TimedOutput;
use crate::time::{Instant, PeerInstant};
use crate::wire::timed::Payload;

/// Samples of a channel in a second.
pub const RATE: u32 = 48_000;

/// The longest payload that is played: 20 ms. Whoever sends longer ones is not heard.
pub const MAX_SAMPLES: u16 = 960;

/// Nothing is concealed longer than 20 ms: silence is less odd than a hum (guess).
const MAX_CONCEALED: u32 = 960;

/// What waits at most, in samples: half a second. The oldest gives way.
const MAX_QUEUED: u32 = RATE / 2;
/// … and in entries: half a second of the shortest payloads of Opus.
const MAX_ENTRIES: usize = 200;

/// A longer target is not followed: sound that is later than this is no company for pictures (ITU-R
/// BT.1359: from 125 ms on it is noticed).
const MAX_TARGET: i64 = 125 * MS;

/// The buffer may be this much longer than its target; beyond, payloads are left out.
const MAX_EXCESS: i64 = 20 * MS;

/// Time for the player to wake, decode and resample (guess).
const SLACK: i64 = MS;

/// Speed changes by no more than 0.5 %: 9 cents, a tenth of a semitone (guess: unnoticed where there is nothing
/// to compare it with).
const MAX_STRETCH: f64 = 0.005;

/// An error of the delay is undone within about two seconds: 100 ppm between two clocks then are an error
/// of 0.2 ms (guess).
const SETTLE: f64 = 2e9;

/// A falling target is followed by what the speed can do, with a fifth to spare: 4 ms in a second.
const FALL: f64 = 0.004;

/// Of each payload's error so much goes into the mean: 32 of 5 ms are 160 ms (guess).
const SMOOTH: f64 = 1.0 / 32.0;

/// A sender whose times say that it paused longer than this did pause; it does not drift that far.
const PAUSED: i64 = 10 * MS;
/// … and one that says that it paused longer than this has another clock.
const LONGEST_PAUSE: i64 = 3_600_000 * MS;

const MS: i64 = 1_000_000;

/// What the device says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// In so long it has played all that was written; what is heard is later by the device's own latency.
    pub dry_in: Duration,
    /// It takes so much at once: with less than this to play it may run dry.
    pub block: Duration,
}

/// What the device is to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlayoutAction<'a> {
    /// Decode this, resample it by [`JitterBuffer::ratio`], write it.
    Payload {
        /// The coded bytes.
        bytes: &'a [u8],
        /// Samples of a channel in it.
        samples: u16,
        /// When its first sample was captured, as the sender says.
        captured: PeerInstant,
    },
    /// Let the decoder conceal so many samples, resample, write.
    Conceal {
        /// Samples of a channel.
        samples: u16,
    },
    /// Write so many zeros: nothing was playing, or too much is missing.
    Silence {
        /// Samples of a channel.
        samples: u32,
    },
    /// Nothing is to be done before this time (`None`: ever) unless something arrives.
    Wait(Option<Instant>),
}

/// What was counted since the start. Samples are those of one channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JitterCounters {
    /// Payloads that were played.
    pub played: u64,
    /// Samples that were concealed.
    pub concealed: u64,
    /// The most without a payload between, in samples: what was concealed, and the silence behind it where
    /// more was missing than is concealed.
    pub longest_concealment: u32,
    /// Samples of silence.
    pub silence: u64,
    /// How often the device would have run dry.
    pub underruns: u64,
    /// Payloads that came too late or were too many, and were not played.
    pub discarded: u64,
}

/// How it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JitterStatus {
    /// The jitter of the last payloads: nearly all came within this after the fastest.
    pub jitter: Duration,
    /// The play-out delay that is aimed at, counted from the fastest payload's arrival to the time at which
    /// the device has taken all before: jitter, and what the device needs.
    pub target: Duration,
    /// The play-out delay that there is, its mean.
    pub delay: Duration,
    /// What waits here; what waits in the device is [`Device::dry_in`].
    pub queued: Duration,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// There is a payload; else it is missing.
    whole: bool,
    samples: u32,
    captured: PeerInstant,
    /// The time of its first sample on the stream's clock, in nanoseconds since the first.
    media: i64,
    bytes: Vec<u8>,
}

/// Decides what is played when, for one stream.
#[derive(Debug, Default)]
pub struct JitterBuffer {
    queue: VecDeque<Entry>,
    /// What was played last.
    current: Entry,
    /// Storage to be used again.
    spent: Vec<Entry>,
    queued: u32,
    arrivals: Arrivals,
    /// The stream's clock: samples before the next payload, and pauses before it, in nanoseconds.
    position: u64,
    paused: i64,
    /// Of the last payload: what its successor's capture time should be, and how long it was.
    expected: Option<PeerInstant>,
    frame: u16,
    /// Something is being played.
    playing: bool,
    /// Since the last payload: samples that were concealed, and those of them that took nobody's place.
    concealed: u32,
    inserted: u32,
    /// … and all that were heard in the place of payloads, silence too.
    lacking: u32,
    /// When the device had played all that there was, and how long the sender had paused until then.
    dry: Option<(i64, i64)>,
    /// What the device said last.
    block: i64,
    target: f64,
    moved: Option<Instant>,
    /// Mean of the play-out delay minus the target, in nanoseconds.
    error: f64,
    counters: JitterCounters,
}

/// Nanoseconds of so many samples.
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
    /// An empty one.
    #[must_use]
    pub fn new() -> JitterBuffer {
        JitterBuffer {
            frame: 240,
            ..JitterBuffer::default()
        }
    }

    /// Takes what came out of the stream's receiver.
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
            // So much can't be told from another stream; how long it was, the next payload's time says.
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

    /// The next payload's time on the stream's clock.
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

    /// What the device is to get at `now`; call until [`PlayoutAction::Wait`], writing what it says each time and
    /// asking the device anew.
    pub fn next(&mut self, now: Instant, device: Device) -> PlayoutAction<'_> {
        self.block = as_nanos(device.block);
        self.aim(now);
        let dry_in = as_nanos(device.dry_in);
        // Who asks got no turn in time. What was made up before is counted.
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
            // What was made up for a late payload has been heard in its place. Before anything is heard, and
            // where far too much waits, nothing is lost by beginning later.
            let made_up = self.inserted > 0 || !self.playing;
            if made_up && excess > length / 2 || excess > MAX_EXCESS {
                self.error = real(excess - length);
                self.discard();
                continue;
            }
            let full = 2 * self.block + nanos(self.frame.into());
            if dry_in >= full {
                return self.wait_for(now, dry_in - full);
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

    /// By how much what has this time on the stream's clock would be played later than is aimed at.
    fn excess(&self, now: Instant, dry_in: i64, media: i64) -> i64 {
        let played = now.0.saturating_add(dry_in);
        let earliest = media.saturating_add(self.arrivals.fastest());
        let delay = played.saturating_sub(earliest);
        delay.saturating_sub(whole(self.target))
    }

    /// The target rises at once, and falls as the speed allows.
    fn aim(&mut self, now: Instant) {
        // What the device has to play is known to a block: half a block more or less than the mean.
        let device = self.block + self.block / 2;
        let wanted = (self.arrivals.jitter() + device + SLACK).min(MAX_TARGET);
        let since = self
            .moved
            .replace(now)
            .map_or(Duration::ZERO, |moved| now.since(moved));
        let fallen = self.target - FALL * real(as_nanos(since));
        let target = fallen.max(real(wanted));
        // The delay did not change, what is aimed at did.
        self.error -= target - self.target;
        self.target = target;
    }

    /// A payload is played behind all that the device has: if it had run dry, the silence is counted, unless
    /// the sender paused.
    fn resume(&mut self, now: Instant, dry_in: i64) {
        if let Some((dry, paused)) = self.dry.take()
            && paused == self.paused
        {
            let silent = now.0.saturating_add(dry_in).saturating_sub(dry).max(0);
            let samples = i128::from(silent) * i128::from(RATE) / 1_000_000_000;
            self.lack(u32::try_from(samples).unwrap_or(u32::MAX));
        }
        self.lacking = 0;
    }

    /// So many samples are heard in the place of payloads.
    fn lack(&mut self, samples: u32) {
        self.lacking = self.lacking.saturating_add(samples);
        let longest = &mut self.counters.longest_concealment;
        *longest = (*longest).max(self.lacking);
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

    /// A part of what is missing at the front, or all of it.
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

    /// What the device has to play is known to a block, so it makes no sense to ask all the time.
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

    /// Nothing is here: wait as long as the device has something, then make something up, then be silent.
    fn nothing(&mut self, now: Instant, dry_in: i64) -> PlayoutAction<'_> {
        if !self.playing {
            return PlayoutAction::Wait(None);
        }
        // A device that takes single samples says 0 when it is dry, which is too late.
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

    /// Samples to write for each one that was decoded: above 1 the delay grows. Within 0.5 % of 1.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        1.0 - (self.error / SETTLE).clamp(-MAX_STRETCH, MAX_STRETCH)
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> JitterStatus {
        JitterStatus {
            jitter: duration(self.arrivals.jitter()),
            target: duration(whole(self.target)),
            delay: duration(whole(self.target + self.error)),
            queued: duration(nanos(self.queued.into())),
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> JitterCounters {
        self.counters
    }

    /// Forgets what waits, as when another stream begins or the device was opened anew; what is known of
    /// the jitter stays.
    pub fn clear(&mut self) {
        while let Some(entry) = self.pop() {
            self.keep(entry);
        }
        self.playing = false;
        (self.concealed, self.inserted, self.error) = (0, 0, 0.0);
        (self.lacking, self.dry) = (0, None);
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
