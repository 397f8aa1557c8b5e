//! Rate controllers behind one trait: OpenUVR's, two others for comparison, and a fixed rate.
//!
//! Each controller receives one report per frame, with the send times, arrival times and ECN fields of the frame's
//! datagrams.
//!
//! Each controller has its own file. Each of its variants has one line in [`Kind::ALL`] and one in [`Kind::open`].

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

/// A datagram of a frame, as described by the report on this frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datagram {
    /// The time at which the datagram was sent.
    pub sent: Instant,
    /// The time at which the datagram arrived; `None` if it was lost. Sender and client have the same clock.
    pub arrived: Option<Instant>,
    /// The datagram's size on the link in bytes.
    pub bytes: usize,
    /// The ECN field with which the datagram arrived.
    pub ecn: Ecn,
}

/// The report on a frame. It does not include repeated datagrams.
#[derive(Debug, Clone, Copy)]
pub struct FrameReport<'a> {
    /// The number of the frame.
    pub frame: u32,
    /// The frame's datagrams in the order of sending, at least one.
    pub datagrams: &'a [Datagram],
    /// Bytes in flight after this report.
    pub in_flight: usize,
}

impl FrameReport<'_> {
    /// The round trip of a datagram; `None` if the datagram was lost. `now` is the time at which the report arrived.
    /// The time for which the report waited for other datagrams of the frame is not included.
    fn round_trip(&self, now: Instant, datagram: &Datagram) -> Option<Duration> {
        let newest = self.datagrams.iter().filter_map(|one| one.arrived).max()?;
        Some(datagram.arrived?.since(datagram.sent) + now.since(newest))
    }
}

/// A rate controller.
pub trait Controller: fmt::Debug {
    /// The ECN field with which datagrams are sent.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// The target rate of the next frame, including headers.
    fn target(&self) -> Bitrate;

    /// The pacing rate at `now`; `None` if each slice is sent as soon as it is encoded.
    fn pacing(&self, now: Instant) -> Option<Bitrate> {
        let _ = now;
        None
    }

    /// The maximum number of bytes in flight; `None` without a limit.
    fn window(&self) -> Option<usize> {
        None
    }

    /// The time until which new frames are skipped; `None` if no frame is skipped.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let _ = now;
        None
    }

    /// Called before a frame is captured. `waited` is the waiting time of the oldest unsent datagram.
    fn before_frame(&mut self, now: Instant, waited: Duration) {
        let _ = (now, waited);
    }

    /// Called after the last datagram of a frame of `bytes` bytes was sent.
    fn on_sent(&mut self, now: Instant, frame: u32, bytes: usize) {
        let _ = (now, frame, bytes);
    }

    /// Called when the report on a frame has arrived.
    fn on_report(&mut self, now: Instant, report: &FrameReport<'_>);
}

/// The kind of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OpenUVR's controller without L4S. It responds to delay and loss.
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

    /// Makes a controller in its initial state. `interval` is the time between two frames.
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

/// The error for a name that is not a controller's.
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

/// The bitrate for a number of bits per second, rounded down.
fn bitrate(bits: f64) -> Bitrate {
    Bitrate(whole(bits))
}

/// The integer part of a number; saturates at 0 and at the maximum.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
pub(super) fn whole(value: f64) -> u64 {
    value as u64
}
