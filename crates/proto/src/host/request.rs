//! The subscription request of an external subscriber.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::control::identity::PublicKey;
use crate::control::negotiate::{ClientConstraints, Role};
use crate::send::intake::Intake;
use crate::units::Size;

/// The kind of program, for statistics only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum SubscriberKind {
    /// An OpenUVR session.
    Client,
    /// A browser.
    Browser,
    /// A video player.
    VideoPlayer,
    /// A recorder.
    Recorder,
    /// Another program.
    Other,
}

impl SubscriberKind {
    /// All kinds, in the order of their numbers in messages between processes. The first kind has number 0.
    pub const ALL: [SubscriberKind; 5] = [
        SubscriberKind::Client,
        SubscriberKind::Browser,
        SubscriberKind::VideoPlayer,
        SubscriberKind::Recorder,
        SubscriberKind::Other,
    ];

    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SubscriberKind::Client => "client",
            SubscriberKind::Browser => "browser",
            SubscriberKind::VideoPlayer => "video player",
            SubscriberKind::Recorder => "recorder",
            SubscriberKind::Other => "other",
        }
    }
}

/// The display that a player wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WantedDisplay {
    /// Size of the player's window, in pixels.
    pub size: Size,
    /// Refresh rate in Hz, if the player's user chose one.
    pub rate: Option<NonZeroU16>,
}

/// The request of an external subscriber. Compare [`Offer`](crate::control::negotiate::Offer).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SubscribeRequest {
    /// The requested role.
    pub role: Role,
    /// Whether to take over the player's role.
    pub take_over: bool,
    /// The supported codecs: bit n for codec number n.
    pub codecs: u32,
    /// Its kind.
    pub kind: SubscriberKind,
    /// Its name in lists and logs.
    pub name: String,
    /// The program or the protocol, for logs.
    pub software: String,
    /// How it takes frames, and the limits of its queue.
    pub intake: Intake,
    /// Its limits on the video: see `ClientConstraints`.
    pub constraints: ClientConstraints,
    /// The size of the display that it wants while it plays, in pixels; `None` if any size is acceptable.
    pub display: Option<Size>,
    /// Whether it reports the outcome of each sent frame ([`Feedback::Frame`](crate::send::subscriber::Feedback::Frame)).
    /// Without reports (a recorder), frames end as
    /// [`Outcome::SentUnacknowledged`](crate::trace::Outcome::SentUnacknowledged).
    pub reports: bool,
    /// Its device, if known to the host. The subscription ends when the device is forbidden.
    pub device: Option<PublicKey>,
}

impl SubscribeRequest {
    /// A request for this role without take-over, with any codec, the newest frames, no constraints and no
    /// reports.
    #[must_use]
    pub fn new(role: Role, name: &str) -> SubscribeRequest {
        SubscribeRequest {
            role,
            take_over: false,
            codecs: u32::MAX,
            kind: SubscriberKind::Other,
            name: name.to_owned(),
            software: String::new(),
            intake: Intake::Newest,
            constraints: ClientConstraints::default(),
            display: None,
            reports: false,
            device: None,
        }
    }
}
