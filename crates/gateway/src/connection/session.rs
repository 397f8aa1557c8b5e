//! A playing or observing browser. Forwards its input to the host and the host's updates to the page.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use openuvr_clock as clock;
use openuvr_proto::control::clipboard::{ClipboardPiece, MAX_TEXT, PIECE, SentText};
use openuvr_proto::control::negotiate::{Negotiation, ObserverReason, Role};
use openuvr_proto::host::{InputRefused, SubscribeRequest, SubscriberKind};
use openuvr_proto::id::{FrameId, InputSeq, PoseId, SubscriberId};
use openuvr_proto::input::inbox::{Inbox, ReceivedInput};
use openuvr_proto::input::pad::PadId;
use openuvr_proto::input::pads::Pads;
use openuvr_proto::send::loss::{LinkState, Loss};
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::seq;
use openuvr_proto::trace::Outcome;
use openuvr_proto::wire::control::{Message, Messages, Report};
use openuvr_runtime::host::SoundCodec;
use serde::Deserialize;

use super::pairing::Pairing;
use super::{PageOptions, blocking};
use crate::cursor;
use crate::peer::{Peer, PeerEvent, Sound};
use crate::shared::Shared;
use crate::subscriber::Slices;
use crate::updates::{Updates, ended};
use crate::visitor::Visitor;

/// Interval of clock synchronization with the page.
const CLOCK_INTERVAL: Duration = Duration::from_millis(500);

/// Interval of clock synchronization while keys are held. It is short, because the host stops key repeat after 100 ms
/// without a message.
const CLOCK_WHILE_HOLDING: Duration = Duration::from_millis(25);

/// Time after which a page that sends no messages is disconnected.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// If a call of `Session::turn` is late by this much, the process or its virtual machine was stopped.
const STALL_THRESHOLD: Duration = Duration::from_millis(500);

/// Maximum number of input events that the host has not accepted. If there are more, they are replaced by a release of
/// all keys and buttons, and the page's game pads are announced again.
const MAX_PENDING_INPUT: usize = 1024;

/// Maximum sound payloads queued for the gateway's thread: 80 ms at the usual payload duration.
const SOUND_QUEUE: usize = 16;

/// Delay before the next part of a clipboard text.
const CLIPBOARD_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum requests of a page per second, for roles and pairings.
const REQUESTS_PER_SECOND: u32 = 10;

/// The reason that is reported when a page is disconnected because it does not read its messages.
const UNREAD: &str = "this page does not read the host's messages";

/// First byte of a message that maps the page's event numbers to the host's.
const INPUT_NUMBERS: u8 = 0xf1;

/// A message from the page in [`NOTICE_CHANNEL`](crate::peer::NOTICE_CHANNEL).
#[derive(Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum PageMessage {
    /// Requests another role.
    Role { play: bool, take_over: bool },
    /// The PIN that a client of another service shows, and a name for the client.
    Pair { pin: String, name: Option<String> },
}

pub(super) struct Session {
    shared: Arc<Shared>,
    id: SubscriberId,
    peer: Arc<Peer>,
    updates: Arc<Updates>,
    role: (Role, Option<ObserverReason>),
    /// The highest role that the device may have.
    most: Role,
    inbox: Inbox,
    waiting: VecDeque<ReceivedInput>,
    /// The page's game pads after all waiting events.
    pads: Pads,
    /// The page's newest pose.
    posed: PoseId,
    /// The newest frame that the page reported.
    reported: FrameId,
    clock_at: Instant,
    heard: Instant,
    /// Whether the reliable channel is open.
    notices_open: bool,
    cursor_serial: u32,
    rumble_serial: u32,
    haptic_serial: u32,
    /// Number of the newest controller states.
    held: Option<u32>,
    /// Sound, if the browser accepts it.
    sound: Option<Receiver<Payload>>,
    /// Number of samples forwarded so far. Opus timestamps count samples, independently of clocks.
    samples: u64,
    /// Start of the current second, and the number of requests in it.
    requests: (Instant, u32),
    /// The requested change of role: whether the page wants to be the player, and whether it takes the role over from
    /// another player. The request is sent after the current messages have been handled.
    requested_role: Option<(bool, bool)>,
    /// Clipboard text from the host to the page.
    copied_there: SentText,
    /// Clipboard text from the page to the host.
    copied_here: VecDeque<ClipboardPiece>,
    pairing: Pairing,
}

