//! The host as a service of systemd, or of another manager that uses sd_notify(3): reports start and end, and serves the
//! watchdog (`WatchdogSec=` of the unit). Without a service manager, nothing is sent.

use std::time::Duration;

use openuvr_proto::time::Instant;
use sd_notify::NotifyState;

/// How many messages the watchdog gets per time limit. With four, one late answer of a thread does not end the host.
const MESSAGES_PER_LIMIT: u32 = 4;

/// The service manager of this process, if there is one.
pub(super) struct ServiceManager {
    /// The interval of the watchdog's messages; `None` if the manager expects none.
    interval: Option<Duration>,
    next: Instant,
    /// Whether a hanging thread has been reported.
    reported: bool,
}

impl ServiceManager {
    /// Reports that the host has started.
    pub(super) fn ready(now: Instant) -> ServiceManager {
        if let Err(why) = sd_notify::notify(&[NotifyState::Ready]) {
            eprintln!(
                "openuvr host: can't report the start to the service manager: {why}; it will end the host, unless its \
                 unit has Type=exec"
            );
        }
        ServiceManager {
            interval: sd_notify::watchdog_enabled().map(|limit| limit / MESSAGES_PER_LIMIT),
            next: now,
            reported: false,
        }
    }

    /// Sends the watchdog's message if it is due and no thread hangs. `hanging_thread` returns the name of a hanging
    /// thread.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        hanging_thread: impl FnOnce() -> Option<&'static str>,
    ) {
        let Some(interval) = self.interval.filter(|_| now >= self.next) else {
            return;
        };
        self.next = now + interval;
        match hanging_thread() {
            None => {
                self.reported = false;
                // If messages stay away, the manager itself reports it and restarts the host.
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
            Some(name) if !self.reported => {
                self.reported = true;
                eprintln!(
                    "openuvr host: the {name} thread does not respond; if this continues, the service manager restarts \
                     the host"
                );
            }
            Some(_) => {}
        }
    }

    /// Reports that the host is ending.
    pub(super) fn stopping(&self) {
        // The manager also notices the end of the process.
        let _ = sd_notify::notify(&[NotifyState::Stopping]);
    }
}
