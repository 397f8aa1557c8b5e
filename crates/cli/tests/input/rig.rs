//! Two displays: one for the application, which a host streams, and one for the user's clients.

use std::process::Command;
use std::time::{Duration, Instant};

use x11rb::protocol::xproto::ConnectionExt as _;

use crate::support::{self, Display, Folder, Hop, Host, Program, TIMEOUT, eventually, skip};
use crate::xtest::XTest;

/// The clients that the host is paired with.
const KNOWN: [&str; 4] = ["client", "observer", "old", "new"];

/// The displays and keys of a host and its clients.
pub(crate) struct Rig {
    pub(crate) host_side: Display,
    pub(crate) client_side: Display,
    pub(crate) folder: Folder,
}

impl Rig {
    /// Starts both displays with screens of these sizes, such as `640x480`.
    pub(crate) fn new(host: &str, client: &str) -> Option<Rig> {
        let rig = Rig {
            host_side: Display::start(host)?,
            client_side: Display::start(client)?,
            folder: Folder::new(),
        };
        // Key repeat is off, because the number of repeats depends on the machine's load.
        for side in [&rig.host_side, &rig.client_side] {
            XTest::open(side).set_repeat(false);
        }
        Some(rig)
    }

    /// Starts the host, and waits until it listens.
    pub(crate) fn host(&self, more: &[&str]) -> Host {
        let own = ["--display", &self.host_side.name, "--name", "desk"];
        Host::paired_with(&KNOWN, &[&own, more].concat())
    }

    /// Starts a client, and waits until it shows a picture.
    pub(crate) fn client(&self, host: &Host, name: &str, more: &[&str]) -> Program {
        let client = host.client(name, &self.client_side, more);
        client.line("openuvr client: showing");
        client
    }

    /// Like [`Rig::client`], through a hop.
    pub(crate) fn client_through(&self, hop: &Hop, host: &Host) -> Program {
        host.add_address("client", &hop.address());
        let args = ["--display", &self.client_side.name];
        let client = support::client(&host.folder, "client", &hop.address(), &args);
        client.line("openuvr client: showing");
        client
    }
}

/// Sets a display's keyboard layout. Prints a message and returns `false` if setxkbmap is not installed.
pub(crate) fn layout(display: &Display, layout: &str) -> bool {
    let status = Command::new("setxkbmap")
        .args(["-display", &display.name, layout])
        .status();
    match status {
        Ok(status) => {
            assert!(status.success(), "setxkbmap {layout}");
            true
        }
        Err(_) => {
            skip("setxkbmap is not installed: apt-get install x11-xkb-utils");
            false
        }
    }
}

/// Polls a condition until the timeout. Returns whether it became true.
pub(crate) fn poll_until(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > TIMEOUT {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Starts a window manager on a display; prints a message and returns `None` if it is not installed.
pub(crate) fn manager(rig: &Rig, side: &Display) -> Option<Program> {
    if Command::new("openbox").arg("--version").output().is_err() {
        skip("openbox is not installed: apt-get install openbox");
        return None;
    }
    let mut command = Command::new("openbox");
    command.arg("--sm-disable").env("DISPLAY", &side.name);
    // The window manager writes its files into the test's folder.
    for home in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        command.env(home, rig.folder.path());
    }
    let manager = Program::start("openbox", command);
    let xtest = XTest::open(side);
    let atom = xtest.conn.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK");
    let check = atom.expect("sent").reply().expect("an atom").atom;
    eventually("it manages", || {
        (!xtest.text(xtest.root, check).is_empty()).then_some(())
    });
    Some(manager)
}
