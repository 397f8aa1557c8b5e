//! FEC repair: restores lost bodies from parity shards.
//!
//! It keeps the bodies of protected frames in reassembly, and their parity shards. As soon as the number of received
//! shards of a block reaches its number of data shards, the missing data is computed. Without losses, nothing is
//! computed. Restored bodies are as untrusted as any other data from the host.

use std::collections::VecDeque;

use reed_solomon_simd::ReedSolomonDecoder;

use crate::id::FrameId;
use crate::wire::fec::{BLOCK, FecRepair, MAX_PARITY, MAX_SHARD, MAX_SHARD_BODY, SHARD_LENGTH};
use crate::wire::video::FecPlace;

/// Maximum bytes of all stored shards: enough for two key frames of 3 MB with parity. Shards beyond it are not stored,
/// so FEC may be unable to repair their blocks.
pub(super) const MAX_SHARD_BYTES: usize = 16 << 20;

/// Maximum number of frames whose shards are stored.
const MAX_FRAMES: usize = 16;

/// Number and maximum size of frame storages kept for reuse.
const KEPT: usize = 4;
const KEPT_BYTES: usize = 1 << 20;

/// Shards of one kind, each in a slot of [`MAX_SHARD`] bytes, zero-padded.
#[derive(Debug, Default)]
struct Shards {
    bytes: Vec<u8>,
    here: [u64; BLOCK.div_ceil(64)],
    count: usize,
}

impl Shards {
    fn has(&self, index: usize) -> bool {
        self.here[index / 64] >> (index % 64) & 1 == 1
    }

    /// The number of bytes by which the storage would grow for a shard at `index`.
    fn growth(&self, index: usize) -> usize {
        ((index + 1) * MAX_SHARD).saturating_sub(self.bytes.len())
    }

    /// Stores a shard, the concatenation of `parts`.
    fn put(&mut self, index: usize, parts: [&[u8]; 2]) {
        let start = index * MAX_SHARD;
        self.bytes.resize(self.bytes.len() + self.growth(index), 0);
        let mut place = &mut self.bytes[start..start + MAX_SHARD];
        for part in parts {
            let (head, rest) = place.split_at_mut(part.len());
            head.copy_from_slice(part);
            place = rest;
        }
        place.fill(0);
        self.here[index / 64] |= 1 << (index % 64);
        self.count += 1;
    }

    fn at(&self, index: usize) -> &[u8] {
        &self.bytes[index * MAX_SHARD..][..MAX_SHARD]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.here = [0; BLOCK.div_ceil(64)];
        self.count = 0;
    }
}

#[derive(Debug, Default)]
struct Block {
    data: Shards,
    parity: Shards,
    /// The numbers of data and parity shards, and their length, once known from a parity shard.
    shape: Option<Shape>,
    /// No shard is taken any more: the block is complete or inconsistent, or its missing data was computed.
    closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shape {
    data: usize,
    parity: usize,
    length: usize,
}

impl Block {
    fn clear(&mut self) {
        self.data.clear();
        self.parity.clear();
        self.shape = None;
        self.closed = false;
    }

    fn bytes(&self) -> usize {
        self.data.bytes.len() + self.parity.bytes.len()
    }
}

/// One frame's blocks; storage is reused.
#[derive(Debug, Default)]
struct FrameShards {
    frame: FrameId,
    blocks: Vec<Block>,
    /// Blocks in use.
    used: usize,
}

impl FrameShards {
    fn block(&mut self, block: u8) -> &mut Block {
        let wanted = usize::from(block) + 1;
        if self.blocks.len() < wanted {
            self.blocks.resize_with(wanted, Block::default);
        }
        self.used = self.used.max(wanted);
        &mut self.blocks[wanted - 1]
    }

    fn bytes(&self) -> usize {
        self.blocks[..self.used].iter().map(Block::bytes).sum()
    }

    fn clear(&mut self) {
        self.blocks[..self.used].iter_mut().for_each(Block::clear);
        self.used = 0;
    }
}

/// Restores lost bodies.
#[derive(Default)]
pub(super) struct Repair {
    frames: VecDeque<FrameShards>,
    spare: Vec<FrameShards>,
    bytes: usize,
    decoder: Option<ReedSolomonDecoder>,
    /// Restored bodies that have not been taken yet.
    restored: VecDeque<(FrameId, FecPlace)>,
}

impl Repair {
    /// Adds the body of a protected frame.
    pub(super) fn data(&mut self, frame: FrameId, place: FecPlace, body: &[u8]) {
        let index = usize::from(place.index);
        let Ok(length) = u16::try_from(body.len()) else {
            return;
        };
        if index >= BLOCK || body.len() > MAX_SHARD_BODY {
            return;
        }
        let room = MAX_SHARD_BYTES - self.bytes;
        let Some(block) = self.block(frame, place.block) else {
            return;
        };
        let growth = block.data.growth(index);
        if block.closed || block.data.has(index) || growth > room {
            return;
        }
        block.data.put(index, [&length.to_le_bytes(), body]);
        self.bytes += growth;
        self.compute(frame, place.block);
    }

