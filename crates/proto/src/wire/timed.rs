//! The body of a datagram of a timed stream (audio, haptics, poses): the newest payload, and repetitions of earlier
//! payloads.
//!
//! ```text
//!  0      1      2      3      4                           8
//! ┌──────┬──────┬──────┬──────┬───────────────────────────┐
//! │ kind │stream│count │         reserved                 │
//! ├──────┴──────┴──────┴──────┴───────────────────────────┤ 8
//! │          sequence number of the newest payload        │
//! ├───────────────────────────────────────────────────────┤ 16
//! │       its capture time, ns of the sender's clock      │
//! └───────────────────────────────────────────────────────┘ 24   `count` payloads, the newest first:
//! ┌───────────────────────────┬─────────────┬─────────────┐
//! │ age difference, in ns     │ duration    │ bytes       │   8   bytes
//! └───────────────────────────┴─────────────┴─────────────┘
//! ```
//! The payloads after the newest one have descending numbers. They have already been sent, and are repeated as
//! protection against loss, as in RFC 2198. Unlike in RFC 2198, the newest payload comes first, times are in
//! nanoseconds, and the number of each payload is known. The reserved field is zero and ignored on receipt.

use zerocopy::little_endian::{I64, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{HEADER, TAG};
use super::media::{StreamId, StreamKind};
use crate::bytes::{MAX_DATAGRAM, Reader, Reject, Writer, range};
use crate::id::PayloadSeq;
use crate::time::PeerInstant;

/// Size of the fixed part of a body in bytes.
pub const TIMED_HEADER: usize = size_of::<Layout>();

/// Size of the header of each payload in bytes.
pub const BLOCK_HEADER: usize = 4 + 2 + 2;

/// Maximum size of a body in bytes.
pub const MAX_TIMED_BODY: usize = MAX_DATAGRAM - HEADER - TAG;

/// Maximum size of a payload in bytes.
pub const MAX_PAYLOAD: usize = MAX_TIMED_BODY - TIMED_HEADER - BLOCK_HEADER;

/// Maximum number of payloads in a datagram, including the new one.
pub const MAX_BLOCKS: usize = 8;

/// Maximum age of a repeated payload relative to the newest payload: the range of 32 bits in nanoseconds.
const OLDEST: i64 = u32::MAX as i64;

/// A payload with its capture time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payload<'a> {
    /// The sequence number of the payload.
    pub seq: PayloadSeq,
    /// The capture time of the first sample (sender clock).
    pub captured: PeerInstant,
    /// The length of the payload, in samples of the stream's format; 0 for a single instant.
    pub samples: u16,
    /// The bytes, at most [`MAX_PAYLOAD`].
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    stream: u8,
    count: u8,
    reserved: [u8; 5],
    seq: U64,
    captured: I64,
}

const _: () = assert!(TIMED_HEADER == 24);

/// Writes bodies of timed streams.
#[derive(Debug)]
pub struct TimedWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    newest: (PayloadSeq, PeerInstant),
}

impl<'a> TimedWriter<'a> {
    /// Appends the start of a body to `out`, with `newest` as its first payload.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, stream: StreamId, newest: &Payload<'_>) -> TimedWriter<'a> {
        let start = out.len();
        let layout = Layout {
            kind: stream.kind as u8,
            stream: stream.number,
            count: 0,
            reserved: [0; 5],
            seq: U64::new(newest.seq.0),
            captured: I64::new(newest.captured.0),
        };
        out.extend_from_slice(layout.as_bytes());
        let mut writer = TimedWriter {
            out,
            start,
            newest: (newest.seq, newest.captured),
        };
        writer.block(newest, 0);
        writer
    }

    /// Appends the payload that precedes the last written payload, if there is room for it. Returns whether it was
    /// appended.
    pub fn repeat(&mut self, payload: &Payload<'_>) -> bool {
        let (newest, captured) = self.newest;
        let count = self.out[self.start + 2];
        let age = captured.0.checked_sub(payload.captured.0);
        let age = age.filter(|age| (0..=OLDEST).contains(age));
        let end = self.out.len() - self.start + BLOCK_HEADER + payload.bytes.len();
        let follows = newest.0.checked_sub(u64::from(count)) == Some(payload.seq.0);
        match age.and_then(|age| u32::try_from(age).ok()) {
            Some(age) if follows && usize::from(count) < MAX_BLOCKS && end <= MAX_TIMED_BODY => {
                self.block(payload, age);
                true
            }
            _ => false,
        }
    }

    fn block(&mut self, payload: &Payload<'_>, age: u32) {
        let length = u16::try_from(payload.bytes.len()).unwrap_or(u16::MAX);
        Writer(self.out)
            .u32(age)
            .u16(payload.samples)
            .u16(length)
            .bytes(payload.bytes);
        self.out[self.start + 2] += 1;
    }
}

/// A parsed body: its payloads, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    /// The stream.
    pub stream: StreamId,
    /// The newest payload's number.
    pub newest: PayloadSeq,
    captured: PeerInstant,
    count: u8,
    blocks: &'a [u8],
}

impl<'a> Timed<'a> {
    /// Reads a decrypted body.
    ///
    /// # Errors
    /// [`Reject`] if `body` does not belong to a timed stream or a field is out of range.
    pub fn parse(body: &'a [u8]) -> Result<Timed<'a>, Reject> {
        let (l, blocks) = Layout::ref_from_prefix(body).map_err(|_| Reject::Truncated)?;
        let kind = StreamKind::from_wire(l.kind).filter(|kind| *kind != StreamKind::Video);
        let kind = kind.ok_or(Reject::Kind(l.kind))?;
        range((1..=MAX_BLOCKS).contains(&l.count.into()), "payloads")?;
        range(l.seq.get() != u64::MAX, "payload number")?;
        range(u64::from(l.count) <= l.seq.get() + 1, "payload number")?;
        range(body.len() <= MAX_TIMED_BODY, "payload length")?;
        let timed = Timed {
            stream: StreamId {
                kind,
                number: l.stream,
            },
            newest: PayloadSeq(l.seq.get()),
            captured: PeerInstant(l.captured.get()),
            count: l.count,
            blocks,
        };
        let mut r = Reader::new(blocks);
        for back in 0..l.count {
            timed.block(&mut r, back)?;
        }
        r.end()?;
        Ok(timed)
    }

    fn block(&self, r: &mut Reader<'a>, back: u8) -> Result<Payload<'a>, Reject> {
        let (age, samples, length) = (r.u32()?, r.u16()?, r.u16()?);
        range(back > 0 || age == 0, "payload age")?;
        Ok(Payload {
            seq: PayloadSeq(self.newest.0 - u64::from(back)),
            captured: PeerInstant(self.captured.0.saturating_sub(age.into())),
            samples,
            bytes: r.bytes(usize::from(length))?,
        })
    }

    /// The payloads, newest first.
    pub fn payloads(&self) -> impl Iterator<Item = Payload<'a>> {
        let timed = *self;
        let mut r = Reader::new(timed.blocks);
        // `parse` has already read all payloads without an error.
        (0..timed.count).map_while(move |back| timed.block(&mut r, back).ok())
    }
}
