//! What moves at the host: frames whose bytes can be computed again at the other end.

use std::collections::BTreeMap;
use std::time::Duration;

use openuvr_proto::id::{ConfigEpoch, FrameId};
use openuvr_proto::send::policy::Next;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_proto::wire::video::{Configuration, FrameHeader, InputEcho, SlicePlace};

use super::FRAME_INTERVAL;
use crate::random::Random;

/// From capture to the first slice, and from slice to slice.
const FIRST_SLICE: Duration = Duration::from_millis(1);
const SLICE_EVERY: Duration = Duration::from_micros(250);

const SLICES: u8 = 8;
const SIZE: Size = Size::new(1280, 720);
const MACROBLOCKS: u16 = 80 * 45;

/// What is at the beginning of each slice.
const LEAST: u64 = 13;

/// Draws frames.
pub(super) struct Source {
    seed: u64,
    newest: FrameId,
    /// Bytes of the frames that were coded to a size.
    sizes: BTreeMap<FrameId, u64>,
    /// When the next frame is captured, while something moves.
    pub(super) next: Option<Instant>,
    /// After how many frames a wave of intra blocks is through.
    pub(super) clean_after: u16,
    /// Frames that the one under way still takes, and whether another one was asked for: libx264
    /// begins it when that is through.
    wave: u16,
    asked: bool,
}

impl Source {
    pub(super) fn new(seed: u64) -> Source {
        Source {
            seed,
            newest: FrameId::NONE,
            sizes: BTreeMap::new(),
            next: None,
            clean_after: 0,
            wave: 0,
            asked: false,
        }
    }

    /// The frame that is captured next is not coded.
    pub(super) fn skip(&mut self, now: Instant) -> FrameId {
        self.next = Some(now + FRAME_INTERVAL);
        self.newest = self.newest.next();
        self.newest
    }

    /// The frame that is captured next.
    pub(super) fn next_frame(&self) -> FrameId {
        self.newest.next()
    }

    /// Captures a frame at `now` and begins to code it; a key frame refers to
    /// [`FrameId::NONE`]. With `size`, it takes about so many bytes.
    pub(super) fn code(&mut self, now: Instant, next: Next, size: Option<u64>) -> Coding {
        self.skip(now);
        let reference = match next {
            Next::Key => FrameId::NONE,
            Next::After(reference) | Next::Refresh(reference) => reference,
        };
        let clean_after = self.wave(next);
        self.sizes.extend(size.map(|size| (self.newest, size)));
        Coding {
            header: FrameHeader {
                frame: self.newest,
                reference,
                epoch: ConfigEpoch(1),
                stream: 0,
                view: 0,
                captured: now.0,
                clock_epoch: 0,
                echo: InputEcho::default(),
            },
            configuration: Configuration {
                size: SIZE,
                codec: 1,
                colour: 1,
                fps: 60,
            },
            clean_after,
            next: now + FIRST_SLICE,
            echo: None,
            seed: self.seed,
            size,
            index: 0,
        }
    }

    /// The next frame's part in a wave: if it begins one, after how many frames that is through.
    fn wave(&mut self, next: Next) -> Option<u16> {
        self.asked |= matches!(next, Next::Refresh(_));
        if next == Next::Key {
            (self.wave, self.asked) = (0, false);
        } else if self.wave > 0 {
            self.wave -= 1;
        } else if std::mem::take(&mut self.asked) {
            self.wave = self.clean_after;
            return Some(self.clean_after);
        }
        None
    }

    /// The bytes of a slice.
    pub(super) fn slice(&self, header: &FrameHeader, first_mb: u16) -> Vec<u8> {
        let index = u8::try_from(first_mb / (MACROBLOCKS / u16::from(SLICES))).unwrap_or(0);
        let size = self.sizes.get(&header.frame).copied();
        bytes(self.seed, header, index, size)
    }
}

/// A frame between capture and its last slice.
pub(super) struct Coding {
    pub(super) header: FrameHeader,
    pub(super) configuration: Configuration,
    /// If a wave of intra blocks begins here, after how many frames it is through.
    pub(super) clean_after: Option<u16>,
    /// When the next slice is there.
    pub(super) next: Instant,
    echo: Option<InputEcho>,
    seed: u64,
    size: Option<u64>,
    index: u8,
}

impl Coding {
    /// The slice that is there now.
    pub(super) fn slice(&self) -> (SlicePlace, Vec<u8>) {
        let mbs = MACROBLOCKS / u16::from(SLICES);
        let place = SlicePlace {
            index: self.index,
            count: SLICES,
            first_mb: u16::from(self.index) * mbs,
            mbs,
        };
        let bytes = bytes(self.seed, &self.header, self.index, self.size);
        (place, bytes)
    }

    /// What the frame echoes: what was injected when its first slice left.
    pub(super) fn echo(&mut self, injected: InputEcho) -> InputEcho {
        *self.echo.get_or_insert(injected)
    }

    /// Goes on to the next slice, if there is one.
    pub(super) fn advance(&mut self) -> bool {
        self.index += 1;
        self.next = self.next + SLICE_EVERY;
        self.index < SLICES
    }
}

/// Frame and slice number, length, and as many random bytes as that says: 1–4 kB, and four times
/// as many in a key frame; or half to one and a half times a slice's part of `size`.
fn bytes(seed: u64, header: &FrameHeader, index: u8, size: Option<u64>) -> Vec<u8> {
    let mut random = Random::new(seed, u64::from(header.frame.0) << 8 | u64::from(index));
    let length = match size.map(|size| size / u64::from(SLICES)) {
        Some(part) => (part / 2 + random.next() % part.max(1)).max(LEAST),
        None if header.is_key() => (1000 + random.next() % 3000) * 4,
        None => 1000 + random.next() % 3000,
    };
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&header.frame.0.to_le_bytes());
    bytes.push(index);
    bytes.extend_from_slice(&length.to_le_bytes());
    while (bytes.len() as u64) < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    bytes
}
