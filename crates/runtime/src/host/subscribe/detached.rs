//! A subscriber in a thread of its own, so that one which blocks, is slow or panics holds up nobody. What it can't take
//! at once waits in memory, by bytes and by age as its [`Intake`] says: the thread may have had no processor for a while,
//! and to miss a frame costs all others up to the next key frame. Beyond that bound it misses frames, and asks for a key
//! frame when it has taken what waits.
//!
//! What it is told besides ([`Update`]) comes by a call of the same thread, and not by a stream of its own:
//! a gateway passes pointer, role and frames on to one connection, in one command, and needs no second thread
//! and no lock for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use openuvr_media::capture::Waker;
use openuvr_proto::host::Ending;
use openuvr_proto::id::{FrameId, SubscriberId};
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::subscriber::{Departure, Feedback, Frame, Progress, Slice, Subscriber};
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::SlicePlace;

use crate::clock;
use crate::scheduling_latency::WakeupSite;
use crate::host::{MediaCommand, Notice, Shared};

/// Frames that ended before they began and of which the thread was not told yet: seconds of them (guess). One that is
/// further behind is not told of each.
const MAX_DROPS: usize = 1024;

/// Frames that may be in hand however old and large they are: one that the thread works on, and one that waits. Where the
/// whole machine stood still the one in hand is old, and nothing was missed.
const MIN_FRAMES: u32 = 2;

/// What a frame takes while it waits, beside its slices: what is known of it, its calls, and its place in the ledger.
const FRAME_COST: usize = 1024;

/// The same of a slice, beside its bytes.
const SLICE_COST: usize = 64;

/// A call of [`Subscriber`] on its way to the thread.
pub(super) enum Call {
    Begin(Instant, Box<Frame>),
    Slice(Instant, SlicePlace, Option<u16>, Vec<u8>),
    End,
    Dropped(Instant, FrameId, Stage, DropCause),
    /// See [`Backlog::updated`].
    Update,
}

impl Call {
    /// The memory that it takes while it waits. Those that take none here have bounds of their own: an end for each
    /// frame, [`MAX_DROPS`], and an update for each call that the thread has done.
    fn cost(&self) -> usize {
        match self {
            Call::Begin(..) => FRAME_COST,
            Call::Slice(_, _, _, bytes) => bytes.len() + SLICE_COST,
            Call::End | Call::Dropped(..) | Call::Update => 0,
        }
    }
}

/// What both threads know.
pub(super) struct Backlog {
    intake: Intake,
    /// Frames that began and are not over in the thread.
    frames: AtomicU32,
    /// What waits of them takes so much memory.
    bytes: AtomicUsize,
    /// When the oldest of them began, if there is one.
    oldest: AtomicI64,
    /// Frames of whose drop the thread was not told yet.
    drops: AtomicUsize,
    /// Something is due to be told.
    pub(super) updated: AtomicBool,
    /// The newest frame that was missed, until a key frame was asked for; 0: none.
    missed: AtomicU32,
}

impl Backlog {
    pub(super) fn new(intake: Intake) -> Backlog {
        Backlog {
            intake,
            frames: AtomicU32::new(0),
            bytes: AtomicUsize::new(0),
            oldest: AtomicI64::new(0),
            drops: AtomicUsize::new(0),
            updated: AtomicBool::new(false),
            missed: AtomicU32::new(0),
        }
    }

    /// Whether one more frame is taken, which counts as in hand then. By the media thread alone.
    fn take(&self, now: Instant) -> bool {
        let frames = self.frames.load(Ordering::Acquire);
        if frames == 0 {
            // No other thread makes it more.
            self.oldest.store(now.0, Ordering::Release);
        } else if frames >= MIN_FRAMES {
            let waits = now.since(Instant(self.oldest.load(Ordering::Acquire)));
            let late = self.intake.age().is_some_and(|most| waits > most);
            if late || self.bytes.load(Ordering::Acquire) >= self.intake.bytes() {
                return false;
            }
        }
        self.frames.fetch_add(1, Ordering::AcqRel);
        true
    }
}

