//! Plays a stream of sound that comes over the link: at the client the host's, at the host a client's
//! microphone.
//!
//! ```text
//! who receives    receive ─► TimedReceiver ─► jitter buffer
//! audio thread                                jitter buffer ─► decode ─► resample ─► volume ─► playback
//! ```
//! The playback is open as long as the player. A device that breaks is opened again; whoever receives goes on
//! meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::audio::render::Renderer;
use openuvr_media::audio::{AudioError, AudioPlayback, CHANNELS, Waker, duration_of};
use openuvr_proto::recv::jitter_buffer::{
    Device, JitterBuffer, JitterCounters, JitterStatus, Next,
};
use openuvr_proto::recv::timed::TimedReceiver;
use openuvr_proto::time::{Instant, PeerInstant};

use crate::clock;
use crate::scheduling_latency::WakeupSite;
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// Between two attempts to open a device that failed.
const RETRY: Duration = Duration::from_secs(2);

/// How often it is looked whether the player is to end, while nothing is to be played.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a playback.
pub type OpenPlayback = Box<dyn FnMut() -> Result<Box<dyn AudioPlayback>, AudioError> + Send>;

/// Where sound goes.
pub struct AudioSink {
    /// Opens it: when a session carries sound, and again when it broke.
    pub open: OpenPlayback,
    /// How loud it is; may be changed while it plays.
    pub volume: Arc<Volume>,
}

/// How loud sound is played, in per cent; may be changed from any thread.
#[derive(Debug)]
pub struct Volume {
    percent: AtomicU32,
    muted: AtomicBool,
}

impl Volume {
    /// The loudest: twice as loud as it comes.
    pub const MAX_PERCENT: u32 = 200;

    /// This loud, 100 as it comes; above [`Volume::MAX_PERCENT`] that.
    #[must_use]
    pub fn new(percent: u32) -> Volume {
        Volume {
            percent: AtomicU32::new(percent.min(Volume::MAX_PERCENT)),
            muted: AtomicBool::new(false),
        }
    }

    /// By how many per cent more (or less) it is to be played, 0 to [`Volume::MAX_PERCENT`]; who changes it hears
    /// it again. How loud it is then.
    pub fn change(&self, by: i32) -> u32 {
        self.muted.store(false, Ordering::Relaxed);
        let changed = |now: u32| Some(now.saturating_add_signed(by).min(Volume::MAX_PERCENT));
        let before = (self.percent).fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        changed(before.unwrap_or_else(|now| now)).unwrap_or_default()
    }

    /// Mutes it, or ends that. Whether it is muted then.
    pub fn toggle_mute(&self) -> bool {
        !self.muted.fetch_xor(true, Ordering::Relaxed)
    }

    /// What samples are multiplied by: 1 leaves them as they are.
    #[must_use]
    pub fn factor(&self) -> f32 {
        match self.muted.load(Ordering::Relaxed) {
            true => 0.0,
            false => {
                let percent = self.percent.load(Ordering::Relaxed).min(Volume::MAX_PERCENT);
                f32::from(u16::try_from(percent).unwrap_or(0)) / 100.0
            }
        }
    }
}

/// For whom a player plays; lives in the player's thread.
pub(crate) trait PlaybackListener: Send {
    /// All is to end, not only this player.
    fn stopping(&self) -> bool;

    /// There is no sound for now, and why.
    fn on_error(&self, why: String);

    /// A payload whose first sample was captured then, by the sender's clock, is heard at `heard`.
    fn on_played(&mut self, now: Instant, captured: PeerInstant, played: Instant);

    /// Whether it is to be told how the stream is played.
    fn wants_report(&self, now: Instant) -> bool;

    /// How it is played.
    fn report(&mut self, now: Instant, status: JitterStatus, counters: JitterCounters);
}

/// What both threads share.
struct Stream {
    buffer: Mutex<JitterBuffer>,
    /// The audio thread waits: what arrives wakes it.
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Where who receives wakes the audio thread.
    wakeup_site: WakeupSite,
    stop: AtomicBool,
}