    pub(super) fn parity(&mut self, parity: &FecRepair<'_>) {
        let room = MAX_SHARD_BYTES - self.bytes;
        let Some(block) = self.block(parity.frame, parity.block) else {
            return;
        };
        let shape = Shape {
            data: parity.data.into(),
            parity: parity.parity.into(),
            length: parity.shard.len(),
        };
        let index = usize::from(parity.index);
        let growth = block.parity.growth(index);
        let known = *block.shape.get_or_insert(shape);
        if known != shape || block.closed || block.parity.has(index) || growth > room {
            return;
        }
        block.parity.put(index, [parity.shard, &[]]);
        self.bytes += growth;
        self.compute(parity.frame, parity.block);
    }

    fn block(&mut self, frame: FrameId, block: u8) -> Option<&mut Block> {
        let place = self.frames.partition_point(|f| f.frame < frame);
        if self.frames.get(place).is_none_or(|f| f.frame != frame) {
            if self.frames.len() == MAX_FRAMES {
                return None;
            }
            let mut new = self.spare.pop().unwrap_or_default();
            new.frame = frame;
            self.frames.insert(place, new);
        }
        Some(self.frames.get_mut(place)?.block(block))
    }

    /// Computes a block's missing data if there are enough shards.
    fn compute(&mut self, frame: FrameId, number: u8) {
        let room = MAX_SHARD_BYTES - self.bytes;
        let place = self.frames.partition_point(|f| f.frame < frame);
        let Some(block) = self.frames.get_mut(place).map(|f| f.block(number)) else {
            return;
        };
        let Some(shape) = block.shape.filter(|_| !block.closed) else {
            return;
        };
        let missing_shards = shape.data.saturating_sub(block.data.count);
        if missing_shards > block.parity.count {
            return;
        }
        block.closed = true;
        let growth = block.data.growth(shape.data - 1);
        if missing_shards == 0 || growth > room {
            return;
        }
        // This fails for inconsistent shards: a data shard whose index is beyond the block's last data shard, or that
        // is longer than the parity shards.
        if let Some(decoder) = decoder(&mut self.decoder, shape)
            && restore(decoder, block, shape, |index| {
                let place = FecPlace {
                    block: number,
                    index,
                };
                self.restored.push_back((frame, place));
            })
            .is_some()
        {
            self.bytes += growth;
        }
    }

    /// Replaces `body` by the next restored one; returns its frame and position.
    pub(super) fn take(&mut self, body: &mut Vec<u8>) -> Option<(FrameId, FecPlace)> {
        let (frame, place) = self.restored.pop_front()?;
        body.clear();
        let i = self.frames.partition_point(|f| f.frame < frame);
        let shard = self.frames.get_mut(i).filter(|f| f.frame == frame);
        if let Some(shards) = shard {
            let shard = shards.block(place.block).data.at(place.index.into());
            let length = usize::from(u16::from_le_bytes([shard[0], shard[1]]));
            let bytes = shard.get(SHARD_LENGTH..SHARD_LENGTH + length);
            body.extend_from_slice(bytes.unwrap_or_default());
        }
        Some((frame, place))
    }

    /// Drops the frames up to `through`.
    pub(super) fn forget(&mut self, through: FrameId) {
        while self.frames.front().is_some_and(|f| f.frame <= through) {
            let Some(mut gone) = self.frames.pop_front() else {
                return;
            };
            self.bytes -= gone.bytes();
            let capacity = |b: &Block| b.data.bytes.capacity() + b.parity.bytes.capacity();
            let kept: usize = gone.blocks.iter().map(capacity).sum();
            if self.spare.len() < KEPT && kept <= KEPT_BYTES {
                gone.clear();
                self.spare.push(gone);
            }
        }
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.frames.len() <= MAX_FRAMES && self.spare.len() <= KEPT);
        let bytes: usize = self.frames.iter().map(FrameShards::bytes).sum();
        assert_eq!(bytes, self.bytes);
        assert!(bytes <= MAX_SHARD_BYTES);
        assert!(self.restored.is_empty());
    }
}

/// Prepares the decoder for a block; its storage is reused.
fn decoder(
    decoder: &mut Option<ReedSolomonDecoder>,
    shape: Shape,
) -> Option<&mut ReedSolomonDecoder> {
    let (data, parity, length) = (shape.data, shape.parity, shape.length);
    let ready = match decoder {
        Some(decoder) => decoder.reset(data, parity, length),
        None => ReedSolomonDecoder::new(data, parity, length).map(|new| *decoder = Some(new)),
    };
    ready.ok()?;
    decoder.as_mut()
}

/// Computes the missing data shards and stores them.
fn restore(
    decoder: &mut ReedSolomonDecoder,
    block: &mut Block,
    shape: Shape,
    mut each: impl FnMut(u8),
) -> Option<()> {
    let Shape { data, length, .. } = shape;
    if (data..BLOCK).any(|i| block.data.has(i)) {
        return None;
    }
    for i in (0..data).filter(|i| block.data.has(*i)) {
        let (shard, rest) = block.data.at(i).split_at(length);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        decoder.add_original_shard(i, shard).ok()?;
    }
    for i in (0..MAX_PARITY).filter(|i| block.parity.has(*i)) {
        let shard = &block.parity.at(i)[..length];
        decoder.add_recovery_shard(i, shard).ok()?;
    }
    let decoded = decoder.decode().ok()?;
    for i in 0..data {
        if let Some(shard) = decoded.restored_original(i) {
            block.data.put(i, [shard, &[]]);
            each(u8::try_from(i).unwrap_or(u8::MAX));
        }
    }
    Some(())
}
