//! A Moonlight client of a host that captures the rig's first display, shown on the second.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use openuvr_proto::units::Bitrate;
use openuvr_testbed::child::Child;
use openuvr_testbed::{journey, pair};

use super::peer::without_record;
use super::{Rig, Stream};

/// Parameters of a measured Moonlight client.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct MoonlightSetup<'a> {
    /// A Python with the packages of the client.
    pub(in crate::bench) python: &'a Path,
    /// Frames per second and bitrate of the host.
    pub(in crate::bench) fps: f64,
    pub(in crate::bench) bitrate: Bitrate,
    pub(in crate::bench) seconds: f64,
    /// Folder of keys, logs and the record.
    pub(in crate::bench) dir: &'a Path,
}

/// The client.
const CLIENT: &str = include_str!("../peers/moonlight.py");

/// Any PIN will do: no other client of this host pairs.
const PIN: &str = "2718";

impl Rig<'_> {
    /// Measures a Moonlight client. The host's record gives the steps up to the network.
    pub(in crate::bench) fn moonlight(&mut self, of: &MoonlightSetup<'_>) -> Result<Stream> {
        self.with_scene()?;
        let csv = of.dir.join("frames.csv");
        let bitrate = of.bitrate.0.to_string();
        let servers = ["--moonlight", "127.0.0.1:0", "--sound", "off"];
        let mut host = self.host_for((of.fps, &bitrate), of.dir, &csv, None, &servers)?;
        let address = pair::moonlight_of(&mut host.child)?;

        let script = of.dir.join("moonlight.py");
        std::fs::write(&script, CLIENT)
            .with_context(|| format!("can't write {}", script.display()))?;
        let size = self.setup.size;
        let mut command = Command::new(of.python);
        command
            .arg(&script)
            .arg(address.port().to_string())
            .arg(of.dir.join("moonlight"))
            .args([PIN, self.far.name()])
            .args([size.width, size.height].map(|side| side.to_string()))
            .args([format!("{:.0}", of.fps), (of.bitrate.0 / 1000).to_string()]);
        let log = of.dir.join("receiver.log");
        let mut client = Child::start("Moonlight client", command, Some(&log))?;
        pair::wait_for(&mut client, "start to pair", |client| {
            client.log_value("pairs")
        })?;
        pair::enter_moonlight_pin(&of.dir.join("host"), PIN)?;
        pair::wait_for(&mut client, "play", |client| client.log_value("plays"))?;

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
