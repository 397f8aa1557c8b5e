//! Derives the amount of parity of a frame from the loss that the client reports.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use openuvr_runtime::lock::lock;

/// Parity in percent of data when there is no loss. At 10 Mb/s, a frame usually has twenty packets and gets two parity
/// packets, which repair the single losses of a good network. Other hosts of this protocol send twenty percent by
/// default, whatever the loss.
const BASE: f64 = 10.0;

/// Percent of parity for each percent of loss. At 5 % loss and 30 % parity, fewer than one in a thousand frames of
/// twenty packets are lost (binomial distribution of 26 packets).
const FACTOR: f64 = 4.0;

/// Maximum parity in percent (a guess: on a full link, more parity causes more losses than it repairs).
const MOST: f64 = 50.0;

/// Time without losses in which the estimate halves.
const HALF_LIFE: Duration = Duration::from_secs(5);

/// A client's report on a block of packets with losses. Clients report only blocks with losses (`reportFinalFrameFecStatus`
/// of moonlight-common-c).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FecStatus {
    /// Lost packets, both data and parity.
    pub lost: u16,
}

/// The estimate of the loss.
#[derive(Debug)]
pub struct Redundancy(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Datagrams sent and lost. Recent ones weigh more.
    sent: f64,
    lost: f64,
    at: Instant,
}

impl Redundancy {
    /// The initial estimate, without loss.
    #[must_use]
    pub fn new(now: Instant) -> Redundancy {
        Redundancy(Mutex::new(State {
            sent: 0.0,
            lost: 0.0,
            at: now,
        }))
    }

    /// Adds a number of sent packets.
    pub fn sent(&self, now: Instant, packets: u32) {
        let mut state = lock(&self.0);
        state.decay(now);
        state.sent += f64::from(packets);
    }

    /// Adds a client's report.
    pub fn reported(&self, now: Instant, status: FecStatus) {
        let mut state = lock(&self.0);
        state.decay(now);
        // Reports of more lost packets than were sent are limited to the number of sent packets.
        let lost = f64::from(status.lost);
        state.lost = (state.lost + lost).min(state.sent);
    }

    /// The lost fraction of datagrams, 0 to 1.
    #[must_use]
    pub fn loss(&self, now: Instant) -> f64 {
        let mut state = lock(&self.0);
        state.decay(now);
        match state.sent >= 1.0 {
            true => state.lost / state.sent,
            false => 0.0,
        }
    }

    /// Parity in percent of data.
    #[must_use]
    pub fn percent(&self, now: Instant) -> u8 {
        let percent = (BASE + FACTOR * 100.0 * self.loss(now)).min(MOST);
        // Between `BASE` and `MOST`.
        #[expect(clippy::cast_possible_truncation, reason = "at most 50")]
        #[expect(clippy::cast_sign_loss, reason = "at least 10")]
        let percent = percent.round() as u8;
        percent
    }
}

impl State {
    fn decay(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        let keep = 0.5_f64.powf(passed.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.sent *= keep;
        self.lost *= keep;
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parity_follows_the_loss_up_and_down() {
        let start = Instant::now();
        let redundancy = Redundancy::new(start);
        assert_eq!(redundancy.percent(start), 10);
        let mut now = start;
        for _ in 0..100 {
            now += Duration::from_millis(20);
            redundancy.sent(now, 20);
            redundancy.reported(now, FecStatus { lost: 1 });
        }
        assert!((0.045..0.055).contains(&redundancy.loss(now)));
        assert!((28..=32).contains(&redundancy.percent(now)));
        for _ in 0..3000 {
            now += Duration::from_millis(20);
            redundancy.sent(now, 20);
        }
        assert_eq!(redundancy.percent(now), 10);
    }

    #[test]
    fn absurd_reports_are_bounded() {
        let now = Instant::now();
        let redundancy = Redundancy::new(now);
        redundancy.sent(now, 10);
        for _ in 0..100 {
            redundancy.reported(now, FecStatus { lost: u16::MAX });
        }
        assert!(redundancy.loss(now) <= 1.0);
        assert_eq!(redundancy.percent(now), 50);
    }
}
