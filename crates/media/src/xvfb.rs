//! X servers for tests: each test has its own, which ends with it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{self, ConnectionExt as _};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::skip::skip;

/// A running Xvfb.
pub(crate) struct Xvfb {
    server: Child,
    pub(crate) display: String,
}

impl Xvfb {
    /// Starts one with a screen of `size` (`640x480`), 24 bits deep; `None`, with a message, if
    /// Xvfb is not installed.
    pub(crate) fn start(size: &str) -> Option<Xvfb> {
        Xvfb::with(size, &[])
    }

    /// The same with additional command line arguments.
    pub(crate) fn with(size: &str, words: &[&str]) -> Option<Xvfb> {
        let mut command = Command::new("Xvfb");
        command
            .args(["-displayfd", "1", "-screen", "0", &format!("{size}x24")])
            .args(["-nolisten", "tcp", "-noreset"])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let Ok(mut server) = command.spawn() else {
            skip("Xvfb is not installed: apt-get install xvfb");
            return None;
        };
        let mut line = String::new();
        let output = server.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("Xvfb names its display");
        let display = format!(":{}", line.trim());
        Some(Xvfb { server, display })
    }

    pub(crate) fn connect(&self) -> (RustConnection, xproto::Window) {
        let (conn, screen) = x11rb::connect(Some(&self.display)).expect("Xvfb runs");
        let root = conn.setup().roots[screen].root;
        (conn, root)
    }

    /// Sets the keyboard layout; `false`, with a message, if `setxkbmap` is not installed.
    pub(crate) fn keyboard(&self, arguments: &[&str]) -> bool {
        let status = Command::new("setxkbmap")
            .args(["-display", &self.display])
            .args(arguments)
            .status();
        match status {
            Ok(status) => {
                assert!(status.success(), "setxkbmap {arguments:?}");
                true
            }
            Err(_) => {
                skip("setxkbmap is not installed: apt-get install x11-xkb-utils");
                false
            }
        }
    }

    /// Stops the server like an overloaded machine, or resumes it.
    pub(crate) fn freeze(&self, freeze: bool) {
        let signal = if freeze { "-STOP" } else { "-CONT" };
        let id = self.server.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .expect("kill")
                .success()
        );
    }

    /// Kills the server like a crash.
    pub(crate) fn kill(&mut self) {
        self.server.kill().expect("ours");
        self.server.wait().expect("ours");
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Injects a raw XTEST event, like a device.
pub(crate) fn fake(conn: &RustConnection, kind: u8, detail: u8, x: i16, y: i16) {
    conn.xtest_fake_input(kind, detail, 0, x11rb::NONE, x, y, 0)
        .expect("XTEST is available");
    x11rb::wrapper::ConnectionExt::sync(conn).expect("the server runs");
}

/// The pixels (BGRX) of a part of a drawable.
pub(crate) fn pixels(
    conn: &RustConnection,
    drawable: xproto::Drawable,
    (x, y): (i16, i16),
    (width, height): (u16, u16),
) -> Vec<u8> {
    let format = xproto::ImageFormat::Z_PIXMAP;
    conn.get_image(format, drawable, x, y, width, height, !0)
        .expect("sent")
        .reply()
        .expect("the part is visible")
        .data
}
