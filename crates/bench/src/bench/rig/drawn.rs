//! What the application has drawn, read from its own display, whatever became of it.

use std::time::Duration;

use anyhow::{Result, bail};
use openuvr_proto::time::Instant;
use openuvr_runtime::clock;

use crate::screen::{Area, Screen};

/// The scene's own display, and where in it the bar code is.
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

    /// When it was looked, and the number of the frame that was there.
    pub(super) fn newest(&self) -> Result<(Instant, u32)> {
        let stamp = again(|| self.screen.stamp(self.area, &mut Vec::new()))?;
        Ok((clock::now(), stamp.frame))
    }
}

/// How long a picture is waited for: on a machine whose cores all decode video in a browser, the scene got no
/// turn for a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks until there is something.
fn again<T>(mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let until = clock::now() + PATIENCE;
    while clock::now() < until {
        if let Some(found) = look()? {
            return Ok(found);
        }
        clock::sleep_until(clock::now() + Duration::from_millis(2));
    }
    bail!("the scene's own display shows no bar code")
}
