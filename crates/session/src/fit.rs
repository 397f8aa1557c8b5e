//! `--fit` of `openuvr host` and `openuvr run`: sets the display to the size of the player's window, or to the mode
//! that the player's user has selected.

use std::time::Duration;

use openuvr_compositor::DisplayResizer;
use openuvr_media::convert::Scaler;
use openuvr_media::display_size::DisplaySize;
use openuvr_proto::host::WantedDisplay;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;

/// How long a size must be unchanged before it is applied (guess). Each change makes applications redo their layout. If
/// another client takes over within this time, its request replaces the pending return to the display's own size.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// The maximum size of a virtual display, which is at least as large as most screens (guess). The display's server
/// allocates 33 MB for it.
const MAX_SIZE: Size = Size::new(3840, 2160);

/// The maximum size of a virtual display with selected modes, including portrait ones. Most decoders of H.264 support
/// no larger size. The server allocates 67 MB.
const MAX_MODE: Size = Size::new(4096, 4096);

/// The maximum size with which a virtual display of `size` must be started, so that it can grow later. `modes` states
/// whether players can select modes.
pub fn max_size(size: Size, modes: bool) -> Size {
    let most = if modes { MAX_MODE } else { MAX_SIZE };
    Size::new(size.width.max(most.width), size.height.max(most.height))
}

/// A display, and the requested size.
pub struct Fit {
    /// The subcommand, which is the prefix of each printed line.
    subcommand: &'static str,
    display: Resized,
    /// The display that the player wants, and the time at which to apply it. `None` as the display requests the
    /// display's own size.
    requested: Option<(Option<WantedDisplay>, Instant)>,
    last_error: Option<String>,
}

/// The resized display.
enum Resized {
    X11(Box<DisplaySize>),
    Wayland(DisplayResizer),
}

impl Resized {
    fn set(&mut self, wanted: Option<WantedDisplay>) -> Result<(), String> {
        let wanted = wanted.map(|WantedDisplay { size, rate }| match rate {
            // A mode that is too large is scaled down. Cropping it would change its aspect ratio.
            Some(rate) => (Scaler::fitted(size, MAX_MODE), Some(rate.get())),
            None => (size, None),
        });
        match (self, wanted) {
            (Resized::X11(display), Some((size, rate))) => display.set(size, rate).map(|_| ()),
            (Resized::X11(display), None) => display.restore(),
            // The capture sets the rate of a Wayland display.
            (Resized::Wayland(display), Some((size, _))) => {
                display.set(size);
                Ok(())
            }
            (Resized::Wayland(display), None) => {
                display.restore();
                Ok(())
            }
        }
    }
}

impl Fit {
    /// Opens `display`, which keeps its size until a request.
    ///
    /// # Errors
    /// Returns a one-line error if the display cannot be resized.
    pub(crate) fn open(subcommand: &'static str, display: &str) -> Result<Fit, String> {
        let display = Resized::X11(Box::new(DisplaySize::open(display)?));
        Ok(Fit::of(subcommand, display))
    }

    fn of(subcommand: &'static str, display: Resized) -> Fit {
        Fit {
            subcommand,
            display,
            requested: None,
            last_error: None,
        }
    }

    /// Creates a `Fit` for a Wayland display of this process.
    pub fn of_wayland(subcommand: &'static str, display: DisplayResizer) -> Fit {
        Fit::of(subcommand, Resized::Wayland(display))
    }

    /// Like `open`, but does nothing unless `wanted`. If the display cannot be resized, the error is printed.
    pub fn open_if(wanted: bool, subcommand: &'static str, display: &str) -> Option<Fit> {
        let fit = wanted.then(|| Fit::open(subcommand, display))?;
        fit.map_err(|why| eprintln!("openuvr {subcommand}: --fit has no effect: {why}"))
            .ok()
    }

    /// Like `open`, for a virtual display that was started with its maximum size and is to be reduced to `own`.
    ///
    /// # Errors
    /// Returns a one-line error if the size `own` cannot be set.
    pub fn open_virtual(subcommand: &'static str, display: &str, own: Size) -> Result<Fit, String> {
        let mut display = DisplaySize::open(display)?;
        display.set(own, None)?;
        display.keep();
        Ok(Fit::of(subcommand, Resized::X11(Box::new(display))))
    }

    /// Requests the display that the player wants; `None` if there is no player. A selected mode is applied at once,
    /// because it is not an intermediate size of a window that is being resized.
    pub fn request(&mut self, wanted: Option<WantedDisplay>, now: Instant) {
        let chosen = wanted.is_some_and(|wanted| wanted.rate.is_some());
        let due = if chosen { now } else { now + SETTLE_TIME };
        self.requested = Some((wanted, due));
    }

    /// Applies a request that is due. Call this a few times per second. On an X display, it waits for the server.
    pub fn tick(&mut self, now: Instant) {
        let Some((wanted, _)) = self.requested.take_if(|(_, due)| now >= *due) else {
            return;
        };
        let refused = self.display.set(wanted).err();
        if refused != self.last_error
            && let Some(why) = &refused
        {
            eprintln!(
                "openuvr {}: {why}; the picture is scaled instead",
                self.subcommand
            );
        }
        self.last_error = refused;
    }
}
