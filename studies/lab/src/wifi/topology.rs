//! The topologies that the OpenUVR paper compares (section IV-B1), next to its figures. In one, host and mobile device
//! are peers. In the other, both are stations of a router, and each datagram crosses the channel twice. A third
//! topology, which the paper does not have, lies in between: the host is wired to the router.
//!
//! Parameters of the paper: 802.11ac, 80 MHz, and 867 Mb/s at the host (III-A2), which means MCS 9 and two streams with
//! a short guard interval; video of 20 Mb/s (III-C1) with 60 frames/s. The paper's mobile device is a Raspberry Pi 4
//! with one stream, 433.3 Mb/s (data sheet of its CYW43455). An RGB frame has twice the data: "the latency can double"
//! (IV-B1).
//!
//! The paper describes neither the router nor the load of the 12 access points around it. The model's router has two
//! streams and forwards immediately, and there is no other network.

use super::scenario::{Run, Scenario};
use super::statistics::Estimate;
use super::study::{Repetition, Summary, Unfinished};
use super::{Impossible, Nanos, milliseconds, words};

/// Words of all cases. The user's words follow them.
///
/// `per` is a guess: 1 % of the MPDUs are lost, as in the other studies. The last four words describe OpenUVR: it sends
/// each frame at once, in the category video (the transport's DSCP is CS5). Datagrams are full (1400 bytes, and 28 for
/// IP and UDP). The client reports each frame with 51 bytes, in a message of 54 and a datagram of 94 bytes.
pub const WORDS: &str = "profile=vht-su mcs=9 streams=1 guard=400ns per=1% category=video batches=1 \
                         packet=1428 uplink=16667us,122";

/// A path from the host to the mobile device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// The host is the device's access point.
    Peers,
    /// The host is wired to the device's access point.
    WiredRouter,
    /// Host and device are stations of one access point.
    Router,
}

impl Topology {
    /// All topologies, in the order of their number of hops.
    pub const ALL: [Topology; 3] = [Topology::Peers, Topology::WiredRouter, Topology::Router];

    /// The topology's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Topology::Peers => "peers",
            Topology::WiredRouter => "router, host wired",
            Topology::Router => "router, host by Wi-Fi",
        }
    }

    /// The words of a scenario that select this topology.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Topology::Peers => "wire=none",
            Topology::WiredRouter => "wire=1G",
            Topology::Router => "hops=2 server-streams=2",
        }
    }
}

/// The pictures' pixel format. It determines the bitrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// 20 Mb/s.
    Yuv,
    /// 40 Mb/s.
    Rgb,
}

impl Format {
    /// Both formats.
    pub const ALL: [Format; 2] = [Format::Yuv, Format::Rgb];

    /// The format's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Yuv => "YUV",
            Format::Rgb => "RGB",
        }
    }

    /// The word of a scenario that sets the bitrate of this format.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Format::Yuv => "bitrate=20M",
            Format::Rgb => "bitrate=40M",
        }
    }
}

/// A topology with a format, and its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The topology.
    pub topology: Topology,
    /// The format.
    pub format: Format,
    /// The results.
    pub summary: Summary,
    /// Mean frame delay of each run in milliseconds. `None` if no frame was complete.
    pub frame_ms: Vec<Option<f64>>,
    /// Airtime of all transmissions and collisions in each run, in percent.
    pub airtime: Vec<f64>,
}

/// A value of the paper next to ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Section or figure of the paper.
    pub place: &'static str,
    /// Short name.
    pub name: &'static str,
    /// Description.
    pub what: &'static str,
    /// Unit of both values.
    pub unit: &'static str,
    /// The paper's value.
    pub paper: f64,
    /// Our value.
    pub ours: Estimate,
}

/// The comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// All cases: each topology with each format.
    pub cases: Vec<Case>,
    /// The paper's figures.
    pub rows: Vec<Row>,
}

/// Number of cases, each of which is repeated.
pub const CASES: usize = Topology::ALL.len() * Format::ALL.len();

/// Duration of HWA-GamingAnywhere's network transfer over a router with YUV (figure 6).
const ROUTER_YUV_MS: f64 = 3.2;

/// Time that peers save compared with YUV over the router: first with YUV, then with RGB (V-A2).
const SAVED_YUV_MS: f64 = 1.6;
const SAVED_RGB_MS: f64 = 0.8;

/// "P2P mode halves congestion on wireless channels" (IV-B1).
const AIRTIME_TIMES: f64 = 2.0;

