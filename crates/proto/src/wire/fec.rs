//! The body of an FEC repair datagram. The receiver recovers lost bodies of a frame from such datagrams, without a
//! retransmission.
//!
//! ```text
//!  0      1      2      3      4             8      9      10     11     12
//! ┌──────┬──────┬──────┬──────┬─────────────┬──────┬──────┬──────┬──────┐
//! │ kind │stream│ view │flags │  frame id   │block │index │ data │parity│  shard
//! └──────┴──────┴──────┴──────┴─────────────┴──────┴──────┴──────┴──────┘
//! ```
//! A frame's video bodies are divided into blocks of at most [`BLOCK`] bodies, in the order of sending. A data shard
//! consists of the length of a body (u16), the body, and zero padding. All shards of a block have the length of the
//! longest data shard, rounded up to an even number. The body in a shard includes its header, so a recovered body is
//! complete. The repair shards are Reed-Solomon shards over GF(2^16) as computed by the crate `reed-solomon-simd` (Lin,
//! Al-Naffouri, Han, Chung: Novel polynomial basis with fast Fourier transform, 2016; as in Leopard-RS). `data` and
//! `parity` are the numbers of data and repair shards in the block.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{HEADER, TAG};
use super::media::{self, VIDEO_HEADER};
use crate::bytes::{MAX_DATAGRAM, Reject, range};
use crate::id::FrameId;

/// Maximum number of data shards of a block. With half as many repair shards, all shard indices fit into a byte.
pub const BLOCK: usize = 160;

/// Maximum number of repair shards of a block.
pub const MAX_PARITY: usize = BLOCK / 2;

/// Size of the fixed part of a repair datagram's body, in bytes.
pub const FEC_HEADER: usize = size_of::<Layout>();

/// Size of the length field in front of a body in its shard, in bytes.
pub const SHARD_LENGTH: usize = 2;

/// Maximum size of a shard, in bytes.
pub const MAX_SHARD: usize = MAX_DATAGRAM - HEADER - TAG - FEC_HEADER;

/// Maximum size of a video body in bytes. The body must fit into a shard.
pub const MAX_SHARD_BODY: usize = MAX_SHARD - SHARD_LENGTH;

const _: () = assert!(MAX_SHARD.is_multiple_of(2) && BLOCK + MAX_PARITY <= 255);

/// A repair shard and its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FecRepair<'a> {
    /// The number of the video stream in the session.
    pub stream: u8,
    /// The eye or view of the stream.
    pub view: u8,
    /// Whether all fragments of the frame were sent before this datagram.
    pub last: bool,
    /// The frame.
    pub frame: FrameId,
    /// The block of the frame.
    pub block: u8,
    /// The index of the repair shard in the block.
    pub index: u8,
    /// Data shards of the block, 1–[`BLOCK`].
    pub data: u8,
    /// Repair shards of the block, 1–[`MAX_PARITY`].
    pub parity: u8,
    /// The shard, of even length.
    pub shard: &'a [u8],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    kind: u8,
    stream: u8,
    view: u8,
    flags: u8,
    frame: U32,
    block: u8,
    index: u8,
    data: u8,
    parity: u8,
}

const _: () = assert!(FEC_HEADER == 12);
const LAST: u8 = 1;

impl<'a> FecRepair<'a> {
    /// Appends the body to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let layout = Layout {
            kind: media::FEC_REPAIR,
            stream: self.stream,
            view: self.view,
            flags: if self.last { LAST } else { 0 },
            frame: U32::new(self.frame.0),
            block: self.block,
            index: self.index,
            data: self.data,
            parity: self.parity,
        };
        out.extend_from_slice(layout.as_bytes());
        out.extend_from_slice(self.shard);
    }

    /// Reads a decrypted body.
    ///
    /// # Errors
    /// [`Reject`] if `body` is not a repair body or a field is out of range.
    pub fn parse(body: &'a [u8]) -> Result<FecRepair<'a>, Reject> {
        let (l, shard) = Layout::ref_from_prefix(body).map_err(|_| Reject::Truncated)?;
        if l.kind != media::FEC_REPAIR {
            return Err(Reject::Kind(l.kind));
        }
        range(l.frame.get() != 0, "frame id")?;
        range((1..=BLOCK).contains(&l.data.into()), "data shards")?;
        range((1..=MAX_PARITY).contains(&l.parity.into()), "parity shards")?;
        range(l.index < l.parity, "parity shard")?;
        let length = SHARD_LENGTH + VIDEO_HEADER..=MAX_SHARD;
        let even = shard.len().is_multiple_of(2);
        range(even && length.contains(&shard.len()), "shard length")?;
        Ok(FecRepair {
            stream: l.stream,
            view: l.view,
            last: l.flags & LAST != 0,
            frame: FrameId(l.frame.get()),
            block: l.block,
            index: l.index,
            data: l.data,
            parity: l.parity,
            shard,
        })
    }
}
