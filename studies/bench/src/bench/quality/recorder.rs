//! Records the pictures on a display. The pictures are stored during the stream and compared later, so that the
//! comparison does not slow down the stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_clock as clock;
use openuvr_media::barcode::{self, Stamp};
use openuvr_media::picture::Picture;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_testbed::screen::{Area, Screen};

use super::setup::Setup;
use super::similarity::Luma;

/// A visible picture.
pub(super) struct Shot {
    /// The time at which the bench finished reading the picture.
    pub(super) at: Instant,
    pub(super) stamp: Option<Stamp>,
    pub(super) luma: Luma,
}

/// Records each new picture of a display.
pub(super) struct DisplayRecorder {
    watched: Arc<Mutex<RecordedShots>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Default)]
pub(super) struct RecordedShots {
    /// The area of the display that contains the stream's picture; `None` until a bar code is found.
    pub(super) area: Option<Area>,
    /// Whether new pictures are stored.
    pub(super) keeping: bool,
    pub(super) shots: Vec<Shot>,
}

impl DisplayRecorder {
    /// Starts to watch a display. Pictures are stored while [`RecordedShots::keeping`] is set.
    pub(super) fn open(display: &str, setup: &Setup<'_>) -> Result<DisplayRecorder> {
        let mut screen = Screen::open(display)?;
        screen.watch()?;
        let watched = Arc::new(Mutex::new(RecordedShots::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (ours, stopped) = (Arc::clone(&watched), Arc::clone(&stop));
        // The maximum number of stored pictures.
        let most = (setup.seconds * setup.fps * 1.5) as usize + 100;
        let thread = std::thread::Builder::new()
            .name("eye".into())
            .spawn(move || watch(&screen, &ours, &stopped, most))?;
        Ok(DisplayRecorder {
            watched,
            stop,
            thread: Some(thread),
        })
    }

    /// The state that the recorder and its thread share.
    pub(super) fn watched(&self) -> MutexGuard<'_, RecordedShots> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread. Returns the stored pictures.
    pub(super) fn end(mut self) -> Result<Vec<Shot>> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result?,
            _ => bail!("the thread that records the display panicked"),
        }
        Ok(std::mem::take(&mut self.watched().shots))
    }
}

impl Drop for DisplayRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(
    screen: &Screen,
    watched: &Mutex<RecordedShots>,
    stop: &AtomicBool,
    most: usize,
) -> Result<()> {
    let watched = || watched.lock().unwrap_or_else(PoisonError::into_inner);
    let mut pixels = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if !screen.changed(Duration::from_millis(50))? {
            continue;
        }
        let Some(area) = watched().area else {
            let found = screen.find_code(&mut pixels)?;
            watched().area = found;
            continue;
        };
        if !watched().keeping {
            continue;
        }
        screen.grab(area, &mut pixels)?;
        let at = clock::now();
        let Size { width, .. } = area.size;
        let stamp = barcode::read(&Picture::bgrx(area.size, &pixels, width as usize * 4));
        let luma = Luma::of(&pixels, area.size, barcode::height(width));
        let mut watched = watched();
        if watched.shots.len() < most {
            watched.shots.push(Shot { at, stamp, luma });
        }
    }
    Ok(())
}
