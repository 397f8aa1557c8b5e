//! The subscriber trait: the receiver of a rendition's frames, and its feedback.
//!
//! An OpenUVR session is one kind of subscriber ([`Session`](super::session::Session)). Recorders, browsers and video
//! players are other kinds. All subscribers get the same encoded slices.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ecn::Ecn;
use crate::id::FrameId;
use crate::send::intake::Intake;
use crate::send::loss::LinkState;
use crate::send::pace::Pacing;
use crate::send::packetize::Protection;
use crate::send::update::Update;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Stage};
use crate::units::Bitrate;
use crate::validated::Invalid;
use crate::wire::control::Report;
use crate::wire::video::{
    Configuration, DrawingTimes, FrameHeader, MAX_SLICES, PoseEcho, SlicePlace, Views,
};

/// Receives the frames of a rendition. For each frame, the host calls [`start_frame`](Subscriber::start_frame),
/// [`slice`](Subscriber::slice) for each slice, and [`end`](Subscriber::end) until the frame has been sent. It calls
/// [`dropped`](Subscriber::dropped) instead if the frame is dropped, even if the frame was never started. The first
/// started frame is a key frame.
///
/// The methods must not block, because the media thread may call them, and calls `slice` in the encoder's callback.
/// Instead of waiting, `end` returns a deadline.
pub trait Subscriber: Send {
    /// A frame starts.
    fn start_frame(&mut self, now: Instant, frame: &Frame);

    /// The encoder delivered the frame's next slice.
    fn slice(&mut self, now: Instant, slice: &Slice<'_>);

    /// The encoder has delivered all slices. This method is called again after it returns [`Progress::Deferred`].
    fn end(&mut self, now: Instant) -> Progress;

    /// A captured frame was dropped before it reached `stage`, because of `why`.
    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause);

    /// A state of the host has changed. This method may be called at any time between the calls for frames.
    fn update(&mut self, now: Instant, update: Update) {
        let _ = (now, update);
    }

    /// The loss protection on the subscriber's link, if any.
    fn protection(&self) -> Option<&Protection> {
        None
    }

    /// How the subscriber takes frames. The value never changes.
    fn intake(&self) -> Intake {
        Intake::Newest
    }
}

impl<S: Subscriber + ?Sized> Subscriber for Box<S> {
    fn start_frame(&mut self, now: Instant, frame: &Frame) {
        (**self).start_frame(now, frame);
    }

    fn slice(&mut self, now: Instant, slice: &Slice<'_>) {
        (**self).slice(now, slice);
    }

    fn end(&mut self, now: Instant) -> Progress {
        (**self).end(now)
    }

    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause) {
        (**self).dropped(now, frame, stage, why);
    }

    fn update(&mut self, now: Instant, update: Update) {
        (**self).update(now, update);
    }

    fn protection(&self) -> Option<&Protection> {
        (**self).protection()
    }

    fn intake(&self) -> Intake {
        (**self).intake()
    }
}

/// The properties of a frame that are known before its first slice.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// The frame header. Only the player uses the echoed input.
    pub header: FrameHeader,
    /// The decoder configuration; `None` unless this is a key frame.
    pub configuration: Option<Configuration>,
    /// The player's pose with which the frame was drawn. It is only for the player.
    pub pose: Option<PoseEcho>,
    /// The views of the picture, if the application set them. All subscribers receive them: an observer sees the
    /// player's view, and displays one eye.
    pub views: Option<Views>,
    /// The times at which the application drew the frame.
    pub times: DrawingTimes,
    /// The number of slices.
    #[serde(deserialize_with = "slices")]
    pub slices: u8,
    /// The frame interval at the maximum frame rate.
    #[serde(with = "crate::validated::span")]
    pub interval: Duration,
    /// The state of the subscriber's link, from its [`Feedback`].
    #[serde(skip)]
    pub link: Option<LinkState>,
    /// The pacing on the subscriber's link; `None` if none is needed.
    #[serde(skip)]
    pub pacing: Option<Pacing>,
    /// The ECN field of the frame's datagrams. Only the player's datagrams can carry ECT(1).
    #[serde(skip)]
    pub ecn: Ecn,
}

fn slices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let slices = u8::deserialize(deserializer)?;
    match slices <= MAX_SLICES {
        true => Ok(slices),
        false => Err(serde::de::Error::custom(Invalid("slices"))),
    }
}

/// An encoded slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice<'a> {
    /// The position of the slice in the frame and in the picture.
    pub place: SlicePlace,
    /// If an intra refresh starts with this frame: the number of frames until the picture is clean.
    pub clean_after: Option<u16>,
    /// The bytes of the slice. H.264 is in Annex B format, with parameter sets before the first slice of a key frame.
    pub bytes: &'a [u8],
}

/// The state of a frame after its last slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The frame was sent.
    Sent(Departure),
    /// The link is busy. The rest of the frame will be sent at this time.
    Deferred(Instant),
    /// The subscriber did not take the frame, and can take no other frame before the next key frame.
    Missed,
}

/// The transmission of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// Send time of the first datagram; `None` if the link accepted no datagram.
    pub first: Option<Instant>,
    /// Send time of the last datagram.
    pub last: Option<Instant>,
    /// Number of datagrams, including FEC repair datagrams.
    pub datagrams: u32,
    /// Number of FEC repair datagrams.
    pub parity: u32,
    /// Bytes of all datagrams of the frame.
    pub bytes: u32,
    /// Bytes retransmitted since the previous frame, with all headers.
    pub again: u32,
    /// Whether the link rejected a part of the frame.
    pub overflowed: bool,
}

/// Feedback of a subscriber, from any kind of client.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Feedback {
    /// The report on a frame, with timestamps of the subscriber's clock. A subscriber that
    /// [reports](crate::host::SubscribeRequest::reports) sends exactly one report for each sent frame.
    Frame(Report),
    /// The loss and round-trip time of the subscriber's link.
    Link(LinkState),
    /// The rate that the congestion control of the subscriber's transport permits, such as Google Congestion Control. A
    /// player's estimates replace the rendition's congestion control until the player changes.
    Estimate(Bitrate),
    /// The subscriber's picture is damaged. The subscriber requests a key frame or another repair.
    KeyFrame {
        /// The newest frame that the subscriber displayed completely; [`FrameId::NONE`] if unknown.
        last_good: FrameId,
        /// The newest frame known to the subscriber.
        newest: FrameId,
    },
    /// A clock exchange (RFC 5905) between the host's clock and the subscriber's clock, which [`Feedback::Frame`] uses.
    Clock {
        /// Send time of the request (host clock).
        asked: Instant,
        /// Arrival of the request (subscriber clock).
        received: PeerInstant,
        /// Send time of the answer (subscriber clock).
        answered: PeerInstant,
        /// Arrival of the answer (host clock).
        heard: Instant,
    },
}
