//! A device that connects to the world's host.

use openuvr_proto::control::negotiate::Role;

use super::Clock;
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
            clock: Clock {
                offset: 7_000_000_000_000 * i64::from(number),
                ppm: 40 - 30 * i64::from(number),
            },
        }
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
