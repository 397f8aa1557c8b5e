//! A virtual display: an Xvfb of our own, gone when dropped.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use openuvr_proto::units::Size;

use crate::child::Child;

/// A running virtual display.
#[derive(Debug)]
pub(crate) struct VirtualDisplay {
    name: String,
    server: Child,
}

impl VirtualDisplay {
    /// Starts one with a single screen of `size` and 24 bit colour, with OpenGL in software.
    ///
    /// It chooses a free display number itself, so that any number can run side by side.
    pub(crate) fn start(size: Size) -> Result<VirtualDisplay> {
        let mut command = Command::new("Xvfb");
        command
            .args(["-displayfd", "1", "-screen", "0"])
            .arg(format!("{size}x24"))
            .args(["-nolisten", "tcp", "-noreset", "+extension", "GLX"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut server = Child::start("virtual display", command, None)
            .context("a virtual display needs Xvfb: apt install xvfb")?;
        let mut line = String::new();
        if let Some(out) = server.stdout() {
            // Xvfb writes its number when it is ready, or closes the pipe when it ends.
            BufReader::new(out).read_line(&mut line)?;
        }
        let number = line.trim();
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            bail!(
                "Xvfb ended without giving a display: try `Xvfb -displayfd 1` by hand to see why"
            );
        }
        Ok(VirtualDisplay {
            name: format!(":{number}"),
            server,
        })
    }

    /// What to put after `--display`, such as `:99`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The server's process id.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A display for a test, or `None` (with a word why) where there is no Xvfb.
    pub(crate) fn display(size: Size) -> Option<VirtualDisplay> {
        match VirtualDisplay::start(size) {
            Ok(display) => Some(display),
            Err(error) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{error:#}");
                eprintln!("skipped: {error:#}");
                None
            }
        }
    }

    #[test]
    fn two_displays_run_side_by_side_and_leave_nothing_behind() {
        let Some(one) = display(Size::new(320, 240)) else {
            return;
        };
        let Some(two) = display(Size::new(640, 480)) else {
            return;
        };
        assert_ne!(one.name(), two.name());
        for (display, width) in [(&one, 320), (&two, 640)] {
            let (conn, screen) = x11rb::connect(Some(display.name())).unwrap();
            use x11rb::connection::Connection as _;
            assert_eq!(conn.setup().roots[screen].width_in_pixels, width);
        }
        let socket = format!("/tmp/.X11-unix/X{}", &one.name()[1..]);
        assert!(std::path::Path::new(&socket).exists());
        drop(one);
        assert!(
            !std::path::Path::new(&socket).exists(),
            "it takes its socket with it"
        );
    }
}
