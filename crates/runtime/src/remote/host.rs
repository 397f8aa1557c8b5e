//! A host in another process, for this process's gateways.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_ipc::gateway_message::{GatewayMessage, SoundCodec};
use openuvr_ipc::host_message::HostMessage;
use openuvr_proto::control::clipboard::ClipboardPiece;
use openuvr_proto::control::negotiate::{Refusal, Role};
use openuvr_proto::controller::Controllers;
use openuvr_proto::display::Display;
use openuvr_proto::host::figures::SubscriberFigures;
use openuvr_proto::host::{Grant, InputRefused, SubscribeRequest};
use openuvr_proto::id::{InputSeq, PoseId, SubscriberId};
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::send::subscriber::{Feedback, Subscriber};
use openuvr_proto::time::PeerInstant;

use super::channel::{Channel, ReceiveError};
use super::subscription::{ANSWER_TIMEOUT, Subscription};
use crate::host::{
    Admission, AdmissionCallback, AudioListener, GatewayHost, Payload, SubscribeError, add_callback,
};
use crate::lock::lock;
use crate::sched::{Scheduler, ThreadRole};

/// Timeout for statistics. A stopped application must not delay a portal, which waits 5 s for an answer.
const FIGURES_TIMEOUT: Duration = Duration::from_secs(1);

/// A host in another process; see the module. The application's streaming process may change. Each subscription belongs
/// to the process that was listening when the subscription started.
pub struct RemoteHost {
    path: PathBuf,
    scheduler: Scheduler,
    /// Number of subscribers so far.
    others: AtomicU32,
    subscriptions: Arc<Mutex<HashMap<SubscriberId, Arc<Subscription>>>>,
    opus: Arc<Mutex<Listeners>>,
    aac: Arc<Mutex<Listeners>>,
}

/// The listeners of the host's sound in one codec, which share one connection.
#[derive(Default)]
struct Listeners {
    all: Vec<AudioListener>,
    connected: bool,
}

impl RemoteHost {
    /// Represents the host that listens at `path`, now or later.
    #[must_use]
    pub fn new(path: PathBuf, scheduler: &Scheduler) -> RemoteHost {
        RemoteHost {
            path,
            scheduler: scheduler.clone(),
            others: AtomicU32::new(0),
            subscriptions: Arc::default(),
            opus: Arc::default(),
            aac: Arc::default(),
        }
    }

    fn subscription(&self, id: SubscriberId) -> Option<Arc<Subscription>> {
        lock(&self.subscriptions).get(&id).cloned()
    }

    fn send(&self, id: SubscriberId, message: &GatewayMessage) {
        if let Some(subscription) = self.subscription(id) {
            subscription.send(message);
        }
    }

    /// Sends a request and waits at most `within` for the first answer.
    fn request(
        &self,
        message: &GatewayMessage,
        within: Duration,
    ) -> Result<(Channel, HostMessage), ReceiveError> {
        let channel = Channel::connect(&self.path).map_err(|_| ReceiveError::Gone)?;
        // If the host has closed the connection, receiving its greeting may yield the reason.
        let _ = channel.offer(message, &[]);
        let (answer, _) = channel.receive_within(within)?;
        Ok((channel, answer))
    }
}

impl GatewayHost for RemoteHost {
    fn is_available(&self) -> bool {
        Channel::connect(&self.path).is_ok()
    }

    fn subscribe(
        &self,
        request: SubscribeRequest,
        subscriber: Box<dyn Subscriber>,
    ) -> Result<(SubscriberId, Grant), SubscribeError> {
        let message = GatewayMessage::Subscribe(request);
        let answer = self.request(&message, ANSWER_TIMEOUT);
        let answer = answer.map_err(|why| match why {
            ReceiveError::Version(why) => SubscribeError::Failed(why.to_string()),
            _ => SubscribeError::Unavailable,
        })?;
        let (channel, grant) = match answer {
            (channel, HostMessage::Granted(grant)) => (Arc::new(channel), grant),
            (_, HostMessage::Refused(why)) => return Err(SubscribeError::Refused(why)),
            (_, HostMessage::Failed(why)) => return Err(SubscribeError::Failed(why)),
            _ => return Err(SubscribeError::Unavailable),
        };
        let id = SubscriberId::Other(self.others.fetch_add(1, Ordering::Relaxed) + 1);
        let (subscription, calls) = Subscription::new(channel, grant, subscriber);
        lock(&self.subscriptions).insert(id, subscription);
        let all = self.subscriptions.clone();
        let role = ThreadRole::Background;
        let started = (self.scheduler).spawn(role, "ouvr-subscriber", move || {
            calls.run();
            lock(&all).remove(&id);
        });
        if let Err(e) = started {
            self.unsubscribe(id);
            return Err(SubscribeError::Thread(e.to_string()));
        }
        Ok((id, grant))
    }

