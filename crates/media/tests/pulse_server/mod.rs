//! A test's own sound server: PulseAudio without a sound card, on a private socket. Dropping it ends the server.
#![allow(clippy::print_stderr, reason = "the harness captures it")]
#![allow(dead_code)] // Each test program uses a part of it.

#[path = "../skip/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "tests of other crates have it too")]
mod skip;

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use skip::skip;
use tempfile::TempDir;

/// A running server.
pub(crate) struct PulseServer {
    child: Child,
    folder: TempDir,
    /// The value for `$PULSE_SERVER`.
    pub(crate) address: String,
}

impl PulseServer {
    /// Starts a server whose default sink is the null sink `usual`. Returns `None`, with a message, if PulseAudio is
    /// not installed; in CI, this is a test failure.
    pub(crate) fn start() -> Option<PulseServer> {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("native");
        let child = match spawn(folder.path()) {
            Ok(child) => child,
            Err(e) => {
                skip(&format!(
                    "cannot start pulseaudio: {e}: apt-get install pulseaudio"
                ));
                return None;
            }
        };
        Some(PulseServer {
            child: when_up(child, &socket),
            address: format!("unix:{}", socket.display()),
            folder,
        })
    }

    /// Restarts the server at the same address, in its initial state.
    pub(crate) fn again(&mut self) {
        self.kill();
        let child = spawn(self.folder.path()).expect("it started before");
        self.child = when_up(child, &self.folder.path().join("native"));
    }

    /// Kills the server, like a crash.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Suspends the server's process until [`PulseServer::go_on`]. In the meantime, the server sends no replies.
    pub(crate) fn hold(&self) {
        self.signal("-STOP");
    }

    /// Resumes the server.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal}");
    }

    /// The output of `pactl`.
    pub(crate) fn pactl(&self, arguments: &[&str]) -> String {
        let output = Command::new("pactl")
            .args(arguments)
            .env("PULSE_SERVER", &self.address)
            .env("HOME", self.folder.path())
            .output()
            .expect("pactl, of the package pulseaudio-utils");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "pactl {arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Adds a sink like `usual`, with this name. It does not become the default sink.
    pub(crate) fn add_sink(&self, name: &str) {
        let name = format!("sink_name={name}");
        let sink = ["module-null-sink", &name, "rate=48000", "norewinds=1"];
        self.pactl(&[&["load-module"], &sink[..]].concat());
    }

    /// The names of the server's sinks.
    pub(crate) fn sinks(&self) -> Vec<String> {
        let list = self.pactl(&["list", "short", "sinks"]);
        let names = list
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        names.map(str::to_owned).collect()
    }
}

fn spawn(folder: &Path) -> std::io::Result<Child> {
    let protocol = format!(
        "module-native-protocol-unix auth-anonymous=1 socket={}",
        folder.join("native").display()
    );
    Command::new("pulseaudio")
        .args([
            "-n",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
        ])
        .args(["--disable-shm=yes", "--log-target=stderr", "-L", &protocol])
        .args([
            "-L",
            "module-null-sink sink_name=usual rate=48000 norewinds=1",
        ])
        .env("XDG_RUNTIME_DIR", folder)
        .env("PULSE_RUNTIME_PATH", folder)
        .env("HOME", folder)
        .env_remove("DISPLAY")
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits until the server responds.
fn when_up(mut child: Child, socket: &Path) -> Child {
    let mut up = false;
    for _ in 0..500 {
        up = UnixStream::connect(socket).is_ok();
        if up || child.try_wait().expect("a child").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut stderr = child.stderr.take().expect("piped");
    if !up {
        let _ = child.kill();
        let mut said = String::new();
        let _ = stderr.read_to_string(&mut said);
        panic!("pulseaudio did not come up: {said}");
    }
    // The rest of the server's error output is discarded, so that the server does not block on a full pipe.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    child
}

impl Drop for PulseServer {
    fn drop(&mut self) {
        self.kill();
    }
}
