//! One session with the host, from the handshake to its end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_media::codec::Codec;
use openuvr_net::Link as _;
use openuvr_proto::client::ClientSession;
use openuvr_proto::client::playout::{FrameResult, Playout};
use openuvr_proto::control::handshake::Established;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::streams::{Grant, HOST_AUDIO, MICROPHONE};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::id::ViewId;
use openuvr_proto::recv::ArrivalTimes;
use openuvr_proto::recv::reassemble::VideoOutput;
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::header::{Plane, plane_of};

use super::super::audio;
use super::super::microphone::Microphone;
use super::super::overlay::OverlayFacts;
use super::super::screen::ShowOutcome;
use super::super::transport_probing::TransportProber;
use super::super::{Notice, StopReason};
use super::first_picture::FirstPicture;
use super::{LINK_CUT, Media, SessionEnd};
use crate::lock::lock;
use crate::sound_player::SoundPlayer;

/// The state of one session. The [`ClientSession`] is in `Shared`, because other threads also use it.
pub(super) struct ActiveSession {
    pub(super) playout: Playout,
    /// Creates the senders of the streams to the host.
    uplink: MediaSender,
    pub(super) prober: TransportProber,
    /// Set if the session carries sound.
    audio: Option<SoundPlayer>,
    /// Set if the session carries the user's microphone.
    microphone: Option<Microphone>,
    /// The role that the host granted; `None` before the first grant.
    pub(super) granted: Option<GrantedRole>,
    pub(super) first_picture: FirstPicture,
}

pub(super) struct GrantedRole {
    pub(super) role: Role,
    /// The window title.
    pub(super) title: String,
}

impl ActiveSession {
    /// Runs a session from the end of the handshake to the end of the session.
    pub(super) fn run(media: &mut Media, established: &Established) -> SessionEnd {
        let mut session = ActiveSession::start(media, established);
        let ended = loop {
            if media.shared.stopping() {
                break SessionEnd::Stop;
            }
            let timeout = session.timeout(media);
            let until = clock::now() + timeout;
            if let Err(e) = media.setup.link.recv(&mut media.batch, Some(timeout)) {
                break SessionEnd::StopReason(StopReason::Failed(format!("receiving failed: {e}")));
            }
            media.shared.to_media.received();
            if media.batch.is_empty() && !timeout.is_zero() {
                media.timer.woke(until);
            }
            media.note_stall(until);
            if let Some(ended) = session.turn(media) {
                break ended;
            }
        };
        session.end(media, &ended);
        ended
    }

    fn start(media: &mut Media, established: &Established) -> ActiveSession {
        let now = clock::now();
        let mut session = ClientSession::new(now, established, media.setup.offer.clone());
        let (link, paths) = (media.shared.link.clone(), media.shared.paths.clone());
        let prober = TransportProber::start(link, paths, media.setup.only, now, &mut session);
        let mut shared = media.shared.session();
        if let Some(size) = *lock(&media.shared.window_size) {
            session.window_size(size);
        }
        if let Some(display) = *lock(&media.shared.display) {
            session.display(now, display);
        }
        *shared = Some(session);
        drop(shared);
        media.screen.reset();
        // A session starts without relative motion. A host that wants relative motion requests it in each session.
        media.screen.relative_mouse(false);
        ActiveSession {
            playout: Playout::new(established),
            uplink: MediaSender::of_client(established),
            prober,
            audio: None,
            microphone: None,
            granted: None,
            first_picture: FirstPicture::default(),
        }
    }

    /// Says goodbye, unless the host was lost, and stores the audio devices in `media` for the next session.
    fn end(self, media: &mut Media, ended: &SessionEnd) {
        let shared = &media.shared;
        (media.display_times).finish(|report| shared.notice(Notice::Report(report)));
        if let Some(session) = media.shared.session().take().as_mut() {
            if !matches!(ended, SessionEnd::Lost(_)) {
                session.goodbye(GoodbyeReason::Quit);
            }
            media.shared.flush(session);
        }
        if let Some(audio) = self.audio {
            media.setup.audio = audio.end();
        }
        if let Some(microphone) = self.microphone {
            media.setup.microphone = microphone.end();
        }
    }

