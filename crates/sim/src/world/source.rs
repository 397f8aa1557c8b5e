//! Moving content of the host: frames with reproducible bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::id::FrameId;
use openuvr_proto::send::rendition::Plan;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{FrameHeader, SlicePlace};

use super::FRAME_INTERVAL;
use crate::random::Random;

/// Time from capture to the first slice, and time between slices.
const FIRST_SLICE: Duration = Duration::from_millis(1);
const SLICE_EVERY: Duration = Duration::from_micros(250);

pub(super) const SLICES: u8 = 8;
pub(super) const SIZE: Size = Size::new(1280, 720);
pub(super) const MACROBLOCKS: u16 = 80 * 45;

/// Length of the header of each slice, in bytes.
const LEAST: u64 = 13;

/// Draws frames.
pub(super) struct Source {
    seed: u64,
    /// Whether there is a picture. There is none before the first motion.
    pictured: bool,
    /// Approximate number of bytes of each frame whose size was given.
    sizes: BTreeMap<FrameId, u64>,
    /// Time of the next capture, while something moves.
    pub(super) next: Option<Instant>,
    /// Length of an intra refresh in frames, without its first frame.
    pub(super) clean_after: u16,
    /// Remaining frames of the current refresh, and whether another refresh is pending. A pending refresh starts after
    /// the current one, as in libx264.
    refresh: u16,
    pending: bool,
}

impl Source {
    pub(super) fn new(seed: u64) -> Source {
        Source {
            seed,
            pictured: false,
            sizes: BTreeMap::new(),
            next: None,
            clean_after: 0,
            refresh: 0,
            pending: false,
        }
    }

    /// Whether there is a new picture at `now`.
    pub(super) fn moves(&mut self, now: Instant) -> bool {
        let Some(mut next) = self.next.filter(|at| *at <= now) else {
            return false;
        };
        // The content has its own clock, like an application. Frames drawn in the meantime are never captured.
        while next <= now {
            next = next + FRAME_INTERVAL;
        }
        self.next = Some(next);
        self.pictured = true;
        true
    }

    /// Whether there is a picture to repeat.
    pub(super) fn is_pictured(&self) -> bool {
        self.pictured
    }

    /// Starts to code a frame at `now`. `size` is its approximate number of bytes.
    pub(super) fn code(&mut self, now: Instant, plan: &Plan<'_>, size: Option<u64>) -> Coding {
        let clean_after = self.refresh(plan);
        self.sizes.extend(size.map(|size| (plan.frame, size)));
        Coding {
            frame: plan.frame,
            key_frame: plan.is_key(),
            clean_after,
            next: now + FIRST_SLICE,
            seed: self.seed,
            size,
            index: 0,
        }
    }

    /// Advances the refresh by a frame. Returns the length of the refresh if the frame starts one.
    fn refresh(&mut self, plan: &Plan<'_>) -> Option<u16> {
        self.pending |= plan.refresh;
        if plan.is_key() {
            (self.refresh, self.pending) = (0, false);
        } else if self.refresh > 0 {
            self.refresh -= 1;
        } else if std::mem::take(&mut self.pending) {
            self.refresh = self.clean_after;
            return Some(self.clean_after);
        }
        None
    }

    /// The bytes of a slice.
    pub(super) fn slice(&self, header: &FrameHeader, first_mb: u16) -> Vec<u8> {
        let index = u8::try_from(first_mb / (MACROBLOCKS / u16::from(SLICES))).unwrap_or(0);
        let size = self.sizes.get(&header.frame).copied();
        bytes(self.seed, (header.frame, header.is_key()), index, size)
    }
}

/// A frame between capture and its last datagram.
pub(super) struct Coding {
    pub(super) frame: FrameId,
    key_frame: bool,
    /// Length of the intra refresh that starts with this frame, if any, without this frame.
    pub(super) clean_after: Option<u16>,
    /// Time of the next slice, or of the next paced datagrams.
    pub(super) next: Instant,
    seed: u64,
    size: Option<u64>,
    index: u8,
}

impl Coding {
    /// The current slice, if one remains.
    pub(super) fn slice(&self) -> Option<(SlicePlace, Vec<u8>)> {
        if self.index == SLICES {
            return None;
        }
        let mbs = MACROBLOCKS / u16::from(SLICES);
        let place = SlicePlace {
            index: self.index,
            count: SLICES,
            first_mb: u16::from(self.index) * mbs,
            mbs,
        };
        let frame = (self.frame, self.key_frame);
        Some((place, bytes(self.seed, frame, self.index, self.size)))
    }

    /// Advances to the next slice, if there is one.
    pub(super) fn advance(&mut self) -> bool {
        self.index += 1;
        self.next = self.next + SLICE_EVERY;
        self.index < SLICES
    }
}

/// The bytes of a slice: frame number, slice number, length, and random bytes. The length is 1–4 kB, or four times as
/// much in a key frame. With a `size`, the length is 0.5 to 1.5 times a slice's share of it.
fn bytes(seed: u64, (frame, key_frame): (FrameId, bool), index: u8, size: Option<u64>) -> Vec<u8> {
    let mut random = Random::new(seed, u64::from(frame.0) << 8 | u64::from(index));
    let length = match size.map(|size| size / u64::from(SLICES)) {
        Some(part) => (part / 2 + random.bits() % part.max(1)).max(LEAST),
        None if key_frame => (1000 + random.bits() % 3000) * 4,
        None => 1000 + random.bits() % 3000,
    };
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&frame.0.to_le_bytes());
    bytes.push(index);
    bytes.extend_from_slice(&length.to_le_bytes());
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&random.bits().to_le_bytes());
    }
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    bytes
}