impl Session {
    /// Subscribes to the host.
    ///
    /// # Errors
    /// The reason, as a message for the user.
    pub(super) fn start(
        shared: &Arc<Shared>,
        peer: &Arc<Peer>,
        visitor: &Visitor,
        page_options: PageOptions,
    ) -> Result<Session, String> {
        let updates = Arc::new(Updates::default());
        let role = match page_options.watch {
            true => Role::Observer,
            false => visitor.most,
        };
        let request = SubscribeRequest {
            codecs: peer.codecs().iter().fold(0, |all, codec| all | codec.bit()),
            kind: SubscriberKind::Browser,
            software: "a browser, over WebRTC".to_owned(),
            constraints: page_options.constraints,
            reports: page_options.reports,
            device: Some(visitor.device),
            ..SubscribeRequest::new(role, &visitor.title)
        };
        let slices = Slices::new(peer.clone(), updates.clone());
        let subscribed = shared.host.subscribe(request, Box::new(slices));
        let (id, grant) = subscribed.map_err(|why| why.to_string())?;
        let sound = peer.takes_sound().then(|| listen(shared, peer));
        Ok(Session {
            shared: shared.clone(),
            id,
            peer: peer.clone(),
            updates,
            most: visitor.most,
            role: (grant.role, grant.observer_reason),
            inbox: Inbox::default(),
            waiting: VecDeque::new(),
            pads: Pads::default(),
            posed: PoseId::default(),
            reported: FrameId::NONE,
            clock_at: Instant::now(),
            heard: Instant::now(),
            notices_open: false,
            cursor_serial: 0,
            rumble_serial: 0,
            haptic_serial: 0,
            held: None,
            sound,
            samples: 0,
            requests: (Instant::now(), 0),
            requested_role: None,
            copied_there: SentText::default(),
            copied_here: VecDeque::new(),
            pairing: Pairing::new(shared.pin_entry.clone()),
        })
    }

    /// Latest time of the next [`Session::turn`].
    pub(super) fn next_turn(&self) -> Instant {
        let copies = self.copied_there.is_due() || !self.copied_here.is_empty();
        match copies {
            true => self.clock_at.min(Instant::now() + CLIPBOARD_INTERVAL),
            false => self.clock_at,
        }
    }

    /// Does the work that is due. Returns the reason if the session ends.
    pub(super) fn turn(&mut self, shared: &Shared) -> Option<String> {
        let now = Instant::now();
        if now.saturating_duration_since(self.clock_at) > STALL_THRESHOLD {
            // This thread has stalled and could not receive messages, so the page's silence does not count.
            self.heard = now;
        }
        self.forward_input(shared);
        self.forward_clipboard(shared);
        self.forward_sound();
        if now >= self.clock_at {
            self.clock_at = now
                + match self.inbox.holds_keys() {
                    true => CLOCK_WHILE_HOLDING,
                    false => CLOCK_INTERVAL,
                };
            let asked = clock::now().0;
            self.send(&[Message::Ping { asked }]);
            // The estimate is resent periodically, because the host forgets it when the player changes.
            if let Some(rate) = self.peer.estimate() {
                shared.host.feedback(self.id, Feedback::Estimate(rate));
            }
            if self.notices_open && !self.pairing.follow(&self.peer, self.role.0 == Role::Player) {
                return Some(UNREAD.to_owned());
            }
        }
        if now.saturating_duration_since(self.heard) > SILENCE_TIMEOUT {
            return Some("timeout: no message from this page".to_owned());
        }
        self.forward_updates()
    }

    pub(super) fn event(&mut self, shared: &Shared, event: PeerEvent) {
        match event {
            PeerEvent::Connected => {}
            PeerEvent::NoticesOpen => {
                self.notices_open = true;
                self.notify_role();
            }
            PeerEvent::KeyFrame => {
                shared.counters.key_frames.add(1);
                let request = Feedback::KeyFrame {
                    // A browser cannot decode without the lost frame. An unknown last good frame makes the host send a
                    // key frame.
                    last_good: FrameId::NONE,
                    newest: FrameId(self.peer.newest.load(Ordering::Acquire)),
                };
                shared.host.feedback(self.id, request);
            }
            PeerEvent::Link { loss, round_trip } => {
                // The timer of `str0m` also triggers this event. Without a report from the browser, `loss` is `None`.
                if loss.is_some() {
                    self.heard = Instant::now();
                    shared.host.on_activity(self.id);
                }
                if let (Some(rate), Some(round_trip)) = (loss, round_trip) {
                    let loss = Loss { rate, run: 1.0 };
                    let link = LinkState { round_trip, loss };
                    shared.host.feedback(self.id, Feedback::Link(link));
                }
            }
            PeerEvent::Estimate(rate) => {
                shared.host.feedback(self.id, Feedback::Estimate(rate));
            }
            PeerEvent::Control(body) => self.control(shared, &body),
            PeerEvent::Notice(_) if !self.may_request() => shared.counters.bad_input.add(1),
            PeerEvent::Notice(text) => match serde_json::from_slice(&text) {
                Ok(PageMessage::Role { play, take_over }) => {
                    self.requested_role = Some((play, take_over))
                }
                Ok(PageMessage::Pair { pin, name }) => {
                    let plays = self.role.0 == Role::Player;
                    if !plays || !self.pairing.enter(&self.peer, pin, name) {
                        shared.counters.bad_input.add(1);
                    }
                }
                Err(_) => shared.counters.bad_input.add(1),
            },
            PeerEvent::NoticeBytes(bytes) => match Negotiation::parse(&bytes) {
                Ok(Some(Negotiation::ClipboardPiece(piece))) => self.copied(shared, piece),
                _ => shared.counters.bad_input.add(1),
            },
        }
    }

