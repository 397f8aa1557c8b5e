//! The audio thread. It captures sound block by block, encodes each block once for each codec in use, and seals the
//! Opus packets for each session that was granted the stream. Sessions use Opus; other listeners use Opus or AAC.
//!
//! The audio thread is independent of the media thread. A burst of pictures therefore does not delay sound, and a
//! failed sound capture does not affect pictures. The capture is open while there are listeners.

mod aac;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use openuvr_clock as clock;
pub use openuvr_ipc::gateway_message::SoundCodec;
use openuvr_media::audio::opus::Encoder;
use openuvr_media::audio::{
    AudioCapture, AudioError, AudioEvent, CHANNELS, RATE, duration_of, frames_in,
};
use openuvr_proto::control::streams::{Grant, HOST_AUDIO};
use openuvr_proto::id::{PathId, SessionId};
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::timed::TimedSender;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use self::aac::AacStream;
use super::{Notice, Shared};

/// Pause between two attempts to open a failed capture.
const RETRY: Duration = Duration::from_secs(2);

/// While a capture delivers nothing, the thread checks at this interval whether the host is stopping.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often the links' loss estimates are read.
const LOSS_EVERY: Duration = Duration::from_millis(250);

/// Maximum number of listeners that are not sessions: twice the clients that gateways accept (32 browsers, 16 video
/// players, Moonlight, recordings).
const MAX_CALLBACKS: usize = 128;

/// Opens a capture.
pub type OpenCapture = Box<dyn FnMut() -> Result<Box<dyn AudioCapture>, AudioError> + Send>;

/// The sound source and its encoding.
pub struct AudioSource {
    /// Opens the capture for the first listener, and again after a failure.
    pub open: OpenCapture,
    /// Duration of a payload: 2.5, 5, 10 or 20 ms.
    pub frame: Duration,
    /// Bitrate of each codec, excluding repetitions and headers.
    pub bitrate: Bitrate,
}

/// An encoded block of sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload<'a> {
    /// The time at which the first sample was captured.
    pub captured: Instant,
    /// Samples per channel, at 48 kHz.
    pub samples: u16,
    /// An Opus packet or an AAC access unit.
    pub bytes: &'a [u8],
}

