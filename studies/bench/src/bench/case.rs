//! Results of a measurement from pixels. Some of them exist for any path between two displays, others only for a host
//! and a client.

use std::collections::BTreeMap;

use openuvr_proto::time::Instant;
use openuvr_testbed::journey::Step;
use openuvr_testbed::reader::Sighting;
use openuvr_testbed::stats::{Frames, Summary, share};
use serde::Serialize;

use crate::machine::Thread;

/// Results for the floor or for a stream.
#[derive(Debug, Serialize)]
pub(super) struct Case {
    /// The numbers of frames that were drawn, seen and missed during the measurement.
    pub(super) frames: Frames,
    /// Start and end of the measurement, on this machine's clock.
    #[serde(skip)]
    pub(super) window: [Instant; 2],
    pub(super) seconds: f64,
    /// Latency from drawn to visible. For a host and a client, only complete frames count.
    pub(super) latency_ms: Option<Summary>,
    /// Number of changes of the display after which no bar code was readable.
    pub(super) unreadable: usize,
    pub(super) other_cores: f64,
    /// Number of cores used, by process name.
    pub(super) cores: BTreeMap<&'static str, f64>,
    /// Number of cores used by the audio threads of host and client, if there are any.
    pub(super) audio_cores: BTreeMap<&'static str, f64>,
    pub(super) loopback_mbps: f64,
    /// Energy of all processor packages during the measurement, in joules; `None` without a readable energy counter.
    pub(super) package_joules: Option<f64>,
    /// Load of the emulated link, for both directions together, with Ethernet, IP and UDP headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carried_mbps: Option<f64>,
    /// Each kind of thread with its scheduling, and the number of threads of this kind.
    pub(super) threads: Vec<(Thread, usize)>,
    /// One row per sighting (long format), for a CSV file.
    #[serde(skip)]
    pub(super) samples: Vec<Sample>,
}

/// A sighting of a frame.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) sighting: Sighting,
    /// The frame's outcome in the host's record; `None` if the record does not contain the frame.
    pub(super) outcome: Option<String>,
}

/// Further results of a stream.
#[derive(Debug, Serialize)]
pub(super) struct Stream {
    #[serde(flatten)]
    pub(super) case: Case,
    /// The video's link at the end of the measurement, such as `udp-gso`.
    pub(super) link: Option<String>,
    /// Number of frames that were seen, although the record does not contain them or marks them as incomplete.
    pub(super) incomplete: usize,
    pub(super) steps: Vec<Step>,
    /// Number of rows of the host's record, by outcome.
    pub(super) outcomes: BTreeMap<String, usize>,
    /// Bitrate of the media datagrams, with their IPv4 and UDP headers.
    pub(super) wire_mbps: Option<f64>,
    /// Time from each key press on the client's display to its effect on that display, in ms.
    pub(super) reaction_ms: Vec<f64>,
    /// Luma PSNR of each compared picture against the captured picture of the same frame, in dB.
    pub(super) psnr_db: Vec<f64>,
    /// The compared pictures with their rows in the record, if there is a record.
    pub(super) compared: Vec<Compared>,
    /// Number of cores that the host used while the picture did not change, if that was measured.
    pub(super) still_cores: Option<f64>,
}

/// A picture with a measured PSNR.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    /// Luma PSNR, dB.
    pub(super) psnr_db: f64,
    /// The frame's outcome; `None` if the record does not contain the frame.
    pub(super) outcome: Option<String>,
    /// Size of the frame's datagrams, with their IPv4 and UDP headers.
    pub(super) wire_bytes: u64,
}

/// (end to end − floor) ÷ serial codec time. All three are medians.
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

    /// Number of cores that host and client used together.
    pub(super) fn cores(&self) -> f64 {
        let of = |name| self.case.cores.get(name).copied().unwrap_or(0.0);
        of("host") + of("client")
    }

    /// Number of cores that one of the processes used.
    pub(super) fn cores_of(&self, name: &str) -> Option<f64> {
        self.case.cores.get(name).copied()
    }

    /// Number of cores that host, client and application used together. Excludes the application if it is not a
    /// separate process.
    pub(super) fn all_cores(&self) -> f64 {
        self.cores() + self.case.cores.get("scene").copied().unwrap_or(0.0)
    }

    /// Share of the drawn frames that were displayed completely.
    pub(super) fn complete_share(&self) -> Option<f64> {
        share(self.complete(), self.case.frames.drawn)
    }
}
