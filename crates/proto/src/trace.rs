//! The vocabulary of a frame's journey: one word per stage, everywhere.
//!
//! The same words appear in the CSV, the Perfetto trace, the live table and the plots. A stage
//! that was not measured is `None`, never zero and never "now".

use std::time::Duration;

use crate::id::{FrameId, PoseId, SubscriberId, ViewId};
use crate::input::echo::EchoKind;
use crate::time::{Instant, Mapped, PeerInstant};

macro_rules! stages {
    ($($(#[doc = $doc:literal])+ $name:ident $side:ident,)+) => {
        /// A point in a frame's journey.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Stage { $($(#[doc = $doc])+ $name,)+ }

        impl Stage {
            /// All stages in the order of the journey.
            pub const ALL: &[Stage] = &[$(Stage::$name,)+];

            /// The stage's one word.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Stage::$name => stringify!($name),)+ }
            }

            /// Whose clock stamps it.
            #[must_use]
            pub const fn side(self) -> Side {
                match self { $(Stage::$name => Side::$side,)+ }
            }
        }
    };
}

/// Whose clock a stage is stamped with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The machine where the application runs.
    Host,
    /// The machine that shows it.
    Client,
}

stages! {
    /// The event or pose was read from its device.
    InputSampled Client,
    /// Its datagram arrived.
    InputReceived Host,
    /// Handed to the window system or device.
    InputInjected Host,
    /// The application took it (application API and OpenXR only).
    InputConsumed Host,
    /// The application took the pose and began the frame (application API and OpenXR only).
    RenderBegun Host,
    /// The pixels are ours.
    Captured Host,
    /// Colour conversion done.
    Converted Host,
    /// First bytes out of the encoder.
    FirstSlice Host,
    /// Last bytes out of the encoder.
    Encoded Host,
    /// First datagram handed to the link.
    FirstSent Host,
    /// Last datagram handed to the link.
    LastSent Host,
    /// First datagram in.
    FirstReceived Client,
    /// Enough for the whole frame.
    Recoverable Client,
    /// Picture available.
    Decoded Client,
    /// Handed to the display.
    Submitted Client,
    /// The display says that it is (or will be) visible, where it can say so.
    Presented Client,
}

/// How many stages there are.
pub const STAGES: usize = Stage::ALL.len();

/// The stamps that one side took of one frame, on its own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamps([Option<Instant>; STAGES]);

impl Stamps {
    /// Notes that `stage` happened at `at`; the first stamp of a stage stays.
    pub fn stamp(&mut self, stage: Stage, at: Instant) {
        self.0[stage as usize].get_or_insert(at);
    }

    /// Forgets when `stage` happened: who knows better will say.
    pub fn clear(&mut self, stage: Stage) {
        self.0[stage as usize] = None;
    }

    /// When `stage` happened, if it was measured.
    #[must_use]
    pub fn at(&self, stage: Stage) -> Option<Instant> {
        self.0[stage as usize]
    }
}

/// How a displayed picture relates to what was captured.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fidelity {
    /// Every byte arrived, and so did every byte of what it refers to.
    Complete,
    /// Something of it was missing and was patched.
    Concealed,
    /// It arrived whole but builds on a picture that was not.
    Tainted,
}

/// Why a frame was not displayed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropCause {
    /// A newer frame took its place before this stage ran.
    Superseded,
    /// It was held back while the link's queue drained.
    CongestionSkipped,
    /// The encoder failed on it.
    EncodeFailed,
    /// The link's send buffer was full.
    SendBufferFull,
    /// None or too little of it arrived before its deadline.
    Lost,
    /// The decoder could not use it.
    DecodeFailed,
    /// The client was not (yet) able to take it: it waits for a key frame.
    AwaitingKeyFrame,
    /// The session ended before the client could report on it.
    SessionEnded,
    /// The client never reported on it although the session went on.
    Unreported,
}

impl DropCause {
    /// All, in the order of their numbers on the wire, from 0 on.
    pub const ALL: [DropCause; 9] = [
        DropCause::Superseded,
        DropCause::CongestionSkipped,
        DropCause::EncodeFailed,
        DropCause::SendBufferFull,
        DropCause::Lost,
        DropCause::DecodeFailed,
        DropCause::AwaitingKeyFrame,
        DropCause::SessionEnded,
        DropCause::Unreported,
    ];
}

/// The one end of a captured frame, per subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It was handed to the display.
    Displayed(Fidelity),
    /// It left whole for a subscriber that says nothing of its frames (a recorder): no more is known.
    SentUnacknowledged,
    /// It ended at `stage` (the stage that did not happen), because of `why`.
    Dropped {
        /// The stage that did not happen.
        stage: Stage,
        /// The cause.
        why: DropCause,
    },
}

impl Outcome {
    /// Whether it counts as latency and as a frame per second: displayed whole.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Outcome::Displayed(Fidelity::Complete))
    }
}

