//! The stages of a frame. Each stage has the same name in all outputs.
//!
//! The CSV, the Perfetto trace, the live table and the plots use these names. A stage that was not measured is `None`,
//! never zero or the current time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ecn::EcnCounts;
use crate::id::{FrameId, PoseId, SubscriberId, ViewId};
use crate::input::echo::EchoKind;
use crate::time::{Instant, Mapped, PeerInstant};

macro_rules! stages {
    ($($(#[doc = $doc:literal])+ $name:ident $side:ident,)+) => {
        /// A stage in a frame's path.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Stage { $($(#[doc = $doc])+ $name,)+ }

        impl Stage {
            /// All stages in order.
            pub const ALL: &[Stage] = &[$(Stage::$name,)+];

            /// The stage's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Stage::$name => stringify!($name),)+ }
            }

            /// The machine whose clock the timestamp of this stage uses.
            #[must_use]
            pub const fn side(self) -> Side {
                match self { $(Stage::$name => Side::$side,)+ }
            }
        }
    };
}

/// The machine whose clock a stage's timestamp uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The machine where the application runs.
    Host,
    /// The machine with the display.
    Client,
}

stages! {
    /// The event or pose was read from its device.
    InputSampled Client,
    /// The datagram with the input arrived.
    InputReceived Host,
    /// The input was injected into the window system or device.
    InputInjected Host,
    /// The application read the input (application API and OpenXR only).
    InputConsumed Host,
    /// The application took the pose and started the frame (application API and OpenXR only).
    RenderBegun Host,
    /// The pixels are in a buffer of the host.
    Captured Host,
    /// The colours were converted.
    Converted Host,
    /// The first bytes of the frame left the encoder.
    FirstSlice Host,
    /// The last bytes of the frame left the encoder.
    Encoded Host,
    /// The first datagram was handed to the link.
    FirstSent Host,
    /// The last datagram was handed to the link.
    LastSent Host,
    /// The first datagram arrived.
    FirstReceived Client,
    /// Enough data for the complete frame was received.
    Recoverable Client,
    /// The picture was decoded.
    Decoded Client,
    /// The picture was handed to the display.
    Submitted Client,
    /// The picture is visible. The display reports this time, in the past or in the future, if it supports that.
    Presented Client,
}

/// Number of stages.
pub const STAGES: usize = Stage::ALL.len();

/// The timestamps of one frame on one machine, on that machine's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Stamps([Option<Instant>; STAGES]);

impl Stamps {
    /// Sets the time of `stage`, unless it is already set.
    pub fn stamp(&mut self, stage: Stage, at: Instant) {
        self.0[stage as usize].get_or_insert(at);
    }

    /// Removes the time of `stage`, so that a more exact time can be set.
    pub fn clear(&mut self, stage: Stage) {
        self.0[stage as usize] = None;
    }

    /// The time of `stage`, if it was measured.
    #[must_use]
    pub fn at(&self, stage: Stage) -> Option<Instant> {
        self.0[stage as usize]
    }
}

/// How faithfully a displayed picture reproduces the captured picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Fidelity {
    /// All data of the frame and of the frames that it references arrived.
    Complete,
    /// A missing part was concealed.
    Concealed,
    /// The frame arrived complete but references a damaged picture.
    Tainted,
}

/// The reason why a frame was not displayed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum DropCause {
    /// A newer frame replaced this one before the stage.
    Superseded,
    /// The frame was skipped because the link was full.
    CongestionSkipped,
    /// The encoder failed.
    EncodeFailed,
    /// The link's send buffer was full.
    SendBufferFull,
    /// The frame did not arrive completely before its deadline.
    Lost,
    /// The decoder failed.
    DecodeFailed,
    /// The client could not decode the frame, because it was waiting for a key frame.
    AwaitingKeyFrame,
    /// The session ended before the client could report on the frame.
    SessionEnded,
    /// No report on the frame arrived in time, although the session continued.
    Unreported,
}

impl DropCause {
    /// All causes, in the order of their numbers on the wire, from 0.
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

/// The outcome of a captured frame for one subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The frame was submitted to the display.
    Displayed(Fidelity),
    /// The frame was sent completely to a subscriber that sends no reports, such as a recorder, so its further path is
    /// unknown.
    SentUnacknowledged,
    /// The frame was dropped before it reached `stage`, because of `why`.
    Dropped {
        /// The first stage that the frame did not reach.
        stage: Stage,
        /// The cause.
        why: DropCause,
    },
}

impl Outcome {
    /// Whether the frame was displayed completely, and therefore counts for latency and frame rate.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Outcome::Displayed(Fidelity::Complete))
    }
}

