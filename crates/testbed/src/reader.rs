//! Reads the bar codes that appear on a display. Most measurements of visible pixels use this reader.
//!
//! The reader waits for the display's damage events, reads only the rows of the code, and records the time after
//! reading. The recorded time is never too early. It is too late by the duration of the reading, a fraction of a
//! millisecond. This error is the same in a measurement of a stream and in one of the floor (the latency without a
//! stream).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use openuvr_media::barcode::{self, Stamp};
use openuvr_proto::time::Instant;
use serde::Serialize;

use crate::background::Background;
use crate::sched::{Participant, Sched};
use crate::screen::{Area, Screen};
use openuvr_clock as clock;

/// The first sighting of a frame.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Sighting {
    /// The frame's number.
    pub frame: u32,
    /// When the application drew it, in µs of `CLOCK_MONOTONIC`.
    pub drawn_us: u64,
    /// When it was read from the display, in µs of `CLOCK_MONOTONIC`.
    pub seen_us: u64,
    /// Number of key presses that the application had received.
    pub inputs: u16,
}

impl Sighting {
    /// The latency from drawn to visible, in milliseconds.
    pub fn latency_ms(&self) -> f64 {
        (self.seen_us as f64 - self.drawn_us as f64) / 1000.0
    }
}

/// A picture of the display, identified by the codes in its first and its last rows. While a new frame replaces the
/// previous one, the two codes belong to different frames.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BothEnds {
    /// When it was read from the display, in µs of `CLOCK_MONOTONIC`.
    pub seen_us: u64,
    /// The code in the first rows.
    pub top: Stamp,
    /// The code in the last rows.
    pub bottom: Stamp,
}

/// Which of a picture's bar codes are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Codes {
    Top,
    BothEnds,
}

#[derive(Default)]
struct Sightings {
    sightings: Vec<Sighting>,
    both_ends: Vec<BothEnds>,
    area: Option<Area>,
    /// Number of display changes after which a code was unreadable.
    unreadable: usize,
    failed: Option<String>,
}

/// A running reader.
pub struct Reader {
    shared: Arc<(Mutex<Sightings>, Condvar)>,
    _thread: Background,
}

impl Reader {
    /// Starts to read `display` and searches for the window with the code.
    pub fn start(display: &str) -> Result<Reader> {
        Reader::start_as(display, Sched::Off)
    }

    /// Like [`start`](Self::start), with or without real-time scheduling.
    pub fn start_as(display: &str, sched: Sched) -> Result<Reader> {
        Reader::start_reading(display, sched, Codes::Top)
    }

    /// Like [`start_as`](Self::start_as), for pictures with a second code in their last rows. [`Reader::both_ends`]
    /// returns both codes.
    pub fn start_at_both_ends(display: &str, sched: Sched) -> Result<Reader> {
        Reader::start_reading(display, sched, Codes::BothEnds)
    }

    fn start_reading(display: &str, sched: Sched, codes: Codes) -> Result<Reader> {
        let mut screen = Screen::open(display)?;
        screen.watch()?;
        let shared = Arc::new((Mutex::new(Sightings::default()), Condvar::new()));
        let there = Arc::clone(&shared);
        let thread = Background::start("reader", move |stop| {
            sched.raise_me(Participant::Reader);
            if let Err(error) = read(&screen, codes, &there, stop) {
                lock(&there.0).failed = Some(format!("{error:#}"));
                there.1.notify_all();
            }
        })?;
        Ok(Reader {
            shared,
            _thread: thread,
        })
    }