    /// Starts playback if the host granted sound and there is an output.
    pub(super) fn start_audio(&mut self, media: &mut Media) -> std::io::Result<()> {
        let Some(timed) = self.playout.media.timed(HOST_AUDIO.stream) else {
            return Ok(());
        };
        // The receiver need not wait for late payloads, because the jitter buffer does.
        timed.set_wait(Duration::ZERO);
        if let Some(sink) = media.setup.audio.take() {
            self.audio = Some(audio::start(&media.shared, &media.setup.scheduler, sink)?);
        }
        Ok(())
    }

    /// Starts the microphone if the host granted its stream and the client has a microphone.
    pub(super) fn start_microphone(
        &mut self,
        media: &mut Media,
        grants: &[Grant],
    ) -> std::io::Result<()> {
        let granted = |grant: &Grant| grant.stream == MICROPHONE.stream && grant.to_host;
        if !grants.iter().any(granted) || self.microphone.is_some() {
            return Ok(());
        }
        let sender = self.uplink.timed(MICROPHONE.stream);
        if let Some(source) = media.setup.microphone.take() {
            let (shared, scheduler) = (&media.shared, &media.setup.scheduler);
            let started = Microphone::start(shared, scheduler, source, sender)?;
            self.microphone = Some(started);
        }
        Ok(())
    }

    /// Time until the next timeout, if nothing arrives.
    fn timeout(&self, media: &Media) -> Duration {
        let session = media.shared.session();
        let session_next = session
            .as_ref()
            .and_then(|s| s.next_timeout())
            .map(|(at, _)| at);
        let granted = self.granted.is_some();
        let media_next = granted.then(|| self.playout.media.next_timeout()).flatten();
        let now = clock::now();
        let next = session_next
            .into_iter()
            .chain(media_next)
            .chain(media.overlay.next().filter(|_| granted))
            .chain([now + LINK_CUT])
            .min()
            .unwrap_or(now);
        media
            .shared
            .media_sleeps_until
            .store(next.0, Ordering::Relaxed);
        next.since(now)
    }

    /// Handles received datagrams and due timeouts.
    fn turn(&mut self, media: &mut Media) -> Option<SessionEnd> {
        let now = clock::now();
        let batch = std::mem::take(&mut media.batch);
        for (arrival, datagram) in batch.with_arrivals() {
            let from = arrival.from;
            if !media.shared.paths.has(from) {
                continue;
            }
            match plane_of(datagram) {
                Ok(Plane::Media) => {
                    media.overlay.received(datagram.len());
                    // A late wake-up must not count as link delay.
                    let arrived = arrival.at.unwrap_or(now).min(now);
                    // A rejected datagram is forged, replayed or malformed, and is ignored.
                    let _ = (self.playout.media).handle_arrival(
                        ArrivalTimes { arrived, now },
                        arrival.ecn,
                        datagram,
                    );
                }
                Ok(Plane::Control) => {
                    if let Some(session) = media.shared.session().as_mut() {
                        let _ = session.handle_datagram(now, from, datagram);
                    }
                }
                Ok(Plane::Handshake) => {
                    if let Some(session) = media.shared.session().as_mut() {
                        session.handle_unsealed(now, datagram);
                    }
                }
                Err(_) => {}
            }
        }
        media.batch = batch;
        if let Some(audio) = &self.audio
            && let Some(timed) = self.playout.media.timed(HOST_AUDIO.stream)
        {
            audio.receive(now, timed);
        }
        // Opening a window requires the host's name and the role. They may arrive together with the first picture, or
        // after it if a datagram was lost.
        if self.granted.is_none() {
            let ended = self.poll(media);
            if ended.is_some() || self.granted.is_none() {
                return ended;
            }
        }
        if let Some(ended) = self.show(media) {
            return Some(ended);
        }
        media.take_display_times();
        self.write_overlay(media);
        // Opening a window or decoding may take long. Datagrams that arrive in the meantime wait in the socket buffer.
        media.note_stall(now);
        self.poll(media)
    }

