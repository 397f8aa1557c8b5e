//! One subscriber as the media thread sees it: where its datagrams go, and what left of a frame; and
//! the way of a frame's slices to all of them.

use std::time::Duration;

use openuvr_media::encode::{self, Ask, Encoder, Slice};
use openuvr_media::picture::Picture;
use openuvr_net::{Link, LinkError};
use openuvr_proto::control::negotiate::{Role, Wishes};
use openuvr_proto::id::{PathId, SessionId};
use openuvr_proto::send::pace::Pacer;
use openuvr_proto::send::packetize::{MediaSender, Protection, SendBuf};
use openuvr_proto::send::policy::TRANSPORT_HEADERS;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{Stage, Stamps};
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::ResendRequest;
use openuvr_proto::wire::video::{Configuration, Extensions, FrameHeader, InputEcho, SlicePlace};

use crate::clock;

/// One subscriber.
pub(super) struct Destination {
    pub(super) session: SessionId,
    pub(super) path: PathId,
    pub(super) role: Role,
    pub(super) wishes: Wishes,
    pub(super) media: Box<MediaSender>,
    pub(super) protection: Protection,
    /// Keeps a burst within what the link was found to carry, if it was full of late.
    pub(super) pacer: Pacer,
    pub(super) capacity: Option<Bitrate>,
    /// Whether it has had a key frame: before one, nothing is of use to it.
    pub(super) started: bool,
    /// Bytes that were sent again, since the last frame.
    pub(super) again: u32,
    /// Of the frame that is being sent.
    pub(super) sent: Sent,
    /// Why the link did not take something, if not for want of room; and whether that was told.
    pub(super) refused: Option<(String, bool)>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
    pub(super) datagrams: u32,
    pub(super) parity: u32,
    pub(super) bytes: u32,
    pub(super) overflowed: bool,
}

impl Destination {
    pub(super) fn new(
        session: SessionId,
        path: PathId,
        role: Role,
        wishes: Wishes,
        media: Box<MediaSender>,
    ) -> Destination {
        Destination {
            session,
            path,
            role,
            wishes,
            media,
            protection: Protection::default(),
            pacer: Pacer::default(),
            capacity: None,
            started: false,
            again: 0,
            sent: Sent::default(),
            refused: None,
        }
    }

    /// Hands what is in `buffer` to the link.
    pub(super) fn send(&mut self, buffer: &SendBuf, link: &dyn Link) {
        for (bytes, each) in buffer.runs() {
            match link.send(self.path, bytes, each) {
                Ok(()) => {
                    let now = clock::now();
                    self.sent.first.get_or_insert(now);
                    self.sent.last = Some(now);
                }
                Err(LinkError::Full) => self.sent.overflowed = true,
                // An unreachable network may come back: for this frame it is as if the buffer
                // were full.
                Err(e) => {
                    self.sent.overflowed = true;
                    self.refused.get_or_insert_with(|| (e.to_string(), false));
                }
            }
        }
        self.sent.datagrams += u32::try_from(buffer.datagrams()).unwrap_or(u32::MAX);
        self.sent.parity += u32::try_from(buffer.parity()).unwrap_or(u32::MAX);
        self.sent.bytes += u32::try_from(buffer.len()).unwrap_or(u32::MAX);
    }

    /// Waits until the link can take `bytes` more, where it was found to be full.
    pub(super) fn pace(&mut self, bytes: usize, interval: Duration) {
        let wait = self
            .pacer
            .wait(clock::now(), bytes, self.capacity, interval);
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    /// Sends the parity of the frame whose last slice was sent.
    pub(super) fn send_parity(&mut self, buffer: &mut SendBuf, link: &dyn Link) {
        self.media.parity(clock::now(), buffer);
        self.send(buffer, link);
    }

    /// Sends again what the client asks for.
    pub(super) fn send_again(
        &mut self,
        request: &ResendRequest,
        buffer: &mut SendBuf,
        link: &dyn Link,
    ) {
        self.media.resend(clock::now(), request, buffer);
        for (bytes, each) in buffer.runs() {
            // What does not fit is lost once more.
            let _ = link.send(self.path, bytes, each);
        }
        let datagrams = u32::try_from(buffer.datagrams()).unwrap_or(u32::MAX);
        self.again +=
            u32::try_from(buffer.len()).unwrap_or(u32::MAX) + datagrams * TRANSPORT_HEADERS;
    }
}

/// Encodes, and sends each slice to everybody the moment it is there.
#[expect(
    clippy::too_many_arguments,
    reason = "the frame's whole way in one call"
)]
pub(super) fn send_slices(
    encoder: &mut dyn Encoder,
    picture: &Picture<'_>,
    ask: &Ask<'_>,
    count: u8,
    (header, configuration): (&FrameHeader, Option<Configuration>),
    destinations: &mut [Destination],
    buffer: &mut SendBuf,
    link: &dyn Link,
    interval: Duration,
    stamps: &mut Stamps,
) -> Result<encode::Encoded, encode::EncodeError> {
    let unechoed = FrameHeader {
        echo: InputEcho::default(),
        ..*header
    };
    encoder.encode(picture, ask, &mut |slice: Slice<'_>| {
        stamps.stamp(Stage::FirstSlice, clock::now());
        let place = SlicePlace {
            index: slice.index,
            count,
            first_mb: slice.first_mb,
            mbs: slice.mbs,
        };
        for d in destinations.iter_mut().filter(|d| d.started) {
            // Input is counted per session: the player's numbers mean nothing to others.
            let header = match d.role {
                Role::Player => header,
                Role::Observer => &unechoed,
            };
            d.pace(slice.bytes.len(), interval);
            let extensions = Extensions {
                configuration,
                clean_after: slice.clean_after,
            };
            d.media
                .slice(clock::now(), header, extensions, place, slice.bytes, buffer);
            d.send(buffer, link);
        }
    })
}
