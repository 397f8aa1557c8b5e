//! `--fit` of `openuvr host` and `openuvr run`: the display takes the size of the player's window.

use std::time::Duration;

use openuvr_media::display_size::DisplaySize;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

/// A size that is wished for so long is given: each lets applications lay themselves out anew, and a client
/// that takes over says its own at once (guess).
const RESTS: Duration = Duration::from_millis(200);

/// A display of the host's own may become so large: what most screens have at most (guess). Its server takes
/// 33 MB for it.
const ROOM: Size = Size::new(3840, 2160);

/// What a virtual display of `size` has to have room for.
pub(crate) fn room(size: Size) -> Size {
    Size::new(size.width.max(ROOM.width), size.height.max(ROOM.height))
}

/// The display, and what is wished of it.
pub(crate) struct Fit {
    /// The subcommand, as it begins each line.
    who: &'static str,
    display: DisplaySize,
    /// The player's window, and since when it is known.
    wished: Option<(Option<Size>, Instant)>,
    /// What was said of a refusal last.
    told: Option<String>,
}

impl Fit {
    /// For `display`, which keeps its size for now.
    ///
    /// # Errors
    /// One line: why it can have no other.
    pub(crate) fn open(who: &'static str, display: &str) -> Result<Fit, String> {
        Ok(Fit {
            who,
            display: DisplaySize::open(display)?,
            wished: None,
            told: None,
        })
    }

    /// The same if it is `wanted`; a display that keeps its size is told, and no reason to stop.
    pub(crate) fn wanted(wanted: bool, who: &'static str, display: &str) -> Option<Fit> {
        let fit = wanted.then(|| Fit::open(who, display))?;
        fit.map_err(|why| eprintln!("openuvr {who}: --fit has no effect: {why}"))
            .ok()
    }

    /// The same for a display that was made with more room than it is to have.
    ///
    /// # Errors
    /// One line: it can't be given `own`.
    pub(crate) fn with_own(who: &'static str, display: &str, own: Size) -> Result<Fit, String> {
        let mut fit = Fit::open(who, display)?;
        fit.display.set(own)?;
        fit.display.keep();
        Ok(fit)
    }

    /// The player's window has this size now; `None`: nobody plays.
    pub(crate) fn wish(&mut self, size: Option<Size>, now: Instant) {
        self.wished = Some((size, now));
    }

    /// Does what has been wished long enough; call it a few times a second. Waits for the X server.
    pub(crate) fn tick(&mut self, now: Instant) {
        let due = |wish: &mut (_, Instant)| now.since(wish.1) >= RESTS;
        let Some((size, _)) = self.wished.take_if(due) else {
            return;
        };
        let given = match size {
            Some(size) => self.display.set(size).map(|_| ()),
            None => self.display.restore(),
        };
        let refused = given.err();
        if refused != self.told
            && let Some(why) = &refused
        {
            eprintln!("openuvr {}: {why}; the picture is scaled instead", self.who);
        }
        self.told = refused;
    }
}
