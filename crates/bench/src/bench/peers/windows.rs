//! Windows of a browser: our host's page in one, by all ways to draw that it has, and a page that only copies pictures, as
//! the least that such a window takes.

use super::Row;
use crate::bench::rig::Shows;
use crate::bench::stats::Range;
use crate::bench::verdict::Verdict;

/// A window that is measured beside the others.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) shows: Shows,
    /// What a page can't ask for: words of the browser's command line.
    pub(super) arguments: &'static str,
    /// Whether it is only measured where it is named.
    pub(super) by_name: bool,
}

/// The page as it is.
const PAGE: &str = "openuvr-page";
/// The one that it is compared with.
const PEER: &str = "gstreamer";

/// All of them.
pub(super) static WINDOWS: [Window; 5] = [
    Window {
        name: PAGE,
        what: "openuvr host, its page in Chromium's window",
        shows: Shows::Page { less: 0 },
        arguments: "",
        by_name: false,
    },
    Window {
        name: "openuvr-scaled",
        what: "the same, the picture 8 pixels smaller than it is: the browser scales it",
        shows: Shows::Page { less: 8 },
        arguments: "",
        by_name: true,
    },
    Window {
        name: "openuvr-unpaced",
        what: "the page as it is, the browser without its 60 turns a second, which no page can ask for",
        shows: Shows::Page { less: 0 },
        arguments: "--disable-frame-rate-limit --disable-gpu-vsync",
        by_name: true,
    },
    Window {
        name: "openuvr-floor",
        what: "no host, no video: a page copies its own pictures by requestAnimationFrame",
        shows: Shows::Own {
            desynchronized: false,
        },
        arguments: "",
        by_name: true,
    },
    Window {
        name: "openuvr-floor-2d",
        what: "the same, its canvas desynchronized",
        shows: Shows::Own {
            desynchronized: true,
        },
        arguments: "",
        by_name: true,
    },
];

impl Window {
    /// Whether keys reach the application.
    pub(super) fn takes_input(&self) -> bool {
        matches!(self.shows, Shows::Page { .. })
    }
}

/// The page's window is to take this part of what GStreamer's own takes, at most: the aim that was set for it.
const PART: f64 = 0.7;

/// Whether it does, if both were measured; `loud`: why nothing is judged.
pub(super) fn verdicts(rows: &[Row], loud: Option<&'static str>) -> Vec<Verdict> {
    let direct = |name: &str| rows.iter().find(|row| row.name == name)?.direct.as_ref();
    let (Some(page), Some(peer)) = (direct(PAGE), direct(PEER)) else {
        return Vec::new();
    };
    let part = |what, ours: Option<Range>, other: Option<Range>| {
        let measured = ours
            .zip(other)
            .map(|(ours, other)| ours.median / other.median);
        Verdict::at_most(what, "", PART).of(measured, loud)
    };
    vec![
        part("the page's p50, of GStreamer's", page.p50_ms, peer.p50_ms),
        part("the page's p99, of GStreamer's", page.p99_ms, peer.p99_ms),
    ]
}
