//! X servers for tests and benches. Each test or bench has its own server, which ends with the test or bench. A failure
//! ends the test.

#[path = "../../media/tests/skip/mod.rs"]
mod skip;

use std::error::Error;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use openuvr_proto::units::Size;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use x11rb::connection::Connection;
use x11rb::protocol::randr::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    self, AtomEnum, ChangeGCAux, ConfigureWindowAux, ConnectionExt as _, CreateGCAux,
    CreateWindowAux, Family, Gcontext, HostMode, PropMode, Rectangle, Window, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::{DefaultStream, RustConnection};
use x11rb::wrapper::ConnectionExt as _;

use crate::error::StartError;
use crate::server::Xvfb;
pub(crate) use skip::has_program;
use skip::skip;

/// Whether Xvfb is installed. If not, prints that the test is skipped.
///
/// # Panics
/// Panics if Xvfb is not installed and the environment variable `CI` is `true`.
#[must_use]
pub fn has_xvfb() -> bool {
    let installed = Xvfb::is_installed();
    if !installed {
        skip("Xvfb is not installed: apt-get install xvfb");
    }
    installed
}

/// A server with a screen of `size`, such as `640x360`. All users of this machine can connect to it. `arguments` follow
/// the default arguments and take precedence. Returns `None`, with a message, if Xvfb is not installed.
///
/// # Panics
/// Panics if the server does not start.
#[must_use]
pub fn xvfb(size: &str, arguments: &[&str]) -> Option<Xvfb> {
    let size: Size = size.parse().expect("width and height");
    match Xvfb::start(size, None, arguments, |_| ()) {
        Ok(server) => Some(server),
        Err(why @ StartError::NotInstalled(_)) => {
            skip(&why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Makes a server admit all processes of this user by their peer credentials. The server's cookie is in the file
/// `authority`. The processes need this access without a cookie, because they connect to several displays at once, and
/// the cookies of the other displays are in other files.
///
/// # Errors
/// Returns an error if the server does not respond or has a different cookie.
pub fn admit_own_user(display: &str, authority: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let number = display.trim_start_matches(':');
    let stream = UnixStream::connect(format!("/tmp/.X11-unix/X{number}"))?;
    let (stream, _) = DefaultStream::from_unix_stream(stream)?;
    let file = std::fs::read(authority)?;
    let (_, cookie) = file.split_last_chunk::<16>().ok_or("no cookie")?;
    let protocol = b"MIT-MAGIC-COOKIE-1".to_vec();
    let conn =
        RustConnection::connect_to_stream_with_auth_info(stream, 0, protocol, cookie.to_vec())?;
    admit(&conn, geteuid().as_raw())
}

/// Makes a server also admit all processes of a different user. The server must admit this process.
///
/// # Errors
/// Returns an error if the server does not respond or refuses the request.
pub(crate) fn admit_user(display: &str, user: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (conn, _) = x11rb::connect(Some(display))?;
    admit(&conn, user)
}

fn admit(conn: &RustConnection, user: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    // Servers of X.Org support this: Xsecurity(7), "SERVER INTERPRETED ACCESS TYPES".
    let user = format!("localuser\0#{user}");
    let (mode, family) = (HostMode::INSERT, Family::SERVER_INTERPRETED);
    conn.change_hosts(mode, family, user.as_bytes())?.check()?;
    conn.sync()?;
    Ok(())
}

impl Xvfb {
    /// A connection and its root window.
    #[must_use]
    pub fn connect(&self) -> (RustConnection, Window) {
        let (conn, screen) = x11rb::connect(Some(&self.display)).expect("Xvfb runs");
        let root = conn.setup().roots[screen].root;
        (conn, root)
    }

    /// A client that draws.
    #[must_use]
    pub fn painter(&self) -> Painter {
        let (conn, root) = self.connect();
        let gc = conn.generate_id().expect("an id");
        conn.create_gc(gc, root, &CreateGCAux::new()).expect("sent");
        Painter { conn, root, gc }
    }

    /// Sets the keyboard layout. Returns `false`, with a message, if `setxkbmap` is not installed.
    #[must_use]
    pub fn keyboard(&self, arguments: &[&str]) -> bool {
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

    /// Stops the server, as if the machine were overloaded, or resumes it.
    pub fn freeze(&self, freeze: bool) {
        let signal = if freeze { Signal::STOP } else { Signal::CONT };
        let id = i32::try_from(self.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a process id"), signal).expect("a child process");
    }
}

/// Injects a raw XTEST event, as if it came from an input device.
pub fn fake(conn: &RustConnection, kind: u8, detail: u8, x: i16, y: i16) {
    conn.xtest_fake_input(kind, detail, 0, x11rb::NONE, x, y, 0)
        .expect("XTEST is available");
    conn.sync().expect("the server runs");
}

/// The pixels (BGRX) of a part of a drawable.
#[must_use]
pub fn pixels(
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

/// A client that creates windows and draws.
#[derive(Debug)]
pub struct Painter {
    /// The client's connection.
    pub conn: RustConnection,
    /// The root window of its screen.
    pub root: Window,
    gc: Gcontext,
}

impl Painter {
    /// A window that is not yet mapped, with the background `colour` (0xRRGGBB).
    pub fn window(&self, x: i16, y: i16, width: u16, height: u16, colour: u32) -> Window {
        let id = self.conn.generate_id().expect("the server runs");
        let aux = CreateWindowAux::new().background_pixel(colour);
        let class = WindowClass::INPUT_OUTPUT;
        self.conn
            .create_window(0, id, self.root, x, y, width, height, 0, class, 0, &aux)
            .expect("the server runs");
        id
    }

    /// Like [`Painter::window`], but the window is mapped and drawn when this returns.
    pub fn shown(&self, x: i16, y: i16, width: u16, height: u16, colour: u32) -> Window {
        let id = self.window(x, y, width, height, colour);
        self.conn.map_window(id).expect("the server runs");
        self.sync();
        id
    }

    /// Sets a window's title.
    pub fn name(&self, window: Window, title: &str) {
        self.conn
            .change_property8(
                PropMode::REPLACE,
                window,
                AtomEnum::WM_NAME,
                AtomEnum::STRING,
                title.as_bytes(),
            )
            .expect("the server runs");
        self.sync();
    }

    /// Fills a rectangle and flushes the connection, without waiting for the server.
    pub fn fill(&self, window: Window, x: i16, y: i16, width: u16, height: u16, colour: u32) {
        let aux = ChangeGCAux::new().foreground(colour);
        let area = Rectangle {
            x,
            y,
            width,
            height,
        };
        self.conn.change_gc(self.gc, &aux).expect("the server runs");
        self.conn
            .poly_fill_rectangle(window, self.gc, &[area])
            .expect("the server runs");
        self.conn.flush().expect("the server runs");
    }

    /// Resizes a window.
    pub fn resize(&self, window: Window, width: u32, height: u32) {
        let aux = ConfigureWindowAux::new().width(width).height(height);
        self.conn
            .configure_window(window, &aux)
            .expect("the server runs");
        self.sync();
    }

    /// Moves a window.
    pub fn place(&self, window: Window, x: i32, y: i32) {
        let aux = ConfigureWindowAux::new().x(x).y(y);
        self.conn
            .configure_window(window, &aux)
            .expect("the server runs");
        self.sync();
    }

    /// Changes the size of the screen, at most to its size at the server's start.
    pub fn resize_screen(&self, width: u16, height: u16) {
        let resources = self.conn.randr_get_screen_resources(self.root);
        let resources = resources.expect("sent").reply().expect("RandR");
        // A monitor would keep the screen from shrinking.
        for crtc in &resources.crtcs {
            let rotation = randr::Rotation::ROTATE0;
            let off = (self.conn).randr_set_crtc_config(*crtc, 0, 0, 0, 0, 0, rotation, &[]);
            off.expect("sent").reply().expect("a known monitor");
        }
        let sized = (self.conn).randr_set_screen_size(self.root, width, height, 100, 75);
        sized.expect("sent").check().expect("a supported size");
    }

    /// Waits until the server has executed all requests.
    pub fn sync(&self) {
        self.conn.sync().expect("the server runs");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::authority::Authority;

    #[test]
    fn servers_run_side_by_side_and_remove_their_sockets() {
        let Some(one) = xvfb("320x240", &[]) else {
            return;
        };
        let other = xvfb("320x240", &["-screen", "0", "640x480x24"]).unwrap();
        assert_ne!(one.display, other.display);
        for (server, width) in [(&one, 320), (&other, 640)] {
            let (conn, _) = server.connect();
            assert_eq!(conn.setup().roots[0].width_in_pixels, width);
        }
        // Another server may take the number at once, so a new socket with this name may exist.
        let socket = format!("/tmp/.X11-unix/X{}", &one.display[1..]);
        let bound = || {
            let about = std::fs::metadata(&socket).ok()?;
            Some((about.ino(), about.ctime(), about.ctime_nsec()))
        };
        let first = bound();
        assert!(first.is_some());
        drop(one);
        assert_ne!(bound(), first);
    }

    #[test]
    fn a_server_with_a_cookie_admits_its_user_on_request() {
        if !has_xvfb() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::make(folder.path().join("xauthority")).unwrap();
        let server = Xvfb::start(Size::new(64, 64), Some(authority), &[], |_| ()).unwrap();
        assert!(x11rb::connect(Some(&server.display)).is_err());
        admit_own_user(&server.display, server.authority().unwrap()).unwrap();
        x11rb::connect(Some(&server.display)).unwrap();
    }
}
