//! Subscribers beside the sessions: a browser, a player of another protocol, a recorder, a test. Each takes
//! its frames in a thread of its own, so that one which blocks, is slow or panics holds up nobody: what it
//! can't take in time it misses, up to the next key frame.
//!
//! What it is told besides ([`Update`]) comes by a call of the same
//! thread, and not by a stream of its own: a gateway passes pointer, role and frames on to one
//! connection, in one order, and needs no second thread and no lock for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_media::capture::Waker;
use openuvr_proto::control::negotiate::{Refusal, Role};
use openuvr_proto::host::{Ending, Grant, Host, InputRefused, SubscribeRequest};
use openuvr_proto::id::{FrameId, InputSeq, SubscriberId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::{MAX_SLICES, SlicePlace};

use super::{HostRuntime, Notice, Order, Shared};
use crate::clock;
use crate::sched;

/// Frames that it may have in hand: one that it works on, and one that waits.
const FRAMES: u32 = 2;

/// Calls that may wait for it: those of the frames in hand …
const CALLS: usize = FRAMES as usize * (MAX_SLICES as usize + 2);

/// … and of as many frames that ended before they began. One that is further behind is not told of each.
const DROPS: usize = CALLS;

/// Why nobody was subscribed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The host refuses, by the rules that hold for every client.
    #[error("{0}")]
    Refused(Refusal),
    /// The host has stopped.
    #[error("the host has stopped")]
    Stopped,
    /// The system gives no thread.
    #[error("can't start a thread: {0}")]
    Thread(String),
}

impl HostRuntime {
    /// From the next key frame on, which comes soon, `subscriber` takes the frames of this host, in a
    /// thread of its own; [`Progress::Waits`] is slept through there. Its name in further calls, and the
    /// role that it was granted: by the same rules as sessions, which also say who has the role later.
    ///
    /// # Errors
    /// [`SubscribeError`]; nothing has changed then.
    pub fn subscribe(
        &self,
        request: SubscribeRequest,
        subscriber: Box<dyn Subscriber>,
    ) -> Result<(SubscriberId, Grant), SubscribeError> {
        let shared = &self.shared;
        if shared.stopping() {
            return Err(SubscribeError::Stopped);
        }
        let id = SubscriberId::Other(self.others.fetch_add(1, Ordering::Relaxed) + 1);
        let (calls, inbox) = sync_channel(CALLS + DROPS);
        let hands = Arc::new(Hands::default());
        shared.others.add(id, &hands, &calls);
        let granted = shared.sessions().subscribe(clock::now(), id, request);
        let grant = granted.map_err(|refusal| {
            shared.others.remove(id);
            SubscribeError::Refused(refusal)
        })?;
        let thread = Thread {
            id,
            hands,
            orders: self.orders.clone(),
            media: self.media.clone(),
            shared: shared.clone(),
        };
        // It is not waited for at the end: it may be the one that blocks.
        let started =
            (self.scheduler).spawn(sched::Role::Background, "ouvr-subscriber", move || {
                thread.run(&inbox, subscriber);
            });
        if let Err(e) = started {
            // Its end has said that nobody is there.
            return Err(SubscribeError::Thread(e.to_string()));
        }
        shared.tell(|_| ());
        Ok((id, grant))
    }

    /// It takes no more frames, and its role goes to who waits for it. One that is not here changes
    /// nothing.
    pub fn unsubscribe(&self, subscriber: SubscriberId) {
        let goodbye = Ending::Goodbye(GoodbyeReason::Quit);
        self.shared
            .tell(|host| host.unsubscribe(subscriber, goodbye));
    }

    /// A subscriber asks for another role: one that watches presses "play".
    ///
    /// # Errors
    /// Why it does not get it; it keeps the role that it has.
    pub fn request_role(
        &self,
        subscriber: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        (self.shared).tell(|host| host.request_role(subscriber, role, take_over))
    }

