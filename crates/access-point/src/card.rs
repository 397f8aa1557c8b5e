//! Wireless cards of this machine, as the kernel's files show them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use crate::iw::interfaces::{self, Interface, is_name};

/// The folder in which the kernel lists the network interfaces.
const INTERFACES: &str = "/sys/class/net";

/// A wireless interface and its card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Card {
    pub(crate) interface: String,
    /// The card's name, such as `phy0`.
    pub(crate) phy: String,
    /// The card's number.
    pub(crate) index: u32,
    folder: PathBuf,
}

/// How a radio transmitter is blocked (Linux, `Documentation/driver-api/rfkill.rst`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blocked {
    /// Blocked by software.
    Soft,
    /// Blocked by a switch.
    Hard,
}

impl Card {
    /// The card of an interface; `None` if the interface is not wireless.
    pub(crate) fn of(interface: &str) -> Option<Card> {
        Card::in_folder(Path::new(INTERFACES), interface)
    }

    fn in_folder(interfaces: &Path, interface: &str) -> Option<Card> {
        let folder = interfaces.join(Some(interface).filter(|name| is_name(name))?);
        let read = |file: &str| {
            let text = fs::read_to_string(folder.join("phy80211").join(file)).ok()?;
            Some(text.trim().to_owned())
        };
        Some(Card {
            interface: interface.to_owned(),
            phy: read("name")?,
            index: read("index")?.parse().ok()?,
            folder,
        })
    }

    /// How the card's transmitter is blocked; `None` if it is not blocked or its state is unknown.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        let entries = fs::read_dir(self.folder.join("phy80211")).ok()?;
        let mut blocked = None;
        for entry in entries.flatten() {
            if !entry.file_name().to_string_lossy().starts_with("rfkill") {
                continue;
            }
            let is_set = |file: &str| {
                let text = fs::read_to_string(entry.path().join(file));
                text.is_ok_and(|text| text.trim() == "1")
            };
            if is_set("hard") {
                return Some(Blocked::Hard);
            }
            if is_set("soft") {
                blocked = Some(Blocked::Soft);
            }
        }
        blocked
    }

    /// Fails if the card's transmitter is blocked.
    ///
    /// # Errors
    /// Returns a one-line error if it is blocked.
    pub(crate) fn check_transmitter(&self) -> Result<()> {
        match self.blocked() {
            None => Ok(()),
            Some(Blocked::Soft) => bail!(
                "the transmitter of {} is switched off by software (rfkill): run rfkill unblock wifi",
                self.interface
            ),
            Some(Blocked::Hard) => bail!(
                "the transmitter of {} is switched off by a switch or key of this machine (rfkill): switch it on",
                self.interface
            ),
        }
    }

    /// Whether the interface is up.
    pub(crate) fn is_up(&self) -> bool {
        const UP: u32 = 1;
        let text = fs::read_to_string(self.folder.join("flags")).unwrap_or_default();
        let flags = u32::from_str_radix(text.trim().trim_start_matches("0x"), 16);
        flags.is_ok_and(|flags| flags & UP != 0)
    }
}

/// Selects the interface to use: the specified one, or the only free one of this machine. `listed` is the output of `iw
/// dev`.
///
/// # Errors
/// Returns a one-line error if there is none, or if there are several.
pub(crate) fn select(given: Option<&str>, listed: &str) -> Result<(Card, Interface)> {
    let all = interfaces::parse(listed);
    let with_card = |interface: &Interface| {
        let card = Card::of(&interface.name);
        card.map(|card| (card, interface.clone()))
    };
    if let Some(name) = given {
        let found = all.iter().find(|interface| interface.name == name);
        return found.and_then(with_card).ok_or_else(|| {
            anyhow!("{name} is not a wireless interface: select one that `iw dev` lists")
        });
    }
    let usable = |interface: &&Interface| {
        !interface.in_use && matches!(interface.mode.as_str(), "managed" | "AP")
    };
    let mut usable = all.iter().filter(usable).filter_map(with_card);
    match (usable.next(), usable.next()) {
        (Some(one), None) => Ok(one),
        (Some((one, _)), Some((other, _))) => bail!(
            "several wireless interfaces are free, such as {} and {}: select one with --interface (at a client, \
             --ap-interface)",
            one.interface,
            other.interface
        ),
        (None, _) => match all.first() {
            None => bail!("this machine has no wireless interface: see `iw dev`"),
            Some(used) => bail!(
                "no wireless interface is free: disconnect one, such as {}, or select one with --interface (at a client, \
                 --ap-interface); a connected interface can be selected if NetworkManager manages it",
                used.name
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(files: &[(&str, &str)]) -> (tempfile::TempDir, Option<Card>) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = folder.path().join("wlan7").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let card = Card::in_folder(folder.path(), "wlan7");
        (folder, card)
    }

    #[test]
    fn a_card_has_a_name_and_a_transmitter() {
        let files = [
            ("phy80211/name", "phy3\n"),
            ("phy80211/index", "3\n"),
            ("flags", "0x1003\n"),
        ];
        let (_folder, free) = card(&files);
        let free = free.unwrap();
        assert_eq!((free.phy.as_str(), free.index), ("phy3", 3));
        assert!(free.is_up() && free.blocked().is_none());
        let soft = [
            ("phy80211/rfkill1/soft", "1\n"),
            ("phy80211/rfkill1/hard", "0\n"),
        ];
        let (_folder, blocked) = card(&[&files[..], &soft].concat());
        let why = blocked.unwrap().check_transmitter().unwrap_err();
        assert!(why.to_string().contains("rfkill unblock wifi"), "{why}");
        let hard = [("phy80211/rfkill1/hard", "1\n")];
        let (_folder, blocked) = card(&[&files[..], &hard].concat());
        assert_eq!(blocked.unwrap().blocked(), Some(Blocked::Hard));
        let (_folder, wired) = card(&[("flags", "0x1003\n")]);
        assert_eq!(wired, None);
        assert_eq!(Card::of("../../etc"), None);
    }

    #[test]
    fn no_and_unknown_interfaces_are_refused() {
        let why = |given, listed| select(given, listed).unwrap_err().to_string();
        assert!(why(None, "").contains("no wireless interface"));
        assert!(why(Some("wlan9"), "").starts_with("wlan9 is not a wireless interface"));
        let used = "phy#0\n\tInterface wlan9\n\t\tssid a\n\t\ttype managed\n";
        assert!(why(None, used).contains("no wireless interface is free"));
    }
}
