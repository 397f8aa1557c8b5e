//! The client's sound: the media thread takes payloads in, the audio thread plays them.
//!
//! ```text
//! media   receive ─► TimedReceiver ─► jitter buffer
//! audio                               jitter buffer ─► decode ─► resample ─► volume ─► playback
//! ```
//! The playback is open while a session carries sound. A device that breaks is opened again; the picture goes
//! on meanwhile.

mod latency;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::audio::render::Renderer;
use openuvr_media::audio::{AudioError, AudioPlayback, Waker};
use openuvr_proto::control::streams::HOST_AUDIO;
use openuvr_proto::recv::jitter_buffer::{Device, JitterBuffer, Next};
use openuvr_proto::recv::timed::TimedReceiver;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::wire::control::AudioReport;

use self::latency::Latencies;
use super::{Notice, PanicReporter, Shared};
use crate::clock;
use crate::handoffs::Site;
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// Between two attempts to open a device that failed.
const RETRY: Duration = Duration::from_secs(2);

/// How often the client says how it plays.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How often it is looked whether the client stops, while nothing is to be played.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Opens a playback.
pub type OpenPlayback = Box<dyn FnMut() -> Result<Box<dyn AudioPlayback>, AudioError> + Send>;

/// Where sound goes.
pub struct AudioSink {
    /// Opens it: when a session carries sound, and again when it broke.
    pub open: OpenPlayback,
    /// By what samples are multiplied: 1 leaves them as they are.
    pub volume: f32,
}

/// What both threads share.
struct Stream {
    buffer: Mutex<JitterBuffer>,
    /// The audio thread waits: what arrives wakes it.
    waits: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Where the media thread wakes this one.
    handed_over: Site,
    stop: AtomicBool,
}

/// The media thread's end. Dropping it ends the audio thread.
pub(super) struct Audio {
    stream: Arc<Stream>,
    thread: Option<JoinHandle<AudioSink>>,
}

impl Audio {
    /// Starts the audio thread.
    pub(super) fn start(
        shared: &Arc<Shared>,
        scheduler: &Scheduler,
        sink: AudioSink,
    ) -> std::io::Result<Audio> {
        let stream = Arc::new(Stream {
            buffer: Mutex::new(JitterBuffer::new()),
            waits: AtomicBool::new(false),
            waker: Mutex::default(),
            handed_over: scheduler.site("client-media-to-audio"),
            stop: AtomicBool::new(false),
        });
        let mut player = Player {
            shared: shared.clone(),
            stream: stream.clone(),
            sink,
            latencies: Latencies::default(),
            report_at: clock::now() + REPORT_EVERY,
        };
        let panic_reporter = PanicReporter(shared.clone(), "audio");
        let thread = scheduler.spawn(ThreadRole::Audio, "ouvr-audio", move || {
            let _panic_reporter = panic_reporter;
            player.run();
            player.sink
        })?;
        Ok(Audio {
            stream,
            thread: Some(thread),
        })
    }

    /// Takes out of `timed` what has arrived. Where nothing has, nothing is locked: this is called at each
    /// turn of the thread that decodes pictures.
    pub(super) fn receive(&self, now: Instant, timed: &mut TimedReceiver) {
        let mut came = false;
        while let Some(step) = timed.poll(now) {
            lock(&self.stream.buffer).push(&step);
            came = true;
        }
        if came && self.stream.waits.swap(false, Ordering::Relaxed) {
            self.stream.handed_over.sent();
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = lock(&self.stream.waker).as_ref() {
            waker.wake();
        }
    }

    /// Ends the audio thread; what it played into. `None` if it panicked, which it has said.
    pub(super) fn end(mut self) -> Option<AudioSink> {
        self.halt()
    }

    fn halt(&mut self) -> Option<AudioSink> {
        self.stream.stop.store(true, Ordering::Relaxed);
        self.wake();
        self.thread.take()?.join().ok()
    }
}

impl Drop for Audio {
    fn drop(&mut self) {
        self.halt();
    }
}

/// The same without the jitter buffer, which the media thread must not wait for while this one decodes.
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

/// The audio thread.
struct Player {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    sink: AudioSink,
    latencies: Latencies,
    report_at: Instant,
}

impl Player {
    fn run(&mut self) {
        let mut told = false;
        while !self.stopping() {
            let played = (self.sink.open)().and_then(|mut playback| {
                *lock(&self.stream.waker) = Some(playback.waker());
                let played = self.play(playback.as_mut(), &mut told);
                *lock(&self.stream.waker) = None;
                played
            });
            let Err(why) = played else { return };
            if !std::mem::replace(&mut told, true) {
                let why = format!("no sound for now: {why}");
                self.shared.notice(Notice::Trouble(why));
            }
            let until = clock::now() + RETRY;
            while !self.stopping() && clock::now() < until {
                std::thread::sleep(LOOK_EVERY);
            }
            lock(&self.stream.buffer).clear();
        }
    }

    fn stopping(&self) -> bool {
        self.stream.stop.load(Ordering::Relaxed) || self.shared.stopping()
    }

    fn play(
        &mut self,
        playback: &mut dyn AudioPlayback,
        told: &mut bool,
    ) -> Result<(), AudioError> {
        let mut renderer = Renderer::open()?;
        let (mut samples, mut coded) = (Vec::new(), Vec::new());
        while !self.stopping() {
            let level = playback.level()?;
            let now = clock::now();
            if now >= self.report_at {
                self.report(now);
            }
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
                Next::Wait(until) => {
                    let until = until.map_or(now + LOOK_EVERY, |at| at.min(now + LOOK_EVERY));
                    playback.wait(Some(until.since(clock::now())))?;
                    self.stream.handed_over.received();
                    self.stream.waits.store(false, Ordering::Relaxed);
                    continue;
                }
                Next::Payload { captured, .. } => Some(captured),
                Next::Conceal { .. } | Next::Silence { .. } => None,
            };
            samples.clear();
            samples.extend_from_slice(renderer.render(&next, ratio)?);
            for sample in &mut samples {
                *sample *= self.sink.volume;
            }
            playback.write(&samples)?;
            *told = false;
            if let (Some(captured), Some(heard_in)) = (captured, level.heard_in) {
                self.heard(now, captured, now + heard_in);
            }
        }
        Ok(())
    }

    /// A payload's first sample, captured then, is heard at `heard`.
    fn heard(&mut self, now: Instant, captured: PeerInstant, heard: Instant) {
        let session = self.shared.session();
        let mapped = session
            .as_ref()
            .and_then(|s| s.clock().to_mine(captured, now));
        if let Some(captured) = mapped {
            self.latencies
                .push(heard.since(captured.at), captured.bound);
        }
    }

    /// Tells host and person how it plays.
    fn report(&mut self, now: Instant) {
        self.report_at = now + REPORT_EVERY;
        let (status, counters) = {
            let buffer = lock(&self.stream.buffer);
            (buffer.status(), buffer.counters())
        };
        let latency = self.latencies.take();
        let report = AudioReport {
            stream: HOST_AUDIO.stream.number,
            latency: latency.map(|latency| latency.median),
            latency_p99: latency.map(|latency| latency.p99),
            bound: latency.map(|latency| latency.bound),
            jitter: status.jitter,
            target: status.target,
            played: counters.played,
            concealed: counters.concealed,
            longest_concealment: counters.longest_concealment,
            underruns: counters.underruns,
            discarded: counters.discarded,
        };
        if let Some(session) = self.shared.session().as_mut() {
            session.report_audio(report);
            self.shared.flush(session);
        }
        self.shared.notice(Notice::Audio(report));
    }
}
