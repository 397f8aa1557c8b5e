//! Packetization: each slice is fragmented and sealed as soon as it is encoded. FEC repair datagrams follow at the end
//! of a block or frame.

use std::time::Duration;

use super::fec::{BlockCoder, FecLevel, FecPlan};
use super::retransmission::SentBodies;
use crate::bytes::MAX_DATAGRAM;
use crate::ecn::Ecn;
use crate::send::loss::LinkState;
use crate::time::Instant;
use crate::wire::control::RetransmissionRequest;
use crate::wire::fec::{BLOCK, FecRepair};
use crate::wire::header::{HEADER, TAG};
use crate::wire::seal::Sealer;
use crate::wire::video::{
    Extensions, FULL_PAYLOAD, FecPlace, Flags, Fragment, FragmentPlace, FrameHeader, MAX_FRAGMENTS,
    SlicePlace,
};

/// Consecutive sealed datagrams. The storage is reused.
#[derive(Debug, Default)]
pub struct SendBuf {
    bytes: Vec<u8>,
    /// The end of each datagram.
    ends: Vec<usize>,
    /// The number of FEC repair datagrams.
    parity: usize,
    /// The ECN field of all datagrams.
    ecn: Ecn,
}

impl SendBuf {
    /// The ECN field with which to send the datagrams, if the transport has one.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Sets the ECN field of these and later datagrams.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// The number of datagrams.
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.ends.len()
    }

    /// The number of FEC repair datagrams.
    #[must_use]
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// The total bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The datagrams.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start..*end])
    }

    /// The datagrams in runs, each for one send call of a link. A run consists of its bytes and the length of every
    /// datagram except the last, which may be shorter.
    pub fn runs(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = match next {
                0 => 0,
                n => self.ends[n - 1],
            };
            let mut end = *self.ends.get(next)?;
            let each = end - start;
            next += 1;
            while let Some(further) = self.ends.get(next) {
                let length = further - end;
                if length > each {
                    break;
                }
                end = *further;
                next += 1;
                if length < each {
                    break;
                }
            }
            Some((&self.bytes[start..end], each))
        })
    }

    /// Removes all datagrams. The ECN field stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.parity = 0;
    }

    /// Appends a datagram with the body that `write` writes.
    pub(super) fn push(
        &mut self,
        now: Instant,
        sealer: &mut Sealer,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.bytes.len();
        self.bytes.resize(start + HEADER, 0);
        write(&mut self.bytes);
        self.bytes.resize(self.bytes.len() + TAG, 0);
        debug_assert!(self.bytes.len() - start <= MAX_DATAGRAM);
        sealer.seal(now, &mut self.bytes[start..]);
        self.ends.push(self.bytes.len());
    }
}

/// The loss protection of one subscriber's frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Protection {
    /// The amount of FEC.
    pub parity: FecPlan,
    /// Whether requested datagrams are retransmitted.
    pub resend: bool,
}

impl Protection {
    /// Adapts to the link. If the round trip is a frame interval or longer, a retransmission would arrive only with the
    /// next frame and be useless. Retransmission is then off, and frames get more FEC. A retransmission that takes
    /// longer than half a frame interval is a visible delay, so the limit of FEC is then raised for bursts of losses.
    pub fn follow(&mut self, link: &LinkState, interval: Duration) {
        self.resend = link.round_trip < interval;
        let level = match self.resend {
            true if link.round_trip <= interval / 2 => FecLevel::Standard,
            true => FecLevel::Raised,
            false => FecLevel::High,
        };
        self.parity.follow(link.loss, level);
    }
}

/// Fragments and seals one view of a subscriber's video.
pub struct VideoSender {
    sealer: Sealer,
    protection: Protection,
    /// The current frame.
    header: Option<FrameHeader>,
    /// The number of the current FEC block; `None` after block 255. The rest of the frame then has no FEC.
    block: Option<u8>,
    coder: BlockCoder,
    bodies: SentBodies,
}

impl VideoSender {
    /// Creates a view's sender; used by [`MediaSender::video`](super::plane::MediaSender::video).
    pub(super) fn new(sealer: Sealer) -> VideoSender {
        VideoSender {
            sealer,
            protection: Protection::default(),
            header: None,
            block: Some(0),
            coder: BlockCoder::default(),
            bodies: SentBodies::default(),
        }
    }

    /// Sets the protection from the next frame on. Call it between frames.
    pub fn protect(&mut self, protection: &Protection) {
        if !protection.resend {
            self.bodies.clear();
        }
        self.protection.clone_from(protection);
    }

