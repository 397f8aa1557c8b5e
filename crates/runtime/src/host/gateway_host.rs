//! The interface between a gateway and a host. The host is in the gateway's process or in another process.

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

use super::HostRuntime;
use super::admit::{Admission, AdmissionCallback};
use super::audio::{Payload, SoundCodec};
use super::subscribe::SubscribeError;

/// Receives sound payloads until it returns `false`. Must not block.
pub type AudioListener = Box<dyn FnMut(&Payload<'_>) -> bool + Send>;

/// A host as seen by gateways: a host in this process ([`HostRuntime`]) or in an application's process
/// ([`RemoteHost`](crate::remote::RemoteHost)). All methods may be called from any thread.
pub trait GatewayHost: Send + Sync {
    /// Whether the host accepts subscribers. A host in another process may not have started yet, or may have ended.
    fn is_available(&self) -> bool;

    /// See [`HostRuntime::subscribe`].
    ///
    /// # Errors
    /// [`SubscribeError`] if the subscription failed. The host is then unchanged.
    fn subscribe(
        &self,
        request: SubscribeRequest,
        subscriber: Box<dyn Subscriber>,
    ) -> Result<(SubscriberId, Grant), SubscribeError>;

    /// See [`HostRuntime::unsubscribe`].
    fn unsubscribe(&self, subscriber: SubscriberId);

    /// See [`HostRuntime::request_role`].
    ///
    /// # Errors
    /// The reason why the host refused the role. The subscriber then keeps its role.
    fn request_role(
        &self,
        subscriber: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal>;

    /// See [`HostRuntime::input`].
    ///
    /// # Errors
    /// [`InputRefused`] if the event is not accepted.
    fn input(
        &self,
        subscriber: SubscriberId,
        event: InputEvent,
        sampled: PeerInstant,
    ) -> Result<InputSeq, InputRefused>;

    /// See [`HostRuntime::clipboard_piece`].
    ///
    /// # Errors
    /// [`InputRefused::Busy`] if the caller must retry the piece later.
    fn clipboard_piece(
        &self,
        subscriber: SubscriberId,
        piece: &ClipboardPiece,
    ) -> Result<(), InputRefused>;

    /// See [`HostRuntime::submit_pose`].
    fn submit_pose(&self, subscriber: SubscriberId, pose: (PoseId, Pose), sampled: PeerInstant);

    /// See [`HostRuntime::submit_controllers`].
    fn submit_controllers(
        &self,
        subscriber: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    );

    /// See [`HostRuntime::submit_display`].
    fn submit_display(&self, subscriber: SubscriberId, display: (u32, Display));

    /// See [`HostRuntime::on_activity`].
    fn on_activity(&self, subscriber: SubscriberId);

    /// See [`HostRuntime::feedback`].
    fn feedback(&self, from: SubscriberId, feedback: Feedback);

    /// See [`HostRuntime::admit`].
    fn admit(&self, admission: Admission, answer: AdmissionCallback);

    /// See [`HostRuntime::listen`].
    fn listen(&self, codec: SoundCodec, listener: AudioListener) -> bool;

    /// See [`HostRuntime::figures`]. Returns `None` if the host does not answer. For a host in another process, this
    /// blocks for up to a second.
    fn figures(&self) -> Option<Vec<SubscriberFigures>>;
}

impl GatewayHost for HostRuntime {
    fn is_available(&self) -> bool {
        !self.shared.stopping()
    }

    fn subscribe(
        &self,
        request: SubscribeRequest,
        subscriber: Box<dyn Subscriber>,
    ) -> Result<(SubscriberId, Grant), SubscribeError> {
        HostRuntime::subscribe(self, request, subscriber)
    }

    fn unsubscribe(&self, subscriber: SubscriberId) {
        HostRuntime::unsubscribe(self, subscriber);
    }

    fn request_role(
        &self,
        subscriber: SubscriberId,
        role: Role,
        take_over: bool,
    ) -> Result<Grant, Refusal> {
        HostRuntime::request_role(self, subscriber, role, take_over)
    }

    fn input(
        &self,
        subscriber: SubscriberId,
        event: InputEvent,
        sampled: PeerInstant,
    ) -> Result<InputSeq, InputRefused> {
        HostRuntime::input(self, subscriber, event, sampled)
    }

    fn clipboard_piece(
        &self,
        subscriber: SubscriberId,
        piece: &ClipboardPiece,
    ) -> Result<(), InputRefused> {
        HostRuntime::clipboard_piece(self, subscriber, piece);
        Ok(())
    }

    fn submit_pose(&self, subscriber: SubscriberId, pose: (PoseId, Pose), sampled: PeerInstant) {
        HostRuntime::submit_pose(self, subscriber, pose, sampled);
    }

    fn submit_controllers(
        &self,
        subscriber: SubscriberId,
        states: Controllers,
        sampled: PeerInstant,
    ) {
        HostRuntime::submit_controllers(self, subscriber, states, sampled);
    }

    fn submit_display(&self, subscriber: SubscriberId, display: (u32, Display)) {
        HostRuntime::submit_display(self, subscriber, display);
    }

    fn on_activity(&self, subscriber: SubscriberId) {
        HostRuntime::on_activity(self, subscriber);
    }

    fn feedback(&self, from: SubscriberId, feedback: Feedback) {
        HostRuntime::feedback(self, from, feedback);
    }

    fn admit(&self, admission: Admission, answer: AdmissionCallback) {
        HostRuntime::admit(self, admission, answer);
    }

    fn listen(&self, codec: SoundCodec, listener: AudioListener) -> bool {
        HostRuntime::listen(self, codec, listener)
    }

    fn figures(&self) -> Option<Vec<SubscriberFigures>> {
        self.is_available().then(|| HostRuntime::figures(self))
    }
}
