//! What a host tells its runtime.

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

/// Something for the runtime.
pub enum HostEvent {
    /// A new subscriber: its video goes to `path`, sealed by `media`, from the next key frame on.
    Subscribed {
        /// Its session.
        session: SessionId,
        /// Where to.
        path: PathId,
        /// Whether the kernel may cut batches into datagrams on this way.
        segmented: bool,
        /// The device's key.
        peer: PublicKey,
        /// Its role.
        role: Role,
        /// Its name and software, as it says.
        offer: Box<Offer>,
        /// What its session carries beside the first view of its video.
        streams: Vec<Grant>,
        /// Makes the senders of its streams: the one owner of its media key.
        media: Box<MediaSender>,
        /// Receives what it streams to the host, if it was granted anything of that.
        uplink: Option<Box<UplinkReceiver>>,
    },
    /// A new subscriber that is no session: it takes frames from the next key frame on.
    OtherSubscribed {
        /// The subscriber.
        subscriber: SubscriberId,
        /// Its role.
        role: Role,
        /// What it asked for.
        request: Box<SubscribeRequest>,
    },
    /// It has this role now: another took the player's over, the player left, or it asked.
    RoleChanged(SubscriberId, Role),
    /// Its datagrams come from elsewhere now, and so do its video's go; or it said otherwise
    /// whether they may be cut.
    PathChanged {
        /// Its session.
        session: SessionId,
        /// Where to.
        path: PathId,
        /// Whether the kernel may cut batches into datagrams on this way.
        segmented: bool,
    },
    /// It is gone.
    Ended(SubscriberId, Ending),
    /// The player did something: inject it.
    Input {
        /// The player.
        from: SubscriberId,
        /// What it did.
        arrived: ReceivedInput,
        /// When that arrived here.
        received: Instant,
    },
    /// The player is gone or silent: release what it held.
    ReleaseInput,
    /// Whether keys that are down may repeat. They may not while the player is silent: the release of a tap
    /// may be on its way.
    KeyRepeat(bool),
    /// Somebody's picture is broken.
    KeyFrameRequested {
        /// Whose.
        session: SessionId,
        /// The view.
        view: ViewId,
        /// The newest frame that they displayed whole.
        last_good: FrameId,
        /// The newest frame that they had heard of.
        newest: FrameId,
    },
    /// A client's window has this size now, in pixels.
    WindowSize(SessionId, Size),
    /// The player copied this.
    Clipboard(SubscriberId, ClipboardText),
    /// A client lacks parts of a frame: the view's sender may send them again.
    RetransmissionRequested(SessionId, RetransmissionRequest),
    /// How a client plays the sound that it gets.
    AudioReport(SessionId, AudioReport),
    /// A frame's end.
    Record(Box<FrameRecord>),
}

/// A client asks whether a way carries a stream: answer with [`Host::answer_probe`](super::Host::answer_probe).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeRequest {
    /// Its session.
    pub session: SessionId,
    /// The way.
    pub path: PathId,
    /// Whether the kernel may cut the answer.
    pub segmented: bool,
    pub(super) token: u32,
}

/// Why a subscriber is one no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It said goodbye.
    Goodbye(GoodbyeReason),
    /// It fell silent.
    Silent,
    /// The same device began a new session.
    Replaced,
    /// It got nothing of what it asked for.
    Refused(Refusal),
    /// It never said what it wants, or the host ended it.
    Closed,
}
