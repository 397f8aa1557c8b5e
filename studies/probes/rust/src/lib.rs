//! The sample file and the options of a probe; see ../README.md.

mod sys;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::exit;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

const HEADER: usize = 4096;
const RECORD: usize = 24;
const COUNTS: usize = 128;
const MOST_PAIRS: usize = 496;
const NANOS: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    PingPong,
    Flood,
    Paced,
}

/// The command-line options.
#[derive(Clone, Debug)]
pub struct Options {
    out: String,
    pub pattern: Pattern,
    pub pairs: usize,
    samples: u64,
    rate: f64,
}

/// A message with its intended and its actual send time, in nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub intended: u64,
    pub sent: u64,
}

/// Nanoseconds of CLOCK_MONOTONIC.
#[must_use]
pub fn now() -> u64 {
    let at = clock_gettime(ClockId::Monotonic);
    at.tv_sec.cast_unsigned() * NANOS + at.tv_nsec.cast_unsigned()
}

pub fn sleep_until(at: u64) {
    let until = Timespec {
        tv_sec: (at / NANOS).cast_signed(),
        tv_nsec: (at % NANOS).cast_signed(),
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until).is_err() {}
}

/// Ends the program with an error message.
pub fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}

impl Options {
    /// Parses the command line.
    #[must_use]
    pub fn parse() -> Options {
        let mut options = Options {
            out: String::new(),
            pattern: Pattern::PingPong,
            pairs: 16,
            samples: 1_000_000,
            rate: 240.0,
        };
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let Some(value) = words.next() else {
                fail(&format!("{name} needs a value"))
            };
            let wrong = || -> ! { fail(&format!("invalid value {value} for {name}")) };
            match name.as_str() {
                "--out" => options.out = value,
                "--pairs" => options.pairs = value.parse().unwrap_or_else(|_| wrong()),
                "--samples" => options.samples = value.parse().unwrap_or_else(|_| wrong()),
                "--rate" => options.rate = value.parse().unwrap_or_else(|_| wrong()),
                "--pattern" => {
                    options.pattern = match value.as_str() {
                        "ping-pong" => Pattern::PingPong,
                        "flood" => Pattern::Flood,
                        "paced" => Pattern::Paced,
                        _ => wrong(),
                    }
                }
                _ => fail(&format!("unknown option {name}")),
            }
        }
        if options.out.is_empty() {
            fail("--out FILE is required");
        }
        if !(1..=MOST_PAIRS).contains(&options.pairs) {
            fail("--pairs must be 1 to 496");
        }
        if options.capacity() == 0 {
            fail("--samples must be at least one for each pair");
        }
        if options.pattern == Pattern::Paced && options.rate.is_nan() | (options.rate <= 0.0) {
            fail("--rate must be above 0");
        }
        options
    }

    /// Number of messages of each pair.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.samples / self.pairs as u64
    }

    /// The intended send time of a paced message.
    #[must_use]
    pub fn intended(&self, begin: u64, pair: usize, number: u64) -> u64 {
        let period = (1e9 / self.rate) as u64;
        begin + period + pair as u64 * period / self.pairs as u64 + number * period
    }
}

/// The header of the sample file, without the counts.
pub struct Samples {
    head: &'static mut [u8],
}

/// The records and the count of one pair.
pub struct Records {
    count: &'static mut [u8],
    records: &'static mut [u8],
    written: u64,
}

impl Samples {
    /// Creates the file, and divides it among the pairs.
    #[must_use]
    pub fn create(options: &Options, name: &str) -> (Samples, Vec<Records>) {
        let each = options.capacity() as usize * RECORD;
        let length = HEADER + options.pairs * each;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&options.out);
        let mapped = file.and_then(|file| {
            file.set_len(length as u64)?;
            sys::map(&file)
        });
        let bytes =
            mapped.unwrap_or_else(|error| fail(&format!("cannot write {}: {error}", options.out)));
        let (header, records) = bytes.split_at_mut(HEADER);
        // Prefault and lock all pages, because a later page fault would be measured as latency.
        records.fill(0);
        // Locking needs a privilege. Without it, pages may be evicted, which is acceptable.
        let _ = mlockall(MlockAllFlags::CURRENT);
        let (head, counts) = header.split_at_mut(COUNTS);
        let pairs = counts
            .chunks_exact_mut(8)
            .zip(records.chunks_exact_mut(each));
        let pairs = pairs.map(|(count, records)| Records {
            count,
            records,
            written: 0,
        });
        let pairs = pairs.take(options.pairs).collect();
        head[..8].copy_from_slice(b"JITTER01");
        let fields = [
            HEADER as u32,
            RECORD as u32,
            options.pairs as u32,
            options.pattern as u32,
        ];
        for (field, at) in fields.iter().zip((8..).step_by(4)) {
            head[at..at + 4].copy_from_slice(&field.to_le_bytes());
        }
        head[64..64 + name.len()].copy_from_slice(name.as_bytes());
        let mut samples = Samples { head };
        samples.put(24, options.capacity());
        let paced = options.pattern == Pattern::Paced;
        samples.put(
            48,
            if paced {
                (options.rate * 1000.0) as u64
            } else {
                0
            },
        );
        (samples, pairs)
    }

    /// Prints `ready`, and waits for a line on standard input. Returns the start time of the test.
    pub fn start(&mut self) -> u64 {
        println!("ready");
        let _ = std::io::stdout().flush();
        let mut line = String::new();
        if !matches!(std::io::stdin().read_line(&mut line), Ok(1..)) {
            fail("standard input was closed before the start");
        }
        let begin = now();
        self.put(32, begin);
        begin
    }

    pub fn end(&mut self) {
        self.put(40, now());
    }

    fn put(&mut self, at: usize, value: u64) {
        self.head[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

impl Records {
    /// Records the receipt of a message at the current time.
    pub fn received(&mut self, message: Message) {
        let now = now();
        let at = self.written as usize * RECORD;
        let record = &mut self.records[at..at + RECORD];
        record[..8].copy_from_slice(&message.intended.to_le_bytes());
        record[8..16].copy_from_slice(&message.sent.to_le_bytes());
        record[16..].copy_from_slice(&now.to_le_bytes());
        self.written += 1;
        self.count.copy_from_slice(&self.written.to_le_bytes());
    }
}
