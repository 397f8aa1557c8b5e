//! The events of a host for its runtime.

use serde::{Deserialize, Serialize};

use super::request::SubscribeRequest;
use crate::control::clipboard::ClipboardText;
use crate::control::handshake::PublicKey;
use crate::control::negotiate::{Offer, Refusal, Role};
use crate::control::streams::Grant;
use crate::id::{FrameId, PathId, SessionId, SubscriberId, ViewId};
use crate::input::inbox::ReceivedInput;
use crate::recv::uplink::UplinkReceiver;
use crate::send::plane::MediaSender;
use crate::time::Instant;
use crate::trace::FrameRecord;
use crate::units::Size;
use crate::wire::control::{AudioReport, GoodbyeReason, RetransmissionRequest};

/// An event for the runtime.
pub enum HostEvent {
    /// A new session. Its video is sent to `path`, sealed by `media`, from the next key frame on.
    Subscribed {
        /// The session.
        session: SessionId,
        /// The destination.
        path: PathId,
        /// Whether segmentation offload is allowed on this path.
        segmented: bool,
        /// The device's key.
        peer: PublicKey,
        /// Its role.
        role: Role,
        /// Its offer, with its name and software.
        offer: Box<Offer>,
        /// The granted streams in addition to the first view of its video.
        streams: Vec<Grant>,
        /// Creates the senders of the session's streams. It is the only owner of the media key.
        media: Box<MediaSender>,
        /// Receives the client's streams, if any were granted.
        uplink: Option<Box<UplinkReceiver>>,
    },
    /// A new external subscriber. It takes frames from the next key frame on.
    OtherSubscribed {
        /// The subscriber.
        subscriber: SubscriberId,
        /// Its role.
        role: Role,
        /// Its request.
        request: Box<SubscribeRequest>,
    },
    /// The subscriber's new role: after a take-over, after the player has left, or by request.
    RoleChanged(SubscriberId, Role),
    /// The session's path or its use of segmentation offload changed. The change applies to control and video.
    PathChanged {
        /// The session.
        session: SessionId,
        /// The destination.
        path: PathId,
        /// Whether segmentation offload is allowed on this path.
        segmented: bool,
    },
    /// The subscriber is gone.
    Ended(SubscriberId, Ending),
    /// Input from the player. The runtime must inject it.
    Input {
        /// The player.
        from: SubscriberId,
        /// The event.
        arrived: ReceivedInput,
        /// Arrival time of its datagram.
        received: Instant,
    },
    /// The player is gone, is silent, or has lost its role: release its pressed keys.
    ReleaseInput,
    /// Whether pressed keys may repeat. They may not while the player is silent, because the datagram with a key's
    /// release may be lost or late.
    KeyRepeat(bool),
    /// A client's picture is broken.
    KeyFrameRequested {
        /// Its session.
        session: SessionId,
        /// The view.
        view: ViewId,
        /// The newest frame that the client displayed completely.
        last_good: FrameId,
        /// The newest frame that was finished at the client, whatever its outcome.
        newest: FrameId,
    },
    /// The new size of a client's window, in pixels.
    WindowSize(SessionId, Size),
    /// Text copied by the player.
    Clipboard(SubscriberId, ClipboardText),
    /// A client lacks parts of a frame. The view's sender may retransmit them.
    RetransmissionRequested(SessionId, RetransmissionRequest),
    /// A client's audio report.
    AudioReport(SessionId, AudioReport),
    /// The record of a finished frame.
    Record(Box<FrameRecord>),
}

/// A client's probe of a path: answer with [`Host::answer_probe`](super::Host::answer_probe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeRequest {
    /// Its session.
    pub session: SessionId,
    /// The path.
    pub path: PathId,
    /// Whether the answer may use segmentation offload.
    pub segmented: bool,
    pub(super) token: u32,
}

/// Why a subscriber ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ending {
    /// It left.
    Goodbye(GoodbyeReason),
    /// It timed out.
    Silent,
    /// The same device started a new session.
    Replaced,
    /// Its offer was refused.
    Refused(Refusal),
    /// It sent no offer in time, or the host ended it.
    Closed,
}
