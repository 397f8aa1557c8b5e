//! The media thread: one frame at a time from the capture to the link, slice by slice.
//!
//! What a frame is to be, who takes it and how it ends is the [`Rendition`]'s to decide; this is its
//! clock, its capture and its encoder.

mod encoder;
mod session_path;
mod subscriber;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, atomic::Ordering};

use openuvr_media::capture::{Capture, CaptureEvent};
use openuvr_media::convert::{Converter, Scaler};
use openuvr_media::damage::Damage;
use openuvr_media::encode::{Encoder, FrameRequest, Part};
use openuvr_proto::id::SubscriberId;
use openuvr_proto::send::rendition::{AppliedInput, Rendition};
use openuvr_proto::send::session::Session;
use openuvr_proto::send::subscriber::Slice;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::Stage;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::{EchoKind, PoseEcho, SlicePlace};

pub(super) use self::encoder::open;
use self::session_path::SessionPath;
use self::subscriber::HostSubscriber;
use super::{Attachment, Encoding, MediaCommand, Notice, Shared};
use crate::clock;

pub(super) struct Media {
    shared: Arc<Shared>,
    capture: Box<dyn Capture>,
    media_commands: Receiver<MediaCommand>,
    encoding: Encoding,
    rendition: Rendition<HostSubscriber>,
    encoder: Option<Box<dyn Encoder>>,
    converter: Converter,
    scaler: Scaler,
    /// Of the pictures that are encoded.
    size: Size,
    /// What of the picture has changed since the newest frame that was coded.
    damage: Damage,
    /// Why the last frame failed, if it did.
    trouble: Option<String>,
}