    /// The player did something, sampled then on its own clock; it is applied behind what it did before.
    /// Frames that may show it name its number ([`FrameHeader::echo`]). When it leaves, loses the role, or
    /// is silent for 1.5 s (see [`heard_from`](HostRuntime::heard_from)), all that it holds is released.
    ///
    /// [`FrameHeader::echo`]: openuvr_proto::wire::video::FrameHeader::echo
    ///
    /// # Errors
    /// [`InputRefused`]
    pub fn input(
        &self,
        subscriber: SubscriberId,
        event: InputEvent,
        sampled: PeerInstant,
    ) -> Result<InputSeq, InputRefused> {
        let mut host = self.shared.sessions();
        let taken = host.input(clock::now(), subscriber, event, sampled);
        drop(host);
        // The control thread injects it.
        self.shared.link.wake();
        taken
    }

    /// Where the head of the player's person is, sampled then on its own clock. An observer's is nobody's
    /// concern.
    pub fn submit_pose(&self, subscriber: SubscriberId, pose: Pose, sampled: PeerInstant) {
        let mut host = self.shared.sessions();
        host.posed(clock::now(), subscriber, pose, sampled);
    }

    /// A subscriber's client was heard from, whatever it said: its gateway says so twice a second or more
    /// while somebody plays. Input, poses and feedback are heard anyway.
    pub fn heard_from(&self, subscriber: SubscriberId) {
        let mut host = self.shared.sessions();
        host.heard_from(clock::now(), subscriber);
    }

    /// What a subscriber says of what arrived. A wish for a key frame and what is known of the link are
    /// lost in the middle of a flood of them.
    pub fn feedback(&self, from: SubscriberId, feedback: Feedback) {
        self.shared
            .say_of(from, |host| host.feedback(clock::now(), from, &feedback));
        if let Feedback::KeyFrame { .. } | Feedback::Link(_) = feedback {
            let _ = self.orders.try_send(Order::Feedback(from, feedback));
            self.media.wake();
        }
    }
}

impl Shared {
    /// Does something of which the control thread is to hear at once.
    fn tell<T>(&self, what: impl FnOnce(&mut Host) -> T) -> T {
        let mut host = self.sessions();
        let done = what(&mut host);
        self.flush(&mut host);
        drop(host);
        self.link.wake();
        done
    }

    /// Notes something of a subscriber's frames. The policy learns from the player's at once; the control
    /// thread finds the others when it wakes for something else, a quarter of a second later at most.
    fn say_of(&self, id: SubscriberId, what: impl FnOnce(&mut Host)) {
        let mut host = self.sessions();
        what(&mut host);
        let plays = host.player() == Some(id);
        drop(host);
        if plays {
            self.link.wake();
        }
    }
}

/// The threads of the subscribers that are no sessions.
#[derive(Default)]
pub(super) struct Others(Mutex<HashMap<SubscriberId, Entry>>);

/// One of them, from its subscription to its end.
struct Entry {
    calls: SyncSender<Call>,
    hands: Arc<Hands>,
    /// What the media thread is to have.
    detached: Option<Detached>,
}

impl Others {
    fn add(&self, id: SubscriberId, hands: &Arc<Hands>, calls: &SyncSender<Call>) {
        let detached = Detached {
            calls: calls.clone(),
            hands: hands.clone(),
            taken: None,
        };
        let entry = Entry {
            calls: calls.clone(),
            hands: hands.clone(),
            detached: Some(detached),
        };
        self.lock().insert(id, entry);
    }

    /// The media thread's end of it, once.
    pub(super) fn joins(&self, id: SubscriberId) -> Option<Detached> {
        self.lock().get_mut(&id)?.detached.take()
    }

