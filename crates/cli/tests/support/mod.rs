//! Helpers for the tests of the whole program: child processes, displays, and functions that read the pixels of a
//! display. No helper replaces a part of the program.
//!
//! Each wait polls its condition for at most [`TIMEOUT`].
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
pub(crate) mod screen_capture;
pub(crate) mod sensor;
#[path = "../../../media/tests/skip/mod.rs"]
pub(crate) mod skip;
pub(crate) mod sound;
#[path = "../../../media/tests/stalls/mod.rs"]
pub(crate) mod stalls;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_runtime::identity_store::{self, load_or_create};
use openuvr_runtime::trust_store::{DeviceStore, HostStore};
use openuvr_sim::link::Impairment;
use openuvr_sim::schedule::ImpairmentSchedule;
use openuvr_sim::script;
use openuvr_testbed::emulated::Emulated;
use openuvr_testbed::hop;
use tempfile::TempDir;

pub(crate) use painter::Painter;
pub(crate) use process::{Display, Program};
pub(crate) use screen_capture::{ScreenCapture, Shot, psnr};
pub(crate) use skip::skip;

/// The maximum duration of each wait. It is far longer than needed, even on a heavily loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// The PIN of a test's pairing.
pub(crate) const PIN: [&str; 2] = ["--pin", "135790"];

/// The address of a sound server that does not exist.
pub(crate) const NO_SOUND: &str = "unix:/nonexistent/sound";

/// Polls until `poll` returns a value; panics with `what` after the timeout.
pub(crate) fn eventually<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(started.elapsed() < TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A temporary directory. Its paths can be used as command-line arguments.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a directory for temporary files"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of an entry, as a command-line argument.
    pub(crate) fn join(&self, name: &str) -> String {
        let path = self.path().join(name);
        path.to_str().expect("temporary names are text").to_owned()
    }
}

/// A command that runs the program under test with these arguments.
pub(crate) fn openuvr(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openuvr"));
    // The program is isolated from the user who runs the tests: it has no display, sound or configuration.
    let streams = matches!(args.first(), Some(&("host" | "client" | "run")));
    let (first, rest) = args.split_at(usize::from(streams));
    command.args(first);
    if streams && !args.contains(&"--sound") {
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

/// Copies a file with another process. If this process wrote the copy, a child process of another test could inherit
/// the descriptor between fork and exec, and a file that is open for writing cannot be executed (`ETXTBSY`).
pub(crate) fn install(from: &Path, to: &Path, mode: u32) {
    let mut command = Command::new("install");
    command.arg(format!("--mode={mode:o}")).args([from, to]);
    assert!(command.status().expect("of coreutils").success());
}

/// A running host.
pub(crate) struct Host {
    pub(crate) program: Program,
    pub(crate) folder: Folder,
    args: Vec<String>,
    /// The address of its sound server.
    sound: String,
    pub(crate) port: u16,
}

impl Host {
    /// Starts a host at a free port of the loopback interface, and waits until it streams.
    pub(crate) fn start(args: &[&str]) -> Host {
        Host::start_at(0, args)
    }

    /// Like [`Host::start`], at this port.
    pub(crate) fn start_at(port: u16, args: &[&str]) -> Host {
        let args = args.iter().map(|w| (*w).to_owned()).collect();
        Host::open(Folder::new(), port, args, NO_SOUND.to_owned())
    }

    /// Starts a host that is already paired with these clients: a PIN pairs only one device.
    pub(crate) fn paired_with(clients: &[&str], args: &[&str]) -> Host {
        Host::with_sound(NO_SOUND, clients, args)
    }

    /// Like [`Host::paired_with`], but with a sound server at this address.
    pub(crate) fn with_sound(sound: &str, clients: &[&str], args: &[&str]) -> Host {
        let folder = Folder::new();
        let dir = |name: &str| folder.path().join(name);
        let identity = |name: &str, role| {
            load_or_create(&dir(name), role)
                .expect("a new key")
                .public()
        };
        let host = identity("host", identity_store::KeyOwner::Host);
        let mut devices = DeviceStore::open(&dir("host")).expect("an empty store");
        for client in clients {
            let key = identity(client, identity_store::KeyOwner::Client);
            devices
                .pair(key, &DeviceName::new(client), 1)
                .expect("the store is writable");
        }
        let args = args.iter().map(|w| (*w).to_owned()).collect();
        let started = Host::open(folder, 0, args, sound.to_owned());
        for client in clients {
            started.add_known_host(client, &started.address(), host);
        }
        started
    }

    /// Adds the host, with this address, to the client's known hosts.
    fn add_known_host(&self, client: &str, address: &str, host: PublicKey) {
        let mut hosts = HostStore::open(&self.folder.path().join(client)).expect("a store");
        hosts
            .remember(address, host)
            .expect("the store is writable");
    }

    /// Adds another address of this host, such as the address of a hop.
    pub(crate) fn add_address(&self, client: &str, address: &str) {
        let hosts = HostStore::open(&self.folder.path().join(client)).expect("a store");
        let key = hosts
            .key(&self.address())
            .expect("the client knows the host");
        self.add_known_host(client, address, key);
    }

    /// Restarts the host at the same address, with the same keys and arguments.
    pub(crate) fn restart(self) -> Host {
        self.restart_as(std::convert::identity)
    }

    /// Restarts the host with a different program; `as_other` changes the command.
    pub(crate) fn restart_as(self, as_other: fn(Command) -> Command) -> Host {
        let Host {
            program,
            folder,
            args,
            sound,
            port,
        } = self;
        drop(program);
        Host::open_as(as_other, folder, port, args, sound)
    }

    fn open(folder: Folder, port: u16, args: Vec<String>, sound: String) -> Host {
        Host::open_as(std::convert::identity, folder, port, args, sound)
    }

    fn open_as(
        as_other: fn(Command) -> Command,
        folder: Folder,
        port: u16,
        args: Vec<String>,
        sound: String,
    ) -> Host {
        let (dir, bind) = (folder.join("host"), format!("127.0.0.1:{port}"));
        let more: Vec<&str> = args.iter().map(String::as_str).collect();
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
        let program = Program::start("host", as_other(command));
        let line = program.line("openuvr host: streaming");
        let port = port_of(&line);
        Host {
            program,
            folder,
            args,
            sound,
            port,
        }
    }

    /// The argument of `openuvr client`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts a client without a display, with its own keys under this name. It decodes the pictures, but does not show
    /// them.
    pub(crate) fn headless_client(&self, name: &str, args: &[&str]) -> Program {
        let args = [&["--present", "null"], args].concat();
        client(&self.folder, name, &self.address(), &args)
    }

    /// Starts a client with a window.
    pub(crate) fn client(&self, name: &str, display: &Display, args: &[&str]) -> Program {
        let args = [&["--display", &display.name], args].concat();
        client(&self.folder, name, &self.address(), &args)
    }

    /// Runs `openuvr devices` for this host; returns its output.
    pub(crate) fn devices(&self, args: &[&str]) -> String {
        let dir = self.folder.join("host");
        let args = [&["devices", "--config-dir", &dir], args].concat();
        let out = openuvr(&args).output().expect("the program runs");
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "devices {args:?}: {error}");
        String::from_utf8(out.stdout).expect("text")
    }
}

/// Starts a client that connects to the host at `address`. Its keys are in the subfolder `name` of `folder`.
pub(crate) fn client(folder: &Folder, name: &str, address: &str, args: &[&str]) -> Program {
    let dir = folder.join(name);
    let own = ["client", address, "--config-dir", &dir, "--name", name];
    let args = [&own[..], &["--realtime", "off"][..], args].concat();
    Program::start(name, openuvr(&args))
}

/// Starts the built-in scene on a display.
pub(crate) fn scene(display: &Display, size: &str, fps: &str) -> Program {
    let args = [
        "scene",
        "--display",
        &display.name,
        "--size",
        size,
        "--fps",
        fps,
    ];
    Program::start("scene", openuvr(&args))
}

/// The port of the first address in a line.
pub(crate) fn port_of(line: &str) -> u16 {
    line.split(|c: char| c.is_whitespace() || c == ',')
        .find_map(|word| word.parse::<std::net::SocketAddr>().ok())
        .unwrap_or_else(|| panic!("no address in {line:?}"))
        .port()
}

/// Quality of a link in both directions, in the syntax of `openuvr_sim::script`, and the seed of its losses.
#[derive(Clone, Copy)]
pub(crate) struct Quality<'a> {
    pub(crate) up: &'a str,
    pub(crate) down: &'a str,
    pub(crate) seed: u64,
}

