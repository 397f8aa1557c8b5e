//! Desktops without a screen, each with its own portals, PipeWire and D-Bus session.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use openuvr_desktop_portal::Options;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::plasma;
use crate::shell;
use crate::skip::has_program;

/// Time for each program to start, on a busy or emulated machine (guess: GNOME takes five seconds on an idle one).
const START: Duration = Duration::from_secs(180);

/// The first GPU through which a program can draw without a screen.
const RENDER_NODE: &str = "/dev/dri/renderD128";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Gnome,
    Kde,
}

impl Kind {
    /// Whether the desktop streams pictures on this machine. Without a render node, KWin 5.27 composes and negotiates a
    /// format, but fills no buffer, and KWin 6 refuses the stream.
    pub(crate) fn streams_pictures(self) -> bool {
        self == Kind::Gnome || Path::new(RENDER_NODE).exists()
    }
}

/// A running desktop. On drop, all of its programs are killed.
pub(crate) struct Desktop {
    folder: TempDir,
    programs: Vec<Child>,
    kind: Kind,
}

impl Desktop {
    /// Starts a desktop with one screen of 1280 × 720; `None` if something is not installed.
    pub(crate) fn start(kind: Kind) -> Option<Desktop> {
        let (compositor, package) = match kind {
            Kind::Gnome => ("gnome-shell", "gnome-shell"),
            Kind::Kde => ("kwin_wayland", "kwin-wayland"),
        };
        let needed = [
            (compositor, package),
            ("dbus-daemon", "dbus-daemon"),
            ("pipewire", "pipewire"),
            ("wireplumber", "wireplumber"),
        ];
        if !needed
            .iter()
            .all(|(program, package)| has_program(program, package))
        {
            return None;
        }
        let folder = TempDir::with_prefix("desktop-").unwrap();
        let mut desktop = Desktop {
            folder,
            programs: Vec::new(),
            kind,
        };
        for name in ["run", "home", "logs"] {
            let made = desktop.folder.path().join(name);
            std::fs::create_dir(&made).unwrap();
            std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        // GNOME asks the system bus for users and sessions. The test's system bus has neither.
        for bus in ["system", "bus"] {
            let address = format!("--address=unix:path={}", desktop.run(bus).display());
            desktop.launch("dbus-daemon", &["--session", &address, "--nofork"]);
            desktop.wait_for(bus);
        }
        desktop.launch("pipewire", &[]);
        desktop.wait_for("pipewire-0");
        desktop.launch("wireplumber", &[]);
        match kind {
            Kind::Gnome => desktop.launch(
                "gnome-shell",
                &[
                    "--headless",
                    "--wayland",
                    "--no-x11",
                    "--unsafe-mode",
                    "--virtual-monitor",
                    "1280x720",
                    "--wayland-display",
                    "wayland-t",
                ],
            ),
            Kind::Kde => {
                // A container refuses to run the original, because of its file capabilities. The copy has none.
                let copy = desktop.folder.path().join("kwin_wayland");
                std::fs::copy(find("kwin_wayland"), &copy).unwrap();
                desktop.launch(
                    copy.to_str().unwrap(),
                    &[
                        "--virtual",
                        "--width",
                        "1280",
                        "--height",
                        "720",
                        "--socket",
                        "wayland-t",
                        "--no-lockscreen",
                        "--no-global-shortcuts",
                    ],
                );
            }
        }
        desktop.wait_for("wayland-t");
        match kind {
            // GNOME listens long before it answers: without this wait, a window would not open in time.
            Kind::Gnome => shell::wait_for_desktop(&desktop.bus(), START),
            Kind::Kde => {
                // D-Bus starts the portal on demand, but waits too briefly for an emulated machine.
                desktop.launch(find_portal("xdg-desktop-portal-kde").to_str().unwrap(), &[]);
                plasma::permit(&desktop.bus(), START);
            }
        }
        Some(desktop)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    fn run(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }

    /// The address of the desktop's D-Bus session.
    pub(crate) fn bus(&self) -> String {
        format!("unix:path={}", self.run("bus").display())
    }

    /// The path of the desktop's Wayland socket.
    pub(crate) fn socket(&self) -> String {
        self.run("wayland-t").to_str().unwrap().to_owned()
    }

    /// The options with which a host requests this desktop.
    pub(crate) fn options(&self) -> Options {
        Options {
            cursor: true,
            input: true,
            permission: None,
            bus: Some(self.bus()),
            display: Some(self.socket()),
        }
    }

    /// Ends the newest running program with this name.
    pub(crate) fn kill(&mut self, program: &str) {
        let names = ["dbus-daemon", "dbus-daemon", "pipewire", "wireplumber"];
        let at = names.iter().rposition(|name| *name == program).unwrap();
        end(&mut self.programs[at]);
    }

    fn launch(&mut self, program: &str, arguments: &[&str]) {
        let number = self.programs.len();
        let log = File::create(self.folder.path().join(format!("logs/{number}"))).unwrap();
        let home = self.folder.path().join("home");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_remove("DISPLAY")
            .env("XDG_RUNTIME_DIR", self.folder.path().join("run"))
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("WAYLAND_DISPLAY", "wayland-t")
            .env("XDG_SESSION_TYPE", "wayland")
            .env(
                "XDG_CURRENT_DESKTOP",
                match self.kind {
                    Kind::Gnome => "GNOME",
                    Kind::Kde => "KDE",
                },
            )
            .env(
                "DBUS_SYSTEM_BUS_ADDRESS",
                format!("unix:path={}", self.run("system").display()),
            )
            .env("DBUS_SESSION_BUS_ADDRESS", self.bus())
            // All programs draw without a GPU driver, so that all machines draw the same.
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env("GIO_USE_VFS", "local")
            .env("NO_AT_BRIDGE", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0);
        self.programs.push(command.spawn().unwrap());
    }

    /// Waits until the newest program listens at this socket.
    fn wait_for(&mut self, socket: &str) {
        let path = self.run(socket);
        let until = Instant::now() + START;
        while UnixStream::connect(&path).is_err() {
            let number = self.programs.len() - 1;
            let log = || {
                let log = self.folder.path().join(format!("logs/{number}"));
                std::fs::read_to_string(log).unwrap_or_default()
            };
            assert!(Instant::now() < until, "no {socket}: {}", log());
            if let Some(status) = self.programs[number].try_wait().unwrap() {
                panic!("no {socket}: {status}: {}", log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The path of a program that is installed.
fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.find(|file| file.is_file()).unwrap()
}

/// The path of an installed portal, in one of the folders of Debian's releases.
fn find_portal(program: &str) -> PathBuf {
    let folders = ["/usr/libexec", "/usr/lib/x86_64-linux-gnu/libexec"];
    let mut files = folders.iter().map(|folder| Path::new(folder).join(program));
    files.find(|file| file.is_file()).unwrap()
}

fn end(program: &mut Child) {
    if let Some(group) = i32::try_from(program.id()).ok().and_then(Pid::from_raw) {
        // An error is ignored, because the program may already have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = program.wait();
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for program in self.programs.iter_mut().rev() {
            end(program);
        }
        // The document portal was killed, and its file system keeps the folder from being removed. There is no such
        // file system if no program asked for a portal, or without FUSE.
        let documents = self.run("doc");
        let _ = Command::new("fusermount3")
            .arg("-uzq")
            .arg(documents)
            .status();
    }
}
