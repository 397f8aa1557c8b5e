//! A subscription to a host in another process: its connection, and the thread that calls its subscriber.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_ipc::gateway_message::GatewayMessage;
use openuvr_ipc::host_message::{HostMessage, MAX_SLICE};
use openuvr_proto::control::clipboard::ClipboardPiece;
use openuvr_proto::control::negotiate::{Refusal, Role};
use openuvr_proto::host::{Grant, InputRefused};
use openuvr_proto::id::{FrameId, InputSeq};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::send::key_frame::OBSERVER_BUDGET;
use openuvr_proto::send::subscriber::{Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;

use super::channel::{Channel, ReceiveError, SendError};
use crate::lock::lock;

/// Timeout for an answer of the application. The answer costs little, but the application's threads may be preempted.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Retry interval for a message while the send buffer is full.
const SEND_RETRY: Duration = Duration::from_millis(5);

/// Retry interval for a key-frame request: the minimum interval between two key frames for observers
/// (`proto::send::key_frame`).
const KEY_FRAME_RETRY: Duration = OBSERVER_BUDGET;

/// State shared by the caller and the subscription's thread.
pub(super) struct Subscription {
    channel: Arc<Channel>,
    plays: AtomicBool,
    /// Number of the newest input event. The host counts the events in the same way.
    input: AtomicU32,
    /// Answers to role requests.
    answers: Mutex<Receiver<Result<Grant, Refusal>>>,
}

/// State of the subscription's thread.
pub(super) struct Calls {
    subscription: Arc<Subscription>,
    answer: SyncSender<Result<Grant, Refusal>>,
    subscriber: Box<dyn Subscriber>,
    /// The frame in progress.
    open: Option<FrameId>,
    /// The lowest valid index of the next slice of that frame, and the bytes received.
    progress: (u16, usize),
    needs_key_frame: bool,
    /// When a key frame was last requested.
    requested: Instant,
    over: bool,
}

impl Subscription {
    /// Creates a granted subscription, and the state for its thread.
    pub(super) fn new(
        channel: Arc<Channel>,
        grant: Grant,
        subscriber: Box<dyn Subscriber>,
    ) -> (Arc<Subscription>, Calls) {
        let (answer, answers) = sync_channel(1);
        let subscription = Arc::new(Subscription {
            channel,
            plays: AtomicBool::new(grant.role == Role::Player),
            input: AtomicU32::new(0),
            answers: Mutex::new(answers),
        });
        let calls = Calls {
            subscription: subscription.clone(),
            answer,
            subscriber,
            open: None,
            progress: (0, 0),
            needs_key_frame: false,
            requested: Instant::default(),
            over: false,
        };
        (subscription, calls)
    }

    pub(super) fn close(&self) {
        self.channel.close();
    }

    pub(super) fn send(&self, message: &GatewayMessage) {
        // The message is lost if the send buffer is full. The caller repeats each message that is essential.
        let _ = self.channel.offer(message, &[]);
    }

    pub(super) fn input(
        &self,
        event: InputEvent,
        sampled: PeerInstant,
    ) -> Result<InputSeq, InputRefused> {
        if !self.plays.load(Ordering::Acquire) {
            return Err(InputRefused::NotPlayer);
        }
        let message = GatewayMessage::Input(event, sampled);
        match self.channel.offer(&message, &[]) {
            Ok(()) => {
                let next = |number: u32| number.wrapping_add(1).max(1);
                let before = self.input.load(Ordering::Relaxed);
                self.input.store(next(before), Ordering::Relaxed);
                Ok(InputSeq(next(before)))
            }
            Err(SendError::Full) => Err(InputRefused::Busy),
            Err(SendError::Gone) => Err(InputRefused::NotPlayer),
        }
    }

    pub(super) fn clipboard_piece(&self, piece: &ClipboardPiece) -> Result<(), InputRefused> {
        let message = GatewayMessage::ClipboardPiece(piece.clone());
        self.channel.offer(&message, &[]).map_err(|why| match why {
            SendError::Full => InputRefused::Busy,
            SendError::Gone => InputRefused::NotPlayer,
        })
    }

    pub(super) fn request_role(&self, role: Role, take_over: bool) -> Result<Grant, Refusal> {
        let answers = lock(&self.answers);
        // Discards a late answer to an earlier request.
        while answers.try_recv().is_ok() {}
        let message = GatewayMessage::Role { role, take_over };
        let until = clock::now() + ANSWER_TIMEOUT;
        // `offer` is retried until there is room, because `send` would block the other senders in the meantime.
        while self.channel.offer(&message, &[]) == Err(SendError::Full) && clock::now() < until {
            std::thread::sleep(SEND_RETRY);
        }
        let answer = answers.recv_timeout(ANSWER_TIMEOUT);
        // Without an answer, the host counts as full. The application may be stopped.
        let grant = answer.unwrap_or(Err(Refusal::Full))?;
        self.plays
            .store(grant.role == Role::Player, Ordering::Release);
        Ok(grant)
    }
}

impl Calls {
    /// Runs until the connection ends, then notifies the subscriber of the end unless the host has already done so.
    pub(super) fn run(mut self) {
        let channel = self.subscription.channel.clone();
        while !self.over {
            match channel.receive() {
                Ok((message, payload)) => self.call(message, &payload),
                Err(ReceiveError::Gone) => break,
                Err(why) => {
                    tracing::debug!("invalid message from the application's host: {why}");
                    break;
                }
            }
        }
        channel.close();
        if !self.over {
            let ended = Update::Ended(GoodbyeReason::SourceEnded);
            self.subscriber.update(clock::now(), ended);
        }
    }

    fn call(&mut self, message: HostMessage, bytes: &[u8]) {
        let subscriber = &mut self.subscriber;
        match message {
            HostMessage::Begin(now, frame) => {
                let name = frame.header.frame;
                self.retry_key_frame(now, &frame);
                let subscriber = &mut self.subscriber;
                if let Some(cut_off) = self.open.take() {
                    let (stage, why) = (Stage::FirstSent, DropCause::SendBufferFull);
                    subscriber.dropped(now, cut_off, stage, why);
                }
                self.needs_key_frame &= !frame.header.is_key();
                if self.needs_key_frame {
                    let (stage, why) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);
                    subscriber.dropped(now, name, stage, why);
                } else {
                    self.open = Some(name);
                    self.progress = (0, 0);
                    subscriber.start_frame(now, &frame);
                }
            }
            HostMessage::Slice(now, place, clean_after) if self.open.is_some() => {
                let (next, all) = self.progress;
                self.progress = (u16::from(place.index) + 1, all + bytes.len());
                if u16::from(place.index) < next || self.progress.1 > MAX_SLICE {
                    // A protocol violation: the memory of a frame must stay bounded.
                    return self.subscription.close();
                }
                subscriber.slice(
                    now,
                    &Slice {
                        place,
                        clean_after,
                        bytes,
                    },
                );
            }
            HostMessage::End(_) => {
                if let Some(frame) = self.open.take() {
                    self.end(frame);
                }
            }
            HostMessage::Dropped(now, frame, stage, why) => {
                self.open.take_if(|open| *open == frame);
                subscriber.dropped(now, frame, stage, why);
            }
            HostMessage::Update(update) => {
                self.over = matches!(update, Update::Ended(_));
                if let Update::Role { role, .. } = update {
                    let plays = role == Role::Player;
                    (self.subscription.plays).store(plays, Ordering::Release);
                }
                subscriber.update(clock::now(), update);
            }
            HostMessage::Granted(grant) => drop(self.answer.try_send(Ok(grant))),
            HostMessage::Refused(why) => drop(self.answer.try_send(Err(why))),
            // Other messages do not belong to a subscription.
            _ => {}
        }
    }

    fn end(&mut self, frame: FrameId) {
        loop {
            match self.subscriber.end(clock::now()) {
                Progress::Sent(_) => return,
                Progress::Deferred(at) => std::thread::sleep(at.since(clock::now())),
                Progress::Missed => {
                    self.needs_key_frame = true;
                    self.request_key_frame(clock::now(), frame);
                    return;
                }
            }
        }
    }

    fn request_key_frame(&mut self, now: Instant, newest: FrameId) {
        self.requested = now;
        let last_good = FrameId::NONE;
        let request = Feedback::KeyFrame { last_good, newest };
        self.subscription.send(&GatewayMessage::Feedback(request));
    }

    /// Repeats the key-frame request while frames depend on a missed one, because the request may have been lost in a
    /// full send buffer.
    fn retry_key_frame(&mut self, now: Instant, frame: &Frame) {
        if self.needs_key_frame
            && !frame.header.is_key()
            && now.since(self.requested) >= KEY_FRAME_RETRY
        {
            self.request_key_frame(now, frame.header.frame);
        }
    }
}
