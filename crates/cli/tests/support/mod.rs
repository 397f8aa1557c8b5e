//! What the tests of the whole program share: processes that end with the test, displays of its
//! own, and eyes that read them. Nothing here takes a part of the program's place.
//!
//! Everything that is waited for is polled, and for at most [`TIMEOUT`].
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness keeps it"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary needs another part of it"
)]

pub(crate) mod clipboard;
pub(crate) mod eye;
pub(crate) mod machines;
pub(crate) mod painter;
pub(crate) mod pairing;
pub(crate) mod pipewire;
pub(crate) mod portal;
pub(crate) mod process;
#[path = "../../../media/tests/pulse_server/mod.rs"]
pub(crate) mod pulse_server;
pub(crate) mod recording;
pub(crate) mod screen;
pub(crate) mod sound;
#[path = "../../../media/tests/stalls/mod.rs"]
pub(crate) mod stalls;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_runtime::identity_store::{self, load_or_create};
use openuvr_runtime::trust_store::{DeviceStore, HostStore};

pub(crate) use eye::{Eye, Shot, psnr};
pub(crate) use painter::Painter;
pub(crate) use process::{Display, Program};

/// How long anything may take that has to happen: far more than it needs, even on a machine that
/// does ten other things.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// The PIN of a test's pairing.
pub(crate) const PIN: [&str; 2] = ["--pin", "135790"];

/// Where no sound server is.
pub(crate) const NO_SOUND: &str = "unix:/nonexistent/sound";

/// Looks again and again until there is something; fails with `what` was looked for.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < TIMEOUT, "it did not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Says why a test is skipped; in CI, where nothing may be missing, fails.
pub(crate) fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
}

