//! A virtual display of the host, with the lifetime of the host. It is an X server without a screen (Xvfb), or a
//! Wayland compositor in this process ([`openuvr_compositor::WaylandDisplay`]).
//!
//! Only programs that can read the cookie ([`Authority`]) of an Xvfb display can connect to the display. This process
//! and the application that it starts get the cookie through `XAUTHORITY`. A program in the sandbox of another session
//! cannot read the cookie.

mod application;
mod placement;
mod wayland;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow};
use openuvr_media::display;
use openuvr_media::temporary_folder::TemporaryFolder;
use openuvr_proto::units::Size;
use openuvr_xserver::{Authority, Xvfb};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState};

use crate::report::AUTHORITY;
use crate::sys;

pub use application::RunningApplication;
use placement::Placement;

/// A display of the host, as its application uses it.
pub trait ApplicationDisplay {
    /// Makes an application use this display, and no other.
    fn set_environment(&self, command: &mut Command);

    /// Returns a function that lists the processes of the display, which may change.
    fn process_watch(&self) -> Box<dyn Fn() -> Vec<u32> + Send>;

    /// Returns a function that reports whether a window is visible. The function returns true if this is unknown.
    fn window_watch(&self) -> Box<dyn Fn() -> bool + Send>;
}

/// Variables that would connect an application to the Wayland session in which the host was started.
const WAYLAND_VARIABLES: [&str; 2] = ["WAYLAND_DISPLAY", "WAYLAND_SOCKET"];

/// A running X server. Dropping it ends the server and all its clients.
pub struct VirtualDisplay {
    server: Xvfb,
    authority: PathBuf,
    /// Dropped after the server has ended.
    _placement: Option<Placement>,
    /// The folder of the cookie, if there is no session.
    _folder: Option<TemporaryFolder>,
}

impl VirtualDisplay {
    /// Starts a display with a screen of `size`, 24 bits deep, and OpenGL in software. From then on, this process and
    /// its child processes connect with the display's cookie. The cookie is in the folder `session`, or otherwise in a
    /// temporary folder. With `place`, the built-in placement of windows is active (`placement`). Call
    /// this while this process has no threads that use C libraries.
    ///
    /// # Errors
    /// Returns a one-line error if Xvfb is not installed or does not start.
    pub fn start(size: Size, session: Option<&Path>, place: bool) -> Result<VirtualDisplay> {
        let (authority, folder) = match session {
            Some(session) => (Authority::make(session.join(AUTHORITY))?, None),
            None => {
                let folder = TemporaryFolder::create(&std::env::temp_dir(), "openuvr-xauth-");
                let folder = folder.context("can't create a folder for the display's cookie")?;
                let authority = Authority::make(folder.path().join(AUTHORITY))?;
                (authority, Some(folder))
            }
        };
        let file = authority.file().to_owned();
        let server = Xvfb::start(size, Some(authority), &[], |command| {
            sys::die_with_parent(command);
            // In its own process group, the server does not receive the signal of Ctrl-C, which is meant for the host.
            // The host ends the server last.
            command.process_group(0);
        })?;
        let mut display = VirtualDisplay {
            server,
            authority: file,
            _placement: None,
            _folder: folder,
        };
        sys::set_xauthority(display.authority());
        let connected = display::connect(display.name())
            .map_err(|why| anyhow!("no answer from the virtual display: {why}"))?;
        let placement = place.then(|| Placement::start(connected)).transpose();
        display._placement = placement.context("can't place windows on the virtual display")?;
        Ok(display)
    }

    /// The value for `--display`, such as `:99`.
    pub fn name(&self) -> &str {
        &self.server.display
    }

    /// The file with the display's cookie, for `XAUTHORITY`.
    pub fn authority(&self) -> &Path {
        &self.authority
    }
}

impl ApplicationDisplay for VirtualDisplay {
    fn set_environment(&self, command: &mut Command) {
        command.env("DISPLAY", self.name());
        command.env("XAUTHORITY", self.authority());
        command.env("XDG_SESSION_TYPE", "x11");
        for variable in WAYLAND_VARIABLES {
            command.env_remove(variable);
        }
    }

    fn process_watch(&self) -> Box<dyn Fn() -> Vec<u32> + Send> {
        let id = self.server.id();
        Box::new(move || vec![id])
    }

    fn window_watch(&self) -> Box<dyn Fn() -> bool + Send> {
        let name = self.name().to_owned();
        Box::new(move || shows_a_window(&name))
    }
}

/// Whether a window is visible on the X display. Returns true if this is unknown.
pub(crate) fn shows_a_window(display: &str) -> bool {
    let Ok((conn, screen)) = display::connect(display) else {
        return true;
    };
    let root = conn.setup().roots.get(screen).map(|screen| screen.root);
    let children = root.and_then(|root| conn.query_tree(root).ok()?.reply().ok());
    children.is_none_or(|tree| {
        tree.children.iter().any(|window| {
            let about = conn.get_window_attributes(*window).ok();
            let about = about.and_then(|cookie| cookie.reply().ok());
            about.is_some_and(|about| about.map_state == MapState::VIEWABLE)
        })
    })
}
