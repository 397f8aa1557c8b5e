//! Wayland compositors for tests and benches: sway without a screen. Dropping a [`Sway`] ends its compositor. A failure
//! ends the test.
//!
//! If this process runs as the superuser, it starts sway as an unprivileged user, because sway refuses to run as the
//! superuser.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use openuvr_proto::units::Size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::fixture::{admit_user, has_program};

/// User id and group id without privileges: the kernel's default overflow id.
const UNPRIVILEGED: u32 = 65_534;

/// Time for sway to start, in seconds (guess: a start takes a fifth of a second on an idle machine).
const START_SECONDS: i64 = 20;

/// A running sway with one output. Dropping this value kills sway and removes its runtime folder.
#[derive(Debug)]
pub struct Sway {
    server: Child,
    runtime: TempDir,
    /// Name of the display in the runtime folder, such as `wayland-1`.
    display: String,
    control: String,
    /// Name of sway's X display (Xwayland), if it has one.
    x_display: Option<String>,
}

impl Sway {
    /// Starts sway with an output `HEADLESS-1` of `size`, with borderless windows and without Xwayland. Returns `None`,
    /// with a message, if sway or swaymsg is not installed.
    ///
    /// # Panics
    /// Panics if sway does not start.
    #[must_use]
    pub fn start(size: Size) -> Option<Sway> {
        Sway::start_with(size, "")
    }

    /// Like [`Sway::start`], with additional lines of sway(5) in the configuration.
    ///
    /// # Panics
    /// Panics if sway does not start.
    #[must_use]
    pub fn start_with(size: Size, configuration: &str) -> Option<Sway> {
        let configuration = format!("output HEADLESS-1 mode {size}\n{configuration}");
        Sway::run(&configuration, None, false)
    }

    /// Starts sway in a window on an X display, with an output `X11-1`. Unlike sway without a screen, it reports when
    /// pictures become visible.
    ///
    /// # Panics
    /// Panics if sway does not start.
    #[must_use]
    pub fn start_in(display: &str) -> Option<Sway> {
        Sway::run("", Some(display), false)
    }

    /// Like [`Sway::start_in`], but with an output of `size`, and with Xwayland for X11 programs
    /// ([`x_display`](Sway::x_display)). Also returns `None`, with a message, if Xwayland is not installed, or if this
    /// process runs as the superuser and xhost is not installed.
    ///
    /// # Panics
    /// Panics if sway does not start.
    #[must_use]
    pub fn start_desktop_in(display: &str, size: Size) -> Option<Sway> {
        if !has_program("Xwayland", "xwayland") {
            return None;
        }
        let superuser = geteuid().is_root();
        if superuser && !has_program("xhost", "x11-xserver-utils") {
            return None;
        }
        let sway = Sway::run(&format!("output X11-1 mode {size}"), Some(display), true)?;
        if superuser {
            sway.admit_superuser();
        }
        Some(sway)
    }

    /// Makes Xwayland also admit the superuser. By default, it admits only sway's user.
    fn admit_superuser(&self) {
        let mut command = self.command("xhost");
        command
            .arg("+SI:localuser:#0")
            .env("DISPLAY", self.x_display().unwrap_or_default())
            .uid(UNPRIVILEGED)
            .gid(UNPRIVILEGED);
        let output = command.output().expect("xhost is installed");
        assert!(output.status.success(), "xhost: {output:?}");
    }

