//! The conditions at a point of a figure. One quantity is varied. All other quantities are ideal, except in the second
//! line of a figure.

use std::time::Duration;

use openuvr_proto::units::Bitrate;
use openuvr_sim::link::{Impairment, Queue};
use openuvr_sim::schedule::ImpairmentSchedule;

/// The varied quantity, on a figure's x axis.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Vary {
    /// Round-trip delay: 0 to 600 ms
    Delay,
    /// Datagram loss: 0 to 10 %
    Loss,
    /// Bandwidth of the link: 1 to 6 Mb/s, and unlimited
    Bandwidth,
    /// Key-frame interval (GOP size), in frames
    Gop,
}

/// The conditions at a point. The default conditions are ideal.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Condition {
    /// Round trip.
    pub(super) delay_ms: u32,
    pub(super) loss_percent: u32,
    /// Bandwidth of the link; `None` if it is not limited.
    pub(super) mbps: Option<u32>,
    /// Number of frames from one key frame to the next; `None` if there are key frames only on demand.
    pub(super) gop: Option<u32>,
    /// Whether the bitrate is constant instead of adaptive.
    pub(super) constant: bool,
}

/// Size of the bottleneck's queue in bytes: 50 packets of 1500 bytes.
const QUEUE: usize = 75_000;

/// A value on an axis. `None` means no bandwidth limit, or no periodic key frame.
pub(super) type AxisValue = Option<u32>;

pub(super) fn point_of(text: &str) -> Result<AxisValue, String> {
    match text {
        "none" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| "expected a whole number, or none".to_owned()),
    }
}

impl Vary {
    /// The values on the axis: all of them, or only those of a quick run.
    pub(super) fn points(self, quick: bool) -> Vec<AxisValue> {
        let (all, few): (&[u32], &[u32]) = match self {
            Vary::Delay => (&[0, 100, 200, 300, 400, 500, 600], &[0, 300]),
            Vary::Loss => (&[0, 1, 2, 4, 6, 8, 10], &[0, 5]),
            Vary::Bandwidth => (&[1, 2, 3, 4, 5, 6], &[2]),
            Vary::Gop => (&[5, 15, 30, 60, 120, 240], &[15]),
        };
        let points = if quick { few } else { all };
        let without = matches!(self, Vary::Bandwidth | Vary::Gop).then_some(None);
        points.iter().copied().map(Some).chain(without).collect()
    }

    pub(super) fn allows(self, point: AxisValue) -> bool {
        let range = match self {
            Vary::Delay => 0..=10_000,
            Vary::Loss => 0..=100,
            Vary::Bandwidth => 1..=1000,
            Vary::Gop => 1..=100_000,
        };
        point.is_none_or(|point| range.contains(&point))
    }

    /// The conditions at these points. Figures of bandwidth and GOP size have a second line, except in a quick run.
    pub(super) fn conditions(self, points: &[AxisValue], quick: bool) -> Vec<Condition> {
        let best = Condition::default();
        let second = match self {
            Vary::Bandwidth => Some(Condition {
                constant: true,
                ..best
            }),
            Vary::Gop => Some(Condition {
                loss_percent: 1,
                ..best
            }),
            Vary::Delay | Vary::Loss => None,
        };
        let lines = [Some(best), second.filter(|_| !quick)];
        let at = |line: Condition, point: AxisValue| match self {
            Vary::Delay => Condition {
                delay_ms: point.unwrap_or(0),
                ..line
            },
            Vary::Loss => Condition {
                loss_percent: point.unwrap_or(0),
                ..line
            },
            Vary::Bandwidth => Condition {
                mbps: point,
                ..line
            },
            Vary::Gop => Condition { gop: point, ..line },
        };
        let lines = lines.into_iter().flatten();
        lines
            .flat_map(|line| points.iter().map(move |point| at(line, *point)))
            .collect()
    }
}

impl Condition {
    /// The impairments of each direction of the link.
    pub(super) fn link(self) -> ImpairmentSchedule {
        Impairment {
            delay: Duration::from_millis(self.delay_ms.into()) / 2,
            loss: f64::from(self.loss_percent) / 100.0,
            rate: self.mbps.map(|mbps| Bitrate::from_mbps(mbps.into())),
            queue: Queue::Bytes(QUEUE),
            ..Impairment::default()
        }
        .into()
    }
}
