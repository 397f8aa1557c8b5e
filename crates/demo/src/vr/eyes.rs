//! Reads the bar codes of both eyes' pictures in a client's window, as they appear.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use openuvr_clock as clock;
use openuvr_media::barcode::view::{self, ViewStamp};
use openuvr_media::barcode::{self, MIN_WIDTH};
use openuvr_media::picture::Picture;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

use openuvr_testbed::background::Background;
use openuvr_testbed::screen::{Area, Screen};

/// The first sighting of a frame: the codes of both eyes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct EyeSighting {
    /// The codes in the left and in the right half of the window.
    pub(super) codes: [ViewStamp; 2],
    pub(super) at: Instant,
}

#[derive(Default)]
struct EyeSightings {
    seen: Vec<EyeSighting>,
    area: Option<Area>,
    unreadable: usize,
    failed: Option<String>,
}

pub(super) struct EyeReader {
    found: Arc<Mutex<EyeSightings>>,
    _thread: Background,
}

impl EyeReader {
    /// Starts to read `display` and searches for the window with the codes.
    pub(super) fn start(display: &str) -> Result<EyeReader> {
        let mut screen = Screen::open(display)?;
        screen.watch()?;
        let found = Arc::new(Mutex::new(EyeSightings::default()));
        let there = Arc::clone(&found);
        let thread = Background::start("eyes", move |stop| {
            if let Err(error) = read(&screen, &there, stop) {
                lock(&there).failed = Some(format!("{error:#}"));
            }
        })?;
        Ok(EyeReader {
            found,
            _thread: thread,
        })
    }

    /// The sightings so far.
    ///
    /// # Errors
    /// Returns an error if reading the display has failed.
    pub(super) fn seen(&self) -> Result<Vec<EyeSighting>> {
        let found = lock(&self.found);
        match &found.failed {
            Some(why) => anyhow::bail!("reading the display failed: {why}"),
            None => Ok(found.seen.clone()),
        }
    }

    /// The window's area on the display.
    pub(super) fn area(&self) -> Option<Area> {
        lock(&self.found).area
    }

    /// Number of changes of the window's content after which one of the codes was unreadable.
    pub(super) fn unreadable(&self) -> usize {
        lock(&self.found).unreadable
    }
}

/// Interval between checks for the stop request, and between searches for the window.
const IDLE: Duration = Duration::from_millis(50);

fn read(screen: &Screen, found: &Mutex<EyeSightings>, stop: &AtomicBool) -> Result<()> {
    let mut pixels = Vec::new();
    let mut area = None;
    let mut newest = None;
    while !stop.load(Ordering::Relaxed) {
        let Some(there) = area else {
            screen.changed(IDLE)?;
            for there in screen.windows()? {
                // A window may close between the list and the read.
                if let Ok(Some(_)) = codes(screen, there, &mut pixels) {
                    area = Some(there);
                    break;
                }
            }
            lock(found).area = area;
            continue;
        };
        if !screen.changed(IDLE)? {
            continue;
        }
        let codes = codes(screen, there, &mut pixels)?;
        let at = clock::now();
        let Some(codes) = codes else {
            lock(found).unreadable += 1;
            continue;
        };
        if newest.replace(codes[0].frame) != Some(codes[0].frame) {
            lock(found).seen.push(EyeSighting { codes, at });
        }
    }
    Ok(())
}

/// Reads the codes in both halves of an area, without the other pixels.
fn codes(screen: &Screen, area: Area, pixels: &mut Vec<u8>) -> Result<Option<[ViewStamp; 2]>> {
    let width = area.size.width / 2;
    let rows = barcode::height(width);
    if width < MIN_WIDTH || area.size.height < rows {
        return Ok(None);
    }
    let strip = Size::new(area.size.width, rows);
    let strip = Area {
        size: strip,
        ..area
    };
    screen.grab(strip, pixels)?;
    let stride = area.size.width as usize * 4;
    let half = |from: usize| {
        let size = Size::new(width, rows);
        view::read(&Picture::bgrx(size, pixels.get(from..)?, stride))
    };
    Ok(half(0).zip(half(width as usize * 4)).map(<[_; 2]>::from))
}

fn lock(found: &Mutex<EyeSightings>) -> MutexGuard<'_, EyeSightings> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}
