//! The media thread: one frame at a time from the capture to the link, slice by slice.

mod destination;
mod encoder;

use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use openuvr_media::capture::{Capture, CaptureEvent};
use openuvr_media::codec::Codec;
use openuvr_media::convert::{Converter, Scaler};
use openuvr_media::damage::Damage;
use openuvr_media::encode::{self, Ask, Encoder, Part, Pixels};
use openuvr_proto::control::negotiate::{Role, Wishes};
use openuvr_proto::host::SentFrame;
use openuvr_proto::id::{ConfigEpoch, FrameId, InputSeq, SessionId};
use openuvr_proto::send::congestion::Range;
use openuvr_proto::send::packetize::SendBuf;
use openuvr_proto::send::policy::{
    Next, Policy, Recovery, Settings as PolicySettings, TRANSPORT_HEADERS,
};
use openuvr_proto::send::rate::RateControl;
use openuvr_proto::send::top_up::TopUp;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, FrameCost, Stage, Stamps};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::{Configuration, EchoKind, FrameHeader, InputEcho};

use self::destination::{Destination, Sent, send_slices};
pub(super) use self::encoder::open;
use super::{Injected, Notice, Order, Rendition, Shared};
use crate::clock;

/// After a frame that failed, a picture that does not move is tried again this much later (guess).
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// A picture that was held back is tried again this much later, a third of a frame (guess).
const HELD_LOOK: Duration = Duration::from_millis(5);

/// The values of `Configuration::colour`.
const BT709_LIMITED: u8 = 1;
const RGB_FULL: u8 = 2;

pub(super) struct Media {
    shared: Arc<Shared>,
    capture: Box<dyn Capture>,
    orders: Receiver<Order>,
    rendition: Rendition,
    destinations: Vec<Destination>,
    encoder: Option<Box<dyn Encoder>>,
    codec: u8,
    converter: Converter,
    scaler: Scaler,
    buffer: SendBuf,
    policy: Policy,
    /// The quantisers that meet the policy's target, and that target.
    rate: RateControl,
    target: Bitrate,
    epoch: ConfigEpoch,
    size: Size,
    frame: FrameId,
    /// The newest picture was held back: it is due although nothing moves.
    held: bool,
    last_frame_at: Instant,
    /// The newest frame that was coded.
    coded: FrameId,
    /// What of the picture has changed since then.
    damage: Damage,
    /// Which macroblocks of the frame that is coded are not looked at.
    unchanged: Vec<bool>,
    /// What is done to a picture that stands still.
    top_up: TopUp,
    last_echo: InputSeq,
    player: Option<SessionId>,
    /// What the player wants of the video, and between what the rate varies without that.
    wishes: Wishes,
    allowed: Range,
    /// When the last frame failed and why, if it did.
    trouble: Option<(Instant, String)>,
}

