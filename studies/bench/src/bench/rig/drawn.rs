//! The frames that the application has drawn.

use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use openuvr_testbed::reader::Reader;
use openuvr_testbed::screen::{Area, Screen};

/// The source of the number of the newest drawn frame.
pub(super) enum Drawn<'a> {
    /// The scene's own X display, and the area of the bar code on it.
    Display { screen: Box<Screen>, area: Area },
    /// The measured display, for a scene whose own display only the host can read. A drawn frame that is still in
    /// transit does not count yet. With a latency of less than a frame's period, this concerns at most one frame at
    /// each end of the measurement. Lost frames between two visible frames count as drawn. Frames after the last
    /// visible one do not, so the share of complete frames stays high even if the stream stops permanently.
    Visible(&'a Reader),
}

impl Drawn<'_> {
    /// Opens the X display with this name. The scene must draw on this display.
    pub(super) fn open(display: &str) -> Result<Drawn<'static>> {
        let screen = Box::new(Screen::open(display)?);
        let area = again(|| screen.find_code(&mut Vec::new()))?;
        Ok(Drawn::Display { screen, area })
    }

    /// The number of the newest frame, and the time at which it was read.
    pub(super) fn newest(&self) -> Result<(Instant, u32)> {
        let frame = match self {
            Drawn::Display { screen, area } => {
                again(|| screen.stamp(*area, &mut Vec::new()))?.frame
            }
            Drawn::Visible(reader) => again(|| Ok(reader.latest()))?.frame,
        };
        Ok((clock::now(), frame))
    }
}

/// Timeout of reading a frame's number. In one measurement, video decoding in a browser used all cores, and the scene
/// was not scheduled for a second.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Retries until there is a result, for at most [`TIMEOUT`].
fn again<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let until = clock::now() + TIMEOUT;
    while clock::now() < until {
        if let Some(found) = look()? {
            return Ok(found);
        }
        clock::sleep_until(clock::now() + Duration::from_millis(2));
    }
    bail!("the scene's own display shows no bar code")
}
