//! The refresh timing of an X display, from the Present extension.
//!
//! A separate connection requests vertical blanks of the screen (`PresentNotifyMSC`) and receives their times and
//! numbers (`PresentCompleteNotify`: UST in microseconds, MSC). X.Org's servers take UST from `CLOCK_MONOTONIC`. The
//! protocol does not guarantee this, so UST is compared with our clock. A linear regression over the newest blanks
//! gives the display's period and phase.
//!
//! This module presents nothing, and does not detect the window's monitor: the server reports the timing of the monitor
//! that shows most of the screen.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::display::RefreshTiming;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::errors::ReplyOrIdError;
use x11rb::protocol::Event;
use x11rb::protocol::present::{self, ConnectionExt as _};
use x11rb::protocol::xproto::Window;
use x11rb::rust_connection::RustConnection;

use crate::display;

/// Number of blanks for the regression: at 60 Hz, they span six seconds, because every sixth blank is requested.
const MAX_BLANKS: usize = 64;

/// Minimum number of blanks.
const MIN_BLANKS: usize = 16;

/// Distance in blanks between two requested blanks. At 60 Hz, ten blanks per second are requested, which is enough.
const REQUEST_INTERVAL: u64 = 6;

/// Maximum age of a blank on receipt. The time of an older blank is assumed to come from a different clock.
const MAX_AGE: Duration = Duration::from_millis(500);

/// Timeout after which a blank is requested again, in case the screen was switched off or the blank counter was reset.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Valid refresh periods in ns.
const PERIODS: std::ops::RangeInclusive<f64> = 1e6..=1e8;

/// The refresh timing of an X screen.
pub struct DisplayPhase {
    conn: RustConnection,
    root: Window,
    blanks: Blanks,
    /// The pending request, and the time at which it was sent.
    pending: Option<(u32, Instant)>,
    serial: u32,
    /// The last reported blank.
    newest: Option<u64>,
}

impl DisplayPhase {
    /// Opens a connection to `display`; `None` if its server lacks the Present extension.
    ///
    /// # Errors
    /// Returns one line if the display can't be reached.
    pub fn open(display: &str) -> Result<Option<DisplayPhase>, String> {
        let (conn, screen) = display::connect(display)?;
        let Some(root) = conn.setup().roots.get(screen).map(|screen| screen.root) else {
            return Err(format!("display {display} has no screen {screen}"));
        };
        let selected: Result<bool, ReplyOrIdError> = (|| {
            let name = present::X11_EXTENSION_NAME;
            if conn.extension_information(name)?.is_none() {
                return Ok(false);
            }
            conn.present_query_version(1, 0)?.reply()?;
            let mask = present::EventMask::COMPLETE_NOTIFY;
            conn.present_select_input(conn.generate_id()?, root, mask)?;
            Ok(true)
        })();
        let there = selected.map_err(|cause| {
            format!("can't read the refresh times of display {display}: {cause}")
        })?;
        Ok(there.then(|| DisplayPhase {
            conn,
            root,
            blanks: Blanks::default(),
            pending: None,
            serial: 0,
            newest: None,
        }))
    }

    /// Waits for a blank, at most `timeout`. Returns the current refresh timing on the monotonic
    /// clock. `None` while there are too few blanks or their times are inconsistent.
    ///
    /// # Errors
    /// Returns one line if the display is gone.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<RefreshTiming<Instant>>, String> {
        let gone = |cause: String| format!("the display is gone: {cause}");
        let now = clock::now();
        if self
            .pending
            .is_none_or(|(_, since)| now.since(since) > REQUEST_TIMEOUT)
        {
            self.request_vblank(now).map_err(gone)?;
        }
        let mut ready = [PollFd::new(self.conn.stream(), PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).unwrap_or_default();
        match poll(&mut ready, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(gone(cause.to_string())),
        }
        let event = |conn: &RustConnection| conn.poll_for_event().map_err(|e| gone(e.to_string()));
        while let Some(event) = event(&self.conn)? {
            self.on_event(&event, clock::now());
        }
        Ok(self.blanks.refresh())
    }

    fn request_vblank(&mut self, now: Instant) -> Result<(), String> {
        // Requests the blank that is [`REQUEST_INTERVAL`] after the newest one. If the newest blank is unknown or the
        // request has timed out, requests the next blank.
        let newest = self.newest.take();
        let target = newest.map_or(0, |newest| newest.saturating_add(REQUEST_INTERVAL));
        let divisor = u64::from(newest.is_none());
        self.serial = self.serial.wrapping_add(1);
        let pending = self
            .conn
            .present_notify_msc(self.root, self.serial, target, divisor, 0);
        pending.map_err(|e| e.to_string())?;
        self.conn.flush().map_err(|e| e.to_string())?;
        self.pending = Some((self.serial, now));
        Ok(())
    }

    fn on_event(&mut self, event: &Event, now: Instant) {
        let Event::PresentCompleteNotify(blank) = event else {
            return;
        };
        let ours = self
            .pending
            .is_some_and(|(serial, _)| serial == blank.serial);
        if blank.kind != present::CompleteKind::NOTIFY_MSC || !ours {
            return;
        }
        self.pending = None;
        self.newest = Some(blank.msc);
        let nanos = i64::try_from(blank.ust)
            .ok()
            .and_then(|us| us.checked_mul(1000));
        self.blanks.saw(blank.msc, nanos.map(Instant), now);
    }
}