/// The scenario of a case. `more` contains further words, which take precedence.
///
/// # Errors
/// Returns an error if a word is invalid, or if `more` contains `wire`, `hops` or `bitrate`, which the case determines.
pub fn scenario(topology: Topology, format: Format, more: &str) -> Result<Scenario, Impossible> {
    for word in more.split_whitespace() {
        let name = word.split('=').next().unwrap_or_default();
        if ["wire", "hops", "bitrate"].contains(&name) {
            return Err(Impossible(format!(
                "{word}: --topology sets {name} itself, for each topology and format"
            )));
        }
    }
    let (topology, format) = (topology.words(), format.words());
    words::parse(&format!("{WORDS} {topology} {format} {more}"))
}

/// Runs all cases. Before each run, `keep_going` is called with the name of the case. If it returns false, the runs
/// stop.
///
/// # Errors
/// Returns an error if a word of `more` is impossible, or if `keep_going` has returned false.
pub fn run(
    repetition: &Repetition,
    lasting: Nanos,
    more: &str,
    keep_going: &mut dyn FnMut(&str) -> bool,
) -> Result<Table, Unfinished> {
    let mut cases = Vec::new();
    for format in Format::ALL {
        for topology in Topology::ALL {
            let scenario = Scenario {
                lasting,
                ..scenario(topology, format, more)?
            };
            let name = format!("{}, {}", format.name(), topology.name());
            let runs = repetition.runs(&scenario, &mut || keep_going(&name))?;
            cases.push(Case {
                topology,
                format,
                summary: Summary::of(&runs),
                frame_ms: runs.iter().map(mean_frame_ms).collect(),
                airtime: runs.iter().map(airtime_percent).collect(),
            });
        }
    }
    let rows = rows(&cases);
    Ok(Table { cases, rows })
}

fn mean_frame_ms(run: &Run) -> Option<f64> {
    let sum: f64 = run.frames.iter().copied().map(milliseconds).sum();
    (!run.frames.is_empty()).then(|| sum / run.frames.len() as f64)
}

fn airtime_percent(run: &Run) -> f64 {
    100.0 * (run.down + run.up + run.collided) as f64 / run.lasted as f64
}

fn rows(cases: &[Case]) -> Vec<Row> {
    let of = |topology, format| {
        let is = |case: &&Case| case.topology == topology && case.format == format;
        cases.iter().find(is)
    };
    let (Some(peers), Some(rgb), Some(router)) = (
        of(Topology::Peers, Format::Yuv),
        of(Topology::Peers, Format::Rgb),
        of(Topology::Router, Format::Yuv),
    ) else {
        return Vec::new();
    };
    let frames = |case: &Case| Estimate::of(case.frame_ms.iter().copied());
    // Runs with the same seed have the same traffic, so they are compared in pairs.
    let saved = |case: &Case| {
        let pairs = router.frame_ms.iter().zip(&case.frame_ms);
        Estimate::of(pairs.map(|(router, peers)| Some((*router)? - (*peers)?)))
    };
    let times = router.airtime.iter().zip(&peers.airtime);
    let times = Estimate::of(times.map(|(router, peers)| Some(router / peers)));
    let mut rows = Vec::new();
    let mut add = |place, name, what, unit, paper, ours: Option<Estimate>| {
        rows.extend(ours.map(|ours| Row {
            place,
            name,
            what,
            unit,
            paper,
            ours,
        }));
    };
    add(
        "fig. 6",
        "router_yuv_ms",
        "network transfer of a frame, YUV over the router",
        "ms",
        ROUTER_YUV_MS,
        frames(router),
    );
    add(
        "V-A2",
        "saved_yuv_ms",
        "saved by peers with YUV",
        "ms",
        SAVED_YUV_MS,
        saved(peers),
    );
    add(
        "V-A2",
        "saved_rgb_ms",
        "saved by peers with RGB, against YUV over the router",
        "ms",
        SAVED_RGB_MS,
        saved(rgb),
    );
    add(
        "fig. 6, V-A2",
        "peers_yuv_ms",
        "network transfer of a frame, YUV between peers (difference)",
        "ms",
        ROUTER_YUV_MS - SAVED_YUV_MS,
        frames(peers),
    );
    add(
        "fig. 6, V-A2",
        "peers_rgb_ms",
        "network transfer of a frame, RGB between peers (difference)",
        "ms",
        ROUTER_YUV_MS - SAVED_RGB_MS,
        frames(rgb),
    );
    add(
        "IV-B1",
        "airtime_times",
        "airtime of all stations over the router, relative to peers, YUV",
        "",
        AIRTIME_TIMES,
        times,
    );
    rows
}

#[cfg(test)]
mod tests;
