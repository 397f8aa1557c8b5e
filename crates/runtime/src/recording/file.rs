//! A sample file in the probes' format (`studies/probes/README.md`). It has one pair of a sender and a receiver.
//! Records are appended to the file, and it stays readable if the process dies.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use openuvr_proto::time::Instant;

use crate::scheduling_latency::Sample;

const HEADER: u32 = 4096;
const RECORD: u32 = 24;
/// The format's number for the pattern `flood`, in which the sender is not paced. In the other patterns, the sender has
/// a fixed rate or waits for answers.
const FLOOD: u32 = 1;
/// Header offsets of the capacity in records, the end time, the name, and the first pair's count.
const CAPACITY: u64 = 24;
const END: u64 = 40;
const NAME: usize = 64;
const COUNT: u64 = 128;

#[derive(Debug)]
pub(super) struct SampleFile {
    file: File,
    /// Records that are not in the file yet.
    unwritten: Vec<u8>,
    count: u64,
}

impl SampleFile {
    pub(super) fn create(path: &Path, name: &str, start: Instant) -> io::Result<SampleFile> {
        let mut file = File::create(path)?;
        let mut header = vec![0; HEADER as usize];
        header[..8].copy_from_slice(b"JITTER01");
        let words = [HEADER, RECORD, 1, FLOOD];
        for (field, word) in header[8..24].chunks_exact_mut(4).zip(words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        header[32..40].copy_from_slice(&start.0.to_le_bytes());
        let named = format!("openuvr {name}");
        // The last byte of the name field stays 0.
        let named = &named.as_bytes()[..named.len().min(NAME - 1)];
        header[NAME..NAME + named.len()].copy_from_slice(named);
        file.write_all(&header)?;
        Ok(SampleFile {
            file,
            unwritten: Vec::new(),
            count: 0,
        })
    }

    pub(super) fn push(&mut self, sample: Sample) {
        self.unwritten
            .extend(sample.iter().flat_map(|time| time.to_le_bytes()));
        self.count += 1;
    }

    /// Writes the records first, then their count.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(&self.unwritten)?;
        self.unwritten.clear();
        self.put(CAPACITY, self.count)?;
        self.put(COUNT, self.count)
    }

    pub(super) fn finish(&mut self, end: Instant) -> io::Result<()> {
        self.flush()?;
        self.put(END, end.0.unsigned_abs())
    }

    fn put(&mut self, at: u64, value: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(&value.to_le_bytes())
    }
}