    pub(super) fn remove(&self, id: SubscriberId) {
        self.lock().remove(&id);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// There is something that it is to be told.
    pub(super) fn update(&self, id: SubscriberId) {
        if let Some(entry) = self.lock().get(&id) {
            entry.hands.updated.store(true, Ordering::Release);
            // Without room it looks behind the calls that wait.
            let _ = entry.calls.try_send(Call::Update);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SubscriberId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of [`Subscriber`] on its way to the thread.
enum Call {
    Begin(Instant, Box<Frame>),
    Slice(Instant, SlicePlace, Option<u16>, Vec<u8>),
    End,
    Dropped(Instant, FrameId, Stage, DropCause),
    /// See [`Hands::updated`].
    Update,
}

/// What both threads know.
#[derive(Default)]
struct Hands {
    /// Frames that began and are not over in the thread.
    full: AtomicU32,
    /// Frames of whose drop the thread was not told yet.
    drops: AtomicUsize,
    /// Something is due to be told.
    updated: AtomicBool,
    /// The newest frame that was missed, until a key frame was asked for; 0: none.
    missed: AtomicU32,
}

/// The media thread's end.
pub(super) struct Detached {
    calls: SyncSender<Call>,
    hands: Arc<Hands>,
    /// What was taken of the frame that is under way; `None`: it is missed.
    taken: Option<Departure>,
}

impl Detached {
    /// Hands a call over; what finds no room misses the frame.
    fn call(&mut self, call: Call) {
        if self.calls.try_send(call).is_err() {
            self.taken = None;
        }
    }
}

impl Subscriber for Detached {
    fn begin(&mut self, now: Instant, frame: &Frame) {
        let full = self.hands.full.load(Ordering::Acquire) >= FRAMES;
        self.taken = (!full).then(Departure::default);
        if full {
            return;
        }
        self.hands.full.fetch_add(1, Ordering::AcqRel);
        self.call(Call::Begin(now, Box::new(*frame)));
        if self.taken.is_none() {
            self.hands.full.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        let Some(taken) = &mut self.taken else { return };
        taken.first.get_or_insert(now);
        taken.last = Some(now);
        taken.bytes += u32::try_from(slice.bytes.len()).unwrap_or(u32::MAX);
        let bytes = slice.bytes.to_vec();
        self.call(Call::Slice(now, slice.place, slice.clean_after, bytes));
    }

    fn end(&mut self, _: Instant) -> Progress {
        if self.taken.is_some() {
            self.call(Call::End);
        }
        self.taken.take().map_or(Progress::Missed, Progress::Left)
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        if why == DropCause::SendBufferFull {
            self.hands.missed.store(frame.0, Ordering::Release);
        }
        // So that there is always room for the frames in hand.
        if self.hands.drops.load(Ordering::Acquire) < DROPS {
            self.hands.drops.fetch_add(1, Ordering::AcqRel);
            let _ = self.calls.try_send(Call::Dropped(now, frame, stage, why));
        }
    }
}

/// The subscriber's thread.
struct Thread {
    id: SubscriberId,
    hands: Arc<Hands>,
    orders: SyncSender<Order>,
    media: Waker,
    shared: Arc<Shared>,
}

/// What a frame that builds on a missed one ends with.
const NO_START: (Stage, DropCause) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);

/// Where the subscriber's thread is.
#[derive(Default)]
struct Frames {
    /// The frame that has begun and is not over.
    open: Option<FrameId>,
    /// One of which it takes nothing, since it builds on a missed one.
    skipped: Option<FrameId>,
    /// It needs a key frame.
    broken: bool,
}

impl Thread {
    fn run(self, calls: &Receiver<Call>, mut subscriber: Box<dyn Subscriber>) {
        let mut frames = Frames::default();
        let mut goes_on = true;
        while goes_on && let Ok(call) = calls.recv() {
            self.frame(&mut frames, &mut *subscriber, call);
            self.catch_up();
            if self.hands.updated.swap(false, Ordering::AcqRel) {
                goes_on = self.update(&mut *subscriber);
            }
        }
    }

    /// Tells it what has changed; whether it goes on.
    fn update(&self, subscriber: &mut dyn Subscriber) -> bool {
        loop {
            let update = self.shared.sessions().poll_update(self.id);
            match update {
                Some(update) => {
                    let over = matches!(update, Update::Ended(_));
                    subscriber.update(clock::now(), update);
                    if over {
                        return false;
                    }
                }
                None => return true,
            }
        }
    }

    fn frame(&self, frames: &mut Frames, subscriber: &mut dyn Subscriber, call: Call) {
        match call {
            Call::Begin(now, frame) => {
                let name = frame.header.frame;
                // The media thread has noted the end of one that was cut off.
                frames.skipped = None;
                if let Some(cut_off) = frames.open.take() {
                    let (stage, why) = (Stage::FirstSent, DropCause::SendBufferFull);
                    subscriber.dropped(now, cut_off, stage, why);
                    self.put_down();
                }
                frames.broken &= !frame.header.is_key();
                if frames.broken {
                    let (stage, why) = NO_START;
                    subscriber.dropped(now, name, stage, why);
                    frames.skipped = Some(name);
                    self.put_down();
                } else {
                    frames.open = Some(name);
                    subscriber.begin(now, &frame);
                }
            }
            Call::Slice(now, place, clean_after, bytes) => {
                let slice = Slice {
                    place,
                    clean_after,
                    bytes: &bytes,
                };
                if frames.open.is_some() {
                    subscriber.slice(now, &slice);
                }
            }
            Call::End => {
                if let Some(frame) = frames.open.take() {
                    let left = self.end(subscriber, frame);
                    frames.broken = left.is_err();
                    self.departed(frame, left);
                    self.put_down();
                } else if let Some(frame) = frames.skipped.take() {
                    self.departed(frame, Err(NO_START));
                }
            }
            Call::Dropped(now, frame, stage, why) => {
                self.hands.drops.fetch_sub(1, Ordering::AcqRel);
                frames.skipped.take_if(|skipped| *skipped == frame);
                if frames.open.take_if(|open| *open == frame).is_some() {
                    self.put_down();
                }
                subscriber.dropped(now, frame, stage, why);
            }
            Call::Update => {}
        }
    }

    /// The frame is there as a whole. What left of it, or why nothing did.
    fn end(
        &self,
        subscriber: &mut dyn Subscriber,
        frame: FrameId,
    ) -> Result<Departure, (Stage, DropCause)> {
        loop {
            match subscriber.end(clock::now()) {
                Progress::Left(left) => return Ok(left),
                Progress::Waits(at) => std::thread::sleep(at.since(clock::now())),
                Progress::Missed => {
                    self.hands.missed.store(frame.0, Ordering::Release);
                    return Err((Stage::FirstSent, DropCause::SendBufferFull));
                }
            }
        }
    }

    /// For the ledger, which knows the frame as handed over.
    fn departed(&self, frame: FrameId, left: Result<Departure, (Stage, DropCause)>) {
        (self.shared).say_of(self.id, |host| {
            host.departed(clock::now(), self.id, frame, left);
        });
    }

    /// A frame is over.
    fn put_down(&self) {
        self.hands.full.fetch_sub(1, Ordering::AcqRel);
    }

    /// Asks for a key frame when it can take one again.
    fn catch_up(&self) {
        if self.hands.full.load(Ordering::Acquire) > 0 {
            return;
        }
        let missed = self.hands.missed.swap(0, Ordering::AcqRel);
        if missed != 0 {
            let wish = Feedback::KeyFrame {
                last_good: FrameId::NONE,
                newest: FrameId(missed),
            };
            // Fails only when the media thread is gone.
            let _ = self.orders.send(Order::Feedback(self.id, wish));
            self.media.wake();
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            let why =
                "a subscriber panicked and gets no more frames: please report it to who made it";
            self.shared.notice(Notice::Trouble(why.to_owned()));
        }
        let why = match panicked {
            true => GoodbyeReason::Failed,
            false => GoodbyeReason::Quit,
        };
        let id = self.id;
        self.shared
            .tell(|host| host.unsubscribe(id, Ending::Goodbye(why)));
    }
}
