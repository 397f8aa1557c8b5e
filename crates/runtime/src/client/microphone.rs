//! The client's microphone. While a session has a microphone stream, a separate thread captures, encodes, seals and
//! sends the sound. Nothing is captured before the host has granted the stream.
//!
//! Payloads are repeated as in the host's sound stream. The host does not report the losses of the microphone stream.
//! The loss from host to client serves as an estimate, because radio links lose similar shares of packets in both
//! directions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use openuvr_clock as clock;
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
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// The bitrate. It is higher than speech requires (Opus recommends 28 to 40 kbit/s for one channel), because packets
/// are short and the source may be an instrument (guess).
const BITRATE: Bitrate = Bitrate(96_000);

/// While the capture delivers nothing, the thread checks at this interval whether the session has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Pause between two attempts to open a failed capture.
const RETRY: Duration = Duration::from_secs(2);

/// How often the loss estimate is read.
const LOSS_EVERY: Duration = Duration::from_millis(250);

/// Opens a capture.
pub type OpenMicrophone = Box<dyn FnMut() -> Result<Box<dyn AudioCapture>, AudioError> + Send>;

/// The microphone.
pub struct MicrophoneSource {
    /// Opens the microphone at the start of a session, and again after a failure.
    pub open: OpenMicrophone,
}

/// The running microphone thread. Dropping this value ends the thread.
pub(super) struct Microphone {
    stop: Arc<AtomicBool>,
    link: Arc<Mutex<LossMeter>>,
    thread: Option<JoinHandle<MicrophoneSource>>,
}

impl Microphone {
    /// Starts sending the samples of `source`.
    pub(super) fn start(
        shared: &Arc<Shared>,
        scheduler: &Scheduler,
        source: MicrophoneSource,
        sender: TimedSender,
    ) -> std::io::Result<Microphone> {
        let stop = Arc::new(AtomicBool::new(false));
        let link = Arc::<Mutex<LossMeter>>::default();
        let panic_reporter = PanicReporter(shared.clone(), "microphone");
        let mut sender_thread = Sender {
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
            sender_thread.run();
            sender_thread.source
        })?;
        Ok(Microphone {
            stop,
            link,
            thread: Some(thread),
        })
    }

    /// Updates the loss estimate with a frame's report.
    pub(super) fn note(&self, now: Instant, report: &Report) {
        lock(&self.link).note(now, report);
    }

    /// Stops the thread and returns its source; `None` if the thread panicked. Such a panic has already been reported.
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

struct Sender {
    shared: Arc<Shared>,
    source: MicrophoneSource,
    sender: TimedSender,
    stop: Arc<AtomicBool>,
    link: Arc<Mutex<LossMeter>>,
    losses_at: Instant,
    out: SendBuf,
}

impl Sender {
    fn run(&mut self) {
        let mut reported = false;
        while !self.stopping() {
            let Err(why) = self.stream(&mut reported) else {
                return;
            };
            if !std::mem::replace(&mut reported, true) {
                let why = format!("microphone not sent for now: {why}");
                self.shared.notice(Notice::Warning(why));
            }
            let until = clock::now() + RETRY;
            while !self.stopping() && clock::now() < until {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Adapts the repetition of payloads to the link's loss.
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

    fn stream(&mut self, reported: &mut bool) -> Result<(), AudioError> {
        let mut encoder = Encoder::open(BITRATE, true)?;
        let mut capture = (self.source.open)()?;
        let frames = frames_in(Settings::default().frame);
        let samples = u16::try_from(frames).unwrap_or(u16::MAX);
        let mut block = vec![0.0; frames * CHANNELS];
        // The delay of the encoder: decoded samples are this much later than the input.
        let lookahead = i64::from(encoder.lookahead()) * 1_000_000_000 / i64::from(RATE);
        while !self.stopping() {
            let AudioEvent::Captured(at) = capture.read(&mut block, Some(POLL_INTERVAL))? else {
                continue;
            };
            *reported = false;
            if let Some(device) = capture.poll_device() {
                let words = format!("the microphone switched to the default device: {device}");
                self.shared.notice(Notice::Sound(words));
            }
            self.follow_losses();
            let captured = Instant(at.0 - lookahead);
            let bytes = encoder.encode(&block)?;
            let sent = (self.sender).send(clock::now(), (captured, samples), bytes, &mut self.out);
            if sent.is_err() {
                // Opus packets are never too long for a datagram.
                continue;
            }
            for (datagrams, each) in self.out.runs() {
                // Ignore errors, because the next datagrams repeat an unsent payload.
                let _ = self
                    .shared
                    .link
                    .send(self.shared.paths.current(), datagrams, each);
            }
        }
        Ok(())
    }
}
