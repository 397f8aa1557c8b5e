//! The sample file of a probe, with its reader. `studies/probes/README.md` describes the format.
//!
//! A file is read as a stream: only a buffer and the header are in memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Nanos;

const MAGIC: [u8; 8] = *b"JITTER01";
const HEADER: usize = 4096;
const RECORD: usize = 24;
const NAME: usize = 64;
const COUNTS: usize = 128;

/// Maximum number of pairs. Their counts must fit into the header.
pub const MOST_PAIRS: usize = (HEADER - COUNTS) / 8;

/// Message pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Each pair has one message in flight. The next message is sent after the answer to the previous one.
    PingPong,
    /// The sender never waits.
    Flood,
    /// Each message is sent at its scheduled time, independently of earlier messages.
    Paced,
}

impl Pattern {
    /// All patterns, in the order of their numbers in a file.
    pub const ALL: [Pattern; 3] = [Pattern::PingPong, Pattern::Flood, Pattern::Paced];

    /// The pattern's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pattern::PingPong => "ping-pong",
            Pattern::Flood => "flood",
            Pattern::Paced => "paced",
        }
    }
}

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Scheduled send time. It equals `sent` if the sender is not paced.
    pub intended: Nanos,
    /// Send time.
    pub sent: Nanos,
    /// Receive time.
    pub received: Nanos,
}

/// A file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The probe that wrote the file.
    pub name: String,
    /// The message pattern.
    pub pattern: Pattern,
    /// Capacity of each pair, in records.
    pub capacity: u64,
    /// Start of the test.
    pub begin: Nanos,
    /// End of the test, or `None` if the test was aborted.
    pub end: Option<Nanos>,
    /// Messages per second of each pair, in thousandths. 0 if the sender is not paced.
    pub rate_millihertz: u64,
    /// Number of records written by each pair.
    pub counts: Vec<u64>,
}

/// The reason why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    /// An I/O error.
    #[error("can't read {0}: {1}")]
    Io(PathBuf, #[source] io::Error),
    /// The file is not a sample file, or it is damaged.
    #[error("{0} is not a sample file: {1}")]
    Foreign(PathBuf, String),
}

/// An open sample file.
#[derive(Debug)]
pub struct Samples {
    path: PathBuf,
    file: File,
    header: Header,
    /// For each pair, the number of records that the file contains. It is less than the header's count if the file is
    /// truncated.
    present: Vec<u64>,
}

impl Samples {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// Returns the system's error, or an error for an invalid header. A truncated file is not an error: see
    /// [`missing`](Self::missing).
    pub fn open(path: &Path) -> Result<Samples, SamplesError> {
        let failed = |error| SamplesError::Io(path.to_owned(), error);
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut bytes = Vec::with_capacity(HEADER);
        let mut head = Read::by_ref(&mut file).take(HEADER as u64);
        head.read_to_end(&mut bytes).map_err(failed)?;
        let header =
            Header::parse(&bytes).map_err(|wrong| SamplesError::Foreign(path.to_owned(), wrong))?;
        let records = length.saturating_sub(HEADER as u64) / RECORD as u64;
        let present = (0..).zip(&header.counts).map(|(pair, count)| {
            let before = header.capacity.saturating_mul(pair);
            records.saturating_sub(before).min(*count)
        });
        let present = present.collect();
        Ok(Samples {
            path: path.to_owned(),
            file,
            header,
            present,
        })
    }

    /// The file's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number of records that the header counts but a truncated file lacks.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.header.counts.iter().sum::<u64>() - self.present.iter().sum::<u64>()
    }

    /// Calls `each` with every sample: pair by pair, and within a pair in the order of its records.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn for_each(&mut self, mut each: impl FnMut(Sample)) -> Result<(), SamplesError> {
        let failed = |error| SamplesError::Io(self.path.clone(), error);
        for (pair, count) in (0..).zip(&self.present) {
            let at = HEADER as u64 + self.header.capacity * pair * RECORD as u64;
            self.file.seek(SeekFrom::Start(at)).map_err(failed)?;
            let mut reader = BufReader::with_capacity(1 << 18, &self.file);
            for _ in 0..*count {
                let mut record = [0; RECORD];
                reader.read_exact(&mut record).map_err(failed)?;
                each(Sample::parse(&record));
            }
        }
        Ok(())
    }
}

