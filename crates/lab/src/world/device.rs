//! A device that connects to the world's host.

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::streams::StreamOffer;

use super::clock::Clock;
use super::wakeups::Wakeups;
use super::{tone, two_views};
use crate::link::Impairment;
use crate::schedule::ImpairmentSchedule;

/// A device that connects, and the link to it.
#[derive(Clone, Debug)]
pub struct Device {
    /// Which device: its key and address. One that connects again replaces its own session.
    pub number: u8,
    /// What it asks for.
    pub role: Role,
    /// Whether it wants to take the player's role over.
    pub take_over: bool,
    /// What the link does to datagrams from the host, from the connection on.
    pub down: ImpairmentSchedule,
    /// What it does to datagrams to the host.
    pub up: ImpairmentSchedule,
    /// Its clock.
    pub clock: Clock,
    /// When its threads run.
    pub wakeups: Wakeups,
    /// Whether its kernel stamps what arrives.
    pub stamps: bool,
    /// Whether it plays sound.
    pub hears: bool,
    /// Whether it shows two views.
    pub sees_both: bool,
}

impl Device {
    /// A device on a perfect link whose clock is off and drifts.
    #[must_use]
    pub fn new(number: u8, role: Role) -> Device {
        Device {
            number,
            role,
            take_over: false,
            down: ImpairmentSchedule::default(),
            up: ImpairmentSchedule::default(),
            wakeups: Wakeups::default(),
            stamps: true,
            hears: false,
            sees_both: false,
            clock: Clock {
                offset: 7_000_000_000_000 * i64::from(number),
                ppm: 40 - 30 * i64::from(number),
            },
        }
    }

    /// The streams that it asks for.
    pub(super) fn streams(&self) -> Vec<StreamOffer> {
        let sound = self.hears.then_some(tone::OFFER);
        let views = self.sees_both.then(two_views);
        sound.into_iter().chain(views).collect()
    }

    /// The same impairment both ways.
    #[must_use]
    pub fn behind(self, link: &Impairment) -> Device {
        self.over(link.into())
    }

    /// The same course of impairments both ways; it begins with the connection.
    #[must_use]
    pub fn over(mut self, schedule: ImpairmentSchedule) -> Device {
        self.up = schedule.clone();
        self.down = schedule;
        self
    }
}
