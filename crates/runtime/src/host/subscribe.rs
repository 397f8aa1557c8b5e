//! Subscribers beside the sessions: a browser, a player of another protocol, a recorder, a test. What they
//! ask for and say comes here; their frames go to [`detached`].

mod detached;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use crate::clock;
use crate::scheduling_latency::WakeupSite;
use crate::sched;

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
    /// The application whose host it is does not show anything (any more).
    #[error("the application shows nothing now: try again when it does")]
    Unavailable,
}

impl HostRuntime {
    /// From the next key frame on, which comes soon, `subscriber` takes the frames of this host, in a
    /// thread of its own; [`Progress::Waits`] is slept through there. Its id in further calls, and the
    /// role that it was granted: by the same rules as sessions, which also say who has the role later. All
    /// these functions may be called from any thread.
    ///
    /// [`Progress::Waits`]: openuvr_proto::send::subscriber::Progress::Waits
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
        // It is not waited for at the end: it may be the one that blocks.
        let started = (self.scheduler).spawn(
            sched::ThreadRole::Background,
            "ouvr-subscriber",
            move || {
                thread.run(&inbox, subscriber);
            },
        );
        if let Err(e) = started {
            // Its end has said that nobody is there.
            return Err(SubscribeError::Thread(e.to_string()));
        }
        shared.update_host(|_| ());
        Ok((id, grant))
    }

    /// It takes no more frames, and its role goes to who waits for it. One that is not here changes
    /// nothing.
    pub fn unsubscribe(&self, subscriber: SubscriberId) {
        let goodbye = Ending::Goodbye(GoodbyeReason::Quit);
        self.shared
            .update_host(|host| host.unsubscribe(subscriber, goodbye));
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
        (self.shared).update_host(|host| host.request_role(subscriber, role, take_over))
    }

    /// The player did something, sampled then on its own clock; it is applied behind what it did before.
    /// Frames that may show it name its number ([`FrameHeader::echo`]). When it leaves, loses the role, or
    /// is silent for 1.5 s (see [`heard_from`](HostRuntime::heard_from)), all that it holds is released; after
    /// 100 ms of silence no key that it holds repeats.
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
        self.shared.wake_control();
        taken
    }

    /// A piece of a text that the player copied, in order; a first one (offset 0) takes the place of a text that
    /// was not whole. An observer's is nobody's concern, nor where
    /// [`Config::clipboard`](super::config::Config::clipboard) does not let it in.
    pub fn clipboard_piece(&self, subscriber: SubscriberId, piece: &ClipboardPiece) {
        let mut host = self.shared.sessions();
        let whole = host.clipboard_piece_from(subscriber, piece);
        drop(host);
        if whole {
            self.shared.wake_control();
        }
    }

    /// Where the head of the player's person is, sampled then on its own clock; frames that are drawn with it name
    /// its number, which counts up from 1. An observer's is nobody's concern.
    pub fn submit_pose(
        &self,
        subscriber: SubscriberId,
        pose: (PoseId, Pose),
        sampled: PeerInstant,
    ) {
        let mut host = self.shared.sessions();
        host.posed(clock::now(), subscriber, pose, sampled);
    }

    /// What the player's person holds, sampled then on its own clock; an observer's is nobody's concern.
    pub fn submit_controllers(
        &self,
        subscriber: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    ) {
        let mut host = self.shared.sessions();
        host.controlled(clock::now(), subscriber, states, sampled);
    }

    /// What a subscriber's display is like: this counts while it plays. What has an older number changes nothing; the
    /// first one is 1.
    pub fn submit_display(&self, subscriber: SubscriberId, display: (u32, Display)) {
        let mut host = self.shared.sessions();
        host.shows_on(clock::now(), subscriber, display);
    }

    /// A subscriber's client was heard from, whatever it said: its gateway says so twice a second or more
    /// while it plays, and each 50 ms while keys are down. Input, poses and feedback are heard anyway.
    pub fn on_activity(&self, subscriber: SubscriberId) {
        let mut host = self.shared.sessions();
        let news = host.heard_from(clock::now(), subscriber);
        drop(host);
        if news {
            self.shared.wake_control();
        }
    }

    /// What a subscriber says of what arrived. A wish for a key frame and what is known of the link are
    /// lost in the middle of a flood of them.
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
    /// Does something of which the control thread is to hear at once.
    fn update_host<T>(&self, change: impl FnOnce(&mut Host) -> T) -> T {
        let mut host = self.sessions();
        let done = change(&mut host);
        self.flush(&mut host);
        drop(host);
        self.wake_control();
        done
    }

    /// Notes something of a subscriber's frames. The policy learns from the player's at once; the control
    /// thread finds the others when it wakes for something else, a quarter of a second later at most.
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

/// The threads of the subscribers that are no sessions.
#[derive(Default)]
pub(super) struct DetachedSubscribers(Mutex<HashMap<SubscriberId, Entry>>);

/// One of them, from its subscription to its end.
struct Entry {
    calls: Sender<Call>,
    backlog: Arc<Backlog>,
    /// What the media thread is to have.
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

    /// The media thread's end of it, once.
    pub(super) fn take(&self, id: SubscriberId) -> Option<Detached> {
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
            // One that was not seen yet is enough.
            if !entry.backlog.updated.swap(true, Ordering::AcqRel) {
                let _ = entry.calls.send(Call::Update);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SubscriberId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
