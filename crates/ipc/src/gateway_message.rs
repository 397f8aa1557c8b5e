//! Messages from a gateway to a host in another process.

use openuvr_proto::control::clipboard::ClipboardPiece;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::controller::Controllers;
use openuvr_proto::display::Display;
use openuvr_proto::host::SubscribeRequest;
use openuvr_proto::id::PoseId;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time::PeerInstant;
use serde::{Deserialize, Serialize};

use crate::admission::Admission;
use crate::frame::Message;

/// The codec in which a gateway receives the host's sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SoundCodec {
    /// Opus (RFC 6716): the same packets as those for clients.
    Opus,
    /// AAC-LC (ISO/IEC 14496-3), in access units without ADTS headers.
    Aac,
}

/// A message of a gateway. The first message of a connection is one of the first four variants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum GatewayMessage {
    /// Requests a subscription.
    Subscribe(SubscribeRequest),
    /// Requests admission of a device.
    Admit(Admission),
    /// Requests the host's sound in this codec.
    Listen(SoundCodec),
    /// Requests the statistics of all subscribers.
    Figures,
    /// Requests another role for the subscriber.
    Role {
        /// The role.
        role: Role,
        /// Whether to take the role over from the current player.
        take_over: bool,
    },
    /// An input event.
    Input(InputEvent, PeerInstant),
    /// A numbered head pose.
    Pose((PoseId, Pose), PeerInstant),
    /// Controller states.
    Controllers(Controllers, PeerInstant),
    /// A numbered display description.
    Display(u32, Display),
    /// A fragment of a copied text.
    ClipboardPiece(ClipboardPiece),
    /// The subscriber's client is not silent: see `Host::on_activity` in crate `proto`.
    Activity,
    /// Feedback on received frames.
    Feedback(Feedback),
}

impl Message for GatewayMessage {
    /// A fragment of a copied text has 8 KiB. Tickets and names of devices and software are shorter.
    const MAX_LEN: usize = 16 << 10;
}

#[cfg(test)]
mod tests;
