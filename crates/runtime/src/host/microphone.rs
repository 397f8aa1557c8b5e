//! A client's microphone at the host. The player's sound is played into a sink, from which an application records it.
//!
//! The control thread decrypts the datagrams and puts their payloads into a jitter buffer. A sound player
//! ([`crate::sound_player`], as in the client) plays them. Observers' payloads are not played. The sink is open while
//! there is a session that was granted the microphone.

use std::collections::HashMap;
use std::sync::Arc;

use openuvr_proto::control::streams::MICROPHONE;
use openuvr_proto::id::{SessionId, SubscriberId};
use openuvr_proto::recv::jitter_buffer::{JitterCounters, JitterStatus};
use openuvr_proto::recv::uplink::UplinkReceiver;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::wire::header::Header;

use super::{Notice, Shared};
use crate::sched::Scheduler;
use crate::sound_player::{AudioSink, PlaybackListener, SoundPlayer};

/// The sound player's wake-up site.
const SITE: &str = "host-control-to-audio";

/// Plays clients' microphones. The control thread owns it.
pub(super) struct Microphone {
    shared: Arc<Shared>,
    scheduler: Scheduler,
    /// The sink, while no sound player is running.
    sink: Option<AudioSink>,
    player: Option<SoundPlayer>,
    /// The previous sound player, kept until its thread has ended. The control thread does not wait for it, because the
    /// sound server may not respond.
    ending: Option<SoundPlayer>,
    uplinks: HashMap<SessionId, Box<UplinkReceiver>>,
    /// The session whose payloads are in the jitter buffer.
    speaker: Option<SessionId>,
}

impl Microphone {
    /// Creates the microphone player. Without a sink, no session is granted a microphone.
    pub(super) fn new(
        shared: Arc<Shared>,
        scheduler: Scheduler,
        sink: Option<AudioSink>,
    ) -> Microphone {
        Microphone {
            shared,
            scheduler,
            sink,
            player: None,
            ending: None,
            uplinks: HashMap::new(),
            speaker: None,
        }
    }

    /// Adds a session. `uplink` receives the streams that the session was granted, if any.
    pub(super) fn add(&mut self, session: SessionId, uplink: Option<Box<UplinkReceiver>>) {
        let Some(mut uplink) = uplink else { return };
        if let Some(timed) = uplink.timed(MICROPHONE.stream) {
            // The receiver need not wait for late payloads, because the jitter buffer does.
            timed.set_wait(std::time::Duration::ZERO);
        }
        self.uplinks.insert(session, uplink);
        self.start();
    }

    /// Starts the sound player, unless it is running or the previous one is still ending.
    fn start(&mut self) {
        if let Some(ended) = self.ending.take_if(|player| player.is_finished()) {
            self.sink = ended.end();
        }
        if self.player.is_some() {
            return;
        }
        let Some(sink) = self.sink.take() else {
            return;
        };
        let listener = Listener(self.shared.clone());
        match SoundPlayer::start(&self.scheduler, SITE, sink, Box::new(listener), ()) {
            Ok(player) => self.player = Some(player),
            Err(why) => {
                let why = format!("no microphone: can't start a thread: {why}");
                self.shared.notice(Notice::Warning(why));
            }
        }
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        self.uplinks.remove(&session);
        self.speaker.take_if(|speaker| *speaker == session);
        if self.uplinks.is_empty()
            && let Some(player) = self.player.take()
        {
            player.stop();
            self.ending = Some(player);
        }
    }

    /// Handles a media datagram. A rejected datagram is forged, replayed or malformed, and is ignored.
    pub(super) fn datagram(&mut self, now: Instant, datagram: &[u8], plays: Option<SubscriberId>) {
        let Ok((header, _)) = Header::parse(datagram) else {
            return;
        };
        if self.player.is_none() && !self.uplinks.is_empty() {
            self.start();
        }
        let session = header.session();
        let Some(uplink) = self.uplinks.get_mut(&session) else {
            return;
        };
        if uplink.handle_datagram(now, datagram).is_err() {
            return;
        }
        let Some(timed) = uplink.timed(MICROPHONE.stream) else {
            return;
        };
        if plays != Some(session.into()) {
            while timed.poll(now).is_some() {}
            return;
        }
        let Some(player) = &self.player else { return };
        if self.speaker.replace(session) != Some(session) {
            player.reset();
        }
        player.receive(now, timed);
    }
}

/// Connects the sound player to the host.
struct Listener(Arc<Shared>);

impl PlaybackListener for Listener {
    fn stopping(&self) -> bool {
        self.0.stopping()
    }

    fn on_error(&self, why: String) {
        self.0.notice(Notice::Warning(format!("microphone: {why}")));
    }

    fn on_played(&mut self, _: Instant, _: PeerInstant, _: Instant) {}

    fn wants_report(&self, _: Instant) -> bool {
        false
    }

    fn report(&mut self, _: Instant, _: JitterStatus, _: JitterCounters) {}
}
