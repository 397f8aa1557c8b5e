//! The heading and the output files of a bench with interleaved runs.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use openuvr_testbed::stats::Range;
use serde::Serialize;

use super::case::Stream;
use super::turns::{ComparisonOptions, Turns};
use super::verdict::QUICK;
use crate::machine::{Machine, QUIET};
use crate::result_file;

/// The conditions of a comparison.
#[derive(Debug, Serialize)]
pub(super) struct Heading {
    machine: Machine,
    size: String,
    bitrate: String,
    scene_fps: f64,
    #[serde(flatten)]
    turns: Turns,
    /// Number of cores that other processes used during a measurement: the maximum over all measurements.
    pub(super) other_cores: f64,
    /// Names of the links that carried the videos, such as `udp-gso`.
    links: BTreeSet<String>,
}

impl Heading {
    /// Creates the heading from the options and from the results of all streams.
    pub(super) fn new<'a>(
        options: &ComparisonOptions,
        turns: Turns,
        streams: impl Iterator<Item = &'a Stream>,
    ) -> Heading {
        let mut head = Heading {
            machine: Machine::this(),
            size: options.size.to_string(),
            bitrate: options.bitrate.clone(),
            scene_fps: options.scene_fps,
            turns,
            other_cores: 0.0,
            links: BTreeSet::new(),
        };
        for stream in streams {
            head.other_cores = head.other_cores.max(stream.case.other_cores);
            head.links.extend(stream.link.clone());
        }
        head
    }

    /// The reason why no target is judged: the run is quick. `None` otherwise, even if the machine is busy.
    pub(super) fn quick(&self) -> Option<&'static str> {
        self.turns.quick.then_some(QUICK)
    }

    /// The reason why no target for a time is judged: the run is quick, or the machine was busy. `None` if they are
    /// judged.
    pub(super) fn withheld(&self) -> Option<&'static str> {
        let loud = (self.other_cores > QUIET).then_some("the machine was busy");
        self.quick().or(loud)
    }

    pub(super) fn print(&self, what: &str, more: &str) {
        let Heading {
            size,
            bitrate,
            scene_fps,
            ..
        } = self;
        println!("== {what}: {size} at {bitrate}, scene at {scene_fps} frames/s{more} ==");
        println!("machine  {}", self.machine);
        print_links(&Vec::from_iter(&self.links));
        if self.other_cores > QUIET {
            println!(
                "NOT QUIET: other processes used up to {:.1} cores; the figures are unreliable",
                self.other_cores
            );
        }
    }
}

/// The result of a comparison, with a row for each compared item.
#[derive(Debug, Serialize)]
pub(super) struct Report<R> {
    #[serde(flatten)]
    pub(super) head: Heading,
    pub(super) ways: Vec<R>,
}

/// Prints the median and the range of the repetitions' values. Prints nothing without values.
pub(super) fn print_range(what: &str, range: Option<&Range>) {
    if let Some(Range {
        median, min, max, ..
    }) = range
    {
        println!("{what:<36} {median:.2} ({min:.2}-{max:.2})");
    }
}

/// Prints the names of the links that carried the videos. All of them use the loopback device.
pub(super) fn print_links(names: &[&String]) {
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let names = match names.is_empty() {
        true => "unknown".to_owned(),
        false => names.join(", "),
    };
    println!("link     {names}, over the loopback device");
}

/// Writes the result file `BENCH.json`, where BENCH is the bench's name, into a folder. Creates the folder if it does
/// not exist.
pub(super) fn write_json(folder: &Path, bench: &str, value: &impl Serialize) -> Result<()> {
    let path = folder.join(format!("{bench}.json"));
    result_file::write(&path, &format!("bench.{bench}"), value)
}