    /// Adds a part of a text that was copied at the page. The first part of a text replaces the pending text.
    fn copied(&mut self, shared: &Shared, piece: ClipboardPiece) {
        if piece.offset == 0 {
            self.copied_here.clear();
        }
        if self.role.0 != Role::Player || self.copied_here.len() * PIECE >= MAX_TEXT {
            return shared.counters.bad_input.add(1);
        }
        self.copied_here.push_back(piece);
        self.forward_clipboard(shared);
    }

    /// Forwards as much clipboard text as the host accepts.
    fn forward_clipboard(&mut self, shared: &Shared) {
        while let Some(piece) = self.copied_here.front() {
            match shared.host.clipboard_piece(self.id, piece) {
                Err(InputRefused::Busy) => return,
                Ok(()) | Err(InputRefused::NotPlayer) => self.copied_here.pop_front(),
            };
        }
    }

    /// Handles control messages, which have the same format as the native client's.
    fn control(&mut self, shared: &Shared, body: &[u8]) {
        let heard = clock::now();
        self.heard = Instant::now();
        shared.host.on_activity(self.id);
        for message in Messages::new(body) {
            match message {
                Ok(Message::Input(batch)) => {
                    let events = match self.role.0 {
                        Role::Player => self.inbox.take(&batch),
                        Role::Observer => {
                            self.inbox.skip(&batch);
                            Vec::new()
                        }
                    };
                    events.iter().for_each(|input| self.pads.note(&input.event));
                    self.waiting.extend(events);
                    self.forward_input(shared);
                    if self.inbox.holds_keys() {
                        self.clock_at = self.clock_at.min(Instant::now() + CLOCK_WHILE_HOLDING);
                    }
                    let through = self.inbox.through();
                    self.send(&[Message::InputAcked { through }]);
                }
                Ok(Message::Pose { id, pose, sampled }) => {
                    // If messages were reordered, the newer pose counts.
                    if self.role.0 == Role::Player && seq::newer(id.0, self.posed.0) {
                        self.posed = id;
                        shared.host.submit_pose(self.id, (id, pose), sampled);
                    }
                }
                Ok(Message::Controllers {
                    number,
                    sampled,
                    states,
                }) => {
                    let is_newer = self.held.is_none_or(|held| seq::newer(number, held));
                    if self.role.0 == Role::Player && is_newer {
                        self.held = Some(number);
                        shared.host.submit_controllers(self.id, states, sampled);
                    }
                }
                Ok(Message::Display { number, display }) => {
                    shared.host.submit_display(self.id, (number, display));
                }
                Ok(Message::Report(report)) => self.report(shared, &report),
                Ok(Message::Ping { asked }) => {
                    let here =
                        |at: openuvr_proto::time::Instant| openuvr_proto::time::PeerInstant(at.0);
                    let pong = Message::Pong {
                        asked,
                        received: here(heard),
                        answered: here(clock::now()),
                    };
                    self.send(&[pong]);
                }
                Ok(Message::Pong {
                    asked,
                    received,
                    answered,
                }) => {
                    let exchange = Feedback::Clock {
                        asked: openuvr_proto::time::Instant(asked),
                        received,
                        answered,
                        heard,
                    };
                    shared.host.feedback(self.id, exchange);
                }
                Ok(_) => {}
                Err(_) => shared.counters.bad_input.add(1),
            }
        }
    }

