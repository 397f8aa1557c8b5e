//! A host and a client for bench and demo: processes of the program `openuvr`.
//!
//! This module builds their command lines. Callers add further options with [`Options::more_host`] and
//! [`Options::more_client`].

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use openuvr_clock as clock;
use openuvr_media::pad::FOLDER;
use openuvr_proto::control::handshake::DeviceName;
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::units::Size;
use openuvr_runtime::client::VIDEO_TRANSPORT;
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_runtime::trust_store::{DeviceStore, HostStore};

use crate::cable::{Cable, HOST};
use crate::child::Child;
use crate::programs::{openuvr, own};

/// The program that serves the pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Serve<'a> {
    /// A host that captures the display, or generates the pictures itself.
    Host,
    /// This program's own command `host`: a host whose parts can be replaced (module `baseline` of `studies/bench`).
    OwnHost,
    /// A host that captures the Wayland compositor with this socket path.
    Session(&'a str),
    /// A host that starts a virtual display, and runs `program` on it.
    Virtual {
        /// The kind of the display: a value of the host's `--virtual-with`.
        with: &'a str,
        /// The size of the display, in pixels.
        size: Size,
        /// The program and its arguments.
        program: &'a [String],
    },
    /// `openuvr run` with this program and its arguments.
    Hook(&'a [String]),
    /// `openuvr xr` with this program and its arguments.
    Xr(&'a [String]),
    /// The scene with these arguments. It streams itself through the C API.
    Api(&'a [String]),
}

/// Options of host and client.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The server.
    pub serve: Serve<'a>,
    /// The X display that the host captures.
    pub host_display: &'a str,
    /// The display on which the client shows the stream.
    pub client_display: &'a str,
    /// Maximum frames per second.
    pub fps: f64,
    /// The bitrate, in the host's syntax, such as `10M`.
    pub bitrate: &'a str,
    /// The parent of the directories in which host and client store their keys and logs.
    pub dir: &'a Path,
    /// The file into which the host writes its record of each frame.
    pub csv: Option<&'a Path>,
    /// The sound server of host and client, in the syntax of `$PULSE_SERVER`; `None` means no sound. On the user's own
    /// server, the host would record the client's playback.
    pub sound: Option<&'a str>,
    /// A folder of pads that the client sees in addition to this machine's pads. The client sees them in the same way
    /// as a game under `openuvr run`.
    pub pads: Option<&'a Path>,
    /// Passes the host's standard error to the terminal instead of a log.
    pub show_host: bool,
    /// Additional arguments for the host.
    pub more_host: &'a [String],
    /// Additional arguments for the client.
    pub more_client: &'a [String],
}

impl Options<'_> {
    /// The host's command line. The host listens on `at`, and stores its files in `dir`.
    fn host(
        &self,
        cable: Option<&Cable>,
        at: SocketAddr,
        pin: &str,
        dir: &Path,
    ) -> Result<Command> {
        let mut host = match self.serve {
            Serve::Host | Serve::Session(_) | Serve::Virtual { .. } => openuvr("host")?,
            Serve::OwnHost => own("host")?,
            Serve::Hook(_) => openuvr("run")?,
            Serve::Xr(_) => openuvr("xr")?,
            Serve::Api(_) => openuvr("scene")?,
        };
        if let Some(cable) = cable {
            host = cable.at_host(&host);
        }
        match self.serve {
            Serve::Host | Serve::OwnHost => _ = host.args(["--display", self.host_display]),
            Serve::Session(socket) => {
                host.args(["--source", "wayland", "--wayland-display", socket]);
            }
            Serve::Virtual { with, size, .. } => {
                host.args(["--virtual", &size.to_string(), "--virtual-with", with]);
                if self.sound.is_none() {
                    // By default, a host with a virtual display creates a sink for the application.
                    host.args(["--sound", "off"]);
                }
            }
            Serve::Hook(_) | Serve::Xr(_) => {}
            Serve::Api(words) => _ = host.args(words).arg("--api").arg(library(API_LIBRARY)?),
        }
        let fps = match self.serve {
            Serve::Api(_) => "--stream-fps",
            _ => "--fps",
        };
        host.args(["--bind", &at.to_string()])
            .args(["--pin", pin])
            .args([fps, &self.fps.to_string()])
            .args(["--bitrate", self.bitrate])
            .arg("--config-dir")
            .arg(dir);
        if let Some(csv) = self.csv {
            host.arg("--csv").arg(csv);
        }
        if let Some(server) = self.sound {
            host.env("PULSE_SERVER", server);
        }
        host.args(self.more_host);
        if let Serve::Hook(words) | Serve::Xr(words) | Serve::Virtual { program: words, .. } =
            self.serve
        {
            host.arg("--").args(words);
        }
        Ok(host)
    }

    /// The client's command line. The client connects to `to`, and stores its files in `dir`.
    fn client(
        &self,
        cable: Option<&Cable>,
        to: SocketAddr,
        pin: &str,
        dir: &Path,
    ) -> Result<Command> {
        let mut client = match cable {
            Some(cable) => cable.at_client(&openuvr("client")?),
            None => openuvr("client")?,
        };
        client
            .arg(to.to_string())
            .args(["--display", self.client_display])
            .args(["--pin", pin])
            // If both host and client showed a table in the terminal, the tables would overwrite each other. The host's
            // table contains more.
            .args(["--table", "off"])
            .arg("--config-dir")
            .arg(dir);
        if let Some(server) = self.sound {
            client.env("PULSE_SERVER", server);
        } else if !self
            .more_client
            .iter()
            .any(|word| word.starts_with("--sound"))
        {
            client.args(["--sound", "off"]);
        }
        if let Some(pads) = self.pads {
            client
                .env("LD_PRELOAD", library(PADS_LIBRARY)?)
                .env(FOLDER, pads);
        }
        client.args(self.more_client);
        Ok(client)
    }
}

/// How long a process may take from its start until it listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);

/// A running host and client. The client is dropped first, so it ends first.
#[derive(Debug)]
pub struct Pair {
    /// The client.
    pub client: Child,
    /// The host.
    pub host: Child,
    /// The host's PIN. It remains valid for another device only with [`Pair::start_beside`].
    pub pin: String,
}

/// A running host, with the data that a client needs to connect.
#[derive(Debug)]
pub struct Host {
    /// The host's process.
    pub child: Child,
    /// The host's address.
    pub at: SocketAddr,
    /// The PIN with which a client can pair.
    pub pin: String,
}

impl Host {
    /// Starts a host and waits until it listens.
    pub fn start(options: &Options<'_>) -> Result<Host> {
        Host::start_at(options, None, false)
    }

    /// A command that starts the same host as [`start`](Self::start), on a free port. Creates the host's directory, but
    /// starts nothing.
    pub fn command(options: &Options<'_>) -> Result<Command> {
        let at = (Ipv4Addr::LOCALHOST, free_port()?).into();
        let dir = new_directory(options.dir, "host")?;
        options.host(None, at, &Pin::generate()?.to_string(), &dir)
    }

    /// Like [`start`](Self::start). With `met`, the host already knows the client, as if they had paired. The PIN,
    /// which is valid for one device, can then be used by another device.
    fn start_at(options: &Options<'_>, cable: Option<&Cable>, met: bool) -> Result<Host> {
        let at = match cable {
            // Nothing else listens in this namespace.
            Some(_) => SocketAddr::from((HOST, 4710)),
            None => (Ipv4Addr::LOCALHOST, free_port()?).into(),
        };
        let dir = new_directory(options.dir, "host")?;
        if met {
            introduce(&dir, &new_directory(options.dir, "client")?, at)?;
        }
        // The PIN is random, so that no other user of this machine can pair first.
        let pin = Pin::generate()?.to_string();
        let log = dir.join("log");
        let log = (!options.show_host).then_some(log.as_path());
        let command = options.host(cable, at, &pin, &dir)?;
        let mut child = Child::start("host", command, log)?;
        wait_until_bound(&mut child, at.port(), &UDP)?;
        Ok(Host { child, at, pin })
    }
}

/// Stores the keys of a client and of a host at this address, as if they had paired. The keys are stored in the folders
/// `host` and `client`, which must exist.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn introduce(host: &Path, client: &Path, at: SocketAddr) -> Result<()> {
    // The files get the same permissions as those that the programs create.
    let theirs = load_or_create(host, KeyOwner::Host)?.public();
    let ours = load_or_create(client, KeyOwner::Client)?.public();
    HostStore::open(client)?.remember(&at.to_string(), theirs)?;
    DeviceStore::open(host)?.pair(ours, &DeviceName::new("the player"), 0)?;
    Ok(())
}

