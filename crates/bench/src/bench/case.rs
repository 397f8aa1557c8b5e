//! What a measurement from pixels has found: of anything between two displays, and of a host and a client.

use std::collections::BTreeMap;

use openuvr_proto::time::Instant;
use serde::Serialize;

use super::journey::Step;
use super::machine::Thread;
use super::reader::Sighting;
use super::stats::{Frames, Summary, share};

/// What was measured of the floor, and likewise of the stream.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    /// Those that the scene drew while it was measured, and what became of them.
    pub(super) frames: Frames,
    /// From when to when, on this machine's clock.
    #[serde(skip)]
    pub(super) window: [Instant; 2],
    pub(super) seconds: f64,
    /// Drawn to visible; of the stream only frames displayed whole.
    pub(super) latency_ms: Option<Summary>,
    /// Changes of the display after which no bar code could be read.
    pub(super) unreadable: usize,
    pub(super) other_cores: f64,
    /// Cores used, by name of the process.
    pub(super) cores: BTreeMap<&'static str, f64>,
    /// Those of the threads of sound of host and client, where there are such.
    pub(super) audio_cores: BTreeMap<&'static str, f64>,
    pub(super) loopback_mbps: f64,
    /// What the emulated link was given, both ways, with Ethernet, IP and UDP headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carried_mbps: Option<f64>,
    /// Whose policy, and how many threads of that kind.
    pub(super) threads: Vec<(Thread, usize)>,
    pub(super) samples: Vec<Sample>,
}

/// A frame that was seen.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) sighting: Sighting,
    /// What the host's record says of it.
    pub(super) outcome: Option<String>,
}

/// What is known of the stream besides.
#[derive(Debug, Serialize)]
pub(super) struct Stream {
    #[serde(flatten)]
    pub(super) case: Case,
    /// What the video came by when it had been measured, such as `udp-gso`.
    pub(super) link: Option<String>,
    /// Frames seen that the record doesn't call whole, or doesn't have.
    pub(super) not_whole: usize,
    pub(super) steps: Vec<Step>,
    /// Rows of the host's record by outcome.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// Media datagrams with their IPv4 and UDP headers.
    pub(super) wire_mbps: Option<f64>,
    /// Key press on this display to its effect on it, ms.
    pub(super) reaction_ms: Vec<f64>,
    /// Luma PSNR against the captured picture of the same frame, dB.
    pub(super) psnr_db: Vec<f64>,
    /// What the record says of those that were compared, where there is one.
    pub(super) compared: Vec<Compared>,
}

/// A picture whose PSNR was taken.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    /// Luma PSNR, dB.
    pub(super) psnr_db: f64,
    /// What became of its frame; `None`: the record doesn't have it.
    pub(super) outcome: Option<String>,
    /// Its datagrams with their IPv4 and UDP headers.
    pub(super) wire_bytes: u64,
}

/// (end to end − floor) ÷ serial codec time, medians.
pub(super) fn ratio(end: f64, floor: f64, serial: f64) -> f64 {
    (end - floor) / serial
}

impl Case {
    /// Frames a second that the scene drew.
    pub(super) fn drawn_fps(&self) -> f64 {
        self.frames.drawn as f64 / self.seconds
    }
}

impl Stream {
    /// Frames displayed whole.
    pub(super) fn whole(&self) -> usize {
        self.case.latency_ms.map_or(0, |latency| latency.count)
    }

    /// Cores of host and client together.
    pub(super) fn cores(&self) -> f64 {
        let of = |name| self.case.cores.get(name).copied().unwrap_or(0.0);
        of("host") + of("client")
    }

    /// Cores of one of the processes.
    pub(super) fn cores_of(&self, name: &str) -> Option<f64> {
        self.case.cores.get(name).copied()
    }

    /// With those of the application, where it is a process of its own.
    pub(super) fn all_cores(&self) -> f64 {
        self.cores() + self.case.cores.get("scene").copied().unwrap_or(0.0)
    }

    /// Those, of the frames drawn.
    pub(super) fn whole_share(&self) -> Option<f64> {
        share(self.whole(), self.case.frames.drawn)
    }
}