    /// Handles each report once. The page sends the newest reports several times, because messages may be lost.
    fn report(&mut self, shared: &Shared, report: &Report) {
        if report.frame <= self.reported {
            return;
        }
        self.reported = report.frame;
        if let Outcome::Displayed(_) = report.outcome {
            shared.counters.shown.add(1);
        }
        shared.host.feedback(self.id, Feedback::Frame(*report));
    }

    /// Forwards as much input as the host accepts.
    fn forward_input(&mut self, shared: &Shared) {
        if self.waiting.len() > MAX_PENDING_INPUT {
            discard(&mut self.waiting, &self.pads, self.inbox.through());
        }
        let mut newest = None;
        while let Some(next) = self.waiting.front() {
            match shared.host.input(self.id, next.event, next.sampled) {
                Ok(seq) => {
                    shared.counters.input_events.add(1);
                    newest = Some((next.seq, seq));
                }
                Err(InputRefused::Busy) => break,
                Err(InputRefused::NotPlayer) => {}
            }
            self.waiting.pop_front();
        }
        if let Some((InputSeq(theirs), InputSeq(ours))) = newest {
            let mut message = vec![INPUT_NUMBERS];
            message.extend(theirs.to_le_bytes());
            message.extend(ours.to_le_bytes());
            self.peer.send_control(&message);
        }
    }

    fn forward_sound(&mut self) {
        let Some(payloads) = &self.sound else { return };
        for payload in payloads.try_iter().take(SOUND_QUEUE) {
            self.peer.sound(&Sound {
                payload: &payload.bytes,
                captured: payload.captured,
                samples: self.samples,
            });
            self.samples += u64::from(payload.samples);
        }
    }

