//! Subscribers other than sessions: browsers, players of other protocols, recorders, tests. Their requests and feedback are
//! handled here. Their frames go to [`detached`].

mod detached;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_clock as clock;
use openuvr_proto::control::clipboard::ClipboardPiece;
use openuvr_proto::control::negotiate::{Refusal, Role};
use openuvr_proto::controller::Controllers;
use openuvr_proto::display::Display;
use openuvr_proto::host::{Ending, Grant, Host, InputRefused, SubscribeRequest};
use openuvr_proto::id::{InputSeq, PoseId, SubscriberId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::send::subscriber::{Feedback, Subscriber};
use openuvr_proto::time::PeerInstant;
use openuvr_proto::wire::control::GoodbyeReason;

pub(super) use self::detached::Detached;
use self::detached::{Backlog, Call, Thread};
use super::{HostRuntime, MediaCommand, Shared};
use crate::sched;
use crate::scheduling_latency::WakeupSite;

/// Why a subscription failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The host refused the subscription, by the rules for all clients.
    #[error("{0}")]
    Refused(Refusal),
    /// The host has stopped.
    #[error("the host has stopped")]
    Stopped,
    /// The thread cannot be started.
    #[error("can't start a thread: {0}")]
    Thread(String),
    /// The host in another process failed, or is from another build.
    #[error("{0}")]
    Failed(String),
    /// No host is running in the application's process (it has not started, or has ended).
    #[error("no host is running in the application: retry when it shows a picture")]
    Unavailable,
}

impl HostRuntime {
    /// Subscribes from the next key frame on, which comes soon. The calls of `subscriber` run in their own thread, which
    /// sleeps for [`Progress::Deferred`]. Returns its id for later calls and the granted role. Role arbitration is the same
    /// as for sessions. All these functions may be called from any thread.
    ///
    /// [`Progress::Deferred`]: openuvr_proto::send::subscriber::Progress::Deferred
    ///
    /// # Errors
    /// [`SubscribeError`] if the subscription failed. Nothing has changed then.
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
        #[expect(
            clippy::disallowed_methods,
            reason = "its bound is in bytes and time, not in calls: `Backlog::take`"
        )]
        let (calls, inbox) = channel();
        let backlog = Arc::new(Backlog::new(request.intake));
        let wakeup_site = self.scheduler.site("host-media-to-subscriber");
        shared.detached.add(id, &backlog, &calls, &wakeup_site);
        let granted = shared.sessions().subscribe(clock::now(), id, request);
        let grant = granted.map_err(|refusal| {
            shared.detached.remove(id);
            SubscribeError::Refused(refusal)
        })?;
        let thread = Thread {
            id,
            backlog,
            media_commands: self.media_commands.clone(),
            media: self.media.clone(),
            shared: shared.clone(),
            wakeup_site,
        };
        // It is not joined at the end, because it may block.
        let started = (self.scheduler).spawn(
            sched::ThreadRole::Background,
            "ouvr-subscriber",
            move || {
                thread.run(&inbox, subscriber);
            },
        );
        if let Err(e) = started {
            // Dropping the closure has unsubscribed it.
            return Err(SubscribeError::Thread(e.to_string()));
        }
        shared.update_host(|_| ());
        Ok((id, grant))
    }

    /// Removes a subscriber. A waiting subscriber gets its role. Unknown ids are ignored.
    pub fn unsubscribe(&self, subscriber: SubscriberId) {
        let goodbye = Ending::Goodbye(GoodbyeReason::Quit);
        self.shared
            .update_host(|host| host.unsubscribe(subscriber, goodbye));
    }

    /// Requests another role, for example when an observer presses "play".
    ///
    /// # Errors
    /// The reason for a refusal. The subscriber then keeps its role.
    pub fn request_role(
        &self,
        subscriber: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        (self.shared).update_host(|host| host.request_role(subscriber, role, take_over))
    }

    /// Queues a player's input, sampled at `sampled` on its own clock, after its earlier input. Frames that may show it
    /// carry its number ([`FrameHeader::echo`]). When the player leaves, loses the role, or is silent for 1.5 s (see
    /// [`on_activity`](HostRuntime::on_activity)), its keys are released. After 100 ms of silence, they stop repeating.
    ///
    /// [`FrameHeader::echo`]: openuvr_proto::wire::video::FrameHeader::echo
    ///
    /// # Errors
    /// [`InputRefused`] if the event is not accepted.
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
        self.shared.wake_control();
        taken
    }

    /// Adds a piece of text copied by the player, in order. A first piece (offset 0) replaces an incomplete text. The piece
    /// is ignored if the sender is an observer, or [`Config::clipboard`](super::config::Config::clipboard) does not allow
    /// it.
    pub fn clipboard_piece(&self, subscriber: SubscriberId, piece: &ClipboardPiece) {
        let mut host = self.shared.sessions();
        let complete = host.clipboard_piece_from(subscriber, piece);
        drop(host);
        if complete {
            self.shared.wake_control();
        }
    }

    /// Sets the player's head pose, sampled at `sampled` on its own clock. Frames drawn with it carry its
    /// number, which counts up from 1. Ignored from observers.
    pub fn submit_pose(
        &self,
        subscriber: SubscriberId,
        pose: (PoseId, Pose),
        sampled: PeerInstant,
    ) {
        let mut host = self.shared.sessions();
        host.posed(clock::now(), subscriber, pose, sampled);
    }

    /// Sets the player's controller states, sampled at `sampled` on its own clock. Ignored from observers.
    pub fn submit_controllers(
        &self,
        subscriber: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    ) {
        let mut host = self.shared.sessions();
        host.controlled(clock::now(), subscriber, states, sampled);
    }

    /// Sets a subscriber's display, used while it is the player. The first number is 1. Older numbers are ignored.
    pub fn submit_display(&self, subscriber: SubscriberId, display: (u32, Display)) {
        let mut host = self.shared.sessions();
        host.set_display(clock::now(), subscriber, display);
    }

    /// Records activity of a subscriber's client. Its gateway calls this at least twice a second while it is
    /// the player, and every 50 ms while keys are down. Input, poses and feedback count as activity.
    pub fn on_activity(&self, subscriber: SubscriberId) {
        let mut host = self.shared.sessions();
        let news = host.on_activity(clock::now(), subscriber);
        drop(host);
        if news {
            self.shared.wake_control();
        }
    }

    /// Handles a subscriber's feedback. Under a flood of feedback, key-frame requests and link states may be
    /// dropped.
    pub fn feedback(&self, from: SubscriberId, feedback: Feedback) {
        self.shared
            .note_subscriber(from, |host| host.feedback(clock::now(), from, &feedback));
        if let Feedback::KeyFrame { .. } | Feedback::Link(_) = feedback {
            let _ = self
                .media_commands
                .try_send(MediaCommand::Feedback(from, feedback));
            self.shared.wake_media(&self.media);
        }
    }
}

