//! The frames that the application has drawn, read from its own display.

use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_clock as clock;
use openuvr_proto::time::Instant;

use openuvr_testbed::screen::{Area, Screen};

/// The scene's own display, and the area of the bar code.
pub(super) struct Drawn {
    screen: Screen,
    area: Area,
}

impl Drawn {
    pub(super) fn open(display: &str) -> Result<Drawn> {
        let screen = Screen::open(display)?;
        let area = again(|| screen.find_code(&mut Vec::new()))?;
        Ok(Drawn { screen, area })
    }

    /// The time of the reading, and the number of the visible frame.
    pub(super) fn newest(&self) -> Result<(Instant, u32)> {
        let stamp = again(|| self.screen.stamp(self.area, &mut Vec::new()))?;
        Ok((clock::now(), stamp.frame))
    }
}

/// Timeout of a picture: with all cores busy decoding video in a browser, the scene was not
/// scheduled for a second.
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
