//! What a subscriber that is no OpenUVR session asks a host for.

use crate::control::identity::PublicKey;
use crate::control::negotiate::{ClientConstraints, Role};
use crate::send::intake::Intake;

/// What kind of program a subscriber is: for figures, nothing follows from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SubscriberKind {
    /// An OpenUVR session.
    Client,
    /// A browser.
    Browser,
    /// A program that plays streams.
    VideoPlayer,
    /// It writes to a file.
    Recorder,
    /// Something else.
    Other,
}

impl SubscriberKind {
    /// All, in the order of their numbers between processes, from 0 on.
    pub const ALL: [SubscriberKind; 5] = [
        SubscriberKind::Client,
        SubscriberKind::Browser,
        SubscriberKind::VideoPlayer,
        SubscriberKind::Recorder,
        SubscriberKind::Other,
    ];

    /// Its word, as in figures.
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

/// What a subscriber asks for that is no session: see [`Offer`](crate::control::negotiate::Offer).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribeRequest {
    /// The role that it wants.
    pub role: Role,
    /// Whether it wants to take the player's role from whoever has it.
    pub take_over: bool,
    /// The codecs that it can use: bit n for codec number n.
    pub codecs: u32,
    /// What it is.
    pub kind: SubscriberKind,
    /// What it is called in lists and logs.
    pub name: String,
    /// The program or the protocol, for logs.
    pub software: String,
    /// How it takes frames, and how many may wait for it.
    pub intake: Intake,
    /// What it wants of the video while it plays.
    pub constraints: ClientConstraints,
    /// Whether it says of each frame that left for it what became of it
    /// ([`Feedback::Frame`](crate::send::subscriber::Feedback::Frame)). Of one that does not (a recorder)
    /// frames end as [`Outcome::SentUnacknowledged`](crate::trace::Outcome::SentUnacknowledged).
    pub reports: bool,
    /// The device that it runs on, if that is one that the host knows: it loses its place when the device
    /// is forbidden.
    pub device: Option<PublicKey>,
}

impl SubscribeRequest {
    /// One that wants this role if nobody has it, takes any codec and the newest frames, has no constraints, and does not
    /// report.
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
            reports: false,
            device: None,
        }
    }
}
