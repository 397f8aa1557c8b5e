//! The parameters of a point, which the stream and the recorder share.

use std::path::Path;
use std::time::Duration;

use openuvr_proto::units::Size;
use openuvr_sim::schedule::ImpairmentSchedule;

pub(super) struct Setup<'a> {
    pub(super) clip: &'a Path,
    pub(super) size: Size,
    pub(super) fps: f64,
    pub(super) bitrate: &'a str,
    /// The link's impairments in each direction.
    pub(super) link: ImpairmentSchedule,
    pub(super) round_trip: Duration,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    pub(super) real_time: bool,
    pub(super) more_host: Vec<String>,
}
