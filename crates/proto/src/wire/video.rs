//! The body of a video datagram: one fragment of one slice of one frame.
//!
//! ```text
//!  0      1      2      3      4             6      7      8
//! ┌──────┬──────┬──────┬──────┬─────────────┬──────┬──────┐
//! │ kind │stream│ view │flags │config epoch │slice │slices│
//! ├──────┴──────┴──────┴──────┼─────────────┴──────┴──────┤ 8
//! │         frame id          │    reference frame id     │
//! ├─────────────┬─────────────┼─────────────┬─────────────┤ 16
//! │ first MB    │ MBs         │ fragment    │ fragments   │
//! ├─────────────┴─────────────┼──────┬──────┼──────┬──────┤ 24
//! │ offset in the slice       │block │shard │  reserved   │
//! ├───────────────────────────┴──────┴──────┴──────┴──────┤ 32
//! │          capture time, ns of the host's clock         │
//! ├───────────────────────────┬──────┬──────┬─────────────┤ 40
//! │ last input applied        │ how  │clock │ ext. bytes  │
//! └───────────────────────────┴──────┴──────┴─────────────┘ 48   extensions, payload
//! ```
//! [`extensions`](super::extensions) describes the extensions. Block and shard are the position of the body in the
//! erasure code of [`fec`](super::fec). The reserved field is zero and ignored on receipt.

use serde::{Deserialize, Serialize};
use zerocopy::little_endian::{I64, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use super::extensions::{
    Configuration, DrawingTimes, Extensions, FieldOfView, PoseEcho, View, Viewpoint, Views,
};
use super::media;
pub use super::media::VIDEO_HEADER;
use crate::bytes::{Reject, range};
use crate::id::{ConfigEpoch, FrameId, InputSeq, ViewId};
pub use crate::input::echo::{EchoKind, InputEcho};
use crate::validated::Invalid;

/// Payload size of a full fragment without extensions. The whole body must also fit into a shard of a repair datagram.
pub const FULL_PAYLOAD: usize = super::fec::MAX_SHARD_BODY - VIDEO_HEADER;

/// Maximum number of slices of a frame.
pub const MAX_SLICES: u8 = 64;

/// Maximum number of fragments of a slice. With [`FULL_PAYLOAD`], a slice has at most 21.3 MB, which is enough for an
/// uncompressed 4K picture in two slices.
pub const MAX_FRAGMENTS: u16 = 16_384;

/// The fields that all fragments of a frame have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FrameHeader {
    /// The frame.
    pub frame: FrameId,
    /// The reference frame; [`FrameId::NONE`] for a key frame.
    pub reference: FrameId,
    /// The configuration epoch of the frame.
    pub epoch: ConfigEpoch,
    /// The number of the video stream in the session.
    pub stream: u8,
    /// The eye or view of the stream.
    pub view: u8,
    /// Capture timestamp (nanoseconds, host clock).
    pub captured: i64,
    /// Counts the restarts of the host's clock: timestamps with different values are not comparable. This crate's
    /// `Rendition` sets it to 0, and its client ignores it.
    pub clock_epoch: u8,
    /// The newest input applied before the frame was drawn.
    pub echo: InputEcho,
}

impl FrameHeader {
    /// Whether decoding can start with this frame.
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.reference == FrameId::NONE
    }

    /// Its view.
    #[must_use]
    pub fn view_id(&self) -> ViewId {
        let (stream, view) = (self.stream, self.view);
        ViewId { stream, view }
    }
}

/// A slice's position in its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "(u8, u8, u16, u16)", into = "(u8, u8, u16, u16)")]
pub struct SlicePlace {
    /// Counted from 0.
    pub index: u8,
    /// Slices in the frame, 1–[`MAX_SLICES`].
    pub count: u8,
    /// First macroblock in raster order.
    pub first_mb: u16,
    /// Macroblocks covered.
    pub mbs: u16,
}

impl TryFrom<(u8, u8, u16, u16)> for SlicePlace {
    type Error = Invalid;

    fn try_from((index, count, first_mb, mbs): (u8, u8, u16, u16)) -> Result<SlicePlace, Invalid> {
        match index < count && count <= MAX_SLICES {
            true => Ok(SlicePlace {
                index,
                count,
                first_mb,
                mbs,
            }),
            false => Err(Invalid("slice")),
        }
    }
}

impl From<SlicePlace> for (u8, u8, u16, u16) {
    fn from(place: SlicePlace) -> (u8, u8, u16, u16) {
        (place.index, place.count, place.first_mb, place.mbs)
    }
}

/// A fragment's position in its slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FragmentPlace {
    /// Counted from 0.
    pub index: u16,
    /// Fragments of the slice, 1–[`MAX_FRAGMENTS`].
    pub count: u16,
    /// The offset of the fragment's payload in the slice, in bytes.
    pub offset: u32,
}

/// A fragment's position in the erasure code; all zero for a frame without FEC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FecPlace {
    /// The block in the frame.
    pub block: u8,
    /// The index of the data shard in the block.
    pub index: u8,
}

/// The loss protection of a frame, and of this datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags {
    /// The host retransmits fragments on request.
    pub resend: bool,
    /// Repair shards follow at the end of the frame and of each of its blocks.
    pub parity: bool,
    /// This datagram is a retransmission.
    pub again: bool,
}

impl Flags {
    /// The offset of the flags in a body.
    pub(crate) const AT: usize = 3;
    /// The bit of [`Flags::again`].
    pub(crate) const RETRANSMITTED: u8 = 4;