/// The media thread's end.
pub(in crate::host) struct Detached {
    calls: Sender<Call>,
    backlog: Arc<Backlog>,
    wakeup_site: WakeupSite,
    /// What was taken of the frame that is under way; `None`: it is missed.
    taken: Option<Departure>,
}

impl Detached {
    pub(super) fn new(calls: Sender<Call>, backlog: Arc<Backlog>, wakeup_site: WakeupSite) -> Detached {
        Detached {
            calls,
            backlog,
            wakeup_site,
            taken: None,
        }
    }

    /// Hands a call over. The channel has no bound of its own: [`Backlog::take`] has one. It fails only if the thread
    /// is gone, and then the frame is missed.
    fn call(&mut self, call: Call) {
        // Before: afterwards it may have been taken already.
        self.wakeup_site.sent();
        self.backlog.bytes.fetch_add(call.cost(), Ordering::AcqRel);
        if self.calls.send(call).is_err() {
            self.taken = None;
        }
    }
}

impl Subscriber for Detached {
    fn begin(&mut self, now: Instant, frame: &Frame) {
        self.taken = None;
        if self.backlog.take(now) {
            self.taken = Some(Departure::default());
            self.call(Call::Begin(now, Box::new(*frame)));
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
        if self.backlog.drops.load(Ordering::Acquire) < MAX_DROPS {
            self.backlog.drops.fetch_add(1, Ordering::AcqRel);
            let _ = self.calls.send(Call::Dropped(now, frame, stage, why));
        }
    }

    fn intake(&self) -> Intake {
        self.backlog.intake
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
    pub(super) wakeup_site: WakeupSite,
}

/// What a frame ends with that its subscriber could not take.
const OVERFLOW: (Stage, DropCause) = (Stage::FirstSent, DropCause::SendBufferFull);

/// What a frame that builds on a missed one ends with.
const AWAITING_KEY_FRAME: (Stage, DropCause) = (Stage::FirstSent, DropCause::AwaitingKeyFrame);

/// Where the subscriber's thread is.
#[derive(Default)]
struct Frames {
    /// The frame that has begun and is not over.
    open: Option<FrameId>,
    /// One of which it takes nothing, since it builds on a missed one.
    skipped: Option<FrameId>,
    /// It needs a key frame.
    needs_key_frame: bool,
}

impl Thread {
    pub(super) fn run(self, calls: &Receiver<Call>, mut subscriber: Box<dyn Subscriber>) {
        let mut frames = Frames::default();
        let mut running = true;
        while running && let Ok(call) = calls.recv() {
            self.wakeup_site.received();
            let cost = call.cost();
            self.frame(&mut frames, &mut *subscriber, call);
            self.backlog.bytes.fetch_sub(cost, Ordering::AcqRel);
            self.request_key_frame();
            if self.backlog.updated.swap(false, Ordering::AcqRel) {
                running = self.update(&mut *subscriber);
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
                self.backlog.oldest.store(now.0, Ordering::Release);
                // The media thread has noted the end of one that was cut off.
                frames.skipped = None;
                if let Some(cut_off) = frames.open.take() {
                    let (stage, why) = OVERFLOW;
                    subscriber.dropped(now, cut_off, stage, why);
                    self.frame_done();
                }
                frames.needs_key_frame &= !frame.header.is_key();
                if frames.needs_key_frame {
                    let (stage, why) = AWAITING_KEY_FRAME;
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
                    let progress = end(subscriber);
                    frames.needs_key_frame = progress.is_none();
                    if frames.needs_key_frame {
                        self.backlog.missed.store(frame.0, Ordering::Release);
                    }
                    // One that took nothing of a frame has lost it, whether it needs a key frame now or not.
                    let took = |left: &Departure| left.first.is_some() || !left.overflowed;
                    self.departed(frame, progress.filter(took).ok_or(OVERFLOW));
                    self.frame_done();
                } else if let Some(frame) = frames.skipped.take() {
                    self.departed(frame, Err(AWAITING_KEY_FRAME));
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

    /// For the ledger, which knows the frame as handed over.
    fn departed(&self, frame: FrameId, left: Result<Departure, (Stage, DropCause)>) {
        (self.shared).note_subscriber(self.id, |host| {
            host.departed(clock::now(), self.id, frame, left);
        });
    }

    /// A frame is over.
    fn frame_done(&self) {
        self.backlog.frames.fetch_sub(1, Ordering::AcqRel);
    }

    /// Asks for a key frame when it can take one again.
    fn request_key_frame(&self) {
        if self.backlog.frames.load(Ordering::Acquire) > 0 {
            return;
        }
        let missed = self.backlog.missed.swap(0, Ordering::AcqRel);
        if missed != 0 {
            let request = Feedback::KeyFrame {
                last_good: FrameId::NONE,
                newest: FrameId(missed),
            };
            // Fails only when the media thread is gone.
            let _ = self
                .media_commands
                .send(MediaCommand::Feedback(self.id, request));
            self.media.wake();
        }
    }
}

/// The frame is there as a whole. What left of it; `None`: it was missed, and a key frame is needed.
fn end(subscriber: &mut dyn Subscriber) -> Option<Departure> {
    loop {
        match subscriber.end(clock::now()) {
            Progress::Left(left) => return Some(left),
            Progress::Waits(at) => std::thread::sleep(at.since(clock::now())),
            Progress::Missed => return None,
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let panicked = std::thread::panicking();
        if panicked {
            let why =
                "a subscriber panicked and gets no more frames: please report it to who made it";
            self.shared.notice(Notice::Warning(why.to_owned()));
        }
        let why = match panicked {
            true => GoodbyeReason::Failed,
            false => GoodbyeReason::Quit,
        };
        let id = self.id;
        self.shared
            .update_host(|host| host.unsubscribe(id, Ending::Goodbye(why)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How many frames of so many bytes are taken that come at this interval, of 2000, while the thread takes none.
    fn taken(intake: Intake, bytes: usize, interval: Duration) -> usize {
        let backlog = Backlog::new(intake);
        let mut now = Instant(7_000_000_000);
        for count in 0..2000 {
            if !backlog.take(now) {
                return count;
            }
            backlog
                .bytes
                .fetch_add(FRAME_COST + bytes, Ordering::AcqRel);
            now = now + interval;
        }
        2000
    }

    #[test]
    fn what_may_wait_is_bounded_by_age_and_bytes_not_by_frames() {
        let sixtieth = SECOND / 60;
        // 10 Mb/s at 60 frames/s.
        let frame = 20_833;
        // A browser gets what is new, a player what came in the last half second …
        assert_eq!(taken(Intake::Newest, frame, sixtieth), 4);
        assert_eq!(taken(Intake::Steady, frame, sixtieth), 31);
        assert_eq!(taken(Intake::Steady, frame, sixtieth / 4), 121);
        // … and a recorder all that fits into 32 MiB.
        assert_eq!(taken(Intake::Complete, frame, sixtieth), 1536);
        assert_eq!(taken(Intake::Complete, 1 << 20, SECOND), 32);
        // Key frames of 4 MiB.
        assert_eq!(taken(Intake::Steady, 4 << 20, Duration::ZERO), 4);
    }

    #[test]
    fn the_age_that_counts_is_that_of_the_oldest_frame_in_hand() {
        let backlog = Backlog::new(Intake::Steady);
        let at = |millis: i64| Instant(millis * 1_000_000);
        assert!(backlog.take(at(0)) && backlog.take(at(400)) && backlog.take(at(450)));
        assert!(!backlog.take(at(501)));
        // The thread is through with the first, and has begun the second.
        backlog.frames.fetch_sub(1, Ordering::AcqRel);
        backlog.oldest.store(at(400).0, Ordering::Release);
        assert!(backlog.take(at(501)));
        assert!(!backlog.take(at(901)));
        // When none is left, what was old once does not count.
        backlog.frames.store(0, Ordering::Release);
        assert!(backlog.take(at(60_000)));
        // The whole machine stood still, with one frame in hand.
        assert!(backlog.take(at(70_000)) && !backlog.take(at(70_001)));
    }
}