    fn run(configuration: &str, display: Option<&str>, xwayland: bool) -> Option<Sway> {
        if !has_program("sway", "sway") || !has_program("swaymsg", "sway") {
            return None;
        }
        let runtime = TempDir::with_prefix("sway-").expect("a folder");
        let config = runtime.path().join("config");
        let text = format!(
            "default_border none\nxwayland {}\n{configuration}\n\
             exec echo \"$WAYLAND_DISPLAY $SWAYSOCK $DISPLAY\"\n",
            if xwayland { "enable" } else { "disable" }
        );
        std::fs::write(&config, text).expect("this process created the folder");
        let log =
            File::create(runtime.path().join("log")).expect("this process created the folder");
        let mut command = Command::new("sway");
        command
            .arg("-c")
            .arg(&config)
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .env_remove("SWAYSOCK")
            .env("XDG_RUNTIME_DIR", runtime.path())
            .env("WLR_BACKENDS", display.map_or("headless", |_| "x11"))
            .envs(display.map(|display| ("DISPLAY", display)))
            .env("WLR_LIBINPUT_NO_DEVICES", "1")
            .env("WLR_RENDERER", "pixman")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        std::fs::set_permissions(runtime.path(), Permissions::from_mode(0o700)).expect("ours");
        if geteuid().is_root() {
            chown(runtime.path(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))
                .expect("the superuser may");
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
            if let Some(display) = display {
                admit_user(display, UNPRIVILEGED).expect("the display admits this user");
            }
        }
        let mut server = command.spawn().expect("sway is installed");
        let output = server.stdout.take().expect("a pipe");
        let mut sway = Sway {
            server,
            runtime,
            display: String::new(),
            control: String::new(),
            x_display: None,
        };
        // sway writes its line when it is ready. If it ends before, the pipe is closed.
        let timeout = Timespec {
            tv_sec: START_SECONDS,
            tv_nsec: 0,
        };
        let ready = poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timeout));
        let mut line = String::new();
        if ready == Ok(1) {
            (BufReader::new(output).read_line(&mut line)).expect("sway writes text");
        }
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [display, control, rest @ ..] => {
                (sway.display, sway.control) = ((*display).to_owned(), (*control).to_owned());
                let own = rest.first().filter(|_| xwayland);
                sway.x_display = own.map(|display| (*display).to_owned());
            }
            _ => panic!("sway did not start: {}", sway.log()),
        }
        Some(sway)
    }

    /// The path of the display's socket. Programs without `XDG_RUNTIME_DIR` need this path in `WAYLAND_DISPLAY`.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.runtime.path().join(&self.display)
    }

    /// The name of the display in [`runtime_dir`](Sway::runtime_dir).
    #[must_use]
    pub fn display(&self) -> &str {
        &self.display
    }

    /// The name of sway's X display (Xwayland), such as `:3`.
    #[must_use]
    pub fn x_display(&self) -> Option<&str> {
        self.x_display.as_deref()
    }

    /// Sway's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Sway's runtime folder, for `XDG_RUNTIME_DIR`.
    #[must_use]
    pub fn runtime_dir(&self) -> &Path {
        self.runtime.path()
    }

    /// The environment variables that programs need to find this compositor.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 4] {
        [
            ("XDG_RUNTIME_DIR", self.runtime.path().into()),
            ("XDG_SESSION_TYPE", "wayland".into()),
            ("WAYLAND_DISPLAY", self.display.clone().into()),
            ("SWAYSOCK", self.control.clone().into()),
        ]
    }

    /// A command that runs in sway's session, without an X display.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment()).env_remove("DISPLAY");
        command
    }

    /// Executes a command of sway(5), such as `["output", "HEADLESS-1", "scale", "1.5"]`, and returns sway's reply in
    /// JSON. `["-t", "get_tree"]` and similar arguments query sway's state.
    ///
    /// # Panics
    /// Panics if sway refuses the command.
    pub fn msg(&self, arguments: &[&str]) -> String {
        let output = self.command("swaymsg").arg("-r").args(arguments).output();
        let output = output.expect("swaymsg is installed");
        let text = String::from_utf8(output.stdout).expect("JSON");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "swaymsg {arguments:?}: {text}{errors}"
        );
        text
    }

    /// Captures all outputs with `grim`. Returns the size, and the pixels as packed RGB; `None`, with a message, if
    /// grim is not installed.
    ///
    /// # Panics
    /// Panics if grim cannot capture, for example because the output is off.
    #[must_use]
    pub fn screenshot(&self) -> Option<(Size, Vec<u8>)> {
        if !has_program("grim", "grim") {
            return None;
        }
        let output = self.command("grim").args(["-t", "ppm", "-"]).output();
        let output = output.expect("grim is installed");
        assert!(output.status.success(), "grim: {output:?}");
        // The header has three lines: `P6`, then width and height, then `255`.
        let mut parts = output.stdout.splitn(4, |byte| *byte == b'\n');
        assert_eq!(parts.next(), Some(b"P6".as_slice()));
        let size = String::from_utf8_lossy(parts.next().expect("a size")).replace(' ', "x");
        let pixels = parts.nth(1).expect("pixels").to_vec();
        Some((size.parse().expect("width and height"), pixels))
    }

    /// The compositor's log.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.runtime.path().join("log")).unwrap_or_default()
    }

    /// Kills sway, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }

    /// Stops sway, as if the machine were overloaded, or resumes it.
    pub fn freeze(&self, freeze: bool) {
        let signal = if freeze { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.server), signal).expect("a child process");
    }
}

impl Drop for Sway {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_desktop_has_displays_of_both_kinds_and_the_wanted_size() {
        let size = Size::new(640, 360);
        let Some(server) = crate::fixture::xvfb("640x360", &[]) else {
            return;
        };
        let Some(desktop) = Sway::start_desktop_in(&server.display, size) else {
            return;
        };
        assert!(desktop.socket().exists());
        let (connection, _) = x11rb::connect(desktop.x_display()).unwrap();
        let screen = &x11rb::connection::Connection::setup(&connection).roots[0];
        let seen = Size::new(
            screen.width_in_pixels.into(),
            screen.height_in_pixels.into(),
        );
        assert_eq!(seen, size);
    }

    #[test]
    fn compositors_run_side_by_side_and_end() {
        let size = Size::new(320, 240);
        let Some(one) = Sway::start(size) else {
            return;
        };
        let other = Sway::start_with(Size::new(640, 480), "workspace lone").unwrap();
        assert_ne!(one.socket(), other.socket());
        assert!(other.msg(&["-t", "get_workspaces"]).contains("lone"));
        if let Some((seen, pixels)) = one.screenshot() {
            assert_eq!((seen, pixels.len()), (size, size.pixels() * 3));
        }
        let socket = one.socket();
        assert!(socket.exists());
        drop(one);
        assert!(!socket.exists());
    }
}
