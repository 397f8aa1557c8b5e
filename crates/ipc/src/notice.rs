//! Notices of a host's events.

use std::borrow::Cow;

use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::ControlEvent;
use openuvr_proto::host::{Ending, WantedDisplay};
use openuvr_proto::id::{RenditionId, SessionId, SubscriberId};
use openuvr_proto::trace::FrameRecord;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::AudioReport;
use serde::{Deserialize, Serialize};

/// An event that the application may show or log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Notice {
    /// A device paired.
    Paired {
        /// The name that it announced.
        name: String,
        /// The fingerprint of its key.
        fingerprint: String,
    },
    /// An event of a pairing window or of a ticket, as text: the start of a window that `openuvr devices pair`
    /// requested, a wrong PIN or a forbidden device with its source, the end of a window, or a rejected ticket.
    Pairing(String),
    /// A subscriber joined.
    Subscribed {
        /// The subscriber.
        subscriber: SubscriberId,
        /// Its role.
        role: Role,
        /// Its name. For a client: the stored device name, followed by the currently announced name if that
        /// differs.
        name: String,
        /// Its software and version.
        software: String,
        /// Its limits on the video: see `ClientConstraints`.
        constraints: ClientConstraints,
        /// Its rendition, constant while it is subscribed.
        rendition: RenditionId,
    },
    /// A subscriber's role changed.
    RoleChanged(SubscriberId, Role),
    /// A client's video now uses this transport.
    Link(SessionId, TransportKind),
    /// A subscriber left.
    Ended(SubscriberId, Ending),
    /// The record of a finished frame.
    Record(Box<FrameRecord>),
    /// A client's playback report.
    Audio(SessionId, AudioReport),
    /// A control event of a rendition.
    ControlEvent {
        /// The rendition.
        rendition: RenditionId,
        /// The event, with its reason.
        event: ControlEvent,
    },
    /// An encoder was opened for the first subscriber of a rendition, for a new picture size, in another thread, or in
    /// place of a failed hardware encoder.
    EncoderOpened {
        /// The rendition.
        rendition: RenditionId,
        /// The encoder's name.
        encoder: String,
        /// The size of its pictures.
        size: Size,
    },
    /// The encoder of a rendition was closed, because the rendition has no subscribers or moves to another thread, or
    /// because a software encoder replaces a failed hardware encoder. Not posted when the host ends.
    EncoderClosed(RenditionId),
    /// The player's picture has a new size, and a new configuration epoch began.
    Resized(Size),
    /// The display that the player wants, with the size of its window; `None` if there is no player or no window.
    PlayerWindow(Option<WantedDisplay>),
    /// A client has waited for two seconds for the application's first picture.
    NoPicture,
    /// Whether the source is visible. A minimised window is not.
    SourceShown(bool),
    /// Keys and clicks are withheld for this reason, because they would not reach the streamed window. `None` when they
    /// reach it again.
    InputWithheld(Option<Cow<'static, str>>),
    /// A message about clipboard sharing. It never contains the clipboard's content.
    Clipboard(String),
    /// A message about sound, because the capture device changed.
    Sound(String),
    /// The source ended normally, and the host stops.
    SourceEnded(Cow<'static, str>),
    /// A permanent failure. The host stops.
    Failed(String),
    /// Something failed, but the host continues.
    Warning(String),
    /// This reader was too slow, and this many notices before this point were lost.
    Lost(u64),
}
