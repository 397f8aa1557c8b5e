//! One frame on its way in: its slices, and the fragments of each.

use crate::time::Instant;
use crate::wire::Reject;
use crate::wire::video::{Configuration, Fragment, FrameHeader};

/// Bytes that one frame may take: a raw BGRX picture of 4096 × 2160 and a little more. An honest
/// host never sends more; a dishonest one can't make the client's memory grow beyond it.
pub const MAX_FRAME_BYTES: usize = 48 << 20;

/// Storage of a slice that is larger than this is given back after its frame.
const KEPT_BYTES: usize = 1 << 20;

/// A slice on its way in.
#[derive(Debug, Default)]
pub(super) struct SliceAssembly {
    bytes: Vec<u8>,
    arrived: Vec<bool>,
    missing: usize,
    /// First macroblock and number of macroblocks, once a fragment said so.
    pub(super) macroblocks: Option<(u16, u16)>,
}

impl SliceAssembly {
    pub(super) fn is_complete(&self) -> bool {
        self.macroblocks.is_some() && self.missing == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether all fragments before `index` are here.
    fn has_all_before(&self, index: u16) -> bool {
        self.arrived.iter().take(usize::from(index)).all(|a| *a)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.arrived.clear();
        self.missing = 0;
        self.macroblocks = None;
    }
}

/// A frame on its way in. Reused from frame to frame.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) header: FrameHeader,
    pub(super) configuration: Option<Configuration>,
    pub(super) slices: Vec<SliceAssembly>,
    pub(super) count: usize,
    /// The next slice to hand out, and the macroblock behind the last one handed out.
    pub(super) cursor: usize,
    pub(super) next_mb: u16,
    pub(super) patched: bool,
    pub(super) first_received: Instant,
    pub(super) recoverable: Option<Instant>,
    /// Since when something behind the next missing fragment is here.
    pub(super) overtaken: Option<Instant>,
    /// The furthest fragment that is here: slice and index.
    furthest: (u8, u16),
    bytes: usize,
}

impl Assembly {
    pub(super) fn new(now: Instant, first: &Fragment<'_>, storage: Vec<SliceAssembly>) -> Assembly {
        let mut slices = storage;
        let count = usize::from(first.slice.count);
        if slices.len() < count {
            slices.resize_with(count, SliceAssembly::default);
        }
        Assembly {
            header: first.header,
            configuration: None,
            slices,
            count,
            cursor: 0,
            next_mb: 0,
            patched: false,
            first_received: now,
            recoverable: None,
            overtaken: None,
            furthest: (0, 0),
            bytes: 0,
        }
    }

    /// Gives the storage back for the next frame.
    pub(super) fn into_storage(mut self) -> Vec<SliceAssembly> {
        for slice in &mut self.slices {
            slice.clear();
        }
        self.slices
    }

    /// Takes a fragment in.
    ///
    /// # Errors
    /// [`Reject::Range`] if it contradicts the frame's other fragments, or the frame grows beyond
    /// [`MAX_FRAME_BYTES`].
    pub(super) fn insert(&mut self, now: Instant, f: &Fragment<'_>) -> Result<(), Reject> {
        if f.header != self.header || usize::from(f.slice.count) != self.count {
            return Err(Reject::Range("frame header"));
        }
        let slice = &mut self.slices[usize::from(f.slice.index)];
        let place = (f.slice.first_mb, f.slice.mbs);
        match slice.macroblocks {
            None => {
                slice.macroblocks = Some(place);
                slice.missing = usize::from(f.place.count);
                slice.arrived.resize(slice.missing, false);
            }
            Some(known) if known != place || slice.arrived.len() != f.place.count.into() => {
                return Err(Reject::Range("slice header"));
            }
            Some(_) => {}
        }
        let arrived = &mut slice.arrived[usize::from(f.place.index)];
        if *arrived {
            return Ok(());
        }
        let start = f.place.offset as usize;
        let end = start + f.payload.len();
        let growth = end.saturating_sub(slice.bytes.len());
        if self.bytes + growth > MAX_FRAME_BYTES {
            return Err(Reject::Range("frame size"));
        }
        self.bytes += growth;
        if growth > 0 {
            slice.bytes.resize(end, 0);
        }
        slice.bytes[start..end].copy_from_slice(f.payload);
        *arrived = true;
        slice.missing -= 1;
        self.furthest = self.furthest.max((f.slice.index, f.place.index));
        self.configuration = self.configuration.or(f.configuration);
        if slice.missing == 0
            && self.slices[..self.count]
                .iter()
                .all(SliceAssembly::is_complete)
        {
            self.recoverable = Some(now);
        }
        self.look_for_a_hole(now);
        Ok(())
    }

    /// Notes since when the next slice lacks something although later things are here.
    pub(super) fn look_for_a_hole(&mut self, now: Instant) {
        let (slice, fragment) = self.furthest;
        let next = self.slices.get(self.cursor);
        let hole = match usize::from(slice).cmp(&self.cursor) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => self.cursor < self.count,
            std::cmp::Ordering::Equal => next.is_some_and(|s| !s.has_all_before(fragment)),
        };
        if hole {
            self.overtaken.get_or_insert(now);
        } else {
            self.overtaken = None;
        }
    }

    /// How many macroblocks are missing from [`Self::next_mb`] up to slice `until`; `total` is
    /// how many the picture has.
    pub(super) fn missing_mbs(&self, until: usize, total: u16) -> u16 {
        let end = self.slices[..self.count]
            .get(until)
            .and_then(|s| s.macroblocks)
            .map_or(total, |(first, _)| first);
        end.saturating_sub(self.next_mb)
    }
}
