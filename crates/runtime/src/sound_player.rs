//! Plays a received sound stream: the host's sound at a client, or a client's microphone at the host.
//!
//! ```text
//! receiving thread  receive ─► TimedReceiver ─► jitter buffer
//! audio thread                                  jitter buffer ─► decode ─► resample ─► volume ─► playback
//! ```
//! The playback is open while the player exists. A failed device is reopened, and receiving continues in the meantime.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::audio::render::Renderer;
use openuvr_media::audio::{AudioError, AudioPlayback, CHANNELS, Waker, duration_of};
use openuvr_proto::recv::jitter_buffer::{
    Device, JitterBuffer, JitterCounters, JitterStatus, PlayoutAction,
};
use openuvr_proto::recv::timed::TimedReceiver;
use openuvr_proto::time::{Instant, PeerInstant};

use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};
use crate::scheduling_latency::WakeupSite;

/// Pause between two attempts to open a failed device.
const RETRY: Duration = Duration::from_secs(2);

/// While the audio thread plays nothing, it checks at this interval whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Opens a playback.
pub type OpenPlayback = Box<dyn FnMut() -> Result<Box<dyn AudioPlayback>, AudioError> + Send>;

/// An audio output.
pub struct AudioSink {
    /// Opens the output for a session with sound, and again after a failure.
    pub open: OpenPlayback,
    /// Its volume, which may be changed during playback.
    pub volume: Arc<Volume>,
}

/// Playback volume in percent. It may be changed from any thread.
#[derive(Debug)]
pub struct Volume {
    percent: AtomicU32,
    muted: AtomicBool,
}

impl Volume {
    /// The highest volume: twice the received level.
    pub const MAX_PERCENT: u32 = 200;

    /// Creates a volume in percent, clamped to [`Volume::MAX_PERCENT`]; 100 is the received level.
    #[must_use]
    pub fn new(percent: u32) -> Volume {
        Volume {
            percent: AtomicU32::new(percent.min(Volume::MAX_PERCENT)),
            muted: AtomicBool::new(false),
        }
    }

    /// Changes the volume by `by` percentage points, clamped to 0 to [`Volume::MAX_PERCENT`], and unmutes. Returns the
    /// new volume.
    pub fn change(&self, by: i32) -> u32 {
        self.muted.store(false, Ordering::Relaxed);
        let changed = |now: u32| Some(now.saturating_add_signed(by).min(Volume::MAX_PERCENT));
        let before = (self.percent).fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        changed(before.unwrap_or_else(|now| now)).unwrap_or_default()
    }

    /// Toggles mute. Returns whether the sound is now muted.
    pub fn toggle_mute(&self) -> bool {
        !self.muted.fetch_xor(true, Ordering::Relaxed)
    }

    /// The gain for samples: 1 leaves them unchanged.
    #[must_use]
    pub fn factor(&self) -> f32 {
        match self.muted.load(Ordering::Relaxed) {
            true => 0.0,
            false => {
                let percent = self
                    .percent
                    .load(Ordering::Relaxed)
                    .min(Volume::MAX_PERCENT);
                f32::from(u16::try_from(percent).unwrap_or(0)) / 100.0
            }
        }
    }
}

/// Observes a player. Called in the player's thread.
pub(crate) trait PlaybackListener: Send {
    /// Whether the whole client or host is stopping.
    fn stopping(&self) -> bool;

    /// Playback failed for this reason, and will be retried.
    fn on_error(&self, why: String);

    /// A payload whose first sample was captured at `captured` (sender clock) is audible at `played`.
    fn on_played(&mut self, now: Instant, captured: PeerInstant, played: Instant);

    /// Whether a report is due.
    fn wants_report(&self, now: Instant) -> bool;

    fn report(&mut self, now: Instant, status: JitterStatus, counters: JitterCounters);
}

/// State shared by both threads.
struct Stream {
    buffer: Mutex<JitterBuffer>,
    /// Whether the audio thread waits to be woken by the next payload.
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// The audio thread's wake-up site.
    wakeup_site: WakeupSite,
    stop: AtomicBool,
}

/// The receiving thread's handle. Dropping it ends the audio thread.
pub(crate) struct SoundPlayer {
    stream: Arc<Stream>,
    thread: Option<JoinHandle<AudioSink>>,
}

impl SoundPlayer {
    /// Starts the audio thread with the wake-up site `site` ([`Scheduler::site`]). `guard` lives as long as
    /// the thread.
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

    /// Moves arrived payloads from `timed` to the jitter buffer. Locks nothing if no payload has arrived, because the
    /// decoding thread calls this in each iteration.
    pub(crate) fn receive(&self, now: Instant, timed: &mut TimedReceiver) {
        let mut arrived = false;
        while let Some(step) = timed.poll(now) {
            lock(&self.stream.buffer).push(&step);
            arrived = true;
        }
        if arrived && self.stream.waits.swap(false, Ordering::Relaxed) {
            self.stream.wakeup_site.sent();
            self.wake();
        }
    }

