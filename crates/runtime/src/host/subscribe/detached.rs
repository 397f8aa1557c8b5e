//! A subscriber in a thread of its own, so that one which blocks, is slow or panics holds up nobody: what it
//! can't take in time it misses, up to the next key frame.
//!
//! What it is told besides ([`Update`]) comes by a call of the same thread, and not by a stream of its own:
//! a gateway passes pointer, role and frames on to one connection, in one command, and needs no second thread
//! and no lock for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use openuvr_media::capture::Waker;
use openuvr_proto::host::Ending;
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::{MAX_SLICES, SlicePlace};

use crate::clock;
use crate::handoffs::Site;
use crate::host::{MediaCommand, Notice, Shared};

/// Frames that it may have in hand: one that it works on, and one that waits.
const FRAMES: u32 = 2;

/// Calls that may wait for it: those of the frames in hand …
const CALLS: usize = FRAMES as usize * (MAX_SLICES as usize + 2);

/// … and of as many frames that ended before they began. One that is further behind is not told of each.
const DROPS: usize = CALLS;

/// Calls that may wait in all.
pub(super) const WAITING: usize = CALLS + DROPS;

/// A call of [`Subscriber`] on its way to the thread.
pub(super) enum Call {
    Begin(Instant, Box<Frame>),
    Slice(Instant, SlicePlace, Option<u16>, Vec<u8>),
    End,
    Dropped(Instant, FrameId, Stage, DropCause),
    /// See [`Backlog::updated`].
    Update,
}

/// What both threads know.
#[derive(Default)]
pub(super) struct Backlog {
    /// Frames that began and are not over in the thread.
    full: AtomicU32,
    /// Frames of whose drop the thread was not told yet.
    drops: AtomicUsize,
    /// Something is due to be told.
    pub(super) updated: AtomicBool,
    /// The newest frame that was missed, until a key frame was asked for; 0: none.
    missed: AtomicU32,
}

/// The media thread's end.
pub(in crate::host) struct Detached {
    calls: SyncSender<Call>,
    backlog: Arc<Backlog>,
    handed_over: Site,
    /// What was taken of the frame that is under way; `None`: it is missed.
    taken: Option<Departure>,
}

impl Detached {
    pub(super) fn new(
        calls: SyncSender<Call>,
        backlog: Arc<Backlog>,
        handed_over: Site,
    ) -> Detached {
        Detached {
            calls,
            backlog,
            handed_over,
            taken: None,
        }
    }

    /// Hands a call over; what finds no room misses the frame.
    fn call(&mut self, call: Call) {
        // Before: afterwards it may have been taken already.
        self.handed_over.sent();
        if self.calls.try_send(call).is_err() {
            self.taken = None;
        }
    }
}

impl Subscriber for Detached {
    fn begin(&mut self, now: Instant, frame: &Frame) {
        let full = self.backlog.full.load(Ordering::Acquire) >= FRAMES;
        self.taken = (!full).then(Departure::default);
        if full {
            return;
        }
        self.backlog.full.fetch_add(1, Ordering::AcqRel);
        self.call(Call::Begin(now, Box::new(*frame)));
        if self.taken.is_none() {
            self.backlog.full.fetch_sub(1, Ordering::AcqRel);
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
            self.backlog.missed.store(frame.0, Ordering::Release);
        }
        // So that there is always room for the frames in hand.
        if self.backlog.drops.load(Ordering::Acquire) < DROPS {
            self.backlog.drops.fetch_add(1, Ordering::AcqRel);
            let _ = self.calls.try_send(Call::Dropped(now, frame, stage, why));
        }
    }
}

/// The subscriber's thread.
pub(super) struct Thread {
    pub(super) id: SubscriberId,
    pub(super) backlog: Arc<Backlog>,
    pub(super) media_commands: SyncSender<MediaCommand>,
    pub(super) media: Waker,
    pub(super) shared: Arc<Shared>,
    /// Where the media thread hands calls over.
    pub(super) handed_over: Site,
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
    pub(super) fn run(self, calls: &Receiver<Call>, mut subscriber: Box<dyn Subscriber>) {
        let mut frames = Frames::default();
        let mut goes_on = true;
        while goes_on && let Ok(call) = calls.recv() {
            self.handed_over.received();
            self.frame(&mut frames, &mut *subscriber, call);
            self.catch_up();
            if self.backlog.updated.swap(false, Ordering::AcqRel) {
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
                    self.frame_done();
                }
                frames.broken &= !frame.header.is_key();
                if frames.broken {
                    let (stage, why) = NO_START;
                    subscriber.dropped(now, name, stage, why);
                    frames.skipped = Some(name);
                    self.frame_done();
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
                    self.frame_done();
                } else if let Some(frame) = frames.skipped.take() {
                    self.departed(frame, Err(NO_START));
                }
            }
            Call::Dropped(now, frame, stage, why) => {
                self.backlog.drops.fetch_sub(1, Ordering::AcqRel);
                frames.skipped.take_if(|skipped| *skipped == frame);
                if frames.open.take_if(|open| *open == frame).is_some() {
                    self.frame_done();
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
                    self.backlog.missed.store(frame.0, Ordering::Release);
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
    fn frame_done(&self) {
        self.backlog.full.fetch_sub(1, Ordering::AcqRel);
    }

    /// Asks for a key frame when it can take one again.
    fn catch_up(&self) {
        if self.backlog.full.load(Ordering::Acquire) > 0 {
            return;
        }
        let missed = self.backlog.missed.swap(0, Ordering::AcqRel);
        if missed != 0 {
            let wish = Feedback::KeyFrame {
                last_good: FrameId::NONE,
                newest: FrameId(missed),
            };
            // Fails only when the media thread is gone.
            let _ = self
                .media_commands
                .send(MediaCommand::Feedback(self.id, wish));
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
