//! Rate controllers behind one trait: OpenUVR's, and two others for comparison.
//!
//! All of them see the same: one report per frame, with the send and arrival times and the ECN fields of its datagrams.
//!
//! One file per controller, and one line each in [`Kind::ALL`] and [`Kind::open`].

mod fixed;
mod gcc;
mod own;
mod scream;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;
use openuvr_sim::aqm::Ecn;

/// A datagram of a frame, as the report on this frame shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datagram {
    /// When it was sent.
    pub sent: Instant,
    /// When it arrived; `None` if it was lost. The model's clocks agree.
    pub arrived: Option<Instant>,
    /// Its bytes on the link.
    pub bytes: usize,
    /// Its ECN field at the client.
    pub ecn: Ecn,
}

/// The report on a frame. Repeated datagrams are not part of it.
#[derive(Debug, Clone, Copy)]
pub struct FrameReport<'a> {
    /// The number of the frame.
    pub frame: u32,
    /// Its datagrams, in the order of sending; at least one.
    pub datagrams: &'a [Datagram],
    /// Bytes in flight after this report.
    pub in_flight: usize,
}

impl FrameReport<'_> {
    /// The round trip of a datagram, without the time for which the report waited for the frame's other datagrams; `None`
    /// if the datagram was lost. `now` is the arrival of the report.
    fn round_trip(&self, now: Instant, datagram: &Datagram) -> Option<Duration> {
        let newest = self.datagrams.iter().filter_map(|one| one.arrived).max()?;
        Some(datagram.arrived?.since(datagram.sent) + now.since(newest))
    }
}

/// A rate controller. The sender calls it.
pub trait Controller: fmt::Debug {
    /// The ECN field of its datagrams.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// The target rate including headers, for the next frame.
    fn target(&self) -> Bitrate;

    /// The pacing rate at `now`; `None` if each slice is sent as soon as it is coded.
    fn pacing(&self, now: Instant) -> Option<Bitrate> {
        let _ = now;
        None
    }

    /// The maximum bytes in flight; `None` if there is no limit.
    fn window(&self) -> Option<usize> {
        None
    }

    /// The time until which new frames are skipped.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }

    /// A frame is about to be captured. `waited` is how long the oldest unsent datagram has waited.
    fn before_frame(&mut self, now: Instant, waited: Duration) {
        let _ = (now, waited);
    }

    /// The last datagram of a frame of `bytes` bytes was sent.
    fn on_sent(&mut self, now: Instant, frame: u32, bytes: usize) {
        let _ = (now, frame, bytes);
    }

    /// The report on a frame has arrived.
    fn on_report(&mut self, now: Instant, report: &FrameReport<'_>);
}

/// The name of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OpenUVR's controller, based on delay.
    Own,
    /// OpenUVR's controller with L4S.
    OwnL4s,
    /// Google congestion control.
    Gcc,
    /// SCReAM version 2 without ECN.
    Scream,
    /// SCReAM version 2 with L4S.
    ScreamL4s,
    /// No control: a fixed rate.
    Fixed,
}

impl Kind {
    /// All controllers with their names on the command line.
    pub const ALL: [(&'static str, Kind); 6] = [
        ("own", Kind::Own),
        ("own-l4s", Kind::OwnL4s),
        ("gcc", Kind::Gcc),
        ("scream", Kind::Scream),
        ("scream-l4s", Kind::ScreamL4s),
        ("fixed", Kind::Fixed),
    ];

    /// A controller in its initial state. `interval` is the time between two frames.
    #[must_use]
    pub fn open(self, range: Range, interval: Duration) -> Box<dyn Controller> {
        match self {
            Kind::Own => Box::new(own::Own::new(range, interval, false)),
            Kind::OwnL4s => Box::new(own::Own::new(range, interval, true)),
            Kind::Gcc => Box::new(gcc::Gcc::new(range)),
            Kind::Scream => Box::new(scream::Scream::new(range, interval, false)),
            Kind::ScreamL4s => Box::new(scream::Scream::new(range, interval, true)),
            Kind::Fixed => Box::new(fixed::Fixed(range.start)),
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Kind::ALL.iter().find(|(_, one)| *one == self);
        found.map_or("", |(name, _)| name)
    }

    /// Whether the controller is OpenUVR's.
    #[must_use]
    pub fn is_own(self) -> bool {
        matches!(self, Kind::Own | Kind::OwnL4s)
    }

    /// Whether the controller uses L4S.
    #[must_use]
    pub fn is_l4s(self) -> bool {
        matches!(self, Kind::OwnL4s | Kind::ScreamL4s)
    }
}

/// A name that is not a controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a controller: own, own-l4s, gcc, scream, scream-l4s or fixed")]
pub struct ParseKindError(String);

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Kind, ParseKindError> {
        let found = Kind::ALL.iter().find(|(name, _)| *name == text);
        let unknown = || ParseKindError(text.to_owned());
        found.map(|(_, one)| *one).ok_or_else(unknown)
    }
}

/// A rate of this many bits per second, rounded down.
fn bitrate(bits: f64) -> Bitrate {
    Bitrate(whole(bits))
}

/// The whole part of a positive number; saturates.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
pub(super) fn whole(value: f64) -> u64 {
    value as u64
}
