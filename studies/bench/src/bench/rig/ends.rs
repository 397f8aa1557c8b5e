//! Reads the first and the last rows of the client's pictures.

use anyhow::Result;
use openuvr_testbed::reader::{BothEnds, Reader};

use super::Rig;

impl Rig<'_> {
    /// Makes subsequent scenes draw their bar code at the top and at the bottom of each picture, and subsequent streams
    /// read both codes.
    pub(in crate::bench) fn read_both_ends(&mut self) {
        self.both_ends = Some(Vec::new());
    }

    /// The codes read from the last stream's pictures. Empty if only the codes in the first rows were read.
    pub(in crate::bench) fn take_both_ends(&mut self) -> Vec<BothEnds> {
        self.both_ends
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Starts a reader of the second display.
    pub(super) fn reader(&self) -> Result<Reader> {
        let (display, sched) = (self.far.name(), self.setup.sched);
        match self.both_ends {
            Some(_) => Reader::start_at_both_ends(display, sched),
            None => Reader::start_as(display, sched),
        }
    }

    /// Keeps the codes that `reader` has read, if it reads those at both ends of the pictures.
    pub(super) fn keep_both_ends(&mut self, reader: &Reader) {
        if let Some(kept) = &mut self.both_ends {
            *kept = reader.both_ends();
        }
    }
}
