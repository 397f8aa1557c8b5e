//! The applications that clients choose from.

mod art;
mod launcher;

use std::path::PathBuf;

pub use self::launcher::{LaunchRefused, Launcher};

/// An application as the host describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfferedApplication {
    /// Its name.
    pub title: String,
    /// Its icon, a PNG file.
    pub icon: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Application {
    /// Its number, which stays the same when the host restarts.
    pub(crate) number: u32,
    /// Its name.
    pub(crate) title: String,
    icon: Option<PathBuf>,
}

impl Application {
    /// Creates an application with a number derived from its name (32-bit FNV-1a without the highest bit, because some
    /// clients use signed numbers).
    #[must_use]
    pub(crate) fn new(offered: OfferedApplication) -> Application {
        let OfferedApplication { title, icon } = offered;
        let hash = title.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Application {
            // 0 means that no application runs.
            number: (hash & 0x7fff_ffff).max(1),
            title,
            icon,
        }
    }

    /// All applications of a host. If two have the same number, the second gets another number.
    pub(crate) fn all(offered: Vec<OfferedApplication>) -> Vec<Application> {
        let mut all: Vec<Application> = Vec::new();
        for offered in offered {
            let mut application = Application::new(offered);
            while all.iter().any(|other| other.number == application.number) {
                application.number = (application.number % 0x7fff_ffff) + 1;
            }
            all.push(application);
        }
        all
    }

    /// Its box art as PNG. `None` if the PNG library fails.
    #[must_use]
    pub(crate) fn art(&self) -> Option<Vec<u8>> {
        art::draw(self.number, self.icon.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(title: &str) -> OfferedApplication {
        OfferedApplication {
            title: title.to_owned(),
            icon: None,
        }
    }

    #[test]
    fn numbers_are_stable_and_differ() {
        let desktop = Application::new(named("Desktop"));
        assert_eq!(desktop, Application::new(named("Desktop")));
        assert_ne!(desktop.number, Application::new(named("Game")).number);
        assert!(desktop.number > 0 && desktop.number < 1 << 31);
        let all = Application::all(vec![named("Desktop"), named("Desktop"), named("Game")]);
        assert_eq!(all[0].number, desktop.number);
        assert_ne!(all[0].number, all[1].number);
    }

    #[test]
    fn box_art_is_a_picture() {
        let art = Application::new(named("Desktop")).art().unwrap();
        let decoder = png::Decoder::new(std::io::Cursor::new(art));
        let reader = decoder.read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), art::ART);
    }
}
