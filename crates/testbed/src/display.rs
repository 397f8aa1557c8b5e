//! A virtual display: a private Xvfb, which is stopped when dropped.

#[path = "../../media/tests/skip/mod.rs"]
mod skip;

use anyhow::{Context as _, Result, anyhow};
use openuvr_media::temporary_folder::TemporaryFolder;
use openuvr_proto::units::Size;
use openuvr_xserver::fixture::admit_own_user;
use openuvr_xserver::{Authority, Xvfb};

use crate::child::own_child;
use skip::skip;

/// A running virtual display. Its server ends when this value is dropped.
#[derive(Debug)]
pub struct VirtualDisplay {
    server: Xvfb,
    /// Removed after the server has ended.
    _folder: TemporaryFolder,
}

impl VirtualDisplay {
    /// Starts a display with a single screen of `size` and 24 bit colour, and with OpenGL in software.
    ///
    /// The server selects a free display number, so that any number of displays can run concurrently.
    pub fn start(size: Size) -> Result<VirtualDisplay> {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "openuvr-xauth-");
        let folder = folder.context("can't create a folder for the display's cookie")?;
        let authority = Authority::make(folder.path().join("xauthority"))?;
        let server = Xvfb::start(size, Some(authority), &[], own_child)?;
        if let Some(authority) = server.authority() {
            // Admit all programs of this user without a cookie: a measurement connects to several displays at once,
            // including the user's own, and the cookies of these displays are in different files.
            admit_own_user(&server.display, authority).map_err(|why| {
                anyhow!(
                    "the virtual display {} does not answer: {why}",
                    server.display
                )
            })?;
        }
        Ok(VirtualDisplay {
            server,
            _folder: folder,
        })
    }

    /// The value for `--display`, such as `:99`.
    pub fn name(&self) -> &str {
        &self.server.display
    }

    /// The server's process id.
    pub fn id(&self) -> u32 {
        self.server.id()
    }
}

/// A display for a test, or `None` (with a message) if it cannot be started, for example because Xvfb is not installed.
/// In CI, this is a failure.
///
/// # Panics
/// Panics in CI if the display cannot be started.
#[must_use]
pub fn for_test(size: Size) -> Option<VirtualDisplay> {
    match VirtualDisplay::start(size) {
        Ok(display) => Some(display),
        Err(error) => {
            skip(&format!("{error:#}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn two_displays_run_side_by_side_and_clean_up() {
        let Some(one) = for_test(Size::new(320, 240)) else {
            return;
        };
        let Some(two) = for_test(Size::new(640, 480)) else {
            return;
        };
        assert_ne!(one.name(), two.name());
        for (display, width) in [(&one, 320), (&two, 640)] {
            let (conn, screen) = x11rb::connect(Some(display.name())).unwrap();
            use x11rb::connection::Connection as _;
            assert_eq!(conn.setup().roots[screen].width_in_pixels, width);
        }
        let socket = format!("/tmp/.X11-unix/X{}", &one.name()[1..]);
        let identity = || {
            let found = std::fs::metadata(&socket).ok()?;
            Some((found.ino(), found.ctime(), found.ctime_nsec()))
        };
        let before = identity();
        assert!(before.is_some());
        drop(one);
        // A server of another test may have taken the number.
        assert_ne!(identity(), before, "the server removes its socket");
    }
}