    /// Resets the buffer for another stream. Pending payloads are discarded.
    #[cfg(feature = "host")]
    pub(crate) fn reset(&self) {
        *lock(&self.stream.buffer) = JitterBuffer::new();
    }

    fn wake(&self) {
        if let Some(waker) = lock(&self.stream.waker).as_ref() {
            waker.wake();
        }
    }

    /// Makes the audio thread end, without waiting for it.
    pub(crate) fn stop(&self) {
        self.stream.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether the audio thread has ended.
    #[cfg(feature = "host")]
    pub(crate) fn is_finished(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_none_or(JoinHandle::is_finished)
    }

    /// Ends the audio thread and returns its sink. Blocks while the sound server does not respond. Returns `None` if
    /// the thread panicked, which has already been reported.
    pub(crate) fn end(mut self) -> Option<AudioSink> {
        self.halt()
    }

    fn halt(&mut self) -> Option<AudioSink> {
        self.stop();
        self.thread.take()?.join().ok()
    }
}

impl Drop for SoundPlayer {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Copies the payload out of the jitter buffer, so that the buffer is not locked while decoding.
fn in_own_memory<'a>(next: &PlayoutAction<'_>, coded: &'a mut Vec<u8>) -> PlayoutAction<'a> {
    match *next {
        PlayoutAction::Payload {
            bytes,
            samples,
            captured,
        } => {
            coded.clear();
            coded.extend_from_slice(bytes);
            PlayoutAction::Payload {
                bytes: coded,
                samples,
                captured,
            }
        }
        PlayoutAction::Conceal { samples } => PlayoutAction::Conceal { samples },
        PlayoutAction::Silence { samples } => PlayoutAction::Silence { samples },
        PlayoutAction::Wait(until) => PlayoutAction::Wait(until),
    }
}

/// Multiplies all samples by a gain that ramps from `from` to `to`, because a jump would click.
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
    /// The gain of the last sample.
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
            // Writes all due samples. The device's level is queried once, and the samples written since are added to
            // it.
            let until = loop {
                let device = Device {
                    dry_in: level.dry_in,
                    block: level.block,
                };
                let mut buffer = lock(&self.stream.buffer);
                let ratio = buffer.ratio();
                let next = in_own_memory(&buffer.next(now, device), &mut coded);
                if matches!(next, PlayoutAction::Wait(_)) && buffer.is_empty() {
                    // Set before unlocking, so that later payloads wake this thread. If the buffer contains payloads,
                    // this thread waits for room in the device, and a further payload changes nothing.
                    self.stream.waits.store(true, Ordering::Relaxed);
                }
                drop(buffer);
                let captured = match next {
                    PlayoutAction::Wait(until) => break until,
                    PlayoutAction::Payload { captured, .. } => Some(captured),
                    PlayoutAction::Conceal { .. } | PlayoutAction::Silence { .. } => None,
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
        assert_eq!(volume.change(-1000), 0, "and it is unmuted");
        assert_eq!(volume.change(10), 10);
        assert_eq!(volume.change(i32::MAX), Volume::MAX_PERCENT);
        assert_eq!(volume.factor(), 2.0);
    }

    #[cfg(feature = "host")]
    struct IgnoringListener;

    #[cfg(feature = "host")]
    impl PlaybackListener for IgnoringListener {
        fn stopping(&self) -> bool {
            false
        }

        fn on_error(&self, _: String) {}

        fn on_played(&mut self, _: Instant, _: PeerInstant, _: Instant) {}

        fn wants_report(&self, _: Instant) -> bool {
            false
        }

        fn report(&mut self, _: Instant, _: JitterStatus, _: JitterCounters) {}
    }

    #[cfg(feature = "host")]
    #[test]
    fn a_stop_does_not_wait_for_the_sound_server() {
        use std::sync::mpsc::sync_channel;

        let (calls, called) = sync_channel(1);
        let (answer, answered) = sync_channel::<()>(1);
        let open: OpenPlayback = Box::new(move || {
            let _ = calls.send(());
            // The server does not respond before the test drops the sender.
            let _ = answered.recv();
            Err(AudioError("no reply".to_owned()))
        });
        let sink = AudioSink {
            open,
            volume: Arc::new(Volume::new(100)),
        };
        let listener = Box::new(IgnoringListener);
        let player = SoundPlayer::start(&Scheduler::ordinary(), "it", sink, listener, ());
        let player = player.unwrap();
        called.recv().unwrap();
        player.stop();
        assert!(!player.is_finished());
        drop(answer);
        assert!(player.end().is_some());
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
