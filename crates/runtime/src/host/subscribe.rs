//! Subscribers that are not sessions: browsers, players of other protocols, recorders, tests. This module handles their
//! requests and feedback. Their frames go to [`detached`].

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

/// The reason why a subscription failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The host refused the subscription, by the rules that apply to all clients.
    #[error("{0}")]
    Refused(Refusal),
    /// The host has stopped.
    #[error("the host has stopped")]
    Stopped,
    /// The subscriber's thread cannot be started.
    #[error("can't start a thread: {0}")]
    Thread(String),
    /// The host is in another process, and failed or is from another build.
    #[error("{0}")]
    Failed(String),
    /// No host is running in the application's process, because the host has not started yet or has ended.
    #[error("no host is running in the application: retry when the application shows a picture")]
    Unavailable,
}

impl HostRuntime {
    /// Adds a subscriber, which receives frames from the next key frame on. The host soon encodes a key frame. The
    /// methods of `subscriber` are called in a separate thread, which sleeps while the subscriber returns
    /// [`Progress::Deferred`]. Returns the id of the subscriber for later calls, and the granted role. Roles are
    /// granted by the same rules as for sessions. All functions for subscribers may be called from any thread.
    ///
    /// [`Progress::Deferred`]: openuvr_proto::send::subscriber::Progress::Deferred
    ///
    /// # Errors
    /// [`SubscribeError`] if the subscription failed. The host is then unchanged.
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
            reason = "`Backlog::take` bounds the channel by bytes and time"
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
        // The thread is not joined at the end, because it may block.
        let started = (self.scheduler).spawn(
            sched::ThreadRole::Background,
            "ouvr-subscriber",
            move || {
                thread.run(&inbox, subscriber);
            },
        );
        if let Err(e) = started {
            // Dropping the closure has already removed the subscriber.
            return Err(SubscribeError::Thread(e.to_string()));
        }
        shared.update_host(|_| ());
        Ok((id, grant))
    }

    /// Removes a subscriber. If it was the player, a waiting subscriber becomes the player. Unknown ids are ignored.
    pub fn unsubscribe(&self, subscriber: SubscriberId) {
        let goodbye = Ending::Goodbye(GoodbyeReason::Quit);
        self.shared
            .update_host(|host| host.unsubscribe(subscriber, goodbye));
    }

    /// Requests another role for a subscriber, for example when the user of an observer presses "play".
    ///
    /// # Errors
    /// The reason why the host refused the role. The subscriber then keeps its role.
    pub fn request_role(
        &self,
        subscriber: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        (self.shared).update_host(|host| host.request_role(subscriber, role, take_over))
    }

    /// Queues a player's input event after the player's earlier input. `sampled` is on the player's own clock. Frames
    /// that may show the event carry its number ([`FrameHeader::echo`]). The player's keys are released when the player
    /// leaves, loses the role, or is silent for 1.5 s (see [`on_activity`](HostRuntime::on_activity)). They stop
    /// repeating after 100 ms of silence.
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
        // The control thread injects the event.
        self.shared.wake_control();
        taken
    }

    /// Adds a piece of text that the player copied. Pieces must be added in order, and a first piece (offset 0)
    /// replaces an incomplete text. The piece is ignored if the subscriber is an observer or
    /// [`Config::clipboard`](super::config::Config::clipboard) does not allow this direction.
    pub fn clipboard_piece(&self, subscriber: SubscriberId, piece: &ClipboardPiece) {
        let mut host = self.shared.sessions();
        let complete = host.clipboard_piece_from(subscriber, piece);
        drop(host);
        if complete {
            self.shared.wake_control();
        }
    }

    /// Sets the player's head pose. `sampled` is on the player's own clock. Frames that are drawn with the pose carry
    /// the pose's number. Numbers start at 1 and increase. A pose of an observer is ignored.
    pub fn submit_pose(
        &self,
        subscriber: SubscriberId,
        pose: (PoseId, Pose),
        sampled: PeerInstant,
    ) {
        let mut host = self.shared.sessions();
        host.posed(clock::now(), subscriber, pose, sampled);
    }

    /// Sets the player's controller states. `sampled` is on the player's own clock. States of an observer are ignored.
    pub fn submit_controllers(
        &self,
        subscriber: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    ) {
        let mut host = self.shared.sessions();
        host.controlled(clock::now(), subscriber, states, sampled);
    }

    /// Sets the properties of a subscriber's display, which are used while the subscriber is the player. `display` is a
    /// sequence number and the properties. Sequence numbers start at 1 and increase; properties with an older number
    /// are ignored.
    pub fn submit_display(&self, subscriber: SubscriberId, display: (u32, Display)) {
        let mut host = self.shared.sessions();
        host.set_display(clock::now(), subscriber, display);
    }

    /// Records activity of a subscriber's client. The client's gateway calls this at least twice a second while the
    /// client is the player, and every 50 ms while keys are down. Input, poses, controller states, display properties,
    /// and feedback other than rate estimates also count as activity.
    pub fn on_activity(&self, subscriber: SubscriberId) {
        let mut host = self.shared.sessions();
        let news = host.on_activity(clock::now(), subscriber);
        drop(host);
        if news {
            self.shared.wake_control();
        }
    }

    /// Handles a subscriber's feedback. If too much feedback arrives, the host may drop key-frame requests, link states
    /// and rate estimates.
    pub fn feedback(&self, from: SubscriberId, feedback: Feedback) {
        self.shared
            .note_subscriber(from, |host| host.feedback(clock::now(), from, &feedback));
        if let Feedback::KeyFrame { .. } | Feedback::Link(_) | Feedback::Estimate(_) = feedback {
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

    /// Updates the state of a subscriber's frames. Only an update for the player wakes the control thread. The control
    /// thread handles other updates at its next wake-up, at most a quarter of a second later.
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

/// The subscribers that are not sessions.
#[derive(Default)]
pub(super) struct DetachedSubscribers(Mutex<HashMap<SubscriberId, Entry>>);

/// The state of a subscriber from its subscription to its end.
struct Entry {
    calls: Sender<Call>,
    backlog: Arc<Backlog>,
    /// The media thread's handle to the subscriber, until the media thread gets it.
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

    /// Takes the media thread's handle to the subscriber. Returns the handle only once.
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
            // One pending `Update` call is sufficient.
            if !entry.backlog.updated.swap(true, Ordering::AcqRel) {
                let _ = entry.calls.send(Call::Update);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SubscriberId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
