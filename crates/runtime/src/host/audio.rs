//! The audio thread: what plays is captured block by block, coded once, and sealed for each session that
//! was granted it.
//!
//! It has nothing in common with the media thread: a burst of pictures delays no sound, and sound that can't
//! be captured ends no picture. The capture is open while somebody listens.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

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

use super::{Notice, Shared};
use crate::clock;

/// Between two attempts to open a capture that failed.
const RETRY: Duration = Duration::from_secs(2);

/// How often it is looked whether the host stops, if a capture gives nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often the links' losses are asked for.
const LOSS_EVERY: Duration = Duration::from_millis(250);

/// Opens a capture.
pub type OpenCapture = Box<dyn FnMut() -> Result<Box<dyn AudioCapture>, AudioError> + Send>;

/// What is captured, and how it is coded.
pub struct AudioSource {
    /// Opens it: when somebody listens after nobody did, and again when it broke.
    pub open: OpenCapture,
    /// How long a payload is: 2.5, 5, 10 or 20 ms.
    pub frame: Duration,
    /// What it may take, without repetitions and headers.
    pub bitrate: Bitrate,
}

/// Sound that is coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload<'a> {
    /// When its first sample was captured.
    pub captured: Instant,
    /// Samples a channel, of 48 000 a second.
    pub samples: u16,
    /// An Opus packet.
    pub bytes: &'a [u8],
}

/// Takes payloads until it says `false`.
type PayloadCallback = Box<dyn FnMut(&Payload<'_>) -> bool + Send>;

/// What the control thread tells the audio thread.
pub(super) enum AudioCommand {
    Add {
        session: SessionId,
        path: PathId,
        sender: TimedSender,
    },
    /// One that is no session; see [`HostRuntime::listen`](super::HostRuntime::listen).
    Listen(PayloadCallback),
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

pub(super) struct Audio {
    shared: Arc<Shared>,
    source: AudioSource,
    commands: Receiver<AudioCommand>,
    listeners: Vec<Listener>,
    callbacks: Vec<PayloadCallback>,
    /// It was told that there is no sound.
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

    /// Until the host stops: then nobody is left to command it.
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
            AudioCommand::Listen(callback) => self.callbacks.push(callback),
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

    /// Captures, codes and sends until nobody listens.
    fn stream(&mut self) -> Result<(), AudioError> {
        let mut encoder = Encoder::open(self.source.bitrate, true)?;
        let mut capture = (self.source.open)()?;
        let frames = frames_in(self.source.frame);
        let samples = u16::try_from(frames).unwrap_or(u16::MAX);
        let mut block = vec![0.0; frames * CHANNELS];
        // What is decoded is that much older than what was put in.
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
                let words = format!("sound follows the default device: {device}");
                self.shared.notice(Notice::Sound(words));
            }
            let captured = Instant(at.0 - lookahead);
            self.send(captured, samples, encoder.encode(&block)?);
            self.follow_losses();
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
                // Opus makes nothing that long.
                continue;
            }
            for (datagrams, each) in self.out.runs() {
                // What is not sent is lost; it goes along with the next ones.
                let _ = self.shared.link.send(listener.path, datagrams, each);
            }
        }
        self.callbacks.retain_mut(|listen| callback(&payload));
    }

    /// Lets each session's payloads be repeated as often as its link asks for.
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
