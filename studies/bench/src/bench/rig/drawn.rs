//! The frames that the application has drawn.

use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use openuvr_testbed::reader::Reader;
use openuvr_testbed::screen::{Area, Screen};

/// Where the newest drawn frame is read.
pub(super) enum Drawn<'a> {
    /// On the scene's own X display, with the area of the bar code.
    Display { screen: Box<Screen>, area: Area },
    /// On the measured display, for a scene whose own display only the host can read. A frame that has been drawn and is
    /// still in transit does not count yet: with a latency of less than a frame's period, this is at most one at each end of
    /// the measurement. Lost frames between two visible ones count as drawn, but frames after the last visible one do not,
    /// so a stream that stops for good does not affect the share of complete frames.
    Visible(&'a Reader),
}

impl Drawn<'_> {
    /// Reads the X display with this name, which shows the scene.
    pub(super) fn open(display: &str) -> Result<Drawn<'static>> {
        let screen = Box::new(Screen::open(display)?);
        let area = again(|| screen.find_code(&mut Vec::new()))?;
        Ok(Drawn::Display { screen, area })
    }

    /// The time of the reading, and the number of the visible frame.
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

/// Timeout of a picture. With all cores busy decoding video in a browser, the scene has not been scheduled for a second.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Retries until there is a result.
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