    /// Shows or hides the overlay as requested, and updates a visible overlay if an update is due.
    fn write_overlay(&self, media: &mut Media) {
        let now = clock::now();
        let shown =
            media.shared.overlay.load(Ordering::Relaxed) && media.screen.presenter.is_some();
        if media.overlay.show(now, shown) && !shown {
            media.screen.set_panel(&[]);
        }
        if media.overlay.next().is_none_or(|at| at > now) {
            return;
        }
        let codec = media.screen.configuration.map(|c| Codec::try_from(c.codec));
        let facts = OverlayFacts {
            size: media.screen.configuration.map(|c| c.size),
            codec: &codec.map_or_else(String::new, |codec| match codec {
                Ok(codec) => format!("{codec:?}"),
                Err(unknown) => unknown.to_string(),
            }),
            link: self.prober.selected().map_or("…", TransportKind::name),
            round_trip: (media.shared.session().as_ref())
                .and_then(|session| session.clock().round_trip()),
        };
        if let Some(lines) = media.overlay.lines(now, &facts) {
            media.screen.set_panel(&lines);
        }
    }

    /// Decodes and presents the reassembled slices.
    fn show(&mut self, media: &mut Media) -> Option<SessionEnd> {
        let granted = self.granted.as_ref()?;
        loop {
            let outdated = self.playout.media.first().has_later();
            let step = self.playout.media.first().poll(clock::now())?;
            if let Some(fate) = FrameResult::of(&step) {
                finish(&mut self.playout, self.microphone.as_ref(), media, &fate);
                continue;
            }
            match &step {
                VideoOutput::Slice { first, .. } | VideoOutput::Missing { first, .. } => {
                    if *first {
                        media.screen.start_frame();
                    }
                    let mut shown = media.screen.show(&step, outdated);
                    if let ShowOutcome::NeedsSurface(configuration) = shown {
                        shown = match media.open_surface(configuration, granted) {
                            Ok(()) => media.screen.show(&step, outdated),
                            Err(e) => ShowOutcome::SurfaceLost(e),
                        };
                    }
                    match shown {
                        ShowOutcome::Ok | ShowOutcome::NeedsSurface(_) => {
                            if media.screen.presentation.submitted.is_some() {
                                media.picture_submitted();
                            }
                        }
                        ShowOutcome::DecodeFailed(why) => {
                            media.report_decode_error(why);
                            self.playout.media.first().decoding_failed();
                        }
                        ShowOutcome::SurfaceLost(why) => {
                            return Some(SessionEnd::StopReason(StopReason::Failed(why)));
                        }
                    }
                }
                VideoOutput::End(_) | VideoOutput::Dropped { .. } => {}
            }
        }
    }
}

/// Reports the outcome of a finished frame.
fn finish(
    playout: &mut Playout,
    microphone: Option<&Microphone>,
    media: &mut Media,
    fate: &FrameResult,
) {
    let shared = media.shared.clone();
    let mut session = shared.session();
    let Some(session) = session.as_mut() else {
        return;
    };
    let now = clock::now();
    let presentation = &media.screen.presentation;
    let report = playout.finish(now, ViewId::FIRST, fate, presentation, session);
    let end = match fate {
        FrameResult::Completed(end) => Some(end),
        FrameResult::Dropped { .. } => None,
    };
    let transit = end
        .filter(|_| media.overlay.next().is_some())
        .and_then(|end| {
            let captured = PeerInstant(end.header.captured);
            let captured = session.clock().to_mine(captured, now)?;
            Some((end.first_received.since(captured.at), captured.bound))
        });
    media.overlay.frame(now, &report, transit);
    if let Some(microphone) = microphone {
        microphone.note(now, &report);
    }
    shared.flush(session);
    let reported = media.screen.reports_times();
    (media.display_times).add(report, reported, |report| {
        shared.notice(Notice::Report(report));
    });
}