/// The client's timestamps of one frame, as reported to the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClientStamps {
    /// [`Stage::FirstReceived`] (client clock).
    pub first_received: Option<PeerInstant>,
    /// [`Stage::FirstReceived`] on the host's clock, with its error bound.
    pub first_received_here: Option<Mapped<Instant>>,
    /// From [`Stage::FirstReceived`] to [`Stage::Recoverable`].
    #[serde(with = "crate::validated::optional_span")]
    pub recoverable: Option<Duration>,
    /// From [`Stage::FirstReceived`] to [`Stage::Decoded`].
    #[serde(with = "crate::validated::optional_span")]
    pub decoded: Option<Duration>,
    /// From [`Stage::FirstReceived`] to [`Stage::Submitted`].
    #[serde(with = "crate::validated::optional_span")]
    pub submitted: Option<Duration>,
    /// From [`Stage::FirstReceived`] to [`Stage::Presented`].
    #[serde(with = "crate::validated::optional_span")]
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

    /// `stage` on the host's clock, with its error bound.
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

/// The age of a frame when its client submits it to the display. The fields have ILLIXR's names. The first age is
/// measured only on the client's clock and is exact. The other ages start on the host's clock and have the error of the
/// clock estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DisplayLatency {
    /// The time since the sampling of the pose with which the frame was drawn: motion to photon.
    pub imu_to_display: Option<Duration>,
    /// The time since the head pose was predicted from that sample.
    pub predict_to_display: Option<Duration>,
    /// The time since the application started to draw.
    pub render_to_display: Option<Duration>,
    /// Error bound of the last two ages; `None` if both are unknown.
    pub bound: Option<Duration>,
}

impl DisplayLatency {
    /// Each value with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Option<Duration>); 3] {
        [
            ("imu_to_display", self.imu_to_display),
            ("predict_to_display", self.predict_to_display),
            ("render_to_display", self.render_to_display),
        ]
    }
}

/// The record of one captured frame and one subscriber: a row of the CSV.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FrameRecord {
    /// The subscriber.
    pub subscriber: SubscriberId,
    /// The view.
    pub view: ViewId,
    /// The frame of the view.
    pub frame: FrameId,
    /// The host's timestamps.
    pub host: Stamps,
    /// The client's timestamps.
    pub client: ClientStamps,
    /// The outcome of the frame.
    pub outcome: Outcome,
    /// The cost of the frame; all zero if the frame was not encoded.
    pub cost: FrameCost,
    /// Motion-to-photon latency: the time from [`Stage::InputSampled`] to the last stage in this record, both on the
    /// client's clock. The sample is the newest input that this frame is the first to show or, without such an input,
    /// the frame's head pose.
    #[serde(with = "crate::validated::optional_span")]
    pub motion_to_photon: Option<Duration>,
    /// Whether the motion-to-photon latency is exact or a lower bound.
    pub echo: EchoKind,
    /// Media datagrams of all streams that the client received since its previous report on any view.
    pub received: u16,
    /// Media datagrams of all streams that the client found missing since its previous report on any view.
    pub missing: u16,
    /// Number of runs of missing datagrams, from which the mean run length follows.
    pub runs: u16,
    /// Fragments of this frame that were recovered by FEC.
    pub repaired: u16,
    /// Fragments of this frame that the client received from retransmissions.
    pub resent: u16,
    /// The pose with which the application drew the frame, as the client read it from the frame's data.
    pub pose: Option<PoseId>,
    /// The counts of the ECN fields of the view's datagrams that the client received since its previous report; `None`
    /// if the client did not report counts.
    pub ecn: Option<EcnCounts>,
    /// The age of the frame at the client. Only the client knows it.
    #[serde(skip)]
    pub age: DisplayLatency,
}

impl FrameRecord {
    /// The record of a frame of which only the outcome is known.
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
            ecn: None,
            age: DisplayLatency::default(),
        }
    }

    /// The time from [`Stage::Captured`] to the last stage that the client reports, with its error bound. The last
    /// stage is [`Stage::Presented`] if it was measured, otherwise [`Stage::Submitted`]. `None` if a required stage was
    /// not measured or the clocks are not synchronised.
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

/// The cost of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FrameCost {
    /// Whether the frame was a key frame.
    pub key_frame: bool,
    /// Whether the frame repeats a picture that was sent before: for static refinement, for a subscriber that needs
    /// frames of a still picture, or for a constant frame rate.
    pub repeats: bool,
    /// The quantisation parameter of the frame.
    pub qp: u8,
    /// Number of datagrams, including repair datagrams but not retransmissions.
    pub datagrams: u32,
    /// Number of repair datagrams.
    pub parity: u32,
    /// Bytes of all datagrams of the frame, including protocol headers and tags but not transport headers.
    pub bytes: u32,
}
