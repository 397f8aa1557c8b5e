//! The client's microphone: captured, coded, sealed and sent in a thread of its own, while a session carries
//! it. Nothing is captured before the host has granted it.
//!
//! Its payloads are repeated as often as the host's sound is. The host tells nobody what it misses of them: what
//! the link loses on its way to the client is taken for what it loses on the way back, which a radio does alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_media::audio::opus::Encoder;
use openuvr_media::audio::{
    AudioCapture, AudioError, AudioEvent, CHANNELS, RATE, Settings, frames_in,
};
use openuvr_net::Link as _;
use openuvr_proto::send::loss::LossMeter;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::timed::TimedSender;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::Report;

use super::{Notice, PanicReporter, Shared};
use crate::clock;
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// What a voice takes: more than speech needs (Opus recommends 28 to 40 kbit/s for one channel), for packets are
/// short and it may be an instrument (guess).
const BITRATE: Bitrate = Bitrate(96_000);

/// How often it is looked whether the session is over, if a capture gives nothing.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Between two attempts to open a capture that failed.
const RETRY: Duration = Duration::from_secs(2);

/// How often the link's loss is looked at.
const LOSS_EVERY: Duration = Duration::from_millis(250);

/// Opens a capture.
pub type OpenMicrophone = Box<dyn FnMut() -> Result<Box<dyn AudioCapture>, AudioError> + Send>;

/// The microphone.
pub struct MicrophoneSource {
    /// Opens it: when a session carries it, and again when it broke.
    pub open: OpenMicrophone,
}

/// The running thread. Dropping it ends it.
pub(super) struct Microphone {
    stop: Arc<AtomicBool>,
    /// What the link loses.
    link: Arc<Mutex<LossMeter>>,
    thread: Option<JoinHandle<MicrophoneSource>>,
}

impl Microphone {
    /// Begins to send what `source` gives.
    pub(super) fn start(
        shared: &Arc<Shared>,
        scheduler: &Scheduler,
        source: MicrophoneSource,
        sender: TimedSender,
    ) -> std::io::Result<Microphone> {
        let stop = Arc::new(AtomicBool::new(false));
        let link = Arc::<Mutex<LossMeter>>::default();
        let panic_reporter = PanicReporter(shared.clone(), "microphone");
        let mut speaker = Speaker {
            shared: shared.clone(),
            source,
            sender,
            stop: stop.clone(),
            link: link.clone(),
            losses_at: clock::now(),
            out: SendBuf::default(),
        };
        let thread = scheduler.spawn(ThreadRole::Audio, "ouvr-microphone", move || {
            let _panic_reporter = panic_reporter;
            speaker.run();
            speaker.source
        })?;
        Ok(Microphone {
            stop,
            link,
            thread: Some(thread),
        })
    }

    /// The host is told this of a frame, and of what was lost before it.
    pub(super) fn note(&self, now: Instant, report: &Report) {
        lock(&self.link).note(now, report);
    }

    /// Ends it; what it captured from. `None` if it panicked, which it has said.
    pub(super) fn end(mut self) -> Option<MicrophoneSource> {
        self.halt()
    }

    fn halt(&mut self) -> Option<MicrophoneSource> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Microphone {
    fn drop(&mut self) {
        self.halt();
    }
}

struct Speaker {
    shared: Arc<Shared>,
    source: MicrophoneSource,
    sender: TimedSender,
    stop: Arc<AtomicBool>,
    link: Arc<Mutex<LossMeter>>,
    losses_at: Instant,
    out: SendBuf,
}

impl Speaker {
    fn run(&mut self) {
        let mut told = false;
        while !self.stopping() {
            let Err(why) = self.stream(&mut told) else {
                return;
            };
            if !std::mem::replace(&mut told, true) {
                let why = format!("the microphone is not heard for now: {why}");
                self.shared.notice(Notice::Trouble(why));
            }
            let until = clock::now() + RETRY;
            while !self.stopping() && clock::now() < until {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// Lets payloads be repeated as often as the link asks for.
    fn follow_losses(&mut self) {
        let now = clock::now();
        if now >= self.losses_at {
            self.losses_at = now + LOSS_EVERY;
            let loss = lock(&self.link).loss(now);
            self.sender.follow(loss);
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.shared.stopping()
    }

    fn stream(&mut self, told: &mut bool) -> Result<(), AudioError> {
        let mut encoder = Encoder::open(BITRATE, true)?;
        let mut capture = (self.source.open)()?;
        let frames = frames_in(Settings::default().frame);
        let samples = u16::try_from(frames).unwrap_or(u16::MAX);
        let mut block = vec![0.0; frames * CHANNELS];
        // What is decoded is that much older than what was put in.
        let lookahead = i64::from(encoder.lookahead()) * 1_000_000_000 / i64::from(RATE);
        while !self.stopping() {
            let AudioEvent::Captured(at) = capture.read(&mut block, Some(LOOK_EVERY))? else {
                continue;
            };
            *told = false;
            if let Some(device) = capture.poll_device() {
                let words = format!("the microphone follows the default device: {device}");
                self.shared.notice(Notice::Sound(words));
            }
            self.follow_losses();
            let captured = Instant(at.0 - lookahead);
            let bytes = encoder.encode(&block)?;
            let sent = (self.sender).send(clock::now(), (captured, samples), bytes, &mut self.out);
            if sent.is_err() {
                // Opus makes nothing that long.
                continue;
            }
            for (datagrams, each) in self.out.runs() {
                // What is not sent is lost; it goes along with the next ones.
                let _ = self
                    .shared
                    .link
                    .send(self.shared.paths.now(), datagrams, each);
            }
        }
        Ok(())
    }
}