/// The receiving thread's end. Dropping it ends the audio thread.
pub(crate) struct SoundPlayer {
    stream: Arc<Stream>,
    thread: Option<JoinHandle<AudioSink>>,
}

impl SoundPlayer {
    /// Starts the audio thread, which is woken at the hand-over `site` ([`Scheduler::site`]). `guard` lives as
    /// long as it does.
    pub(crate) fn start(
        scheduler: &Scheduler,
        site: &'static str,
        sink: AudioSink,
        listener: Box<dyn PlaybackListener>,
        guard: impl Send + 'static,
    ) -> std::io::Result<SoundPlayer> {
        let stream = Arc::new(Stream {
            buffer: Mutex::new(JitterBuffer::new()),
            waits: AtomicBool::new(false),
            waker: Mutex::default(),
            wakeup_site: scheduler.site(site),
            stop: AtomicBool::new(false),
        });
        let mut player = Player {
            stream: stream.clone(),
            gain: sink.volume.factor(),
            sink,
            listener,
        };
        let thread = scheduler.spawn(ThreadRole::Audio, "ouvr-audio", move || {
            let _guard = guard;
            player.run();
            player.sink
        })?;
        Ok(SoundPlayer {
            stream,
            thread: Some(thread),
        })
    }

    /// Takes out of `timed` what has arrived. Where nothing has, nothing is locked: this is called at each
    /// turn of the thread that decodes pictures.
    pub(crate) fn receive(&self, now: Instant, timed: &mut TimedReceiver) {
        let mut came = false;
        while let Some(step) = timed.poll(now) {
            lock(&self.stream.buffer).push(&step);
            came = true;
        }
        if came && self.stream.waits.swap(false, Ordering::Relaxed) {
            self.stream.wakeup_site.sent();
            self.wake();
        }
    }

    /// Another stream begins: what waits of the one before is not heard.
    #[cfg(feature = "host")]
    pub(crate) fn reset(&self) {
        *lock(&self.stream.buffer) = JitterBuffer::new();
    }

    fn wake(&self) {
        if let Some(waker) = lock(&self.stream.waker).as_ref() {
            waker.wake();
        }
    }

    /// Ends the audio thread; what it played into. `None` if it panicked, which it has said.
    pub(crate) fn end(mut self) -> Option<AudioSink> {
        self.halt()
    }

    fn halt(&mut self) -> Option<AudioSink> {
        self.stream.stop.store(true, Ordering::Relaxed);
        self.wake();
        self.thread.take()?.join().ok()
    }
}

impl Drop for SoundPlayer {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The same without the jitter buffer, which who receives must not wait for while this one decodes.
fn in_own_memory<'a>(next: &Next<'_>, coded: &'a mut Vec<u8>) -> Next<'a> {
    match *next {
        Next::Payload {
            bytes,
            samples,
            captured,
        } => {
            coded.clear();
            coded.extend_from_slice(bytes);
            Next::Payload {
                bytes: coded,
                samples,
                captured,
            }
        }
        Next::Conceal { samples } => Next::Conceal { samples },
        Next::Silence { samples } => Next::Silence { samples },
        Next::Wait(until) => Next::Wait(until),
    }
}

/// Multiplies all samples, the first by almost `from` and the last by `to`: a jump would click.
fn amplify(samples: &mut [f32], from: f32, to: f32) {
    if from == to {
        if to != 1.0 {
            samples.iter_mut().for_each(|sample| *sample *= to);
        }
        return;
    }
    let frames = u16::try_from(samples.len() / CHANNELS).unwrap_or(u16::MAX);
    let step = (to - from) / f32::from(frames.max(1));
    let mut gain = from;
    for frame in samples.chunks_mut(CHANNELS) {
        gain += step;
        frame.iter_mut().for_each(|sample| *sample *= gain);
    }
}

/// The audio thread.
struct Player {
    stream: Arc<Stream>,
    sink: AudioSink,
    listener: Box<dyn PlaybackListener>,
    /// What the last sample was multiplied by.
    gain: f32,
}

impl Player {
    fn run(&mut self) {
        let mut reported = false;
        while !self.stopping() {
            let played = (self.sink.open)().and_then(|mut playback| {
                *lock(&self.stream.waker) = Some(playback.waker());
                let played = self.play(playback.as_mut(), &mut reported);
                *lock(&self.stream.waker) = None;
                played
            });
            let Err(why) = played else { return };
            if !std::mem::replace(&mut reported, true) {
                self.listener.on_error(format!("no sound for now: {why}"));
            }
            let until = clock::now() + RETRY;
            while !self.stopping() && clock::now() < until {
                std::thread::sleep(POLL_INTERVAL);
            }
            lock(&self.stream.buffer).clear();
        }
    }

