//! One rendition with its scaling, conversion and encoder. It runs in the thread that owns it: the media thread or the
//! thread of a secondary rendition.
//!
//! The [`Rendition`] decides on frame types, subscribers and outcomes. This module provides the clock and the encoder.

use std::sync::Arc;

use openuvr_clock as clock;
use openuvr_media::capture::RenderInfo;
use openuvr_media::convert::{Converter, Scaler};
use openuvr_media::damage::{Block, Damage};
use openuvr_media::difference::DifferenceMeter;
use openuvr_media::encode::{
    self, Encoder, EncoderOptions, FrameRequest, MacroblockRange, automatic,
};
use openuvr_media::picture::{Picture, PixelFormat};
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::host::LinkState;
use openuvr_proto::id::{RenditionId, SubscriberId};
use openuvr_proto::send::policy::Recovery;
use openuvr_proto::send::rendition::{AppliedInput, FanOut, FrameOutcome, Plan, Rendition};
use openuvr_proto::send::session::{Allowed, Session};
use openuvr_proto::send::subscriber::Slice;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::Stage;
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::video::{DrawingTimes, EchoKind, PoseEcho, SlicePlace};

use super::encoder::open;
use super::session_path::SessionPath;
use super::subscriber::HostSubscriber;
use crate::host::encodings::{Assigned, Encoding, Encodings};
use crate::host::{Attachment, MediaCommand, Notice, Shared};

/// The stage that failed, and the reason.
type StageError = (Stage, String);

/// Metadata of a captured picture.
#[derive(Clone, Copy)]
pub(super) struct PictureInfo {
    pub(super) captured: Instant,
    /// The metadata with which the application drew the picture.
    pub(super) drawn: RenderInfo,
    /// The newest input injected before the capture.
    pub(super) injected: Option<AppliedInput>,
}

pub(super) struct Pipeline {
    id: RenditionId,
    shared: Arc<Shared>,
    encoding: Encoding,
    /// Whether the rendition has a single client. The feedback of this client controls the rendition even if the client
    /// is an observer.
    single_client: bool,
    rendition: Rendition<HostSubscriber>,
    encoder: Option<Box<dyn Encoder>>,
    /// Whether the encoder has coded a frame.
    encoder_worked: bool,
    converter: Converter,
    scaler: Scaler,
    /// The size of the encoded pictures.
    size: Size,
    /// The region that has changed since the last encoded frame.
    damage: Damage,
    difference: DifferenceMeter,
    /// Whether the converter holds the newest picture.
    converted: bool,
    /// The error of the last frame, if it failed.
    last_error: Option<String>,
}

impl Pipeline {
    /// Creates a rendition without subscribers.
    pub(super) fn new(
        shared: Arc<Shared>,
        encodings: &Encodings,
        assigned: Assigned,
        converter: Converter,
    ) -> Pipeline {
        let encoding = encodings.all()[assigned.encoding].clone();
        Pipeline {
            id: assigned.rendition,
            shared,
            single_client: encodings.encoder_per_client(),
            rendition: Rendition::new(encoding.rendition),
            encoding,
            encoder: None,
            encoder_worked: false,
            converter,
            scaler: Scaler::default(),
            size: Size::default(),
            damage: Damage::default(),
            difference: DifferenceMeter::default(),
            converted: false,
            last_error: None,
        }
    }

    pub(super) fn id(&self) -> RenditionId {
        self.id
    }

