//! Results of a measurement from pixels: of any path between two displays, and of a host and a client.

use std::collections::BTreeMap;

use openuvr_proto::time::Instant;
use openuvr_testbed::journey::Step;
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::stats::{Frames, Summary, share};
use serde::Serialize;

use crate::machine::Thread;

/// A measurement of the floor or of the stream.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    /// Frames drawn in the window, and their outcomes.
    pub(super) frames: Frames,
    /// Start and end, on this machine's clock.
    #[serde(skip)]
    pub(super) window: [Instant; 2],
    pub(super) seconds: f64,
    /// Drawn to visible. For the stream, only complete frames count.
    pub(super) latency_ms: Option<Summary>,
    /// Display changes without a readable bar code.
    pub(super) unreadable: usize,
    pub(super) other_cores: f64,
    /// Cores used, by process name.
    pub(super) cores: BTreeMap<&'static str, f64>,
    /// Cores used by the audio threads of host and client, if any.
    pub(super) audio_cores: BTreeMap<&'static str, f64>,
    pub(super) loopback_mbps: f64,
    /// Load of the emulated link in both directions, with Ethernet, IP and UDP headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carried_mbps: Option<f64>,
    /// Scheduling of each kind of thread, and the number of threads.
    pub(super) threads: Vec<(Thread, usize)>,
    /// Long data: for a CSV file.
    #[serde(skip)]
    pub(super) samples: Vec<Sample>,
}

/// A sighting of a frame.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) sighting: Sighting,
    /// Its outcome in the host's record.
    pub(super) outcome: Option<String>,
}

/// Further results of a stream.
#[derive(Debug, Serialize)]
pub(super) struct Stream {
    #[serde(flatten)]
    pub(super) case: Case,
    /// The video's link at the end of the measurement, such as `udp-gso`.
    pub(super) link: Option<String>,
    /// Frames seen that are not complete in the record, or not in it.
    pub(super) incomplete: usize,
    pub(super) steps: Vec<Step>,
    /// Rows of the host's record by outcome.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// Media datagrams with their IPv4 and UDP headers.
    pub(super) wire_mbps: Option<f64>,
    /// Key press on this display to its effect on it, ms.
    pub(super) reaction_ms: Vec<f64>,
    /// Luma PSNR against the captured picture of the same frame, dB.
    pub(super) psnr_db: Vec<f64>,
    /// The record's rows of the compared pictures, if there is a record.
    pub(super) compared: Vec<Compared>,
    /// Cores of the host while the picture does not change, if that was measured.
    pub(super) still_cores: Option<f64>,
}

/// A picture with a measured PSNR.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    /// Luma PSNR, dB.
    pub(super) psnr_db: f64,
    /// Its frame's outcome; `None`: not in the record.
    pub(super) outcome: Option<String>,
    /// Its datagrams with their IPv4 and UDP headers.
    pub(super) wire_bytes: u64,
}

/// (end to end − floor) ÷ serial codec time, medians.
pub(super) fn ratio(end: f64, floor: f64, serial: f64) -> f64 {
    (end - floor) / serial
}

impl Case {
    /// Frames per second drawn by the scene.
    pub(super) fn drawn_fps(&self) -> f64 {
        self.frames.drawn as f64 / self.seconds
    }
}

impl Stream {
    /// Frames displayed completely.
    pub(super) fn complete(&self) -> usize {
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

    /// Including the application, if it is a separate process.
    pub(super) fn all_cores(&self) -> f64 {
        self.cores() + self.case.cores.get("scene").copied().unwrap_or(0.0)
    }

    /// Share of the drawn frames displayed completely.
    pub(super) fn complete_share(&self) -> Option<f64> {
        share(self.complete(), self.case.frames.drawn)
    }
}