impl Shared {
    /// Updates the sessions and wakes the control thread at once.
    fn update_host<T>(&self, change: impl FnOnce(&mut Host) -> T) -> T {
        let mut host = self.sessions();
        let done = change(&mut host);
        self.flush(&mut host);
        drop(host);
        self.wake_control();
        done
    }

    /// Updates the state of a subscriber's frames. The control thread is woken only for the player's. It handles the others
    /// at its next wake-up, a quarter of a second later at most.
    fn note_subscriber(&self, id: SubscriberId, change: impl FnOnce(&mut Host)) {
        let mut host = self.sessions();
        change(&mut host);
        let plays = host.player() == Some(id);
        drop(host);
        if plays {
            self.wake_control();
        }
    }
}

/// The subscribers other than sessions.
#[derive(Default)]
pub(super) struct DetachedSubscribers(Mutex<HashMap<SubscriberId, Entry>>);

/// A subscriber from its subscription to its end.
struct Entry {
    calls: Sender<Call>,
    backlog: Arc<Backlog>,
    /// The media thread's handle, until it is taken.
    detached: Option<Detached>,
}

impl DetachedSubscribers {
    fn add(
        &self,
        id: SubscriberId,
        backlog: &Arc<Backlog>,
        calls: &Sender<Call>,
        wakeup_site: &WakeupSite,
    ) {
        let detached = Detached::new(calls.clone(), backlog.clone(), wakeup_site.clone());
        let entry = Entry {
            calls: calls.clone(),
            backlog: backlog.clone(),
            detached: Some(detached),
        };
        self.lock().insert(id, entry);
    }

    /// Takes the media thread's handle. This is possible once.
    pub(super) fn take(&self, id: SubscriberId) -> Option<Detached> {
        self.lock().get_mut(&id)?.detached.take()
    }

    pub(super) fn remove(&self, id: SubscriberId) {
        self.lock().remove(&id);
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Wakes a subscriber's thread for pending updates.
    pub(super) fn update(&self, id: SubscriberId) {
        if let Some(entry) = self.lock().get(&id) {
            // One pending call is enough.
            if !entry.backlog.updated.swap(true, Ordering::AcqRel) {
                let _ = entry.calls.send(Call::Update);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SubscriberId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