/// A directory of a test's own, gone with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("openuvr-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory for temporary files");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The name of something in it, as a word of a command line.
    pub(crate) fn join(&self, name: &str) -> String {
        let path = self.0.join(name);
        path.to_str().expect("temporary names are text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program under test with these words.
pub(crate) fn openuvr(words: &[&str]) -> Command {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_openuvr"));
    assert!(
        program.with_file_name("openuvr-bench").is_file(),
        "openuvr-bench is not built: cargo build --package openuvr-bench, or test the whole workspace"
    );
    let mut command = Command::new(program);
    // Nothing of the person who runs the tests: no display, no sound, no configuration.
    let streams = matches!(words.first(), Some(&("host" | "client" | "run")));
    let (first, rest) = words.split_at(usize::from(streams));
    command.args(first);
    if streams && !words.contains(&"--sound") {
        command.args(["--sound", "off"]);
    }
    command
        .args(rest)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("PULSE_SERVER", NO_SOUND);
    command
}

/// A running host.
pub(crate) struct Host {
    pub(crate) program: Program,
    pub(crate) folder: Folder,
    words: Vec<String>,
    /// Its sound server's address.
    sound: String,
    pub(crate) port: u16,
}

impl Host {
    /// Starts one at a free port of the loopback and waits until it streams.
    pub(crate) fn start(words: &[&str]) -> Host {
        Host::start_at(0, words)
    }

    /// The same at this port.
    pub(crate) fn start_at(port: u16, words: &[&str]) -> Host {
        let words = words.iter().map(|w| (*w).to_owned()).collect();
        Host::open(Folder::new(), port, words, NO_SOUND.to_owned())
    }

    /// Starts one that has paired with these clients before, as they have with it: a host pairs
    /// with one device for each PIN.
    pub(crate) fn knowing(clients: &[&str], words: &[&str]) -> Host {
        Host::with_sound(NO_SOUND, clients, words)
    }

    /// The same with a sound server at this address.
    pub(crate) fn with_sound(sound: &str, clients: &[&str], words: &[&str]) -> Host {
        let folder = Folder::new();
        let dir = |name: &str| folder.path().join(name);
        let identity = |name: &str, role| {
            load_or_create(&dir(name), role)
                .expect("a new key")
                .public()
        };
        let host = identity("host", identity_store::KeyOwner::Host);
        let mut devices = DeviceStore::open(&dir("host")).expect("a new store");
        for client in clients {
            let key = identity(client, identity_store::KeyOwner::Client);
            devices
                .pair(key, &DeviceName::new(client), 1)
                .expect("it is written");
        }
        let words = words.iter().map(|w| (*w).to_owned()).collect();
        let started = Host::open(folder, 0, words, sound.to_owned());
        for client in clients {
            started.introduce(client, &started.address(), host);
        }
        started
    }

    /// Has the client know the host under an address.
    fn introduce(&self, client: &str, address: &str, host: PublicKey) {
        let mut hosts = HostStore::open(&self.folder.path().join(client)).expect("a store");
        hosts.remember(address, host).expect("it is written");
    }

    /// Has the client know this host under another address too: that of a hop.
    pub(crate) fn also_at(&self, client: &str, address: &str) {
        let hosts = HostStore::open(&self.folder.path().join(client)).expect("a store");
        let key = hosts
            .key(&self.address())
            .expect("the client knows the host");
        self.introduce(client, address, key);
    }

    /// Starts it again where it was, with the same keys and words.
    pub(crate) fn again(self) -> Host {
        let Host {
            program,
            folder,
            words,
            sound,
            port,
        } = self;
        drop(program);
        Host::open(folder, port, words, sound)
    }

    fn open(folder: Folder, port: u16, words: Vec<String>, sound: String) -> Host {
        let (dir, bind) = (folder.join("host"), format!("127.0.0.1:{port}"));
        let more: Vec<&str> = words.iter().map(String::as_str).collect();
        let own = [
            "host",
            "--config-dir",
            &dir,
            "--bind",
            &bind,
            "--realtime",
            "off",
        ];
        let mut command = openuvr(&[&own, &more[..]].concat());
        command.env("PULSE_SERVER", &sound);
        let program = Program::start("host", command);
        let line = program.line("openuvr host: streaming");
        let port = port_of(&line);
        Host {
            program,
            folder,
            words,
            sound,
            port,
        }
    }

    /// What to put behind `openuvr client`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A client of it without a display, with keys of its own under this name; it decodes but
    /// shows nothing.
    pub(crate) fn blind(&self, name: &str, words: &[&str]) -> Program {
        let words = [&["--present", "null"], words].concat();
        client(&self.folder, name, &self.address(), &words)
    }

    /// A client of it with a window.
    pub(crate) fn client(&self, name: &str, display: &Display, words: &[&str]) -> Program {
        let words = [&["--display", &display.name], words].concat();
        client(&self.folder, name, &self.address(), &words)
    }

    /// `openuvr devices` for this host; what it prints.
    pub(crate) fn devices(&self, words: &[&str]) -> String {
        let dir = self.folder.join("host");
        let words = [&["devices", "--config-dir", &dir], words].concat();
        let out = openuvr(&words).output().expect("the program runs");
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "devices {words:?}: {error}");
        String::from_utf8(out.stdout).expect("text")
    }
}

/// A client of the host at `address` whose keys are in `folder` under `name`.
pub(crate) fn client(folder: &Folder, name: &str, address: &str, words: &[&str]) -> Program {
    let dir = folder.join(name);
    let own = ["client", address, "--config-dir", &dir, "--name", name];
    let words = [&own[..], &["--realtime", "off"][..], words].concat();
    Program::start(name, openuvr(&words))
}

/// The built-in application on a display.
pub(crate) fn scene(display: &Display, size: &str, fps: &str) -> Program {
    let words = [
        "scene",
        "--display",
        &display.name,
        "--size",
        size,
        "--fps",
        fps,
    ];
    Program::start("scene", openuvr(&words))
}

/// The port at the end of the first address in a line.
pub(crate) fn port_of(line: &str) -> u16 {
    line.split(|c: char| c.is_whitespace() || c == ',')
        .find_map(|word| word.parse::<std::net::SocketAddr>().ok())
        .unwrap_or_else(|| panic!("no address in {line:?}"))
        .port()
}

/// A link of chosen quality between a client and a host: `openuvr lab hop`.
pub(crate) struct Hop {
    pub(crate) program: Program,
    pub(crate) port: u16,
}

impl Hop {
    /// Starts one in front of `host`, at a free port if `port` is 0.
    pub(crate) fn start(host: &Host, port: u16, words: &[&str]) -> Hop {
        let (listen, to) = (format!("127.0.0.1:{port}"), host.address());
        // A busy machine makes it late, but its losses stay those of its seed.
        let own = [
            "lab",
            "hop",
            "--listen",
            &listen,
            "--to",
            &to,
            "--punctual",
            "100s",
        ];
        let program = Program::start("hop", openuvr(&[&own, words].concat()));
        let port = port_of(&program.line("relaying from"));
        Hop { program, port }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
