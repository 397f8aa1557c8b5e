//! Subscribers beside the sessions: a recorder, another protocol, a test. Each takes its frames in a
//! thread of its own, so that one which blocks, is slow or panics holds up nobody: what it can't take
//! in time it misses, up to the next key frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use openuvr_media::capture::Waker;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::video::{MAX_SLICES, SlicePlace};

use super::{HostRuntime, Notice, Order, Shared, Taking};
use crate::clock;
use crate::sched;

/// Frames that it may have in hand: one that it works on, and one that waits.
const FRAMES: u32 = 2;

/// Calls that may wait for it: those of the frames in hand …
const CALLS: usize = FRAMES as usize * (MAX_SLICES as usize + 2);

/// … and of as many frames that ended before they began. One that is further behind is not told of each.
const DROPS: usize = CALLS;

impl HostRuntime {
    /// From the next key frame on, which comes soon, `subscriber` takes the frames of this host, in a
    /// thread of its own; [`Progress::Waits`] is slept through there. As a player its
    /// [`feedback`](HostRuntime::feedback) drives the rate; whoever is the player next takes that role
    /// over, and it goes on as an observer.
    ///
    /// # Errors
    /// One line, if there is a player already, if the thread can't be started, or the host has stopped.
    pub fn subscribe(
        &self,
        role: Role,
        subscriber: Box<dyn Subscriber>,
    ) -> Result<SubscriberId, String> {
        if role == Role::Player && self.shared.sessions().has_player() {
            return Err("there is a player already: subscribe as an observer".to_owned());
        }
        let number = self.others.fetch_add(1, Ordering::Relaxed) + 1;
        let id = SubscriberId::Other(number);
        let (calls, inbox) = sync_channel(CALLS + DROPS);
        let hands = Arc::new(Hands::default());
        let thread = Thread {
            id,
            hands: hands.clone(),
            orders: self.orders.clone(),
            media: self.media.clone(),
            shared: self.shared.clone(),
        };
        // It is not waited for at the end: it may be the one that blocks.
        (self.scheduler)
            .spawn(sched::Role::Background, "ouvr-subscriber", move || {
                thread.run(&inbox, subscriber);
            })
            .map_err(|e| format!("can't start a thread: {e}"))?;
        let taking = Taking::Other(Detached {
            calls,
            hands,
            taken: None,
        });
        // Of all codecs the one that the host would rather make.
        let assigned = self.encodings.assign(u32::MAX);
        self.order(Order::Add {
            id,
            role,
            assigned,
            taking,
        })?;
        Ok(id)
    }

    /// It takes no more frames.
    ///
    /// # Errors
    /// One line, if the host has stopped.
    pub fn unsubscribe(&self, subscriber: SubscriberId) -> Result<(), String> {
        self.order(Order::Remove(subscriber))
    }

    /// What a subscriber says of what arrived. Said in the middle of a flood of it, it is lost.
    pub fn feedback(&self, from: SubscriberId, feedback: Feedback) {
        let _ = self.orders.try_send(Order::Feedback(from, feedback));
        self.media.wake();
    }

    fn order(&self, order: Order) -> Result<(), String> {
        let sent = match self.orders.try_send(order) {
            Err(TrySendError::Full(order)) => {
                // It sleeps over them, and makes room when it wakes.
                self.media.wake();
                self.orders.send(order).map_err(drop)
            }
            sent => sent.map_err(drop),
        };
        self.media.wake();
        sent.map_err(|()| "the host has stopped".to_owned())
    }
}

/// A call of [`Subscriber`] on its way to the thread.
enum Call {
    Begin(Instant, Box<Frame>),
    Slice(Instant, SlicePlace, Option<u16>, Vec<u8>),
    End,
    Dropped(Instant, FrameId, Stage, DropCause),
}

/// What both threads know.
#[derive(Default)]
struct Hands {
    /// Frames that began and are not over in the thread.
    full: AtomicU32,
    /// Frames of whose drop the thread was not told yet.
    drops: AtomicUsize,
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

impl Thread {
    fn run(self, calls: &Receiver<Call>, mut subscriber: Box<dyn Subscriber>) {
        // The frame that has begun and is not over; and whether it needs a key frame.
        let (mut open, mut broken) = (None, false);
        while let Ok(call) = calls.recv() {
            match call {
                Call::Begin(now, frame) => {
                    let name = frame.header.frame;
                    if let Some(cut_off) = open.take() {
                        let (stage, why) = (Stage::FirstSent, DropCause::SendBufferFull);
                        subscriber.dropped(now, cut_off, stage, why);
                        self.put_down();
                    }
                    broken &= !frame.header.is_key();
                    if broken {
                        let (stage, why) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);
                        subscriber.dropped(now, name, stage, why);
                        self.put_down();
                    } else {
                        open = Some(name);
                        subscriber.begin(now, &frame);
                    }
                }
                Call::Slice(now, place, clean_after, bytes) => {
                    let slice = Slice {
                        place,
                        clean_after,
                        bytes: &bytes,
                    };
                    if open.is_some() {
                        subscriber.slice(now, &slice);
                    }
                }
                Call::End => {
                    if let Some(frame) = open.take() {
                        broken = !self.end(&mut *subscriber, frame);
                        self.put_down();
                    }
                }
                Call::Dropped(now, frame, stage, why) => {
                    self.hands.drops.fetch_sub(1, Ordering::AcqRel);
                    if open.take_if(|open| *open == frame).is_some() {
                        self.put_down();
                    }
                    subscriber.dropped(now, frame, stage, why);
                }
            }
            self.catch_up();
        }
    }

    /// The frame is there as a whole. Whether it was taken.
    fn end(&self, subscriber: &mut dyn Subscriber, frame: FrameId) -> bool {
        loop {
            match subscriber.end(clock::now()) {
                Progress::Left(_) => return true,
                Progress::Waits(at) => std::thread::sleep(at.since(clock::now())),
                Progress::Missed => {
                    self.hands.missed.store(frame.0, Ordering::Release);
                    return false;
                }
            }
        }
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
        if std::thread::panicking() {
            let why =
                "a subscriber panicked and gets no more frames: please report it to who made it";
            self.shared.notice(Notice::Trouble(why.to_owned()));
        }
        let _ = self.orders.send(Order::Remove(self.id));
        self.media.wake();
    }
}
