//! Browser windows: the host's page with each of its rendering paths, and a page that only copies pictures. The latency
//! of the page that only copies is the lower bound for a browser window.

use openuvr_testbed::stats::Range;

use super::Row;
use crate::bench::rig::WindowContent;
use crate::bench::verdict::Verdict;

#[derive(Debug)]
pub(super) struct Window {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) shows: WindowContent,
    /// Browser arguments, for settings that a page cannot request.
    pub(super) arguments: &'static str,
    /// Whether the window is measured only on request.
    pub(super) by_name: bool,
}

/// The unmodified page.
const PAGE: &str = "openuvr-page";
/// The program with which the page is compared.
const PEER: &str = "gstreamer";

/// All windows that can be measured.
pub(super) static WINDOWS: [Window; 5] = [
    Window {
        name: PAGE,
        what: "openuvr host; the host's page in a window of Chromium",
        shows: WindowContent::Page { less: 0 },
        arguments: "",
        by_name: false,
    },
    Window {
        name: "openuvr-scaled",
        what: "openuvr host; the host's page displayed 8 pixels smaller, so that the browser scales the video",
        shows: WindowContent::Page { less: 8 },
        arguments: "",
        by_name: true,
    },
    Window {
        name: "openuvr-unpaced",
        what: "the unmodified page; browser options switch off the limit of 60 frames/s, which a page can't do",
        shows: WindowContent::Page { less: 0 },
        arguments: "--disable-frame-rate-limit --disable-gpu-vsync",
        by_name: true,
    },
    Window {
        name: "openuvr-floor",
        what: "no host, no video: a page copies its own pictures by requestAnimationFrame",
        shows: WindowContent::Own {
            desynchronized: false,
        },
        arguments: "",
        by_name: true,
    },
    Window {
        name: "openuvr-floor-2d",
        what: "no host, no video: a page copies its own pictures to a desynchronized canvas",
        shows: WindowContent::Own {
            desynchronized: true,
        },
        arguments: "",
        by_name: true,
    },
];

impl Window {
    /// Whether keys reach the application.
    pub(super) fn takes_input(&self) -> bool {
        matches!(self.shows, WindowContent::Page { .. })
    }
}

/// Target for the latency of the page, as a share of GStreamer's latency.
const PART: f64 = 0.7;

/// The verdicts, if both the page and GStreamer were measured. `loud` is the reason why nothing is judged; `None` if
/// the figures are judged.
pub(super) fn verdicts(rows: &[Row], loud: Option<&'static str>) -> Vec<Verdict> {
    let direct = |name: &str| rows.iter().find(|row| row.name == name)?.direct.as_ref();
    let (Some(page), Some(peer)) = (direct(PAGE), direct(PEER)) else {
        return Vec::new();
    };
    let part = |what, ours: &Option<Range>, other: &Option<Range>| {
        let measured = ours
            .as_ref()
            .zip(other.as_ref())
            .map(|(ours, other)| ours.median / other.median);
        Verdict::at_most(what, "", PART).of(measured, loud)
    };
    vec![
        part(
            "the page's p50 / GStreamer's p50",
            &page.p50_ms,
            &peer.p50_ms,
        ),
        part(
            "the page's p99 / GStreamer's p99",
            &page.p99_ms,
            &peer.p99_ms,
        ),
    ]
}