fn new_directory(parent: &Path, name: &str) -> Result<PathBuf> {
    let dir = parent.join(name);
    std::fs::create_dir_all(&dir)
        .with_context(|| format!("can't make the directory {}", dir.display()))?;
    Ok(dir)
}

/// The URL of a host's page, from its log.
pub fn page_of(host: &mut Child) -> Result<String> {
    let said = wait_for_log(host, "browsers: ")?;
    let url = said.split(',').next().unwrap_or_default();
    Ok(url.to_owned())
}

/// The URL for video players, from the log.
pub fn stream_of(host: &mut Child) -> Result<String> {
    wait_for_log(host, "video players: ")
}

/// The address of a host for Moonlight clients, from the log.
pub fn moonlight_of(host: &mut Child) -> Result<SocketAddr> {
    let address = wait_for_log(host, "Moonlight clients: add the host ")?;
    address
        .parse()
        .with_context(|| format!("{address} is not an address"))
}

/// Enters the PIN of a Moonlight client at the host whose folder is `host`.
///
/// # Errors
/// Returns an error, with the host's message, if the host refuses the PIN or no client is waiting.
pub fn enter_moonlight_pin(host: &Path, pin: &str) -> Result<()> {
    let mut command = openuvr("devices")?;
    command.args(["pair", "--moonlight", pin]);
    let output = command.arg("--config-dir").arg(host).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", words.trim());
    Ok(())
}