    /// The size of the encoded pictures.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    pub(super) fn has_subscriber(&mut self, id: SubscriberId) -> bool {
        self.rendition.subscriber(id).is_some()
    }

    pub(super) fn members(&mut self) -> Vec<SubscriberId> {
        self.rendition.subscribers().map(|(id, _)| id).collect()
    }

    /// The highest frame rate that is useful to the player.
    pub(super) fn fps(&self) -> f64 {
        self.rendition.fps()
    }

    pub(super) fn is_unwatched(&self) -> bool {
        self.rendition.is_unwatched()
    }

    /// Prepares the pipeline for another thread. The encoder's threads inherit the priority of the thread that opens
    /// the encoder, so the other thread reopens it. Pictures submitted to this thread are lost, so the changed region
    /// becomes unknown.
    pub(super) fn prepare_move(mut self) -> Pipeline {
        self.close();
        (self.damage, self.converted) = (Damage::default(), false);
        self
    }

    /// Ends a pipeline without subscribers. Returns its converter for reuse.
    pub(super) fn end(mut self) -> Converter {
        self.close();
        self.converter
    }

    fn close(&mut self) {
        if self.encoder.take().is_some() && !self.shared.is_ending() {
            self.shared.notice(Notice::EncoderClosed(self.id));
        }
    }

    /// Limits the video's bitrate from the next frame on.
    pub(super) fn limit(&mut self, bitrate_limit: Bitrate) {
        self.rendition.limit(bitrate_limit);
    }

    /// Changes the GOP size from the next frame on.
    pub(super) fn set_key_frame_interval(&mut self, frames: Option<u32>) {
        self.rendition.set_key_frame_interval(frames);
    }

    /// Handles a subscriber's command.
    pub(super) fn command_media(&mut self, command: MediaCommand) {
        match command {
            MediaCommand::Add {
                id,
                role,
                attachment,
                ..
            } => self.subscribe(id, role, attachment),
            MediaCommand::Role(id, role) => {
                if !self.single_client {
                    self.rendition.set_role(id, role);
                }
            }
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
            MediaCommand::Limit(bitrate_limit) => self.limit(bitrate_limit),
            MediaCommand::KeyFrameInterval(frames) => self.set_key_frame_interval(frames),
            MediaCommand::Returned(_) => debug_assert!(false, "handled by the media thread"),
        }
    }

    fn subscribe(&mut self, id: SubscriberId, role: Role, attachment: Attachment) {
        let (constraints, subscriber) = match attachment {
            Attachment::Session {
                path,
                constraints,
                media,
            } => {
                let transmit = SessionPath::new(self.shared.link.clone(), path);
                let mut session = Session::new(Box::new(media.video()), transmit);
                // Without recovery, FEC and retransmission are also off, because they depend on feedback of the client.
                let repairs = self.encoding.rendition.policy.recovery != Recovery::None;
                session.allow(Allowed {
                    parity: repairs,
                    resend: repairs,
                });
                (constraints, HostSubscriber::Session(Box::new(session)))
            }
            Attachment::Other {
                constraints,
                detached,
            } => (constraints, HostSubscriber::Other(detached)),
        };
        let role = match self.single_client {
            true => Role::Player,
            false => role,
        };
        self.rendition.subscribe(id, role, constraints, subscriber);
    }

    fn session(&mut self, id: SubscriberId) -> Option<&mut Session<SessionPath>> {
        self.rendition.subscriber(id)?.session()
    }

    pub(super) fn poll_control_event(&mut self) -> Option<ControlEvent> {
        self.rendition.poll_control_event()
    }

    /// The next frame outcome for a subscriber.
    pub(super) fn poll_end(&mut self) -> Option<FrameOutcome> {
        self.rendition.poll_end()
    }

    /// Posts warnings about links that reject datagrams.
    pub(super) fn report_send_errors(&mut self) {
        for (_, subscriber) in self.rendition.subscribers() {
            let error = subscriber
                .session()
                .and_then(|session| session.transmit_path().take_error());
            if let Some(why) = error {
                self.shared.notice(Notice::Warning(why));
            }
        }
    }

    /// The time at which a frame is due even if the picture does not change. Callers ignore it before the first
    /// picture.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.rendition.next_deadline()
    }

    pub(super) fn follow_links(&mut self, look: impl FnMut(SubscriberId) -> Option<LinkState>) {
        self.rendition.follow_links(look);
    }

    /// Announces a picture of `size`. It differs from the previous picture only in the region `changed`; `None` if the
    /// region is unknown.
    pub(super) fn changed(&mut self, size: Size, changed: Option<&Block>) {
        self.damage.add(size, changed);
    }

    /// Records a captured picture that was replaced by a newer one.
    pub(super) fn superseded(&mut self) {
        self.rendition.superseded(clock::now());
    }

    /// Encodes a picture. `fresh` states whether it was just captured. Slices are sent from the encoder's callback.
    /// Returns whether a frame is being sent; see [`Pipeline::send_rest`].
    pub(super) fn frame(&mut self, picture: &Picture<'_>, info: &PictureInfo, fresh: bool) -> bool {
        self.converted &= !fresh;
        if !self.rendition.captured(info.captured, fresh) {
            return false;
        }
        self.echo(info);
        match self.encode(picture) {
            Ok(()) => {
                self.encoder_worked = true;
                true
            }
            Err((stage, why)) if self.falls_back(stage, &why) => {
                // Encode the picture again, as another frame. The software encoder has no fallback itself, so this
                // recursion ends.
                self.frame(picture, info, true)
            }
            Err((stage, why)) => {
                self.fail(stage, why);
                false
            }
        }
    }

    /// If a hardware encoder fails after it has coded frames, and its codec is that of the software encoders, replaces
    /// it with the first software encoder that opens. Then ends the frame and posts one warning. Returns whether the
    /// encoder was replaced.
    fn falls_back(&mut self, stage: Stage, why: &str) -> bool {
        let failed = self.encoding.encoder;
        let same_codec = failed.codec == automatic::software().codec;
        // An error in an earlier stage, such as the conversion, does not come from the encoder.
        let encoded = matches!(stage, Stage::FirstSlice | Stage::Encoded);
        if !(failed.hardware && same_codec && self.encoder_worked && encoded) {
            return false;
        }
        self.close();
        self.rendition.failed(clock::now(), stage);
        self.encoding.options = EncoderOptions::NONE;
        let (size, target) = (self.size, self.rendition.target());
        let mut tried = self.encoding.clone();
        let instead = automatic::replacement(|backend| {
            tried.encoder = backend;
            open(&tried, size, target).is_ok()
        });
        self.encoding.encoder = instead;
        self.shared.notice(Notice::Warning(format!(
            "{} ({}): {why}; the encoder {} replaces it from the next frame on",
            self.id, failed.name, instead.name
        )));
        true
    }

    /// Sends the rest of the frame. If the player's link is busy, returns the time at which the caller must call this
    /// method again.
    pub(super) fn send_rest(&mut self) -> Option<Instant> {
        let waits = self.rendition.end(clock::now());
        if waits.is_none() {
            self.damage.clear(self.size);
            self.last_error = None;
        }
        waits
    }

    /// The newest picture as converted for the encoder, if other renditions can use it as an NV12 picture of `size`.
    pub(super) fn converted(&self, size: Size) -> Option<Picture<'_>> {
        let converted = self.converter.nv12().filter(|_| self.converted);
        converted.filter(|converted| converted.size == size)
    }

    /// Whether the pipeline's encoder accepts NV12 pictures of `size`.
    pub(super) fn takes_nv12(&self, size: Size) -> bool {
        let takes = |encoder: &dyn Encoder| encoder.input_for(PixelFormat::Bgrx);
        let takes = self.encoder.as_deref().map(takes);
        takes == Some(PixelFormat::Nv12) && self.size == size
    }

    fn fail(&mut self, stage: Stage, why: String) {
        // Open a new encoder for the next frame, because this encoder may be the cause.
        self.encoder = None;
        self.rendition.failed(clock::now(), stage);
        // Report the same error of consecutive frames only once.
        if self.last_error.as_ref() != Some(&why) {
            let encoder = self.encoding.encoder.name;
            let text = format!("{} ({encoder}): {why}", self.id);
            self.shared.notice(Notice::Warning(text));
        }
        self.last_error = Some(why);
    }

    /// Sets the input echo: the newest input that the application took before it drew the picture, or otherwise the
    /// newest input that was injected before the capture. Also sets the pose and the drawing times.
    fn echo(&mut self, info: &PictureInfo) {
        // A repeated picture was drawn for an earlier frame, whose record already contains this stage.
        let repeats = self.rendition.repeats();
        if let Some(at) = info.drawn.begun.filter(|_| !repeats) {
            self.rendition.stamp(Stage::RenderBegun, at);
        }
        let pose = info.drawn.pose.map(|posed| {
            let echo = PoseEcho {
                pose: posed.id,
                at: info.drawn.head.unwrap_or(posed.pose),
                display: info.drawn.display.map(|at| PeerInstant(at.0)),
            };
            (posed.subscriber, echo)
        });
        self.rendition.drawn(pose, info.drawn.views);
        let here = |at: Instant| PeerInstant(at.0);
        self.rendition.drawn_at(DrawingTimes {
            predicted: info.drawn.predicted.map(here),
            // The start of the drawing is sent only together with a head pose.
            begun: info.drawn.begun.filter(|_| pose.is_some()).map(here),
        });
        let taken = info.drawn.input.map(|taken| AppliedInput {
            from: taken.from,
            seq: taken.seq,
            kind: EchoKind::Consumed,
            received: taken.received,
            applied: taken.taken,
        });
        let player = self.rendition.player();
        let taken = taken.filter(|taken| player == Some(taken.from));
        if let Some(input) = taken.or(info.injected) {
            self.rendition.applied(&input);
        }
    }

    fn encode(&mut self, picture: &Picture<'_>) -> Result<(), StageError> {
        let size = self.size_of(picture);
        self.open_encoder(size)?;
        let Pipeline {
            rendition,
            encoder,
            converter,
            scaler,
            damage,
            difference,
            ..
        } = self;
        let encoder = encoder.as_mut().ok_or_else(no_encoder)?;
        let scaled = scaler.scale(picture, size).map_err(at(Stage::Converted))?;
        let input = encoder.input_for(scaled.format);
        let converted = converter
            .convert_changed(&scaled, input, damage)
            .map_err(at(Stage::Converted))?;
        self.converted = true;
        // Without references, the size of a frame does not depend on the previous picture.
        let difference = match encoder.memory() {
            0 => None,
            _ => difference.measure(&converted),
        };
        rendition.stamp(Stage::Converted, clock::now());
        if let Some(target) = rendition.new_target() {
            encoder.retarget(target).map_err(at(Stage::FirstSlice))?;
        }
        let changed = |mb: usize| damage.has(mb);
        let known: Option<&dyn Fn(usize) -> bool> = match damage.is_partial(size) {
            true => Some(&changed),
            false => None,
        };
        let begun = rendition.start_frame(clock::now(), known, difference);
        let (plan, fan_out) = begun.ok_or_else(no_encoder)?;
        encode_frame(&mut **encoder, &converted, &plan, fan_out).map_err(at(Stage::Encoded))
    }

    /// The size of a picture in the stream.
    fn size_of(&self, picture: &Picture<'_>) -> Size {
        match self.rendition.constraints().size {
            // Planar pictures are created by this program and are not scaled.
            Some(limit) if picture.format.packed().is_some() => Scaler::fitted(picture.size, limit),
            _ => picture.size,
        }
    }

    /// Opens an encoder for pictures of `size`, unless there is one.
    fn open_encoder(&mut self, size: Size) -> Result<(), StageError> {
        if self.encoder.is_some() && !self.rendition.needs_encoder(size) {
            return Ok(());
        }
        // Close the old encoder first, because a device may support only one.
        self.encoder = None;
        let (encoder, opened) =
            open(&self.encoding, size, self.rendition.target()).map_err(at(Stage::FirstSlice))?;
        self.encoder = Some(encoder);
        self.rendition.encoder_opened(opened);
        self.size = size;
        // Post no notice while an encoder fails repeatedly.
        if self.last_error.is_none() {
            self.shared.notice(Notice::EncoderOpened {
                rendition: self.id,
                encoder: self.encoding.encoder.name.to_owned(),
                size,
            });
        }
        Ok(())
    }
}

/// Adds the failed stage to an error.
fn at<E: std::fmt::Display>(stage: Stage) -> impl Fn(E) -> StageError {
    move |e| (stage, e.to_string())
}

fn no_encoder() -> StageError {
    (Stage::FirstSlice, "no encoder is open".to_owned())
}

/// Encodes a frame. Each slice is forwarded as soon as it is available.
fn encode_frame(
    encoder: &mut dyn Encoder,
    picture: &Picture<'_>,
    plan: &Plan<'_>,
    mut fan_out: FanOut<'_, HostSubscriber>,
) -> Result<(), encode::EncodeError> {
    let request = FrameRequest {
        frame: plan.frame,
        key_frame: plan.is_key(),
        reference: plan.reference,
        refresh: plan.refresh,
        qp: plan.qp,
        part: plan.part.map(|part| MacroblockRange {
            first_mb: part.first_mb,
            mbs: part.mbs,
        }),
        unchanged: plan.unchanged,
    };
    let count = encoder.slices();
    let mut sink = |slice: encode::Slice<'_>| {
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
    let encoded = encoder.encode(picture, &request, &mut sink)?;
    debug_assert!(encoded.key_frame || !request.key_frame);
    Ok(())
}