impl Media {
    pub(super) fn new(
        shared: Arc<Shared>,
        capture: Box<dyn Capture>,
        converter: Converter,
        encoding: Encoding,
        media_commands: Receiver<MediaCommand>,
    ) -> Media {
        Media {
            shared,
            capture,
            media_commands,
            rendition: Rendition::new(encoding.rendition),
            encoding,
            encoder: None,
            converter,
            scaler: Scaler::default(),
            size: Size::default(),
            damage: Damage::default(),
            trouble: None,
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.stopping() {
            self.take_orders();
            let timeout = self.next_deadline().map(|at| at.since(clock::now()));
            match self.capture.next(timeout) {
                Ok(CaptureEvent::Frame) => {
                    let changed = self.capture.changed();
                    self.damage.add(self.capture.size(), changed.as_ref());
                    self.frame(true);
                }
                Ok(CaptureEvent::TimedOut | CaptureEvent::Woken) => {
                    self.take_orders();
                    if self.next_deadline().is_some_and(|at| at <= clock::now()) {
                        // Nothing moved, but somebody needs the picture, or a better one.
                        self.frame(false);
                    }
                }
                // The next frame has the new size, and begins a new epoch.
                Ok(CaptureEvent::Resized(_)) => {}
                Ok(CaptureEvent::Hidden) => self.shared.source_shown(false),
                Ok(CaptureEvent::Shown) => self.shared.source_shown(true),
                Ok(CaptureEvent::Ended(why)) => {
                    self.shared.source_is_over(GoodbyeReason::SourceEnded);
                    self.shared.finish(Notice::SourceEnded(why));
                    return;
                }
                Err(e) => {
                    self.shared.source_is_over(GoodbyeReason::Failed);
                    self.shared
                        .finish(Notice::Failed(format!("capture failed: {e}")));
                    return;
                }
            }
        }
    }

    fn take_orders(&mut self) {
        // Not more than can wait: the control thread is the more urgent one, and could go on for ever.
        for _ in 0..super::MEDIA_COMMANDS {
            let Ok(command) = self.media_commands.try_recv() else {
                break;
            };
            self.command_media(command);
        }
        let highest = Bitrate(self.shared.highest.swap(0, Ordering::Relaxed));
        if highest != Bitrate(0) {
            self.rendition.limit(highest);
        }
        self.capture.set_watched(!self.rendition.is_unwatched());
        self.tell_decisions();
    }

    fn command_media(&mut self, command: MediaCommand) {
        match command {
            MediaCommand::Add {
                id,
                role,
                attachment,
            } => {
                let (wishes, taker) = match attachment {
                    Attachment::Session {
                        path,
                        wishes,
                        media,
                    } => {
                        let way = SessionPath::new(self.shared.link.clone(), path);
                        let video = Box::new(media.video());
                        (
                            wishes,
                            HostSubscriber::Session(Box::new(Session::new(video, way))),
                        )
                    }
                    Attachment::Other { wishes, detached } => {
                        (wishes, HostSubscriber::Other(detached))
                    }
                };
                self.rendition.subscribe(id, role, wishes, taker);
            }
            MediaCommand::Role(id, role) => self.rendition.set_role(id, role),
            MediaCommand::Path(id, path) => {
                if let Some(session) = self.session(id) {
                    session.transmit_path().path = path;
                    self.rendition.path_changed(id);
                }
            }
            MediaCommand::Remove(id) => drop(self.rendition.unsubscribe(id)),
            MediaCommand::Feedback(id, feedback) => {
                self.rendition.feedback(clock::now(), id, feedback);
            }
            MediaCommand::Resend(id, request) => {
                if let Some(session) = self.session(id) {
                    session.resend(clock::now(), &request);
                }
            }
        }
    }

    fn session(&mut self, id: SubscriberId) -> Option<&mut Session<SessionPath>> {
        self.rendition.subscriber(id)?.session()
    }

    fn tell_decisions(&mut self) {
        let mut newest = None;
        while let Some(decision) = self.rendition.poll_decision() {
            self.shared.notice(Notice::Decision(decision));
            newest = Some(decision);
        }
        if let Some(decision) = newest {
            let mut sessions = self.shared.sessions();
            sessions.decided(decision);
            self.shared.flush(&mut sessions);
        }
    }

    /// When a frame is due although nothing moves.
    fn next_deadline(&self) -> Option<Instant> {
        self.capture.picture()?;
        self.rendition.next_deadline()
    }

    /// Sends the newest picture, which has just been captured if it is `fresh`.
    fn frame(&mut self, fresh: bool) {
        let captured = clock::now();
        self.take_orders();
        if self.rendition.is_unwatched() || self.capture.picture().is_none() {
            return;
        }
        let sessions = self.shared.sessions();
        self.rendition
            .follow_links(|id| sessions.link(captured, id));
        drop(sessions);
        if self.rendition.captured(captured, fresh) {
            self.echo();
            match self.encode() {
                Ok(()) => {
                    self.leave();
                    self.trouble = None;
                }
                Err((stage, why)) => self.fail(stage, why),
            }
        }
        self.tell_ends();
        self.tell_decisions();
    }

    fn fail(&mut self, stage: Stage, why: String) {
        // A new encoder for the next frame: this one may be the trouble.
        self.encoder = None;
        self.rendition.failed(clock::now(), stage);
        // Said once, however many frames it takes.
        if self.trouble.as_ref() != Some(&why) {
            self.shared.notice(Notice::Trouble(why.clone()));
        }
        self.trouble = Some(why);
    }

    /// The newest input that was injected before this frame was captured, or that the application
    /// says it had taken before it drew it.
    fn echo(&mut self) {
        let drawn = self.capture.drawn();
        if let Some(at) = drawn.begun {
            self.rendition.stamp(Stage::RenderBegun, at);
        }
        let pose = drawn.pose.map(|posed| {
            let echo = PoseEcho {
                pose: posed.id,
                at: posed.pose,
                display: None,
            };
            (posed.subscriber, echo)
        });
        self.rendition.drawn(pose, None);
        let taken = drawn.input.map(|taken| AppliedInput {
            from: taken.from,
            seq: taken.seq,
            kind: EchoKind::Consumed,
            received: taken.received,
            applied: taken.taken,
        });
        let player = self.rendition.player();
        let injected = || {
            let injected = self.shared.injected.lock();
            *injected.unwrap_or_else(PoisonError::into_inner)
        };
        let taken = taken.filter(|taken| player == Some(taken.from));
        if let Some(input) = taken.or_else(injected) {
            self.rendition.applied(&input);
        }
    }

    /// Encodes the picture; each slice leaves from the encoder's callback.
    fn encode(&mut self) -> Result<(), (Stage, String)> {
        let fail = |stage| move |e: &dyn std::fmt::Display| (stage, e.to_string());
        let Some(picture) = self.capture.picture() else {
            return Err(fail(Stage::Converted)(&"the picture is gone"));
        };
        let picture = match self.rendition.wishes().size {
            // What is not packed was made by this program itself.
            Some(limit) if picture.format.packed().is_some() => {
                let size = Scaler::fitted(picture.size, limit);
                let scaled = self.scaler.scale(&picture, size);
                scaled.map_err(|e| fail(Stage::Converted)(&e))?
            }
            _ => picture,
        };
        if self.rendition.needs_encoder(picture.size) {
            let (encoder, opened) = open(&self.encoding, picture.size, self.rendition.target())
                .map_err(|e| fail(Stage::FirstSlice)(&e))?;
            self.encoder = Some(encoder);
            self.rendition.encoder_opened(opened);
            if std::mem::replace(&mut self.size, picture.size) != picture.size {
                self.shared.notice(Notice::Resized(picture.size));
            }
        }
        let Some(encoder) = self.encoder.as_mut() else {
            return Err(fail(Stage::FirstSlice)(&"no encoder is open"));
        };
        let input = encoder.input_for(picture.format);
        let picture = (self.converter)
            .convert_changed(&picture, input, &self.damage)
            .map_err(|e| fail(Stage::Converted)(&e))?;
        self.rendition.stamp(Stage::Converted, clock::now());
        if let Some(target) = self.rendition.new_target() {
            encoder
                .retarget(target)
                .map_err(|e| fail(Stage::FirstSlice)(&e))?;
        }
        let changed = |mb: usize| self.damage.has(mb);
        let changed: Option<&dyn Fn(usize) -> bool> = match self.damage.is_partial(self.size) {
            true => Some(&changed),
            false => None,
        };
        let count = encoder.slices();
        let Some((plan, mut fan_out)) = self.rendition.begin(clock::now(), changed) else {
            return Err(fail(Stage::FirstSlice)(&"no encoder is open"));
        };
        let ask = FrameRequest {
            frame: plan.frame,
            key_frame: plan.is_key(),
            reference: plan.reference,
            refresh: plan.refresh,
            qp: plan.qp,
            part: plan.part.map(|part| Part {
                first_mb: part.first_mb,
                mbs: part.mbs,
            }),
            unchanged: plan.unchanged,
        };
        let mut sink = |slice: openuvr_media::encode::Slice<'_>| {
            let slice = Slice {
                place: SlicePlace {
                    index: slice.index,
                    count,
                    first_mb: slice.first_mb,
                    mbs: slice.mbs,
                },
                clean_after: slice.clean_after,
                bytes: slice.bytes,
            };
            fan_out.slice(clock::now(), &slice);
        };
        let encoded = encoder
            .encode(&picture, &ask, &mut sink)
            .map_err(|e| fail(Stage::Encoded)(&e))?;
        debug_assert!(encoded.key_frame || !ask.key_frame);
        Ok(())
    }

    /// Lets the rest of the frame leave, which may have to wait for the player's link. Meanwhile what
    /// others ask for is done.
    fn leave(&mut self) {
        while let Some(at) = self.rendition.end(clock::now()) {
            let wait = at.since(clock::now());
            match self.media_commands.recv_timeout(wait) {
                Ok(command) => self.command_media(command),
                Err(RecvTimeoutError::Timeout) => {}
                // The host stops.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
        }
        self.damage.clear(self.size);
    }

    /// Tells the sessions how frames ended.
    fn tell_ends(&mut self) {
        for (_, taker) in self.rendition.subscribers() {
            let refusal = taker
                .session()
                .and_then(|session| session.transmit_path().refusal());
            if let Some(why) = refusal {
                self.shared.notice(Notice::Trouble(why));
            }
        }
        let Some(first) = self.rendition.poll_end() else {
            return;
        };
        let (now, mut sessions) = (clock::now(), self.shared.sessions());
        sessions.record(now, &first);
        while let Some(end) = self.rendition.poll_end() {
            sessions.record(now, &end);
        }
        self.shared.flush(&mut sessions);
    }
}