/// Receives payloads until it returns `false`.
type PayloadCallback = Box<dyn FnMut(&Payload<'_>) -> bool + Send>;

pub(super) enum AudioCommand {
    Add {
        session: SessionId,
        path: PathId,
        sender: TimedSender,
    },
    /// Adds a listener that is not a session; see [`HostRuntime::listen`](super::HostRuntime::listen).
    Listen(SoundCodec, PayloadCallback),
    Path(SessionId, PathId),
    Remove(SessionId),
}

/// Whether a session was granted the host's sound.
pub(super) fn is_granted(grants: &[Grant]) -> bool {
    let mut grants = grants.iter();
    grants.any(|grant| grant.stream == HOST_AUDIO.stream && grant.to_client)
}

struct Listener {
    session: SessionId,
    path: PathId,
    sender: TimedSender,
}

/// Adds a listener that is not a session. A listener that has left is noticed only when a payload arrives, and none
/// arrives while the capture fails. Beyond [`MAX_CALLBACKS`], the oldest listener is therefore dropped.
pub(crate) fn add_callback<T>(callbacks: &mut Vec<T>, callback: T) {
    if callbacks.len() >= MAX_CALLBACKS {
        callbacks.remove(0);
    }
    callbacks.push(callback);
}

/// Whether a listener uses the codec.
fn is_wanted(
    codec: SoundCodec,
    sessions: &[Listener],
    callbacks: &[(SoundCodec, PayloadCallback)],
) -> bool {
    let mut callbacks = callbacks.iter();
    let for_sessions = codec == SoundCodec::Opus && !sessions.is_empty();
    for_sessions || callbacks.any(|(wanted, _)| *wanted == codec)
}

pub(super) struct Audio {
    shared: Arc<Shared>,
    source: AudioSource,
    commands: Receiver<AudioCommand>,
    listeners: Vec<Listener>,
    callbacks: Vec<(SoundCodec, PayloadCallback)>,
    /// Whether the current failure of the capture has been reported.
    reported: bool,
    losses_at: Instant,
    out: SendBuf,
}

impl Audio {
    pub(super) fn new(
        shared: Arc<Shared>,
        source: AudioSource,
        commands: Receiver<AudioCommand>,
    ) -> Audio {
        Audio {
            shared,
            source,
            commands,
            listeners: Vec::new(),
            callbacks: Vec::new(),
            reported: false,
            losses_at: clock::now(),
            out: SendBuf::default(),
        }
    }

    /// Runs until the host stops, which closes the command channel.
    pub(super) fn run(mut self) {
        while !self.shared.stopping() {
            if self.has_no_listener() {
                match self.commands.recv() {
                    Ok(command) => self.command(command),
                    Err(_) => return,
                }
                continue;
            }
            let Err(why) = self.stream() else { continue };
            if !std::mem::replace(&mut self.reported, true) {
                let why = format!("no sound for now: {why}");
                self.shared.notice(Notice::Warning(why));
            }
            match self.commands.recv_timeout(RETRY) {
                Ok(command) => self.command(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn has_no_listener(&self) -> bool {
        self.listeners.is_empty() && self.callbacks.is_empty()
    }

    fn command(&mut self, command: AudioCommand) {
        match command {
            AudioCommand::Listen(codec, callback) => {
                add_callback(&mut self.callbacks, (codec, callback));
            }
            AudioCommand::Add {
                session,
                path,
                sender,
            } => self.listeners.push(Listener {
                session,
                path,
                sender,
            }),
            AudioCommand::Path(session, path) => {
                let moved = self.listeners.iter_mut().find(|l| l.session == session);
                if let Some(listener) = moved {
                    listener.path = path;
                }
            }
            AudioCommand::Remove(session) => self.listeners.retain(|l| l.session != session),
        }
    }

    /// Captures, encodes and sends while there are listeners.
    fn stream(&mut self) -> Result<(), AudioError> {
        let mut encoder = Encoder::open(self.source.bitrate, true)?;
        let mut aac = None;
        let mut capture = (self.source.open)()?;
        let frames = frames_in(self.source.frame);
        let samples = u16::try_from(frames).unwrap_or(u16::MAX);
        let mut block = vec![0.0; frames * CHANNELS];
        // The delay of the encoder: decoded samples are this much later than the input.
        let lookahead = i64::from(encoder.lookahead()) * 1_000_000_000 / i64::from(RATE);
        tracing::debug!(frame = ?duration_of(frames), "sound is captured");
        while !self.shared.stopping() && !self.has_no_listener() {
            while let Ok(command) = self.commands.try_recv() {
                self.command(command);
            }
            let AudioEvent::Captured(at) = capture.read(&mut block, Some(POLL_INTERVAL))? else {
                continue;
            };
            self.reported = false;
            if let Some(device) = capture.poll_device() {
                let words = format!("sound capture switched to the default device: {device}");
                self.shared.notice(Notice::Sound(words));
            }
            if is_wanted(SoundCodec::Opus, &self.listeners, &self.callbacks) {
                let captured = Instant(at.0 - lookahead);
                self.send(captured, samples, encoder.encode(&block)?);
            }
            self.follow_losses();
            self.send_aac(&mut aac, at, &block);
        }
        tracing::debug!(counters = ?capture.counters(), "sound is no longer captured");
        Ok(())
    }

    fn send(&mut self, captured: Instant, samples: u16, bytes: &[u8]) {
        let payload = Payload {
            captured,
            samples,
            bytes,
        };
        for listener in &mut self.listeners {
            let now = clock::now();
            let sent = (listener.sender).send(now, (captured, samples), bytes, &mut self.out);
            if sent.is_err() {
                // Opus packets are never too long for a datagram.
                continue;
            }
            for (datagrams, each) in self.out.runs() {
                // Ignore errors, because the next datagrams repeat an unsent payload.
                let _ = self.shared.link.send(listener.path, datagrams, each);
            }
        }
        self.pass_on(SoundCodec::Opus, &payload);
    }

    /// Passes a payload to the callbacks that requested its codec.
    fn pass_on(&mut self, codec: SoundCodec, payload: &Payload<'_>) {
        (self.callbacks).retain_mut(|(wanted, callback)| *wanted != codec || callback(payload));
    }

    /// Encodes a block to AAC if a listener requests AAC. If the encoding fails, the listeners of AAC are removed.
    fn send_aac(&mut self, aac: &mut Option<AacStream>, captured: Instant, block: &[f32]) {
        if !is_wanted(SoundCodec::Aac, &self.listeners, &self.callbacks) {
            *aac = None;
            return;
        }
        if let Err(why) = self.encode_aac(aac, captured, block) {
            *aac = None;
            self.callbacks
                .retain(|(codec, _)| *codec != SoundCodec::Aac);
            let why = format!("no sound for video players and recordings with AAC: {why}");
            self.shared.notice(Notice::Warning(why));
        }
    }

    fn encode_aac(
        &mut self,
        aac: &mut Option<AacStream>,
        captured: Instant,
        block: &[f32],
    ) -> Result<(), AudioError> {
        if aac.is_none() {
            *aac = Some(AacStream::open(self.source.bitrate)?);
        }
        match aac {
            Some(stream) => stream.add(captured, block, |payload| {
                self.pass_on(SoundCodec::Aac, payload);
            }),
            None => Ok(()),
        }
    }

    /// Sets how often each session's payloads are repeated, according to the loss on that session's link.
    fn follow_losses(&mut self) {
        let now = clock::now();
        if now < self.losses_at {
            return;
        }
        self.losses_at = now + LOSS_EVERY;
        let sessions = self.shared.sessions();
        for listener in &mut self.listeners {
            if let Some(link) = sessions.link(now, listener.session.into()) {
                listener.sender.follow(link.loss);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_is_encoded_only_for_listeners_that_use_it() {
        let wanted = |callbacks: &[(SoundCodec, PayloadCallback)]| {
            [SoundCodec::Opus, SoundCodec::Aac].map(|codec| is_wanted(codec, &[], callbacks))
        };
        let callback = |codec: SoundCodec| {
            let callback: PayloadCallback = Box::new(|_| true);
            (codec, callback)
        };
        assert_eq!(wanted(&[]), [false, false]);
        let mut callbacks = vec![callback(SoundCodec::Aac)];
        assert_eq!(wanted(&callbacks), [false, true]);
        callbacks.push(callback(SoundCodec::Opus));
        assert_eq!(wanted(&callbacks), [true, true]);
    }

    #[test]
    fn without_payloads_only_the_newest_listeners_are_kept() {
        let mut callbacks = Vec::new();
        (0..3 * MAX_CALLBACKS).for_each(|number| add_callback(&mut callbacks, number));
        let kept: Vec<usize> = (2 * MAX_CALLBACKS..3 * MAX_CALLBACKS).collect();
        assert_eq!(callbacks, kept);
    }
}
