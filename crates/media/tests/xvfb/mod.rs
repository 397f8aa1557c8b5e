//! A test's own X server: `Xvfb` on a free display, ended on drop; and a client that draws on it.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness captures it"
)]
#![allow(dead_code)] // Each test program uses a part of it.

#[path = "../skip/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "tests of other crates have it too")]
mod skip;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    ChangeGCAux, ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, Gcontext,
    PropMode, Rectangle, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;

use skip::skip;

/// A running server.
pub(crate) struct Xvfb {
    child: Child,
    /// Its name, such as `:7`.
    pub(crate) display: String,
}

impl Xvfb {
    /// Starts one with a screen of `width` × `height` and more options. `None`, with a message, if
    /// Xvfb is not installed; a test failure in CI.
    pub(crate) fn start(width: u16, height: u16, options: &[&str]) -> Option<Xvfb> {
        // It writes the number of the free display to its standard output.
        let child = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-nolisten",
                "tcp",
                "-noreset",
                "-screen",
                "0",
            ])
            .arg(format!("{width}x{height}x24"))
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(e) => {
                skip(&format!("cannot start Xvfb: {e}: apt-get install xvfb"));
                return None;
            }
        };
        let mut number = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out)
            .read_line(&mut number)
            .expect("its display number");
        assert!(
            !number.trim().is_empty(),
            "Xvfb exited before it had a display"
        );
        Some(Xvfb {
            child,
            display: format!(":{}", number.trim()),
        })
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A client of it.
    pub(crate) fn painter(&self) -> Painter {
        let (conn, screen) = x11rb::connect(Some(&self.display)).expect("connect to Xvfb");
        let root = conn.setup().roots[screen].root;
        let gc = conn.generate_id().unwrap();
        conn.create_gc(gc, root, &CreateGCAux::new()).unwrap();
        Painter { conn, root, gc }
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client that creates windows and draws.
pub(crate) struct Painter {
    pub(crate) conn: RustConnection,
    pub(crate) root: Window,
    gc: Gcontext,
}

impl Painter {
    /// A window that is not yet mapped, with the background `colour` (0xRRGGBB).
    pub(crate) fn window(&self, x: i16, y: i16, width: u16, height: u16, colour: u32) -> Window {
        let id = self.conn.generate_id().unwrap();
        let aux = CreateWindowAux::new().background_pixel(colour);
        let class = WindowClass::INPUT_OUTPUT;
        self.conn
            .create_window(0, id, self.root, x, y, width, height, 0, class, 0, &aux)
            .unwrap();
        id
    }

    /// The same, mapped and drawn by the time this returns.
    pub(crate) fn shown(&self, x: i16, y: i16, width: u16, height: u16, colour: u32) -> Window {
        let id = self.window(x, y, width, height, colour);
        self.conn.map_window(id).unwrap();
        self.sync();
        id
    }

    /// Gives a window its title.
    pub(crate) fn name(&self, window: Window, title: &str) {
        use x11rb::protocol::xproto::AtomEnum;
        self.conn
            .change_property8(
                PropMode::REPLACE,
                window,
                AtomEnum::WM_NAME,
                AtomEnum::STRING,
                title.as_bytes(),
            )
            .unwrap();
        self.sync();
    }

    /// Fills a rectangle and flushes, without waiting.
    pub(crate) fn fill(
        &self,
        window: Window,
        x: i16,
        y: i16,
        width: u16,
        height: u16,
        colour: u32,
    ) {
        let aux = ChangeGCAux::new().foreground(colour);
        let area = Rectangle {
            x,
            y,
            width,
            height,
        };
        self.conn.change_gc(self.gc, &aux).unwrap();
        self.conn
            .poly_fill_rectangle(window, self.gc, &[area])
            .unwrap();
        self.conn.flush().unwrap();
    }

    /// Resizes a window.
    pub(crate) fn resize(&self, window: Window, width: u32, height: u32) {
        let aux = ConfigureWindowAux::new().width(width).height(height);
        self.conn.configure_window(window, &aux).unwrap();
        self.sync();
    }

    /// Moves a window.
    pub(crate) fn place(&self, window: Window, x: i32, y: i32) {
        let aux = ConfigureWindowAux::new().x(x).y(y);
        self.conn.configure_window(window, &aux).unwrap();
        self.sync();
    }

    /// Waits until the server has executed all requests.
    pub(crate) fn sync(&self) {
        self.conn.sync().unwrap();
    }
}