impl Sample {
    fn parse(bytes: &[u8; RECORD]) -> Sample {
        Sample {
            intended: number(bytes, 0),
            sent: number(bytes, 8),
            received: number(bytes, 16),
        }
    }

    fn bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let times = [self.intended, self.sent, self.received];
        for (place, time) in bytes.chunks_exact_mut(8).zip(times) {
            place.copy_from_slice(&time.to_le_bytes());
        }
        bytes
    }
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Header, String> {
        if bytes.get(..8) != Some(&MAGIC) {
            return Err("the file does not start with JITTER01".to_owned());
        }
        if bytes.len() < HEADER {
            return Err(format!(
                "the file has {} bytes, less than a header",
                bytes.len()
            ));
        }
        let sizes = (word(bytes, 8), word(bytes, 12));
        if sizes != (HEADER as u32, RECORD as u32) {
            return Err(format!(
                "header and record sizes are {sizes:?} bytes, expected (4096, 24)"
            ));
        }
        let pairs = word(bytes, 16) as usize;
        if !(1..=MOST_PAIRS).contains(&pairs) {
            return Err(format!("{pairs} pairs, expected 1 to {MOST_PAIRS}"));
        }
        let pattern = word(bytes, 20);
        let pattern = Pattern::ALL
            .get(pattern as usize)
            .ok_or_else(|| format!("unknown pattern {pattern}"))?;
        let capacity = number(bytes, 24);
        let total = capacity.checked_mul((pairs * RECORD) as u64);
        if total
            .and_then(|total| total.checked_add(HEADER as u64))
            .is_none()
        {
            return Err(format!("impossible capacity of {capacity} records"));
        }
        let counts: Vec<u64> = (0..pairs)
            .map(|pair| number(bytes, COUNTS + 8 * pair))
            .collect();
        if let Some(count) = counts.iter().find(|count| **count > capacity) {
            return Err(format!("{count} records exceed the capacity of {capacity}"));
        }
        let name = bytes[NAME..COUNTS].split(|byte| *byte == 0).next();
        Ok(Header {
            name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
            pattern: *pattern,
            capacity,
            begin: number(bytes, 32),
            end: Some(number(bytes, 40)).filter(|end| *end > 0),
            rate_millihertz: number(bytes, 48),
            counts,
        })
    }

    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        let words = [HEADER, RECORD, self.counts.len(), self.pattern as usize];
        for (value, at) in words.into_iter().zip((8..).step_by(4)) {
            put(at, &u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
        }
        let numbers = [
            self.capacity,
            self.begin,
            self.end.unwrap_or(0),
            self.rate_millihertz,
        ];
        for (value, at) in numbers.into_iter().zip((24..).step_by(8)) {
            put(at, &value.to_le_bytes());
        }
        let name = self.name.as_bytes();
        put(NAME, &name[..name.len().min(COUNTS - NAME)]);
        for (count, at) in self
            .counts
            .iter()
            .take(MOST_PAIRS)
            .zip((COUNTS..).step_by(8))
        {
            put(at, &count.to_le_bytes());
        }
        bytes
    }
}

/// Writes a file with one pair, for measurements that a program makes itself, without a probe.
///
/// # Errors
/// Returns the system's error.
pub fn write(path: &Path, header: &Header, samples: &[Sample]) -> io::Result<()> {
    let header = Header {
        capacity: samples.len() as u64,
        counts: vec![samples.len() as u64],
        ..header.clone()
    };
    let mut writer = io::BufWriter::new(File::create(path)?);
    writer.write_all(&header.bytes())?;
    for sample in samples {
        writer.write_all(&sample.bytes())?;
    }
    writer.flush()
}

/// The 64-bit number at offset `at`, which must be inside `bytes`.
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

/// The 32-bit number at offset `at`, which must be inside `bytes`.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}