    /// Waits for a sighting that satisfies `wanted`. The first `skip` sightings of this reader are ignored. Returns
    /// `None` after the timeout.
    pub fn wait(
        &self,
        skip: usize,
        timeout: Duration,
        wanted: impl Fn(&Sighting) -> bool,
    ) -> Result<Option<Sighting>> {
        let until = clock::now() + timeout;
        let mut from = skip;
        let mut seen = lock(&self.shared.0);
        loop {
            if let Some(found) = seen.sightings[from.min(seen.sightings.len())..]
                .iter()
                .find(|sighting| wanted(sighting))
            {
                return Ok(Some(*found));
            }
            from = from.max(seen.sightings.len());
            if let Some(error) = &seen.failed {
                anyhow::bail!("reading the display failed: {error}");
            }
            let left = until.since(clock::now());
            if left.is_zero() {
                return Ok(None);
            }
            seen = self
                .shared
                .1
                .wait_timeout(seen, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The number of frames seen so far, which is a mark for [`Reader::since`] and [`Reader::wait`].
    pub fn mark(&self) -> usize {
        lock(&self.shared.0).sightings.len()
    }

    /// The sightings after `mark`.
    pub fn since(&self, mark: usize) -> Vec<Sighting> {
        lock(&self.shared.0)
            .sightings
            .get(mark..)
            .unwrap_or_default()
            .to_vec()
    }

    /// The pictures in which both codes were read. Consecutive pictures with the same codes are returned once.
    pub fn both_ends(&self) -> Vec<BothEnds> {
        lock(&self.shared.0).both_ends.clone()
    }

    /// The newest sighting.
    pub fn latest(&self) -> Option<Sighting> {
        lock(&self.shared.0).sightings.last().copied()
    }

    /// The code's area on the display.
    pub fn area(&self) -> Option<Area> {
        lock(&self.shared.0).area
    }

    /// Total number of display changes after which a code was unreadable.
    pub fn unreadable(&self) -> usize {
        lock(&self.shared.0).unreadable
    }
}

/// The interval between checks for the stop request.
const IDLE: Duration = Duration::from_millis(50);
/// The minimum interval between searches for the window with the code. A search takes many requests.
const SEARCH_EVERY: Duration = Duration::from_millis(100);

fn read(
    screen: &Screen,
    codes: Codes,
    shared: &(Mutex<Sightings>, Condvar),
    stop: &AtomicBool,
) -> Result<()> {
    let mut pixels = Vec::new();
    let mut area: Option<Area> = None;
    let mut newest: Option<Stamp> = None;
    let mut searched = Instant(i64::MIN);
    // A code that was just found must be read even without a further change.
    let mut just_found = false;
    while !stop.load(Ordering::Relaxed) {
        let look = std::mem::take(&mut just_found) || area.is_none();
        let wait = if look { Duration::ZERO } else { IDLE };
        if !screen.changed(wait)? && !look {
            continue;
        }
        let [found, bottom] = match (area, codes) {
            (Some(area), Codes::Top) => [screen.stamp(area, &mut pixels)?, None],
            (Some(area), Codes::BothEnds) => screen.stamps(area, &mut pixels)?,
            (None, _) => [None; 2],
        };
        let now = clock::now();
        let Some(stamp) = found else {
            if area.is_some() {
                lock(&shared.0).unreadable += 1;
            }
            if now.since(searched) > SEARCH_EVERY {
                searched = now;
                if let Some(found) = screen.find_code(&mut pixels)? {
                    area = Some(found);
                    just_found = true;
                    lock(&shared.0).area = area;
                }
            }
            if area.is_none() {
                screen.changed(IDLE)?;
            }
            continue;
        };
        let mut seen = lock(&shared.0);
        if let Some(bottom) = bottom {
            let before = seen
                .both_ends
                .last()
                .map(|it| (it.top.frame, it.bottom.frame));
            if before != Some((stamp.frame, bottom.frame)) {
                seen.both_ends.push(BothEnds {
                    seen_us: barcode::micros(now),
                    top: stamp,
                    bottom,
                });
            }
        } else if codes == Codes::BothEnds {
            seen.unreadable += 1;
        }
        if newest.is_some_and(|newest| stamp.frame == newest.frame) {
            continue;
        }
        newest = Some(stamp);
        seen.sightings.push(Sighting {
            frame: stamp.frame,
            drawn_us: stamp.drawn_us,
            seen_us: barcode::micros(now),
            inputs: stamp.inputs,
        });
        shared.1.notify_all();
    }
    Ok(())
}

fn lock(seen: &Mutex<Sightings>) -> MutexGuard<'_, Sightings> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