impl<'a> Quality<'a> {
    /// A link that loses and delays nothing.
    pub(crate) const PERFECT: Quality<'static> = Quality::both("");

    /// The same quality in both directions.
    pub(crate) const fn both(words: &'a str) -> Quality<'a> {
        Quality {
            up: words,
            down: words,
            seed: 1,
        }
    }

    /// This quality in the direction to the client, and a perfect link in the other direction.
    pub(crate) const fn down(words: &'a str) -> Quality<'a> {
        Quality {
            up: "",
            down: words,
            seed: 1,
        }
    }

    /// The same quality with another seed.
    pub(crate) const fn seeded(self, seed: u64) -> Quality<'a> {
        Quality { seed, ..self }
    }

    /// The schedules for up and down.
    pub(crate) fn schedules(&self) -> [ImpairmentSchedule; 2] {
        let perfect = Impairment::default();
        [self.up, self.down].map(|words| match words {
            "" => ImpairmentSchedule::default(),
            words => script::parse(&perfect, words).expect("words of a script"),
        })
    }
}

/// A link of defined quality between a client and a host, in a thread of the test. A busy machine delays the link, but
/// the losses depend on the seed alone.
pub(crate) struct Hop {
    link: Option<Emulated>,
    pub(crate) port: u16,
}

impl Hop {
    /// Starts a hop in front of `host`, at a free port if `port` is 0.
    pub(crate) fn start(host: &Host, port: u16, quality: Quality<'_>) -> Hop {
        Hop::at((Ipv4Addr::LOCALHOST, port).into(), host, quality)
    }

    /// Starts a hop in front of `host`, at this address.
    pub(crate) fn at(listen: SocketAddr, host: &Host, quality: Quality<'_>) -> Hop {
        let [up, down] = quality.schedules();
        let config = hop::Config {
            listen,
            to: host.address().parse().expect("its address"),
            up,
            down,
            seed: quality.seed,
        };
        let link = Emulated::of(config, None, true).expect("a relay");
        let port = link.listens.port();
        let link = Some(link);
        Hop { link, port }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Stalls the link until the result is dropped.
    pub(crate) fn stall(&self) -> MutexGuard<'_, ()> {
        let link = self.link.as_ref().expect("it runs");
        link.gate.hold()
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        // The hop's port is free afterwards.
        let report = self.link.take().map(Emulated::end);
        if !std::thread::panicking() {
            report.transpose().expect("the relay's report");
        }
    }
}