    fn to_wire(self) -> u8 {
        let again = if self.again { Self::RETRANSMITTED } else { 0 };
        u8::from(self.resend) | u8::from(self.parity) << 1 | again
    }

    fn from_wire(bits: u8) -> Flags {
        Flags {
            resend: bits & 1 != 0,
            parity: bits & 2 != 0,
            again: bits & Self::RETRANSMITTED != 0,
        }
    }
}

/// A parsed fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// The fields that the frame's fragments have in common.
    pub header: FrameHeader,
    /// The slice that contains the fragment.
    pub slice: SlicePlace,
    /// The position of the fragment in the slice.
    pub place: FragmentPlace,
    /// The position of the fragment in the erasure code.
    pub fec: FecPlace,
    /// The loss protection of the frame.
    pub flags: Flags,
    /// The optional fields of the frame.
    pub extensions: Extensions,
    /// The bytes.
    pub payload: &'a [u8],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    stream: u8,
    view: u8,
    flags: u8,
    epoch: U16,
    slice: u8,
    slices: u8,
    frame: U32,
    reference: U32,
    first_mb: U16,
    mbs: U16,
    fragment: U16,
    fragments: U16,
    offset: U32,
    fec_block: u8,
    fec_index: u8,
    reserved: U16,
    captured: I64,
    echo_seq: U32,
    echo_kind: u8,
    clock_epoch: u8,
    extension_bytes: U16,
}

const _: () = assert!(VIDEO_HEADER == size_of::<Layout>());

impl Fragment<'_> {
    /// Appends the body to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let layout = Layout {
            kind: media::FRAGMENT,
            stream: self.header.stream,
            view: self.header.view,
            flags: self.flags.to_wire(),
            epoch: U16::new(self.header.epoch.0),
            slice: self.slice.index,
            slices: self.slice.count,
            frame: U32::new(self.header.frame.0),
            reference: U32::new(self.header.reference.0),
            first_mb: U16::new(self.slice.first_mb),
            mbs: U16::new(self.slice.mbs),
            fragment: U16::new(self.place.index),
            fragments: U16::new(self.place.count),
            offset: U32::new(self.place.offset),
            fec_block: self.fec.block,
            fec_index: self.fec.index,
            reserved: U16::ZERO,
            captured: I64::new(self.header.captured),
            echo_seq: U32::new(self.header.echo.seq.0),
            echo_kind: self.header.echo.kind as u8,
            clock_epoch: self.header.clock_epoch,
            extension_bytes: U16::new(u16::try_from(self.extensions.len()).unwrap_or(u16::MAX)),
        };
        out.extend_from_slice(layout.as_bytes());
        self.extensions.write(out);
        out.extend_from_slice(self.payload);
    }
}

impl<'a> Fragment<'a> {
    /// Reads a decrypted body.
    ///
    /// # Errors
    /// [`Reject`] if `body` is not a video fragment or a field is out of range. An authenticated peer may still send
    /// wrong values, but accepted values are bounded.
    pub fn parse(body: &'a [u8]) -> Result<Fragment<'a>, Reject> {
        let (l, rest) = Layout::ref_from_prefix(body).map_err(|_| Reject::Truncated)?;
        if l.kind != media::FRAGMENT {
            return Err(Reject::Kind(l.kind));
        }
        range(l.slices >= 1 && l.slices <= MAX_SLICES, "slices")?;
        range(l.slice < l.slices, "slice")?;
        range(
            l.fragments.get() >= 1 && l.fragments.get() <= MAX_FRAGMENTS,
            "fragments",
        )?;
        range(l.fragment.get() < l.fragments.get(), "fragment")?;
        range(l.frame.get() != 0, "frame id")?;
        range(l.reference.get() < l.frame.get(), "reference frame id")?;
        range(
            l.first_mb.get().checked_add(l.mbs.get()).is_some(),
            "macroblocks",
        )?;
        let extension_bytes = usize::from(l.extension_bytes.get());
        let (extensions, payload) = rest
            .split_at_checked(extension_bytes)
            .ok_or(Reject::Truncated)?;
        let most = u64::from(MAX_FRAGMENTS) * FULL_PAYLOAD as u64;
        range(
            u64::from(l.offset.get()) + payload.len() as u64 <= most,
            "offset",
        )?;
        range((l.fragment.get() == 0) == (l.offset.get() == 0), "offset")?;
        range(usize::from(l.fec_index) < super::fec::BLOCK, "data shard")?;
        Ok(Fragment {
            header: FrameHeader {
                frame: FrameId(l.frame.get()),
                reference: FrameId(l.reference.get()),
                epoch: ConfigEpoch(l.epoch.get()),
                stream: l.stream,
                view: l.view,
                captured: l.captured.get(),
                clock_epoch: l.clock_epoch,
                echo: InputEcho {
                    seq: InputSeq(l.echo_seq.get()),
                    kind: match l.echo_kind {
                        0 => EchoKind::None,
                        1 => EchoKind::Injected,
                        2 => EchoKind::Consumed,
                        other => return Err(Reject::Kind(other)),
                    },
                },
            },
            slice: SlicePlace {
                index: l.slice,
                count: l.slices,
                first_mb: l.first_mb.get(),
                mbs: l.mbs.get(),
            },
            place: FragmentPlace {
                index: l.fragment.get(),
                count: l.fragments.get(),
                offset: l.offset.get(),
            },
            fec: FecPlace {
                block: l.fec_block,
                index: l.fec_index,
            },
            flags: Flags::from_wire(l.flags),
            extensions: Extensions::parse(extensions)?,
            payload,
        })
    }
}
