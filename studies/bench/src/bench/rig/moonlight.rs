//! Measures a Moonlight client of a host that captures the rig's first display.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_testbed::child::Child;
use openuvr_testbed::{journey, pair};

use super::peer::without_record;
use super::{Rig, Stream};

/// Parameters of a measured Moonlight client.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct MoonlightSetup<'a> {
    /// A Python interpreter with the packages of the client.
    pub(in crate::bench) python: &'a Path,
    /// Frames per second and bitrate of the host.
    pub(in crate::bench) fps: f64,
    pub(in crate::bench) bitrate: Bitrate,
    pub(in crate::bench) seconds: f64,
    /// The folder for keys, logs and the record.
    pub(in crate::bench) dir: &'a Path,
}

/// A client to start.
#[derive(Clone, Copy, Debug)]
pub(super) struct MoonlightClient<'a> {
    /// A Python interpreter with the packages of the client.
    pub(super) python: &'a Path,
    /// The X display that shows the pictures. If `None`, the client decodes and discards them.
    pub(super) display: Option<&'a str>,
    /// The requested mode.
    pub(super) size: Size,
    pub(super) fps: f64,
    pub(super) bitrate: Bitrate,
    /// The host's folder, and a folder for the client's files.
    pub(super) host_dir: &'a Path,
    pub(super) dir: &'a Path,
}

/// The client's program.
const CLIENT: &str = include_str!("../peers/moonlight.py");

/// The PIN. Any value works, because no other Moonlight client pairs with the host.
const PIN: &str = "2718";

/// The host's options that make it serve Moonlight clients.
pub(super) const SERVES: [&str; 2] = ["--moonlight", "127.0.0.1:0"];

impl MoonlightClient<'_> {
    /// Pairs with the host and starts to play. If another client plays already, this client only watches.
    pub(super) fn start(&self, host: &mut Child) -> Result<Child> {
        let address = pair::moonlight_of(host)?;
        std::fs::create_dir_all(self.dir)
            .with_context(|| format!("can't make {}", self.dir.display()))?;
        let script = self.dir.join("moonlight.py");
        std::fs::write(&script, CLIENT)
            .with_context(|| format!("can't write {}", script.display()))?;
        let mut command = Command::new(self.python);
        command
            .arg(&script)
            .arg(address.port().to_string())
            .arg(self.dir.join("identity"))
            .args([PIN, self.display.unwrap_or("none")])
            .args([self.size.width, self.size.height].map(|side| side.to_string()))
            .args([
                format!("{:.0}", self.fps),
                (self.bitrate.0 / 1000).to_string(),
            ]);
        let log = self.dir.join("log");
        let mut client = Child::start("Moonlight client", command, Some(&log))?;
        pair::wait_for(&mut client, "start to pair", |client| {
            client.log_value("pairs")
        })?;
        pair::enter_moonlight_pin(self.host_dir, PIN)?;
        pair::wait_for(&mut client, "show a picture", |client| {
            client.log_value("plays")
        })?;
        Ok(client)
    }
}

impl Rig<'_> {
    /// Measures a Moonlight client that shows the pictures on the second display. The host's record gives the steps up
    /// to the network.
    pub(in crate::bench) fn moonlight(&mut self, of: &MoonlightSetup<'_>) -> Result<Stream> {
        self.with_scene()?;
        let csv = of.dir.join("frames.csv");
        let bitrate = of.bitrate.0.to_string();
        let options = [&SERVES[..], &["--sound", "off"]].concat();
        let mut host = self.host_for((of.fps, &bitrate), of.dir, &csv, None, &options)?;
        let client = MoonlightClient {
            python: of.python,
            display: Some(self.far.name()),
            size: self.setup.size,
            fps: of.fps,
            bitrate: of.bitrate,
            host_dir: &of.dir.join("host"),
            dir: &of.dir.join("moonlight"),
        };
        let mut client = client.start(&mut host.child)?;

        let children = [("host", host.child.id()), ("receiver", client.id())];
        let (case, reaction_ms, pictures) = self.read_far(&children, of.seconds, 0, &mut || {
            host.child.check()?;
            client.check()
        })?;
        client.stop();
        host.child.stop_by_itself();
        let record = journey::parse(&std::fs::read_to_string(&csv)?)?;
        let sightings = Vec::from_iter(case.samples.iter().map(|sample| sample.sighting));
        let rows = journey::join_by_capture(&sightings, &record);
        let steps = journey::steps_of_all(&journey::MOONLIGHT_STEPS, &sightings, &rows);
        let stream = without_record(case, reaction_ms, &pictures);
        Ok(Stream { steps, ..stream })
    }
}
