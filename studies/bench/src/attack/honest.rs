//! The attacked stream: a host and a client, which are processes of `openuvr`, and the relay between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openuvr_lab::attack::tap::Tap;
use openuvr_proto::control::handshake::Trust;
use openuvr_proto::control::identity::{ClientId, DeviceName, Identity};
use openuvr_runtime::identity_store::{KeyOwner, load_or_create};
use openuvr_runtime::trust_store::DeviceStore;

use openuvr_testbed::pair::{Options, Pair, Serve, TemporaryDir, free_tcp_port};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use super::core_use::threads_use;
use super::servers::{Servers, TOKEN};
use super::table::use_of;
use openuvr_clock as clock;

/// The host's frame rate.
const FPS: f64 = 60.0;

/// Time limit for the arrival of the first pictures.
const START: Duration = Duration::from_secs(10);

/// A stream, and the means to observe it from outside.
pub(super) struct Honest {
    pub(super) tap: Tap,
    pub(super) host: SocketAddr,
    pair: Pair,
    observer: Identity,
    trust: Trust,
    client: ClientId,
    servers: Servers,
    dir: TemporaryDir,
}

impl Honest {
    /// Starts the stream, and waits for the first pictures.
    pub(super) fn start(stop: &AtomicBool) -> Result<Honest> {
        let dir = TemporaryDir::new()?;
        let (host_dir, client_dir) = (dir.path().join("host"), dir.path().join("client"));
        for folder in [&host_dir, &client_dir] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("can't make the directory {}", folder.display()))?;
        }
        // The host trusts the observer that will request probes; the client pairs as usual.
        let observer = Identity::generate()?;
        let keys = load_or_create(&host_dir, KeyOwner::Host)?;
        let client = ClientId::of(&load_or_create(&client_dir, KeyOwner::Client)?.public());
        let mut devices = DeviceStore::open(&host_dir)?;
        devices.pair(observer.public(), &DeviceName::new("attacker"), 1)?;
        let local = |port| (Ipv4Addr::LOCALHOST, port).into();
        let (page, players) = (local(free_tcp_port()?), local(free_tcp_port()?));
        let servers = Servers::open(page, players, &mut devices)?;
        drop(devices);
        let mut more_host = vec!["--source".to_owned(), "pattern".to_owned()];
        more_host.extend(["--size".to_owned(), "640x480".to_owned()]);
        more_host.push(format!("--web={page}"));
        more_host.push(format!("--rtsp={players}"));
        more_host.push(format!("--rtsp-token={TOKEN}"));
        let words = |words: &[&str]| -> Vec<String> { words.iter().map(|&w| w.into()).collect() };
        let csv = frames(dir.path());
        let mut at = None;
        let mut tap = None;
        let pair = Pair::start_over(
            &Options {
                serve: Serve::Host,
                // Programs don't connect to a display without a number.
                host_display: ":",
                client_display: ":",
                fps: FPS,
                bitrate: "10M",
                dir: dir.path(),
                csv: Some(&csv),
                sound: None,
                pads: None,
                show_host: false,
                more_host: &more_host,
                more_client: &words(&["--present", "null"]),
            },
            |host| {
                let open = Tap::open(host).context("can't open the relay")?;
                let address = open.address()?;
                (at, tap) = (Some(host), Some(open));
                Ok(address)
            },
        )?;
        let mut honest = Honest {
            tap: tap.context("the relay was not started")?,
            host: at.context("the host was not started")?,
            pair,
            observer,
            trust: Trust::Known(keys.public()),
            client,
            servers,
            dir,
        };
        let begun = clock::now();
        while honest.pair.client.log_value("showing").is_none() && !stop.load(Ordering::Relaxed) {
            honest.check()?;
            if clock::now().since(begun) > START {
                bail!("no pictures arrive{}", honest.pair.client.last_words());
            }
            clock::sleep_until(clock::now() + Duration::from_millis(50));
        }
        Ok(honest)
    }

    /// Returns an error if the host or the client has ended: no attack may cause that.
    pub(super) fn check(&mut self) -> Result<()> {
        self.pair.check()
    }

    /// The identity of an observer that the host trusts, and the observer's trust in the host.
    pub(super) fn observer(&self) -> (&Identity, Trust) {
        (&self.observer, self.trust.clone())
    }

    /// The client's identifier, which is unencrypted on the wire.
    pub(super) fn client_id(&self) -> ClientId {
        self.client
    }

    /// The web and RTSP servers.
    pub(super) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Limits the host to `left` file descriptors in addition to the open ones. Returns the previous limit.
    pub(super) fn limit_descriptors(&self, left: u64) -> Result<Rlimit> {
        let id = self.pair.host.id();
        let open = std::fs::read_dir(format!("/proc/{id}/fd"));
        let open = open
            .with_context(|| format!("can't read the status of process {id}"))?
            .count();
        let limit = open as u64 + left;
        self.set_descriptors(Rlimit {
            current: Some(limit),
            maximum: getrlimit(Resource::Nofile).maximum,
        })
    }

    /// Restores the host's limit.
    pub(super) fn restore_descriptors(&self, before: Rlimit) -> Result<()> {
        self.set_descriptors(before).map(drop)
    }

    fn set_descriptors(&self, limit: Rlimit) -> Result<Rlimit> {
        let id = i32::try_from(self.pair.host.id())
            .ok()
            .and_then(Pid::from_raw);
        let set = prlimit(id, Resource::Nofile, limit);
        set.context("the host's limit of open files can't be set")
    }

    /// CPU seconds of the host's threads with these names.
    pub(super) fn threads_use(&self, names: &[&str]) -> Result<f64> {
        threads_use(self.pair.host.id(), names)
    }

    /// The number of sessions that the client has had.
    pub(super) fn sessions(&self) -> usize {
        let log = self.dir.path().join("client/log");
        let log = std::fs::read_to_string(log).unwrap_or_default();
        log.matches("connected to the host").count()
    }

    /// CPU time of the host in seconds, and its memory in bytes.
    pub(super) fn host_use(&self) -> Result<(f64, f64)> {
        use_of(self.pair.host.id())
    }

    /// Stops the stream. Returns the capture timestamps of the complete frames. A frame that both client and observer
    /// have received occurs twice.
    pub(super) fn whole_frames(mut self) -> Result<Vec<i64>> {
        self.pair.client.stop();
        self.pair.host.stop();
        let csv = std::fs::read_to_string(frames(self.dir.path()))
            .with_context(|| format!("the host wrote no record{}", self.pair.host.last_words()))?;
        let mut lines = csv.lines();
        let columns = lines.next().unwrap_or_default();
        let place = |name: &str| columns.split(',').position(|column| column == name);
        let captured = place("Captured_ns").context("the record has no column Captured_ns")?;
        // The observer has its own rows. `Row::count` counts each captured frame only once.
        let mut whole: Vec<i64> = Vec::new();
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            if fields.get(2) == Some(&"complete")
                && let Some(at) = fields.get(captured).and_then(|at| at.parse().ok())
            {
                whole.push(at);
            }
        }
        Ok(whole)
    }
}

fn frames(dir: &Path) -> std::path::PathBuf {
    dir.join("frames.csv")
}