    fn stopping(&self) -> bool {
        self.stream.stop.load(Ordering::Relaxed) || self.listener.stopping()
    }

    fn play(
        &mut self,
        playback: &mut dyn AudioPlayback,
        reported: &mut bool,
    ) -> Result<(), AudioError> {
        let mut renderer = Renderer::open()?;
        let (mut samples, mut coded) = (Vec::new(), Vec::new());
        while !self.stopping() {
            let mut level = playback.level()?;
            let now = clock::now();
            if self.listener.wants_report(now) {
                let (status, counters) = {
                    let buffer = lock(&self.stream.buffer);
                    (buffer.status(), buffer.counters())
                };
                self.listener.report(now, status, counters);
            }
            // All that is to be written now. The device is asked once: what is added to it is known.
            let until = loop {
                let device = Device {
                    dry_in: level.dry_in,
                    block: level.block,
                };
                let mut buffer = lock(&self.stream.buffer);
                let ratio = buffer.ratio();
                let next = in_own_memory(&buffer.next(now, device), &mut coded);
                if matches!(next, Next::Wait(_)) {
                    // Before the lock goes: what comes behind it wakes this thread.
                    self.stream.waits.store(true, Ordering::Relaxed);
                }
                drop(buffer);
                let captured = match next {
                    Next::Wait(until) => break until,
                    Next::Payload { captured, .. } => Some(captured),
                    Next::Conceal { .. } | Next::Silence { .. } => None,
                };
                samples.clear();
                samples.extend_from_slice(renderer.render(&next, ratio)?);
                let gain = self.sink.volume.factor();
                amplify(&mut samples, std::mem::replace(&mut self.gain, gain), gain);
                playback.write(&samples)?;
                *reported = false;
                if let (Some(captured), Some(heard_in)) = (captured, level.heard_in) {
                    self.listener.on_played(now, captured, now + heard_in);
                }
                let written = duration_of(samples.len() / CHANNELS);
                level.dry_in += written;
                level.heard_in = level.heard_in.map(|heard_in| heard_in + written);
            };
            let until = until.map_or(now + POLL_INTERVAL, |at| at.min(now + POLL_INTERVAL));
            playback.wait(Some(until.since(clock::now())))?;
            self.stream.wakeup_site.received();
            self.stream.waits.store(false, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_stays_in_its_range_and_mutes() {
        let volume = Volume::new(1000);
        assert_eq!(volume.factor(), 2.0);
        assert_eq!(volume.change(-50), 150);
        assert!(volume.toggle_mute());
        assert_eq!(volume.factor(), 0.0);
        assert!(!volume.toggle_mute());
        assert_eq!(volume.factor(), 1.5);
        volume.toggle_mute();
        assert_eq!(volume.change(-1000), 0, "and it is not muted any more");
        assert_eq!(volume.change(10), 10);
        assert_eq!(volume.change(i32::MAX), Volume::MAX_PERCENT);
        assert_eq!(volume.factor(), 2.0);
    }

    #[test]
    fn a_change_of_volume_does_not_jump() {
        let mut samples = [1.0; 8];
        amplify(&mut samples, 1.0, 0.0);
        assert_eq!(samples, [0.75, 0.75, 0.5, 0.5, 0.25, 0.25, 0.0, 0.0]);
        let mut samples = [0.5; 4];
        amplify(&mut samples, 0.5, 0.5);
        assert_eq!(samples, [0.25; 4]);
        amplify(&mut [], 1.0, 0.0);
    }
}