    /// Replaces `out` by the datagrams of one slice. `extensions` are sent with slice 0. A slice of more than
    /// [`MAX_FRAGMENTS`] fragments is not sent at all, and the receiver conceals it.
    pub fn slice(
        &mut self,
        now: Instant,
        header: &FrameHeader,
        extensions: Extensions,
        slice: SlicePlace,
        bytes: &[u8],
        out: &mut SendBuf,
    ) {
        out.clear();
        self.start_frame(header);
        let none = Extensions::default();
        let extensions = if slice.index == 0 { extensions } else { none };
        let first = FULL_PAYLOAD - extensions.len();
        let count = 1 + bytes.len().saturating_sub(first).div_ceil(FULL_PAYLOAD);
        let Some(count) = u16::try_from(count).ok().filter(|c| *c <= MAX_FRAGMENTS) else {
            return;
        };
        let mut offset = 0;
        for index in 0..count {
            let room = if index == 0 { first } else { FULL_PAYLOAD };
            let payload = &bytes[offset..bytes.len().min(offset + room)];
            let place = FragmentPlace {
                index,
                count,
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
            };
            let extensions = if index == 0 { extensions } else { none };
            self.fragment(now, (slice, place), extensions, payload, out);
            offset += payload.len();
        }
    }

    /// Resets the FEC block if `header` starts a new frame.
    fn start_frame(&mut self, header: &FrameHeader) {
        if self.header != Some(*header) {
            self.header = Some(*header);
            self.block = Some(0);
            self.coder.clear();
        }
    }

    fn fragment(
        &mut self,
        now: Instant,
        (slice, place): (SlicePlace, FragmentPlace),
        extensions: Extensions,
        payload: &[u8],
        out: &mut SendBuf,
    ) {
        let Some(header) = self.header else { return };
        if self.coder.count() == BLOCK {
            self.end_block(now, false, out);
        }
        let block = self.block.filter(|_| !self.protection.parity.is_none());
        let fragment = Fragment {
            header,
            slice,
            place,
            fec: FecPlace {
                block: block.unwrap_or(0),
                index: u8::try_from(self.coder.count()).unwrap_or(0),
            },
            flags: Flags {
                resend: self.protection.resend,
                parity: block.is_some(),
                again: false,
            },
            extensions,
            payload,
        };
        let (coder, bodies) = (&mut self.coder, &mut self.bodies);
        let resend = self.protection.resend;
        out.push(now, &mut self.sealer, |bytes| {
            let start = bytes.len();
            fragment.write(bytes);
            let body = &bytes[start..];
            if block.is_some() {
                coder.push(body);
            }
            if resend {
                bodies.push(now, header.frame, (slice.index, place.index), body);
            }
        });
    }

    /// Replaces `out` by the frame's remaining FEC repair datagrams. Call it once, after the last slice.
    pub fn parity(&mut self, now: Instant, out: &mut SendBuf) {
        out.clear();
        self.end_block(now, true, out);
        self.header = None;
        self.coder.clear();
    }

    /// Appends the block's FEC repair datagrams.
    fn end_block(&mut self, now: Instant, last: bool, out: &mut SendBuf) {
        let data = self.coder.count();
        let parity = self.protection.parity.parity(data);
        let (Some(block), Some(header), 1..) = (self.block, self.header, parity) else {
            return;
        };
        let [data, count] = [data, parity].map(|n| u8::try_from(n).unwrap_or(u8::MAX));
        let sealer = &mut self.sealer;
        self.coder.finish(parity, |index, shard| {
            let parity = FecRepair {
                stream: header.stream,
                view: header.view,
                last,
                frame: header.frame,
                block,
                index: u8::try_from(index).unwrap_or(u8::MAX),
                data,
                parity: count,
                shard,
            };
            out.push(now, sealer, |bytes| parity.write(bytes));
            out.parity += 1;
        });
        self.block = block.checked_add(1);
    }

    /// Replaces `out` by the requested recent bodies, sealed again. Each body is retransmitted at most twice, and not
    /// if it is older than 100 ms.
    pub fn resend(&mut self, now: Instant, request: &RetransmissionRequest, out: &mut SendBuf) {
        out.clear();
        for body in self.bodies.requested(now, request) {
            out.push(now, &mut self.sealer, |bytes| {
                let start = bytes.len();
                bytes.extend_from_slice(body);
                bytes[start + Flags::AT] |= Flags::RETRANSMITTED;
            });
        }
    }
}
