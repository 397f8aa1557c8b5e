//! A device that connects to the world's host.

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::streams::StreamOffer;

use super::clock::Clock;
use super::wakeups::Wakeups;
use super::{tone, two_views};
use crate::aqm::Discipline;
use crate::link::Impairment;
use crate::schedule::ImpairmentSchedule;

/// A connecting device, and its link.
#[derive(Clone, Debug)]
pub struct Device {
    /// Determines the device's key and address. A device that reconnects replaces its own session.
    pub number: u8,
    /// Requested role.
    pub role: Role,
    /// Whether it requests to take over the player's role.
    pub take_over: bool,
    /// Impairments of datagrams from the host. The schedule starts with the connection.
    pub down: ImpairmentSchedule,
    /// Impairments of datagrams to the host. The schedule starts with the connection.
    pub up: ImpairmentSchedule,
    /// Discipline of the bottleneck's queue in both directions.
    pub discipline: Discipline,
    /// The device's clock.
    pub clock: Clock,
    /// Scheduling of the device's threads.
    pub wakeups: Wakeups,
    /// Whether the device's kernel timestamps received datagrams.
    pub stamps: bool,
    /// Whether the device plays audio.
    pub with_audio: bool,
    /// Whether the device shows two views.
    pub two_views: bool,
}

impl Device {
    /// A device on a perfect link, with clock offset and drift.
    #[must_use]
    pub fn new(number: u8, role: Role) -> Device {
        Device {
            number,
            role,
            take_over: false,
            down: ImpairmentSchedule::default(),
            up: ImpairmentSchedule::default(),
            discipline: Discipline::default(),
            wakeups: Wakeups::default(),
            stamps: true,
            with_audio: false,
            two_views: false,
            clock: Clock {
                offset: 7_000_000_000_000 * i64::from(number),
                ppm: 40 - 30 * i64::from(number),
            },
        }
    }

    /// The requested streams.
    pub(super) fn streams(&self) -> Vec<StreamOffer> {
        let sound = self.with_audio.then_some(tone::OFFER);
        let views = self.two_views.then(two_views);
        sound.into_iter().chain(views).collect()
    }

    /// Sets the same impairment in both directions.
    #[must_use]
    pub fn behind(self, link: &Impairment) -> Device {
        self.over(link.into())
    }

    /// Sets the discipline of the bottleneck's queue.
    #[must_use]
    pub fn queued_by(mut self, discipline: Discipline) -> Device {
        self.discipline = discipline;
        self
    }

    /// Sets the same schedule of impairments in both directions. The schedule starts with the connection.
    #[must_use]
    pub fn over(mut self, schedule: ImpairmentSchedule) -> Device {
        self.up = schedule.clone();
        self.down = schedule;
        self
    }
}