/// Waits for `words` in a child's log, for [`LISTEN_TIMEOUT`] at most. Returns the text after them.
fn wait_for_log(child: &mut Child, words: &str) -> Result<String> {
    wait_for(child, &format!("print {words:?}"), |child| {
        child.log_value(words)
    })
}

/// Waits until `look` returns a value, for 30 seconds at most. `what` completes "the child did not …" in the error.
///
/// # Errors
/// Returns an error, with the last lines of the child's log, if the child has ended or the timeout has passed.
pub fn wait_for<T>(
    child: &mut Child,
    what: &str,
    mut look: impl FnMut(&Child) -> Option<T>,
) -> Result<T> {
    let until = clock::now() + LISTEN_TIMEOUT;
    loop {
        if let Some(found) = look(child) {
            return Ok(found);
        }
        child.check()?;
        if clock::now() > until {
            let (name, words) = (child.name(), child.last_words());
            bail!("the {name} did not {what}{words}");
        }
        clock::sleep_until(clock::now() + Duration::from_millis(20));
    }
}

impl Pair {
    /// Starts the host, waits until it listens, and starts the client.
    pub fn start(options: &Options<'_>) -> Result<Pair> {
        Pair::start_over(options, Ok)
    }

    /// Like [`start`](Self::start), but host and client have their own network namespaces with `cable` between them.
    pub fn start_on(options: &Options<'_>, cable: &Cable) -> Result<Pair> {
        Pair::start_at(options, Some(cable), false, Ok)
    }

    /// Like [`start`](Self::start), but the host's PIN remains valid for another device.
    pub fn start_beside(options: &Options<'_>) -> Result<Pair> {
        Pair::start_at(options, None, true, Ok)
    }

    /// Like [`start`](Self::start), with a link between host and client: `link` gets the host's address, and returns
    /// the address to which the client connects.
    pub fn start_over(
        options: &Options<'_>,
        link: impl FnOnce(SocketAddr) -> Result<SocketAddr>,
    ) -> Result<Pair> {
        Pair::start_at(options, None, false, link)
    }

    fn start_at(
        options: &Options<'_>,
        cable: Option<&Cable>,
        met: bool,
        link: impl FnOnce(SocketAddr) -> Result<SocketAddr>,
    ) -> Result<Pair> {
        let Host {
            child: host,
            at,
            pin,
        } = Host::start_at(options, cable, met)?;
        let dir = new_directory(options.dir, "client")?;
        let command = options.client(cable, link(at)?, &pin, &dir)?;
        let client = Child::start("client", command, Some(&dir.join("log")))?;
        Ok(Pair { client, host, pin })
    }

    /// The video's current link, such as `udp-gso`; `None` if it is unknown.
    pub fn link(&self) -> Option<String> {
        self.client.log_value(VIDEO_TRANSPORT)
    }

    /// Returns an error, with the last lines of its log, if the host or the client has ended.
    pub fn check(&mut self) -> Result<()> {
        self.host.check()?;
        self.client.check()
    }
}

