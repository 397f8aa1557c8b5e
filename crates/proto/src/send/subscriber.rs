//! Who takes a rendition's frames, and what they say of what arrived.
//!
//! An OpenUVR session is one kind ([`Session`](super::session::Session)); a recorder, a browser or a
//! player of another protocol is another. All of them get the same encoded slices.

use std::time::Duration;

use crate::id::FrameId;
use crate::send::intake::Intake;
use crate::send::loss::LinkState;
use crate::send::packetize::Protection;
use crate::send::update::Update;
use crate::time::{Instant, PeerInstant};
use crate::trace::{DropCause, Stage};
use crate::units::Bitrate;
use crate::wire::control::Report;
use crate::wire::video::{Configuration, DrawingTimes, FrameHeader, PoseEcho, SlicePlace, Views};

/// Takes the frames of a rendition. The calls for one frame are [`start_frame`](Subscriber::start_frame), one
/// [`slice`](Subscriber::slice) for each slice, and [`end`](Subscriber::end) until it has left; or
/// [`dropped`](Subscriber::dropped), also for a frame that never began. The first frame that begins is
/// a key frame.
///
/// They come from the encoder's callback: none of them may wait. What must wait does so by a deadline,
/// which `end` names.
pub trait Subscriber: Send {
    /// A frame begins.
    fn start_frame(&mut self, now: Instant, frame: &Frame);

    /// The encoder has handed over a slice of it. Slices come in order.
    fn slice(&mut self, now: Instant, slice: &Slice<'_>);

    /// The encoder has handed over all of them. With [`Progress::Waits`] it is called again.
    fn end(&mut self, now: Instant) -> Progress;

    /// A captured frame ends here: `stage` did not happen, because of `why`.
    fn dropped(&mut self, now: Instant, frame: FrameId, stage: Stage, why: DropCause);

    /// Something that the host tells everybody has changed. Calls come beside those for frames, in any
    /// place between them.
    fn update(&mut self, now: Instant, update: Update) {
        let _ = (now, update);
    }

    /// What is done against losses on its link, if anything is.
    fn protection(&self) -> Option<&Protection> {
        None
    }

    /// How it takes frames. Always the same one.
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

/// What is known of a frame before its first slice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Frame {
    /// Its names. The input that it echoes is the player's: nobody else is told of it.
    pub header: FrameHeader,
    /// What a decoder has to know, with a key frame.
    pub configuration: Option<Configuration>,
    /// The player's pose that it was drawn with: nobody else is told of it, either.
    pub pose: Option<PoseEcho>,
    /// The views of its picture, if the application said so. They are told to all: whoever watches sees from
    /// where the player looks, and shows one eye.
    pub views: Option<Views>,
    /// When it was drawn.
    pub times: DrawingTimes,
    /// How many slices follow.
    pub slices: u8,
    /// Between two frames at the highest rate.
    pub interval: Duration,
    /// What is known of the subscriber's link, from its [`Feedback`].
    pub link: Option<LinkState>,
    /// What that link was found to carry when it was full of late; `None`: more than is known.
    pub capacity: Option<Bitrate>,
}

/// A slice that has left the encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice<'a> {
    /// Its place in the frame and in the picture.
    pub place: SlicePlace,
    /// If an intra refresh begins with this frame, after how many frames the picture is clean.
    pub clean_after: Option<u16>,
    /// Its bytes; of H.264 in Annex B form, parameter sets in front of a key frame's first.
    pub bytes: &'a [u8],
}

/// How far a frame has come whose slices are all there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It is on its way.
    Left(Departure),
    /// The rest of it leaves at this moment: until then the link is busy.
    Waits(Instant),
    /// It was not taken, and no other can be before the next key frame.
    Missed,
}

/// What left of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// When its first datagram was handed to the link; `None`: the link took nothing.
    pub first: Option<Instant>,
    /// The same of its last one.
    pub last: Option<Instant>,
    /// Datagrams, those of parity included; 0 where there are none.
    pub datagrams: u32,
    /// Datagrams of parity among them.
    pub parity: u32,
    /// Bytes of all of them.
    pub bytes: u32,
    /// Bytes that were sent again since the frame before, with all headers.
    pub again: u32,
    /// The link did not take everything.
    pub overflowed: bool,
}

/// What a subscriber says of what it gets; any kind of client can say it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Feedback {
    /// What became of a frame, with the stamps that it has, on its clock. Said once; of a subscriber
    /// that [reports](crate::host::SubscribeRequest::reports), for each frame that left for it.
    Frame(Report),
    /// What its link loses, and how long the way there and back is.
    Link(LinkState),
    /// Its picture is broken: a key frame, or what mends it otherwise, is wanted.
    KeyFrame {
        /// The newest frame that it displayed whole; [`FrameId::NONE`] if it does not say.
        last_good: FrameId,
        /// The newest frame that it had heard of.
        newest: FrameId,
    },
    /// An exchange of clocks with whoever gives the stamps of [`Feedback::Frame`], as RFC 5905 has it.
    Clock {
        /// When it was asked what time it is there, on the host's clock.
        asked: Instant,
        /// When the question arrived, on the subscriber's.
        received: PeerInstant,
        /// When the answer left, on the subscriber's.
        answered: PeerInstant,
        /// When it was here, on the host's.
        heard: Instant,
    },
}
