//! Messages from a host in another process to a gateway: answers, frames, sound, and updates.

use openuvr_proto::control::negotiate::Refusal;
use openuvr_proto::host::Grant;
use openuvr_proto::host::figures::SubscriberFigures;
use openuvr_proto::id::FrameId;
use openuvr_proto::send::subscriber::Frame;
use openuvr_proto::send::update::Update;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::wire::video::SlicePlace;
use serde::{Deserialize, Deserializer, Serialize};

use crate::admission::{AdmissionGrant, AdmitRefused};
use crate::frame::Message;

/// Maximum length of a slice in bytes, for the largest picture in the best quality (guess: 200 Mb/s at 60 frames/s are
/// 0.4 MB per frame, and a key frame is ten times as large).
pub const MAX_SLICE: usize = 8 << 20;

/// The longest Opus frame (RFC 6716 sections 3.2.1 and 3.4), doubled as a margin. An AAC access unit of two channels
/// has at most 1536 bytes (ISO/IEC 14496-3 section 4.5.3.1).
const MAX_PACKET: usize = 2 * 1275;

/// Maximum number of subscribers in statistics. A host has fewer, because it admits at most 64 observers.
pub const MAX_SUBSCRIBERS: usize = 128;

/// A message of a host. Frame messages follow the order of the calls of
/// [`Subscriber`](openuvr_proto::send::subscriber::Subscriber).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum HostMessage {
    /// The subscription or role request was granted with this role.
    Granted(Grant),
    /// The subscription or role request was refused.
    Refused(Refusal),
    /// The subscription failed for this reason.
    Failed(String),
    /// The device was admitted.
    Admitted(AdmissionGrant),
    /// The device was refused.
    NotAdmitted(AdmitRefused),
    /// A frame begins. The player's link state is not sent.
    Begin(Instant, Box<Frame>),
    /// A slice of the frame. Its bytes are the payload. If an intra refresh starts with the frame, the number of frames
    /// until the picture is clean follows.
    Slice(Instant, SlicePlace, Option<u16>),
    /// The frame is complete.
    End(Instant),
    /// The frame was dropped.
    Dropped(Instant, FrameId, Stage, DropCause),
    /// An update.
    Update(Update),
    /// The capture time and the number of samples of an Opus packet or an AAC access unit, which is the payload.
    Sound(Instant, u16),
    /// Statistics of each subscriber, at most [`MAX_SUBSCRIBERS`].
    Figures(#[serde(deserialize_with = "figures")] Vec<SubscriberFigures>),
}

impl Message for HostMessage {
    /// The longest message is a copied text of a million bytes.
    const MAX_LEN: usize = 1 << 20;

    const MAX_PAYLOAD: usize = MAX_SLICE;

    fn max_payload(&self) -> usize {
        match self {
            HostMessage::Slice(..) => MAX_SLICE,
            HostMessage::Sound(..) => MAX_PACKET,
            _ => 0,
        }
    }
}

fn figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SubscriberFigures>, D::Error> {
    let all = Vec::deserialize(deserializer)?;
    match all.len() <= MAX_SUBSCRIBERS {
        true => Ok(all),
        false => Err(serde::de::Error::custom("too many subscribers")),
    }
}

#[cfg(test)]
mod tests;