    fn unsubscribe(&self, subscriber: SubscriberId) {
        if let Some(subscription) = lock(&self.subscriptions).remove(&subscriber) {
            subscription.close();
        }
    }

    fn request_role(
        &self,
        subscriber: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        let subscription = self.subscription(subscriber).ok_or(Refusal::Full)?;
        subscription.request_role(role, take_over)
    }

    fn input(
        &self,
        subscriber: SubscriberId,
        event: InputEvent,
        sampled: PeerInstant,
    ) -> Result<InputSeq, InputRefused> {
        let subscription = self.subscription(subscriber);
        let subscription = subscription.ok_or(InputRefused::NotPlayer)?;
        subscription.input(event, sampled)
    }

    fn clipboard_piece(
        &self,
        subscriber: SubscriberId,
        piece: &ClipboardPiece,
    ) -> Result<(), InputRefused> {
        let subscription = self.subscription(subscriber);
        let subscription = subscription.ok_or(InputRefused::NotPlayer)?;
        subscription.clipboard_piece(piece)
    }

    fn submit_pose(&self, subscriber: SubscriberId, pose: (PoseId, Pose), sampled: PeerInstant) {
        self.send(subscriber, &GatewayMessage::Pose(pose, sampled));
    }

    fn submit_controllers(
        &self,
        subscriber: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    ) {
        self.send(subscriber, &GatewayMessage::Controllers(states, sampled));
    }

    fn submit_display(&self, subscriber: SubscriberId, display: (u32, Display)) {
        self.send(subscriber, &GatewayMessage::Display(display.0, display.1));
    }

    fn on_activity(&self, subscriber: SubscriberId) {
        self.send(subscriber, &GatewayMessage::Activity);
    }

    fn feedback(&self, from: SubscriberId, feedback: Feedback) {
        self.send(from, &GatewayMessage::Feedback(feedback));
    }

    /// The request runs in its own thread, so the caller does not block.
    fn admit(&self, admission: Admission, answer: AdmissionCallback) {
        let path = self.path.clone();
        let admit = move || {
            let channel = Channel::connect(&path).ok()?;
            let request = GatewayMessage::Admit(admission);
            channel.offer(&request, &[]).ok()?;
            let (reply, _) = channel.receive_within(ANSWER_TIMEOUT).ok()?;
            match reply {
                HostMessage::Admitted(admitted) => answer(Ok(admitted)),
                HostMessage::NotAdmitted(why) => answer(Err(why)),
                _ => {}
            }
            Some(())
        };
        // If the thread cannot be started, `answer` is dropped.
        let _ = (self.scheduler).spawn(ThreadRole::Background, "ouvr-admit", move || {
            let _ = admit();
        });
    }

    fn listen(&self, codec: SoundCodec, listener: AudioListener) -> bool {
        let of_codec = match codec {
            SoundCodec::Opus => &self.opus,
            SoundCodec::Aac => &self.aac,
        };
        let mut listeners = lock(of_codec);
        add_callback(&mut listeners.all, listener);
        if listeners.connected {
            return true;
        }
        let Ok(channel) = Channel::connect(&self.path) else {
            listeners.all.pop();
            return false;
        };
        let all = of_codec.clone();
        let started = (self.scheduler).spawn(ThreadRole::Background, "ouvr-listen", move || {
            forward_audio(&channel, codec, &all);
        });
        listeners.connected = started.is_ok();
        if !listeners.connected {
            listeners.all.pop();
        }
        listeners.connected
    }

    fn figures(&self) -> Option<Vec<SubscriberFigures>> {
        match self
            .request(&GatewayMessage::Figures, FIGURES_TIMEOUT)
            .ok()?
        {
            (_, HostMessage::Figures(all)) => Some(all),
            _ => None,
        }
    }
}

/// Forwards sound until there are no listeners or the host is gone.
fn forward_audio(channel: &Channel, codec: SoundCodec, listeners: &Mutex<Listeners>) {
    if channel.offer(&GatewayMessage::Listen(codec), &[]).is_ok() {
        while let Ok((HostMessage::Sound(captured, samples), packet)) = channel.receive() {
            let payload = Payload {
                captured,
                samples,
                bytes: &packet,
            };
            let mut listeners = lock(listeners);
            listeners.all.retain_mut(|listener| listener(&payload));
            if listeners.all.is_empty() {
                listeners.connected = false;
                return;
            }
        }
    }
    *lock(listeners) = Listeners::default();
}

impl Drop for RemoteHost {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *lock(&self.subscriptions));
        all.values().for_each(|subscription| subscription.close());
    }
}
