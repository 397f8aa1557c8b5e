//! The subscriber trait: the receiver of a rendition's frames, and its feedback.
//!
//! An OpenUVR session is one kind ([`Session`](super::session::Session)); recorders, browsers and players of
//! other protocols are others. All get the same encoded slices.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use crate::id::FrameId;
use crate::send::intake::Intake;
use crate::send::loss::LinkState;
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

/// Receives the frames of a rendition. The calls for one frame are [`start_frame`](Subscriber::start_frame),
/// [`slice`](Subscriber::slice) for each slice, and [`end`](Subscriber::end) until the frame has been sent; or
/// [`dropped`](Subscriber::dropped), including for a frame that was not started. The first started frame is a key frame.
///
/// The methods are called in the encoder's callback and must not block. `end` returns a deadline instead.
pub trait Subscriber: Send {
    /// A frame starts.
    fn start_frame(&mut self, now: Instant, frame: &Frame);

    /// The encoder delivered the frame's next slice.
    fn slice(&mut self, now: Instant, slice: &Slice<'_>);

    /// The encoder has delivered all slices. Called again after [`Progress::Deferred`].
    fn end(&mut self, now: Instant) -> Progress;

    /// A captured frame ends: `stage` did not happen because of `why`.
    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause);

    /// A state of the host changed. Calls may come at any time between those for frames.
    fn update(&mut self, now: Instant, update: Update) {
        let _ = (now, update);
    }

    /// The loss protection on the subscriber's link, if any.
    fn protection(&self) -> Option<&Protection> {
        None
    }

    /// How the subscriber takes frames. This is constant.
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

/// The properties of a frame before its first slice.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Its header. The echoed input is only for the player.
    pub header: FrameHeader,
    /// The decoder configuration, with a key frame.
    pub configuration: Option<Configuration>,
    /// The player's pose with which the frame was drawn. Only for the player.
    pub pose: Option<PoseEcho>,
    /// The views of its picture, if the application set them. They are sent to all subscribers: observers see the player's
    /// view, and display one eye.
    pub views: Option<Views>,
    /// When it was drawn.
    pub times: DrawingTimes,
    /// The number of slices.
    #[serde(deserialize_with = "slices")]
    pub slices: u8,
    /// The frame interval at the maximum rate.
    #[serde(with = "crate::validated::span")]
    pub interval: Duration,
    /// The state of the subscriber's link, from its [`Feedback`].
    #[serde(skip)]
    pub link: Option<LinkState>,
    /// The capacity of that link, if it was recently full; `None`: unknown.
    #[serde(skip)]
    pub capacity: Option<Bitrate>,
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
    /// Its position in the frame and in the picture.
    pub place: SlicePlace,
    /// If an intra refresh starts with this frame: the number of frames until the picture is clean.
    pub clean_after: Option<u16>,
    /// Its bytes; H.264 in Annex B format, with parameter sets before a key frame's first slice.
    pub bytes: &'a [u8],
}

/// The state of a frame after its last slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The frame was sent.
    Sent(Departure),
    /// The rest will be sent at this time, because the link is busy.
    Deferred(Instant),
    /// The frame was not taken, and no other frame can be before the next key frame.
    Missed,
}

/// The transmission of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// Send time of its first datagram; `None`: the link accepted none.
    pub first: Option<Instant>,
    /// Send time of its last datagram.
    pub last: Option<Instant>,
    /// Number of datagrams, including FEC repair; 0 if there were none.
    pub datagrams: u32,
    /// FEC repair datagrams among them.
    pub parity: u32,
    /// Bytes of all these datagrams.
    pub bytes: u32,
    /// Bytes retransmitted since the previous frame, with all headers.
    pub again: u32,
    /// The link did not accept everything.
    pub overflowed: bool,
}

/// Feedback of a subscriber, from any kind of client.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Feedback {
    /// The report on a frame, with timestamps of the subscriber's clock. Sent once. A subscriber that
    /// [reports](crate::host::SubscribeRequest::reports) sends one for each sent frame.
    Frame(Report),
    /// The loss and round trip of its link.
    Link(LinkState),
    /// Its picture is broken, so it requests a key frame or another repair.
    KeyFrame {
        /// The newest frame that it displayed completely; [`FrameId::NONE`] if unknown.
        last_good: FrameId,
        /// The newest frame known to it.
        newest: FrameId,
    },
    /// A clock exchange (RFC 5905) with the clock of [`Feedback::Frame`].
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