impl Media {
    pub(super) fn new(
        shared: Arc<Shared>,
        capture: Box<dyn Capture>,
        converter: Converter,
        rendition: Rendition,
        orders: Receiver<Order>,
    ) -> Media {
        let policy = Policy::new(PolicySettings {
            fps: rendition.fps,
            range: rendition.range,
            adaptive: rendition.adaptive,
            recovery: rendition.recovery,
            key_frame_every: rendition.key_frame_every,
        });
        let target = policy.target();
        let allowed = rendition.range;
        let rate = RateControl::new(target, rendition.fps);
        Media {
            codec: super::codec_of(&rendition.encoder).unwrap_or_default(),
            shared,
            capture,
            orders,
            rendition,
            destinations: Vec::new(),
            encoder: None,
            converter,
            scaler: Scaler::default(),
            buffer: SendBuf::default(),
            policy,
            rate,
            target,
            epoch: ConfigEpoch(0),
            size: Size::default(),
            frame: FrameId::NONE,
            held: false,
            last_frame_at: clock::now(),
            coded: FrameId::NONE,
            damage: Damage::default(),
            unchanged: Vec::new(),
            top_up: TopUp::default(),
            last_echo: InputSeq::default(),
            player: None,
            wishes: Wishes::default(),
            allowed,
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
        for order in self.orders.try_iter().take(super::ORDERS) {
            let place = |d: &[Destination], id| d.iter().position(|d| d.session == id);
            match order {
                Order::Add {
                    session,
                    path,
                    role,
                    wishes,
                    media,
                } => {
                    self.policy.join(role);
                    let new = Destination::new(session, path, role, wishes, media);
                    self.destinations.push(new);
                }
                Order::Role(session, role) => {
                    if let Some(i) = place(&self.destinations, session) {
                        self.destinations[i].role = role;
                    }
                }
                Order::Path(session, path) => {
                    if let Some(i) = place(&self.destinations, session) {
                        self.destinations[i].path = path;
                        if self.player == Some(session) {
                            self.policy.path_changed();
                        }
                    }
                }
                Order::Remove(session) => self.destinations.retain(|d| d.session != session),
                Order::KeyFrame(role, last_good, newest) => {
                    self.policy.wish(role, last_good, newest);
                }
                Order::Heard(record) => {
                    if self.player == Some(record.session) {
                        self.policy.heard(clock::now(), &record);
                    }
                }
                Order::Resend(session, request) => {
                    if let Some(i) = place(&self.destinations, session) {
                        let (buffer, link) = (&mut self.buffer, self.shared.link.as_ref());
                        self.destinations[i].send_again(&request, buffer, link);
                    }
                }
            }
        }
        let player = self.destinations.iter().find(|d| d.role == Role::Player);
        let (player, wishes) =
            player.map_or((None, Wishes::default()), |d| (Some(d.session), d.wishes));
        let highest = Bitrate(self.shared.highest.swap(0, Ordering::Relaxed));
        if highest != Bitrate(0) {
            self.allowed = self.allowed.up_to(highest);
        }
        let before = std::mem::replace(&mut self.wishes, wishes);
        if highest != Bitrate(0) || before.bitrate != wishes.bitrate {
            self.policy.set_range(self.allowed.wished(wishes.bitrate));
        }
        if player != self.player {
            // The next player counts its input anew, and has another link.
            self.player = player;
            self.policy.player_changed();
            self.last_echo = InputSeq::default();
            let injected = self.shared.injected.lock();
            *injected.unwrap_or_else(PoisonError::into_inner) = Injected::default();
        }
        self.capture.set_watched(!self.destinations.is_empty());
        // The player's datagrams leave first.
        self.destinations.sort_by_key(|d| d.role == Role::Observer);
        self.tell_decisions();
    }

    fn tell_decisions(&mut self) {
        let mut newest = None;
        while let Some(decision) = self.policy.poll_decision() {
            self.shared.notice(Notice::Decision(decision));
            newest = Some(decision);
        }
        if let Some(decision) = newest {
            let mut sessions = self.shared.sessions();
            sessions.decided(&decision.to_string());
            self.shared.flush(&mut sessions);
        }
    }

    /// What is done against the losses that the clients report.
    fn protect(&mut self) {
        let now = clock::now();
        let interval = self.rendition.interval();
        let sessions = self.shared.sessions();
        for d in &mut self.destinations {
            let Some(link) = sessions.link(now, d.session) else {
                continue;
            };
            d.protection.follow(&link, interval);
            d.media.protect(&d.protection);
            // The policy knows the player's link only.
            let player = d.role == Role::Player;
            d.capacity = self.policy.capacity().filter(|_| player);
            if player {
                self.policy.protected(&d.protection, &link);
            }
        }
    }

    /// When a frame is due although nothing moves.
    fn next_deadline(&self) -> Option<Instant> {
        if self.destinations.is_empty() || self.capture.picture().is_none() {
            return None;
        }
        let top_up = self.top_up.due(self.policy.target());
        let top_up = top_up.filter(|_| self.rendition.top_up);
        let due = if self.held {
            // Whatever else is due would be held back too, and be due again at once.
            self.last_frame_at + HELD_LOOK
        } else {
            self.policy.due().into_iter().chain(top_up).min()?
        };
        // Trouble that stays would otherwise be met again at once, without an end.
        let calm = self.trouble.as_ref().map(|(since, _)| *since + TRY_AGAIN);
        Some(calm.map_or(due, |calm| due.max(calm)))
    }

    /// Sends the newest picture, which has just been captured, if it is `news`. Otherwise it was
    /// sent before, or was held back: such a one is new to everybody, and on a full link it must
    /// not be taken for a picture that stands still, and be coded better and better.
    fn frame(&mut self, news: bool) {
        let captured = clock::now();
        let mut stamps = Stamps::default();
        stamps.stamp(Stage::Captured, captured);
        self.take_orders();
        if self.destinations.is_empty() {
            return;
        }
        let round_trip = self.shared.sessions().round_trip().unwrap_or_default();
        self.policy.set_round_trip(round_trip);
        let held = self.policy.held_until(captured);
        if let Some(until) = held.filter(|_| !news && !self.held)
            && self.policy.due().is_none_or(|at| at > captured)
        {
            // Only an improvement is due, which takes what room the link has left.
            self.top_up.wait(until.max(captured + HELD_LOOK));
            self.tell_decisions();
            return;
        }
        let again = std::mem::replace(&mut self.held, held.is_some());
        if self.held && again && !news {
            // It is in the books already.
            self.last_frame_at = captured;
            return;
        }
        let still = !again && !news;
        self.frame = self.frame.next();
        if self.held {
            self.last_frame_at = captured;
            self.drop_frame(&stamps, Stage::Converted, DropCause::HeldBack);
            self.tell_decisions();
            return;
        }
        let echo = self.echo(&mut stamps);
        let outcome = self.encode(still, echo, &mut stamps);
        self.last_frame_at = captured;
        let Err((stage, why)) = outcome else {
            self.trouble = None;
            return;
        };
        // A new encoder for the next frame: this one may be the trouble.
        self.encoder = None;
        // Said once, however many frames it takes.
        let news = self
            .trouble
            .as_ref()
            .is_none_or(|(_, before)| *before != why);
        if news {
            self.shared.notice(Notice::Trouble(why.clone()));
        }
        self.trouble = Some((captured, why));
        self.policy.failed();
        self.drop_frame(&stamps, stage, DropCause::EncodeFailed);
    }

    /// The newest frame ends here for everybody.
    fn drop_frame(&self, stamps: &Stamps, stage: Stage, why: DropCause) {
        let mut sessions = self.shared.sessions();
        for d in self.destinations.iter().filter(|d| d.started) {
            sessions.frame_dropped(clock::now(), d.session, self.frame, *stamps, stage, why);
        }
        self.shared.flush(&mut sessions);
    }

    /// The newest input that was injected before this frame was captured, or that the application
    /// says it had taken before it drew it.
    fn echo(&mut self, stamps: &mut Stamps) -> InputEcho {
        let drawn = self.capture.drawn();
        if let Some(at) = drawn.begun {
            stamps.stamp(Stage::RenderBegun, at);
        }
        // What a player before this one did is counted otherwise.
        let taken = (drawn.input).filter(|taken| self.player == Some(taken.session));
        if let Some(taken) = taken {
            if taken.seq != self.last_echo {
                stamps.stamp(Stage::InputReceived, taken.received);
                stamps.stamp(Stage::InputConsumed, taken.taken);
                self.last_echo = taken.seq;
            }
            return InputEcho {
                seq: taken.seq,
                kind: EchoKind::Consumed,
            };
        }
        let newest = *self
            .shared
            .injected
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if newest.seq == InputSeq::default() {
            return InputEcho::default();
        }
        if newest.seq != self.last_echo {
            stamps.stamp(Stage::InputReceived, newest.received);
            stamps.stamp(Stage::InputInjected, newest.injected);
            self.last_echo = newest.seq;
        }
        InputEcho {
            seq: newest.seq,
            kind: EchoKind::Injected,
        }
    }

    fn encode(
        &mut self,
        still: bool,
        echo: InputEcho,
        stamps: &mut Stamps,
    ) -> Result<(), (Stage, String)> {
        self.protect();
        let Some(picture) = self.capture.picture() else {
            return Ok(());
        };
        let fail = |stage| move |e: &dyn std::fmt::Display| (stage, e.to_string());
        let picture = match self.wishes.size {
            // What is not packed was made by this program itself.
            Some(limit) if picture.format.packed().is_some() => {
                let size = Scaler::fitted(picture.size, limit);
                let scaled = self.scaler.scale(&picture, size);
                scaled.map_err(|e| fail(Stage::Converted)(&e))?
            }
            _ => picture,
        };
        let opened = self.encoder.is_none() || picture.size != self.size;
        if opened {
            let resized = picture.size != self.size;
            self.encoder = Some(
                open(&self.rendition, picture.size, self.target)
                    .map_err(|e| fail(Stage::FirstSlice)(&e))?,
            );
            self.epoch = ConfigEpoch(self.epoch.0.wrapping_add(1));
            self.size = picture.size;
            if resized {
                self.shared.notice(Notice::Resized(picture.size));
            }
        }
        let Some(encoder) = self.encoder.as_mut() else {
            return Ok(());
        };
        if opened {
            let memory = encoder.memory();
            self.policy.encoder_opened(memory);
            // Where no frame refers to another none takes more than others.
            let key_every = self.rendition.key_frame_every.filter(|_| memory > 0);
            self.rate.opened(picture.size, key_every);
            let mbs = match encode::find(&self.rendition.encoder).map(|backend| backend.codec) {
                // They have no quantiser: what they send is as good as it gets.
                Ok(Codec::Raw | Codec::Null) => 0,
                _ => encode::macroblocks(picture.size).map_or(1, |(columns, rows)| columns * rows),
            };
            self.top_up.opened(mbs, encoder.codes_parts());
            self.coded = FrameId::NONE;
        }
        let input = encoder.input_for(picture.format);
        let picture = (self.converter)
            .convert_changed(&picture, input, &self.damage)
            .map_err(|e| fail(Stage::Converted)(&e))?;
        stamps.stamp(Stage::Converted, clock::now());

        let target = self.policy.target();
        if target != self.target {
            self.target = target;
            self.rate.retarget(target, self.rendition.fps);
            encoder
                .retarget(target)
                .map_err(|e| fail(Stage::FirstSlice)(&e))?;
        }
        // From here on a wish is for another frame than this one.
        let (reference, refresh) = match self.policy.next(clock::now(), self.frame) {
            Next::Key => (FrameId::NONE, false),
            Next::After(reference) => (reference, false),
            Next::Refresh(reference) => (reference, true),
        };
        let key_frame = reference == FrameId::NONE;
        // Where no frame refers to another none is worth more than others.
        let intra = encoder.memory() == 0;
        let follows = reference == self.coded && !key_frame;
        let may_improve = self.rendition.top_up && still && (intra || follows);
        let improvement = match self.top_up.due(target) {
            Some(at) if may_improve && at <= clock::now() => self.top_up.next(target),
            _ => None,
        };
        let qp = match improvement {
            Some(improvement) => improvement.qp,
            None if still && intra => self.top_up.worst(),
            None => self.rate.qp(key_frame && !intra),
        };
        // A wave of intra blocks codes what has not changed, too.
        let waves = self.rendition.recovery == Recovery::Refresh;
        let partly =
            follows && improvement.is_none() && !waves && self.damage.is_partial(self.size);
        let back = !(key_frame || follows || waves) && self.damage.is_partial(self.size);
        if partly {
            (self.top_up).mark(qp, &mut self.unchanged, |mb| self.damage.has(mb));
        } else if back {
            (self.top_up).mark_back(reference, &mut self.unchanged, |mb| self.damage.has(mb));
        }
        let header = FrameHeader {
            frame: self.frame,
            reference,
            epoch: self.epoch,
            stream: 0,
            view: 0,
            captured: stamps.at(Stage::Captured).map_or(0, |at| at.0),
            clock_epoch: 0,
            echo,
        };
        let configuration = key_frame.then_some(Configuration {
            size: self.size,
            codec: self.codec,
            colour: match self.rendition.pixels {
                Some(Pixels::Rgb444) => RGB_FULL,
                _ => BT709_LIMITED,
            },
            fps: self.rendition.whole_fps(),
        });
        for d in &mut self.destinations {
            d.started |= key_frame;
            d.sent = Sent::default();
            d.pacer.begin();
        }
        let ask = Ask {
            frame: self.frame,
            key_frame,
            reference,
            refresh,
            qp,
            part: improvement
                .filter(|_| encoder.codes_parts())
                .map(|it| Part {
                    first_mb: it.first_mb,
                    mbs: it.mbs,
                }),
            unchanged: partly.then_some(&self.unchanged),
        };
        let count = encoder.slices();
        let interval = self.rendition.interval();
        let encoded = send_slices(
            encoder.as_mut(),
            &picture,
            &ask,
            count,
            (&header, configuration),
            &mut self.destinations,
            &mut self.buffer,
            self.shared.link.as_ref(),
            interval,
            stamps,
        )
        .map_err(|e| fail(Stage::Encoded)(&e))?;
        debug_assert!(encoded.key_frame || !key_frame);
        stamps.stamp(Stage::Encoded, clock::now());
        if let Some(frames) = encoded.clean_after {
            self.policy.wave_began(self.frame, frames);
        }
        for d in self.destinations.iter_mut().filter(|d| d.started) {
            d.send_parity(&mut self.buffer, self.shared.link.as_ref());
        }
        let bits = self.finish(*stamps, key_frame, qp, still);
        self.coded = self.frame;
        self.damage.clear(self.size);
        let now = clock::now();
        match improvement {
            Some(done) => (self.top_up).improved(now, self.frame, &done, bits, target, interval),
            None if partly || back => {
                (self.top_up).coded_in_part(now, self.frame, qp, bits, &self.unchanged);
            }
            None => self.top_up.coded(now, self.frame, qp, bits),
        }
        Ok(())
    }

    /// Tells the ledgers and the rate control what left; its bits.
    fn finish(&mut self, stamps: Stamps, key_frame: bool, qp: u8, still: bool) -> u64 {
        let now = clock::now();
        let mut bits = 0;
        if let Some(d) = self.destinations.iter().find(|d| d.started) {
            let bytes = d.sent.bytes + d.sent.datagrams * TRANSPORT_HEADERS + d.again;
            bits = u64::from(bytes) * 8;
            let intra = self.encoder.as_ref().is_some_and(|e| e.memory() == 0);
            let dear = key_frame && !intra;
            if !still || dear {
                self.rate.coded(dear, qp, bits);
            }
        }
        let player = self.destinations.iter().find(|d| d.role == Role::Player);
        let to_player = player.filter(|d| d.started && d.sent.first.is_some());
        let bytes = to_player.map(|d| d.sent.bytes + d.sent.datagrams * TRANSPORT_HEADERS);
        self.policy.sent(now, self.frame, bytes);
        if player.is_some() && bytes.is_none() {
            self.policy.unsent(self.frame);
        }
        let mut sessions = self.shared.sessions();
        for d in self.destinations.iter_mut().filter(|d| d.started) {
            d.again = 0;
            if let Some((why, told)) = &mut d.refused
                && !std::mem::replace(told, true)
            {
                self.shared.notice(Notice::Trouble(why.clone()));
            }
            let mut stamps = stamps;
            if let Some(at) = d.sent.first {
                stamps.stamp(Stage::FirstSent, at);
            }
            if let Some(at) = d.sent.last {
                stamps.stamp(Stage::LastSent, at);
            }
            let cost = FrameCost {
                key_frame,
                qp,
                datagrams: d.sent.datagrams,
                parity: d.sent.parity,
                bytes: d.sent.bytes,
            };
            if d.sent.overflowed && d.sent.first.is_none() {
                let (stage, why) = (Stage::FirstSent, DropCause::SendBufferFull);
                sessions.frame_dropped(now, d.session, self.frame, stamps, stage, why);
            } else {
                sessions.frame_sent(
                    now,
                    d.session,
                    SentFrame {
                        frame: self.frame,
                        stamps,
                        cost,
                    },
                );
            }
        }
        self.shared.flush(&mut sessions);
        bits
    }
}