const API_LIBRARY: &str = "libopenuvr.so";

/// The library that provides pads to a program.
const PADS_LIBRARY: &str = "libopenuvr_pads.so";

/// An OpenUVR library. It is next to this program or in the folder of an installation.
fn library(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("can't find the path of this executable")?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    // The folder `deps` of cargo comes first, because the copy next to the program may be older.
    let places = [
        folder.join("deps"),
        folder.to_owned(),
        folder.join("../lib"),
        folder.join("../lib/openuvr"),
    ];
    let mut files = places.iter().map(|folder| folder.join(name));
    files.find(|file| file.is_file()).with_context(|| {
        format!(
            "{name} is neither next to this program nor in ../lib: build it with `cargo build --release`"
        )
    })
}

/// Starts the scene with these arguments.
pub fn scene(words: &[String]) -> Result<Child> {
    let mut command = openuvr("scene")?;
    command.args(words);
    let null = Path::new("/dev/null");
    Child::start("scene", command, Some(null))
}

/// Starts the scene with these arguments. It flashes by itself, and plays its clicks into this sink of the sound server
/// at `server`.
pub fn clicking_scene(words: &[String], server: &str, sink: &str) -> Result<Child> {
    let mut command = openuvr("scene")?;
    command
        .args(words)
        .args(["--clicks", &format!("pulse:{sink}")])
        .env("PULSE_SERVER", server);
    let null = Path::new("/dev/null");
    Child::start("scene", command, Some(null))
}

/// The scene's arguments for an X display.
pub fn scene_words(display: &str, size: Size, fps: f64) -> Vec<String> {
    scene_words_on(&["--display", display], size, fps)
}

/// The scene's arguments. `display` contains the arguments that select the display.
pub fn scene_words_on(display: &[&str], size: Size, fps: f64) -> Vec<String> {
    let (size, fps) = (size.to_string(), fps.to_string());
    let words = [display, &["--size", &size, "--fps", &fps]].concat();
    words.into_iter().map(str::to_owned).collect()
}

/// A UDP port that is free at the moment.
pub fn free_port() -> Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("no UDP port is free")?;
    Ok(socket.local_addr()?.port())
}

/// A TCP port that is free at the moment.
pub fn free_tcp_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no TCP port is free")?;
    Ok(listener.local_addr()?.port())
}

/// The tables of a protocol's sockets in `/proc/[pid]/net` (proc(5)).
pub type Tables = [&'static str; 2];
/// The tables of UDP.
pub const UDP: Tables = ["udp", "udp6"];
/// The tables of TCP.
pub const TCP: Tables = ["tcp", "tcp6"];

/// Waits until a process in a child's network namespace, usually the child, has bound a port.
pub fn wait_until_bound(child: &mut Child, port: u16, tables: &Tables) -> Result<()> {
    wait_for(child, &format!("open {} port {port}", tables[0]), |child| {
        is_bound(child.id(), port, tables).then_some(())
    })
}

/// Whether any process in the network namespace of process `id` has bound the port.
fn is_bound(id: u32, port: u16, tables: &Tables) -> bool {
    tables.iter().any(|table| {
        std::fs::read_to_string(format!("/proc/{id}/net/{table}")).is_ok_and(|table| {
            table.lines().skip(1).any(|line| {
                let local = line.split_whitespace().nth(1).unwrap_or_default();
                local
                    .rsplit(':')
                    .next()
                    .and_then(|hex| u16::from_str_radix(hex, 16).ok())
                    == Some(port)
            })
        })
    })
}

/// A new directory for one run. The directory is removed when this value is dropped.
#[derive(Debug)]
pub struct TemporaryDir(TempDir);

impl TemporaryDir {
    /// Creates a directory with private permissions.
    pub fn new() -> Result<TemporaryDir> {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().permissions(mode).tempdir();
        Ok(TemporaryDir(made.context("can't make a directory")?))
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_port_is_seen_and_a_free_one_is_not() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(is_bound(std::process::id(), port, &UDP));
        drop(socket);
        assert!(!is_bound(std::process::id(), port, &UDP));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_bound(std::process::id(), port, &TCP));
    }
    #[test]
    fn the_directory_is_private_and_removed_with_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = TemporaryDir::new().unwrap();
        let path = dir.path().to_path_buf();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::write(path.join("file"), "x").unwrap();
        drop(dir);
        assert!(!path.exists());
    }
}