    /// Whether a request is within the rate limit. Manual clicks stay below the limit.
    fn may_request(&mut self) -> bool {
        let (since, count) = &mut self.requests;
        if since.elapsed() >= Duration::from_secs(1) {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        *count <= REQUESTS_PER_SECOND
    }

    /// Requests the role that the page requested last. A host in another process may take a while to answer.
    pub(super) async fn request_role_change(&mut self) {
        let Some((play, take_over)) = self.requested_role.take() else {
            return;
        };
        let role = match play {
            true => self.most,
            false => Role::Observer,
        };
        let (shared, id) = (self.shared.clone(), self.id);
        let ask = move || shared.host.request_role(id, role, take_over);
        match blocking(ask).await {
            Ok(grant) => self.set_role(grant.role, grant.observer_reason),
            Err(why) => {
                let why = why.to_string();
                let text = serde_json::json!({ "type": "refused", "why": why });
                self.peer.send_notice(&text.to_string());
            }
        }
        self.notify_role();
    }

    fn set_role(&mut self, role: Role, observer_reason: Option<ObserverReason>) {
        self.role = (role, observer_reason);
        if role == Role::Observer {
            self.copied_there.forget();
            self.copied_here.clear();
            // The host has unplugged this page's pads. The page announces them again when it becomes the player.
            self.pads = Pads::default();
        }
    }

    fn notify_role(&self) {
        let (role, observer_reason) = self.role;
        let text = serde_json::json!({
            "type": "role",
            "plays": role == Role::Player,
            "why": observer_reason.map(|why| why.to_string()),
        });
        self.peer.send_notice(&text.to_string());
    }

    /// Forwards the host's updates to the page. Returns the reason if the session ends.
    fn forward_updates(&mut self) -> Option<String> {
        if !self.notices_open {
            // All other updates wait for the channel, which a page may never open.
            return self.updates.ended().map(|reason| ended(reason).to_owned());
        }
        let waiting = self.updates.take();
        // A requested role was already sent in the reply to its request.
        if let Some((role, observer_reason)) = waiting.role
            && (role, observer_reason) != self.role
        {
            self.set_role(role, observer_reason);
            self.notify_role();
        }
        let mut reads = true;
        if let Some(shown) = waiting.shown {
            let text = serde_json::json!({ "type": "shown", "shown": shown });
            reads &= self.peer.send_notice(&text.to_string());
        }
        if let Some(relative) = waiting.relative {
            let text = serde_json::json!({ "type": "relative", "relative": relative });
            reads &= self.peer.send_notice(&text.to_string());
        }
        if let Some(decision) = waiting.decision {
            let text = serde_json::json!({ "type": "decision", "words": decision });
            reads &= self.peer.send_notice(&text.to_string());
        }
        if let Some(shape) = waiting.shape {
            reads &= self.peer.send_notice_bytes(&cursor::message(&shape));
        }
        if let Some(ways) = waiting.ways {
            let ways = Negotiation::ClipboardDirections(ways).to_bytes();
            reads &= self.peer.send_notice_bytes(&ways);
        }
        if let Some(text) = waiting.clipboard
            && self.role.0 == Role::Player
        {
            self.copied_there.start(text);
        }
        while let Some(piece) = self.copied_there.piece()
            && reads
            && self.peer.is_read()
        {
            reads &= (self.peer).send_notice_bytes(&Negotiation::ClipboardPiece(piece).to_bytes());
            self.copied_there.mark_sent();
        }
        if let Some(at) = waiting.moved {
            self.cursor_serial = self.cursor_serial.wrapping_add(1);
            let serial = self.cursor_serial;
            self.send(&[Message::CursorMoved { serial, at }]);
        }
        for pad in PadId::all() {
            if let Some((rumble, millis)) = waiting.rumbles[pad.index()] {
                self.rumble_serial = self.rumble_serial.wrapping_add(1);
                let serial = self.rumble_serial;
                self.send(&[Message::Rumble {
                    serial,
                    pad,
                    rumble,
                    millis,
                }]);
            }
        }
        for haptic in waiting.haptics.into_iter().flatten() {
            self.haptic_serial = self.haptic_serial.wrapping_add(1);
            let serial = self.haptic_serial;
            self.send(&[Message::Haptic { serial, haptic }]);
        }
        if let Some(reason) = waiting.ended {
            return Some(ended(reason).to_owned());
        }
        (!reads).then(|| UNREAD.to_owned())
    }

    fn send(&self, messages: &[Message<'_>]) {
        let mut body = Vec::new();
        messages.iter().for_each(|message| message.write(&mut body));
        self.peer.send_control(&body);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.host.unsubscribe(self.id);
    }
}

/// Replaces the waiting events with a release of all input and the changes of the game pads ([`Pads::replacing`]). All
/// new events get the number `seq`.
fn discard(waiting: &mut VecDeque<ReceivedInput>, pads: &Pads, seq: InputSeq) {
    let Some(sampled) = waiting.back().map(|newest| newest.sampled) else {
        return;
    };
    let events = pads.replacing(waiting.iter().map(|input| &input.event));
    let events = events.into_iter().map(|event| ReceivedInput {
        seq,
        event,
        sampled,
    });
    *waiting = events.collect();
}

/// A sound payload from the audio thread, which must not block.
struct Payload {
    captured: openuvr_proto::time::Instant,
    samples: u16,
    bytes: Vec<u8>,
}

/// Queues the host's sound for the browser until the returned receiver is dropped.
fn listen(shared: &Shared, peer: &Arc<Peer>) -> Receiver<Payload> {
    let (hand_over, payloads) = sync_channel(SOUND_QUEUE);
    let peer = peer.clone();
    let listener = Box::new(move |payload: &openuvr_runtime::host::Payload<'_>| {
        let payload = Payload {
            captured: payload.captured,
            samples: payload.samples,
            bytes: payload.bytes.to_vec(),
        };
        // If the queue is full, the payload is dropped, and the browser conceals the loss.
        let gone = matches!(
            hand_over.try_send(payload),
            Err(TrySendError::Disconnected(_))
        );
        peer.woken.notify_one();
        !gone
    });
    shared.host.listen(SoundCodec::Opus, listener);
    payloads
}

#[cfg(test)]
mod tests {
    use openuvr_proto::input::event::InputEvent;
    use openuvr_proto::input::pad::{PadIdentity, PadName};
    use openuvr_proto::time::PeerInstant;

    use super::*;

    #[test]
    fn pads_are_not_lost_with_discarded_input() {
        let [gone, pad] = [0, 1].map(|number| PadId::new(number).unwrap());
        let identity = PadIdentity {
            name: PadName::new("a"),
            vendor: 1,
            product: 2,
            buttons: 0x1_ffff,
            sticks: [true; 2],
            rumbles: false,
        };
        let connected = InputEvent::PadConnected { pad, identity };
        let disconnected = InputEvent::PadDisconnected { pad: gone };
        let wheel = InputEvent::Wheel { dx: 0, dy: 1 };
        let input = |seq, event| ReceivedInput {
            seq: InputSeq(seq),
            event,
            sampled: PeerInstant(i64::from(seq)),
        };
        let mut waiting: VecDeque<_> =
            [input(1, connected), input(2, disconnected), input(3, wheel)].into();
        let mut pads = Pads::default();
        waiting.iter().for_each(|input| pads.note(&input.event));
        discard(&mut waiting, &pads, InputSeq(3));
        let expected = [InputEvent::ReleaseAll, disconnected, connected];
        assert_eq!(waiting, expected.map(|event| input(3, event)));
    }
}
