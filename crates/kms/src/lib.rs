//! The client without a window system: pictures on a display through the kernel's mode setting (DRM/KMS), input from
//! event devices, and control of the text console.
//!
//! [`open`] takes the console and a display. As for a window, it returns two objects: the [`KmsPresenter`] for the
//! media thread and the [`ConsoleInput`] for the input thread. A third thread handles the kernel's events: completed
//! flips, displays that are plugged in or unplugged, and switches of the console.
//!
//! This is a separate crate, because the libraries that are loaded into applications must not contain it, and because
//! only this crate makes requests to cards. Decoded pictures in main memory are composed in dumb buffers, which the CPU
//! writes. A plane displays decoded pictures in dma-bufs without a copy.
//!
//! Spec: drm-kms(7), ioctl_console(2), the kernel's `include/uapi/drm/drm_mode.h`.

#![deny(unsafe_code)]

mod buffers;
mod card;
mod console;
mod direct;
mod display;
mod events;
mod flips;
mod front;
mod import;
mod input;
mod memory_display;
mod mode;
mod output;
mod planes;
mod presenter;
mod scene;
mod uevent;

use std::io;
use std::path::PathBuf;
use std::process::Command;

use openuvr_media::present::PresentError;
use openuvr_media::window::WindowConfig;

pub use card::Choice;
pub use console::guard;
pub use input::ConsoleInput;
pub use memory_display::MemoryDisplay;
pub use presenter::KmsPresenter;

use card::Card;

/// Settings of a display in addition to those of a window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KmsConfig {
    /// The card and the connector.
    pub choice: Choice,
    /// The requested refresh rate in hertz. `None` means the highest multiple of the stream's frame rate, otherwise the
    /// highest rate.
    pub refresh: Option<f64>,
}

/// Takes the console and a display. `guard` is the command that runs [`guard::run`], so that the console is restored if
/// this process is killed.
///
/// # Errors
/// [`PresentError`] in one line if there is no card, no display or no console, or if another session uses the display.
pub fn open(
    config: &KmsConfig,
    window: &WindowConfig,
    guard: Option<Command>,
) -> Result<(KmsPresenter, ConsoleInput), PresentError> {
    presenter::open(config, window, guard).map_err(|why| PresentError(why.to_string()))
}

/// Checks that there is a card with a display, before a session starts. Returns the display's highest refresh rate.
///
/// # Errors
/// [`PresentError`] in one line if there is no such card.
pub fn probe(choice: &Choice) -> Result<Option<f64>, PresentError> {
    let rate = || -> Result<Option<f64>, KmsError> {
        let card = Card::open(choice)?;
        let info = card.display(choice)?;
        let rates = info
            .modes()
            .iter()
            .map(|mode| card::describe(mode).millihertz);
        let highest = rates.max().filter(|rate| *rate > 0);
        Ok(highest.map(|rate| f64::from(rate) / 1000.0))
    };
    rate().map_err(|why| PresentError(why.to_string()))
}

/// Why there is no display. Each error is one line with the failed operation, its object, and a remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KmsError {
    #[error(
        "no graphics card was found in /dev/dri: {cause}; load the card's driver, or use --present x11 or wayland"
    )]
    NoCard { cause: io::Error },
    #[error("the card {path} can't be opened: {cause}; {}", remedy(cause))]
    Open { path: PathBuf, cause: io::Error },
    #[error("the card {path} drives no displays: use another card, as in --present kms:card1")]
    NoDisplays { path: PathBuf },
    #[error("the card {path} has no connector {name:?}: use one of {known}")]
    NoConnector {
        path: PathBuf,
        name: String,
        known: String,
    },
    #[error("no display is connected to {} of {path}: plug one in, or use another card or connector, as in --present \
             kms:card1/HDMI-A-1", .name.as_deref().unwrap_or("any connector"))]
    Unplugged { path: PathBuf, name: Option<String> },
    #[error("the card has no free CRTC (scan-out unit) for {name}: turn off another display")]
    NoCrtc { name: String },
    #[error(
        "the card {path} is used by another session: {cause}; switch to a text console (Ctrl+Alt+F3) and start the \
         client there, or use --present x11 or wayland"
    )]
    NotMaster { path: PathBuf, cause: io::Error },
    #[error(
        "{name} refuses all its modes, the last one being {mode}: {cause}; check the cable, or use another connector"
    )]
    Modes {
        name: String,
        mode: String,
        cause: io::Error,
    },
    #[error("the card {path} failed: {cause}; see the kernel's log (dmesg)")]
    Device { path: PathBuf, cause: io::Error },
    #[error(
        "the text console can't be used: {cause}; start the client on a text console (Ctrl+Alt+F3), or as root"
    )]
    NoConsole { cause: io::Error },
    #[error(
        "the console /dev/tty{number} {what}: {cause}; start the client on a text console (Ctrl+Alt+F3), or as \
         root"
    )]
    Console {
        number: u32,
        what: &'static str,
        cause: io::Error,
    },
    #[error(
        "the console /dev/tty{number} is used by another program for graphics: start the client on another console (Ctrl+Alt+F3)"
    )]
    ConsoleInUse { number: u32 },
    #[error(
        "can't start a thread or open a descriptor: {cause}; raise the limits of this user (ulimit)"
    )]
    Resources { cause: io::Error },
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            "add this user to the groups video and input, or start the client on a text console"
        }
        io::ErrorKind::NotFound => "list the cards with ls /dev/dri",
        _ => "see the kernel's log (dmesg)",
    }
}