/// The newest vertical blanks: their numbers and times.
#[derive(Default)]
struct Blanks(VecDeque<(u64, Instant)>);

impl Blanks {
    /// Adds the blank `number` at the time `at`, received at `now`.
    fn saw(&mut self, number: u64, at: Option<Instant>, now: Instant) {
        // The server rounds times, so they may be slightly in the future.
        let at = at.filter(|at| now.since(*at) <= MAX_AGE && at.since(now) <= MAX_AGE / 100);
        let newer = |last: &(u64, Instant), at: Instant| last.0 < number && last.1 < at;
        let follows = at.is_some_and(|at| self.0.back().is_none_or(|last| newer(last, at)));
        if !follows {
            self.0.clear();
        }
        if self.0.len() == MAX_BLANKS {
            self.0.pop_front();
        }
        self.0.extend(at.map(|at| (number, at)));
    }

    /// The regression line, if there are enough points close to it.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "spans of seconds"
    )]
    fn refresh(&self) -> Option<RefreshTiming<Instant>> {
        if self.0.len() < MIN_BLANKS {
            return None;
        }
        // The numbers are relative to the newest blank, for precision.
        let (number, at) = *self.0.back()?;
        let relative = |&(n, t): &(u64, Instant)| (-((number - n) as f64), (t.0 - at.0) as f64);
        let mut points: Vec<(f64, f64)> = self.0.iter().map(relative).collect();
        let off =
            |line: (f64, f64), point: &(f64, f64)| (line.0 + line.1 * point.0 - point.1).abs();
        // Virtual displays report a blank when a timer fires, sometimes late. The points farthest from the line are
        // therefore dropped.
        let first = line(&points)?;
        points.sort_by(|a, b| off(first, a).total_cmp(&off(first, b)));
        points.truncate(points.len() * 3 / 4);
        let (phase, period) = line(&points)?;
        let close = |point| off((phase, period), point) < period / 8.0;
        (PERIODS.contains(&period) && points.iter().all(close)).then(|| RefreshTiming {
            phase: Instant(at.0 + phase as i64),
            period: Duration::from_nanos(period as u64),
        })
    }
}

/// Linear regression: the value at 0, and the slope.
#[allow(clippy::cast_precision_loss, reason = "a few points")]
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let across: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let both: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let slope = both / across;
    slope.is_finite().then_some((y - slope * x, slope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openuvr_xserver::fixture;

    /// Blanks of a 60 Hz display, each reported with this delay in microseconds.
    fn blanks(late: impl Fn(u64) -> i64) -> Blanks {
        let mut blanks = Blanks::default();
        for n in 1..=40 {
            let at = Instant(5_000_000 + n as i64 * 100_000_000 + late(n) * 1000);
            blanks.saw(n * 6, Some(at), at);
        }
        blanks
    }

    #[test]
    fn regression_gives_period_and_phase() {
        let refresh = blanks(|_| 0).refresh().expect("enough");
        assert!(
            refresh.period.abs_diff(Duration::from_nanos(16_666_667)) < Duration::from_nanos(2)
        );
        assert!((refresh.phase.0 - 4_005_000_000).abs() < 1000);
        // One late blank in eight changes little.
        let late = blanks(|n| if n % 8 == 3 { 9000 } else { 0 })
            .refresh()
            .expect("enough");
        assert!(late.period.abs_diff(refresh.period) < Duration::from_micros(5));
        assert!((late.phase.0 - refresh.phase.0).abs() < 500_000);
    }

    #[test]
    fn inconsistent_timestamps_give_no_phase() {
        // The delays vary irregularly from 0 to 48 ms.
        let anyhow = |n: u64| (n * 7919 % 13) as i64 * 4000;
        assert_eq!(blanks(anyhow).refresh(), None);
        let at = |ms: i64| Instant(ms * 1_000_000);
        // The test cases are another clock, too few blanks, a reset counter, and a display that is switched off (1 Hz).
        let mut other_clock = blanks(|_| 0);
        other_clock.saw(1000, Some(at(90_000)), at(4_200));
        assert_eq!(other_clock.refresh(), None);
        other_clock.saw(1006, Some(at(4_300)), at(4_300));
        assert_eq!(other_clock.refresh(), None);
        let mut reset = blanks(|_| 0);
        reset.saw(3, Some(at(4_200)), at(4_200));
        assert_eq!(reset.refresh(), None);
        let mut off = Blanks::default();
        for n in 1..=40 {
            off.saw(n, Some(at(n as i64 * 1000)), at(n as i64 * 1000));
        }
        assert_eq!(off.refresh(), None);
    }

    #[test]
    fn a_virtual_screen_has_sixty_refreshes_a_second() {
        let Some(xvfb) = fixture::xvfb("320x200", &[]) else {
            return;
        };
        let phase = DisplayPhase::open(&xvfb.display).expect("Xvfb runs");
        let mut phase = phase.expect("Xvfb has Present");
        // On a busy machine, it takes a while until several consecutive blanks are reported in time.
        let refresh =
            (0..3000).find_map(|_| phase.next(Duration::from_millis(100)).expect("it runs"));
        let refresh = refresh.expect("blanks are reported");
        let usual = Duration::from_nanos(16_666_667);
        assert!(refresh.period.abs_diff(usual) < usual / 20, "{refresh:?}");
    }
}
