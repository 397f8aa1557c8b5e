//! Lists cards and connectors, and selects the card and the connector to use.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use drm::control::{Device as _, Mode, ModeFlags, ModeTypeFlags, connector};
use drm::{Device as _, DriverCapability};
use openuvr_proto::units::Size;

use crate::KmsError;
use crate::mode::{ModeDescription, millihertz};

/// The kernel's folder of cards.
const FOLDER: &str = "/dev/dri";

/// Which card and connector display the picture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    /// The card, such as `card1`, or its path. `None` means the first card with a display at the connector, otherwise
    /// the first one that can have displays.
    pub card: Option<String>,
    /// The connector, such as `HDMI-A-1`. `None` means the first connector with a display.
    pub connector: Option<String>,
}

impl Choice {
    /// Reads `CARD/CONNECTOR`; each of the two may be missing. `CARD` may begin with `/dev/dri/`; any other path is
    /// invalid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Choice> {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (card, connector) = match text.strip_prefix("/dev/dri/") {
            Some(rest) => match rest.split_once('/') {
                Some((card, connector)) => (card, Some(connector)),
                None => (rest, None),
            },
            None => match text.split_once('/') {
                Some((card, connector)) => (card, Some(connector)),
                None => (text, None),
            },
        };
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let valid = plain(card) && connector.is_none_or(|name| plain(name) && !name.is_empty());
        valid.then(|| Choice {
            card: known(card),
            connector: connector.and_then(known),
        })
    }
}

/// An open card.
#[derive(Debug)]
pub(crate) struct Card {
    file: File,
    /// The path, for messages.
    pub(crate) path: PathBuf,
}

impl AsFd for Card {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl drm::Device for Card {}
impl drm::control::Device for Card {}

impl Card {
    /// Opens the first card of `choice` with a display at the connector of `choice`. If there is none, opens the first
    /// card of `choice` that can have displays.
    pub(crate) fn open(choice: &Choice) -> Result<Card, KmsError> {
        let paths = match &choice.card {
            Some(name) => vec![Path::new(FOLDER).join(name)],
            None => cards().map_err(|cause| KmsError::NoCard { cause })?,
        };
        let (mut possible, mut refused) = (None, None);
        for path in paths {
            match Card::at(&path) {
                Ok(card) if card.display(choice).is_ok() => return Ok(card),
                Ok(card) => possible = possible.or(Some(card)),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        match (possible, refused) {
            (Some(card), _) => Ok(card),
            (None, Some(why)) => Err(why),
            (None, None) => Err(KmsError::NoCard {
                cause: io::Error::from(io::ErrorKind::NotFound),
            }),
        }
    }

    fn at(path: &Path) -> Result<Card, KmsError> {
        let refused = |cause| KmsError::Open {
            path: path.to_owned(),
            cause,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            // The kernel's events are read without blocking.
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(refused)?;
        let card = Card {
            file,
            path: path.to_owned(),
        };
        // A render-only device has no connectors.
        let resources = card.resource_handles().map_err(refused)?;
        let dumb = card.get_driver_capability(DriverCapability::DumbBuffer);
        if resources.connectors().is_empty() || dumb.unwrap_or(0) == 0 {
            return Err(KmsError::NoDisplays {
                path: path.to_owned(),
            });
        }
        Ok(card)
    }

    /// All connectors, in the state known to the kernel. With `probe`, their displays are queried, which takes
    /// milliseconds.
    pub(crate) fn connectors(&self, probe: bool) -> io::Result<Vec<connector::Info>> {
        let resources = self.resource_handles()?;
        let mut all = Vec::new();
        for handle in resources.connectors() {
            // A connector that was removed in the meantime is skipped.
            if let Ok(info) = self.get_connector(*handle, probe) {
                all.push(info);
            }
        }
        Ok(all)
    }

    /// The connector of `choice`, if a display is connected to it.
    pub(crate) fn display(&self, choice: &Choice) -> Result<connector::Info, KmsError> {
        let all = self.connectors(true).map_err(|cause| KmsError::Open {
            path: self.path.clone(),
            cause,
        })?;
        let wanted = |info: &&connector::Info| {
            choice
                .connector
                .as_ref()
                .is_none_or(|name| *name == info.to_string())
        };
        if let Some(name) = &choice.connector
            && !all.iter().any(|info| wanted(&info))
        {
            let known: Vec<String> = all.iter().map(ToString::to_string).collect();
            return Err(KmsError::NoConnector {
                path: self.path.clone(),
                name: name.clone(),
                known: known.join(", "),
            });
        }
        let connected = all.iter().filter(wanted).find(|info| is_connected(info));
        connected.cloned().ok_or_else(|| KmsError::Unplugged {
            path: self.path.clone(),
            name: choice.connector.clone(),
        })
    }
}

/// Whether a display with modes is connected. A connector whose state is unknown may have modes, too.
pub(crate) fn is_connected(info: &connector::Info) -> bool {
    info.state() != connector::State::Disconnected && !info.modes().is_empty()
}

/// The cards in the order of their numbers.
fn cards() -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(FOLDER)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("card"));
        if let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) {
            found.push((number, Path::new(FOLDER).join(name)));
        }
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The properties of a mode on which the choice of a mode depends.
pub(crate) fn describe(mode: &Mode) -> ModeDescription {
    let (width, height) = mode.size();
    let ((_, _, across), (_, _, down)) = (mode.hsync(), mode.vsync());
    let flags = mode.flags();
    let interlaced = flags.contains(ModeFlags::INTERLACE);
    let doubled = flags.contains(ModeFlags::DBLSCAN);
    ModeDescription {
        size: Size::new(width.into(), height.into()),
        millihertz: millihertz(mode.clock(), (across, down), interlaced, doubled),
        preferred: mode.mode_type().contains(ModeTypeFlags::PREFERRED),
        interlaced,
    }
}

/// The name of a mode in messages.
pub(crate) fn name_of(mode: &ModeDescription) -> String {
    let hertz = f64::from(mode.millihertz) / 1000.0;
    format!("{} at {hertz:.2} Hz", mode.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_and_a_connector_are_named_or_left_out() {
        let choice = |card: Option<&str>, connector: Option<&str>| {
            Some(Choice {
                card: card.map(str::to_owned),
                connector: connector.map(str::to_owned),
            })
        };
        for (text, expected) in [
            ("", choice(None, None)),
            ("card1", choice(Some("card1"), None)),
            ("card0/HDMI-A-1", choice(Some("card0"), Some("HDMI-A-1"))),
            ("/dev/dri/card0/DP-2", choice(Some("card0"), Some("DP-2"))),
            ("/dev/dri/card0", choice(Some("card0"), None)),
            ("/HDMI-A-1", choice(None, Some("HDMI-A-1"))),
            ("card0/", None),
            ("../tty", None),
            ("/etc/passwd", None),
        ] {
            assert_eq!(Choice::parse(text), expected, "{text}");
        }
    }
}