/// The stamps that the client took of one frame, as the host hears of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStamps {
    /// [`Stage::FirstReceived`] on the client's clock …
    pub first_received: Option<PeerInstant>,
    /// … and on the host's, with its bound.
    pub first_received_here: Option<Mapped<Instant>>,
    /// From [`Stage::FirstReceived`] to [`Stage::Recoverable`].
    pub recoverable: Option<Duration>,
    /// From [`Stage::FirstReceived`] to [`Stage::Decoded`].
    pub decoded: Option<Duration>,
    /// From [`Stage::FirstReceived`] to [`Stage::Submitted`].
    pub submitted: Option<Duration>,
    /// From [`Stage::FirstReceived`] to [`Stage::Presented`].
    pub presented: Option<Duration>,
}

impl ClientStamps {
    /// From [`Stage::FirstReceived`] to `stage`, if both were measured.
    #[must_use]
    pub fn since_first_received(&self, stage: Stage) -> Option<Duration> {
        match stage {
            Stage::FirstReceived => self.first_received.map(|_| Duration::ZERO),
            Stage::Recoverable => self.recoverable,
            Stage::Decoded => self.decoded,
            Stage::Submitted => self.submitted,
            Stage::Presented => self.presented,
            _ => None,
        }
    }

    /// `stage` on the host's clock, with its bound.
    #[must_use]
    pub fn here(&self, stage: Stage) -> Option<Mapped<Instant>> {
        let base = self.first_received_here?;
        let span = self.since_first_received(stage)?;
        Some(Mapped {
            at: base.at + span,
            bound: base.bound,
        })
    }
}

/// How old a frame is when its client hands it to the display, in ILLIXR's words. The first lies on the client's
/// clock alone and is exact; the others begin on the host's, and are as exact as the clocks are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DisplayLatency {
    /// From the sampling of the pose that it was drawn with: motion to photon.
    pub imu_to_display: Option<Duration>,
    /// From the moment at which the head's place was predicted from that pose.
    pub predict_to_display: Option<Duration>,
    /// From the moment at which the application began to draw.
    pub render_to_display: Option<Duration>,
    /// By how much these two may be off; `None` without them.
    pub bound: Option<Duration>,
}

impl DisplayLatency {
    /// Each with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Option<Duration>); 3] {
        [
            ("imu_to_display", self.imu_to_display),
            ("predict_to_display", self.predict_to_display),
            ("render_to_display", self.render_to_display),
        ]
    }
}

/// Everything that is known of one captured frame and one subscriber: a row of the CSV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRecord {
    /// The subscriber.
    pub subscriber: SubscriberId,
    /// The view.
    pub view: ViewId,
    /// Its frame.
    pub frame: FrameId,
    /// The host's stamps.
    pub host: Stamps,
    /// The client's stamps.
    pub client: ClientStamps,
    /// How it ended.
    pub outcome: Outcome,
    /// What it cost; all zero for a frame that was not encoded.
    pub cost: FrameCost,
    /// From [`Stage::InputSampled`] of the newest input that this frame is the first to show to
    /// the frame's last stage, all on the client's clock.
    pub motion_to_photon: Option<Duration>,
    /// Whether that figure is exact or a lower bound.
    pub echo: EchoKind,
    /// Media datagrams that the client received since the report before.
    pub received: u16,
    /// Media datagrams that the client found missing since the report before.
    pub missing: u16,
    /// Runs of them: what was lost in a row.
    pub runs: u16,
    /// Fragments of this frame that parity brought back.
    pub repaired: u16,
    /// Fragments of this frame that came because the client asked for them.
    pub resent: u16,
    /// The pose that the application drew the frame with, as the client read it from the frame.
    pub pose: Option<PoseId>,
    /// What its client knows of its age; the client alone has it.
    pub age: DisplayLatency,
}

impl FrameRecord {
    /// Of a frame of which no more than its outcome is known.
    #[must_use]
    pub fn new(
        subscriber: SubscriberId,
        (view, frame): (ViewId, FrameId),
        outcome: Outcome,
    ) -> FrameRecord {
        FrameRecord {
            subscriber,
            view,
            frame,
            host: Stamps::default(),
            client: ClientStamps::default(),
            outcome,
            cost: FrameCost::default(),
            motion_to_photon: None,
            echo: EchoKind::None,
            received: 0,
            missing: 0,
            runs: 0,
            repaired: 0,
            resent: 0,
            pose: None,
            age: DisplayLatency::default(),
        }
    }

    /// From [`Stage::Captured`] to the last stage that the client reports, [`Stage::Presented`] or else
    /// [`Stage::Submitted`], and by how much that may be off; `None` if one of them was not measured or the
    /// client's clock is not known.
    #[must_use]
    pub fn captured_to_last(&self) -> Option<Mapped<Duration>> {
        let last = [Stage::Presented, Stage::Submitted];
        let last = last.into_iter().find_map(|stage| self.client.here(stage))?;
        Some(Mapped {
            at: last.at.since(self.host.at(Stage::Captured)?),
            bound: last.bound,
        })
    }
}

/// What a frame cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameCost {
    /// Whether it was a key frame.
    pub key_frame: bool,
    /// Its quantiser.
    pub qp: u8,
    /// Datagrams, those of parity included; not what was sent again.
    pub datagrams: u32,
    /// Datagrams of parity among them.
    pub parity: u32,
    /// Bytes of all its datagrams, protocol headers and tags included, transport headers not.
    pub bytes: u32,
}
