//! Google congestion control (draft-ietf-rmcat-gcc-02): a delay-based and a loss-based controller. The lower of their
//! two rates applies.
//!
//! A Kalman filter estimates the delay gradient of groups of datagrams, and an overuse detector compares the gradient
//! with a threshold ([`arrival`]). The result drives a state machine that increases, holds or decreases the rate.

mod arrival;

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_proto::send::congestion::Range;
use openuvr_proto::time::Instant;
use openuvr_proto::units::Bitrate;

use super::{Controller, FrameReport, bitrate};
use arrival::{Arrival, Usage};

/// Factor of the increase per second far from convergence, and factor of the received rate at a decrease (section 5.5).
const ETA: f64 = 1.08;
const BETA: f64 = 0.85;
/// The rate is at most this multiple of the received rate (section 5.5).
const MOST_OF_RECEIVED: f64 = 1.5;
/// The window in which the received rate is measured (section 5.5: 0.5 to 1 s).
const RECEIVED_WINDOW: Duration = Duration::from_millis(500);
/// Weight of a new value in the average of the received rate at decreases (section 5.5).
const AVERAGE: f64 = 0.05;
/// A received rate is near convergence if it is within this number of standard deviations of the average (section 5.5).
const NEAR: f64 = 3.0;
/// Response time in addition to the round trip (section 5.5).
const RESPONSE: Duration = Duration::from_millis(100);
/// Packet size and frame rate of the additive increase (section 5.5).
const PACKET_BITS: f64 = 1200.0 * 8.0;
const FRAMES: f64 = 30.0;
/// The loss-based controller increases the rate below the first share of losses, and decreases it above the second. The
/// third value is the factor of an increase (section 6).
const LOW_LOSS: f64 = 0.02;
const HIGH_LOSS: f64 = 0.1;
const LOSS_GROWTH: f64 = 1.05;
/// Interval between updates of the loss-based controller (guess: the interval of RTCP reports at this rate).
const LOSS_EVERY: Duration = Duration::from_secs(1);
/// The pacing rate relative to the target (WebRTC's pacer).
const PACING: f64 = 2.5;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// The controller.
#[derive(Debug)]
pub(super) struct Gcc {
    range: Range,
    arrival: Arrival,
    state: State,
    by_delay: f64,
    by_loss: f64,
    updated: Option<Instant>,
    /// Arrival times and sizes in bytes of the received datagrams.
    received: VecDeque<(Instant, usize)>,
    /// Mean and variance of the received rate at decreases.
    converged: Option<(f64, f64)>,
    round_trip: Duration,
    /// Numbers of lost and of all datagrams since the last update of the loss-based controller.
    lost: (usize, usize),
    loss_updated: Option<Instant>,
}

impl Gcc {
    pub(super) fn new(range: Range) -> Gcc {
        let start = range.start.0 as f64;
        Gcc {
            range,
            arrival: Arrival::default(),
            state: State::Increase,
            by_delay: start,
            by_loss: start,
            updated: None,
            received: VecDeque::new(),
            converged: None,
            round_trip: Duration::ZERO,
            lost: (0, 0),
            loss_updated: None,
        }
    }

    fn limited(&self, rate: f64) -> f64 {
        rate.clamp(self.range.min.0 as f64, self.range.max.0 as f64)
    }

    /// The received rate in bits per second; `None` before half a window has passed.
    fn received_rate(&mut self) -> Option<f64> {
        let (newest, _) = *self.received.back()?;
        while let Some((at, _)) = self.received.front()
            && newest.since(*at) > RECEIVED_WINDOW
        {
            self.received.pop_front();
        }
        let bytes: usize = self.received.iter().map(|(_, bytes)| bytes).sum();
        let (oldest, _) = self.received.front()?;
        let window = newest.since(*oldest);
        (window >= RECEIVED_WINDOW / 2).then(|| bytes as f64 * 8.0 / window.as_secs_f64())
    }

    /// The delay-based controller (section 5.5).
    fn control_delay(&mut self, now: Instant, usage: Usage) {
        let since = self
            .updated
            .replace(now)
            .map_or(0.0, |last| now.since(last).as_secs_f64().min(1.0));
        self.state = match (usage, self.state) {
            (Usage::Over, _) => State::Decrease,
            (Usage::Under, _) | (Usage::Normal, State::Decrease) => State::Hold,
            (Usage::Normal, State::Hold | State::Increase) => State::Increase,
        };
        let received = self.received_rate();
        match self.state {
            State::Hold => {}
            State::Increase => self.increase(since, received),
            State::Decrease => {
                let Some(received) = received else { return };
                self.note_convergence(received);
                self.by_delay = (BETA * received).min(self.by_delay);
            }
        }
        self.by_delay = self.limited(self.by_delay);
    }

    fn increase(&mut self, since: f64, received: Option<f64>) {
        let near = received
            .zip(self.converged)
            .is_some_and(|(received, (mean, variance))| {
                let within = NEAR * variance.sqrt();
                if received > mean + within {
                    // The link has become faster, so the previous estimate of its capacity no longer applies.
                    self.converged = None;
                }
                (received - mean).abs() <= within
            });
        self.by_delay = if near {
            let response = (RESPONSE + self.round_trip).as_secs_f64();
            let frame = self.by_delay / FRAMES;
            let packet = frame / (frame / PACKET_BITS).ceil().max(1.0);
            self.by_delay + (0.5 * (since / response).min(1.0) * packet).max(1000.0 * since)
        } else {
            self.by_delay * ETA.powf(since)
        };
        if let Some(received) = received {
            let most = MOST_OF_RECEIVED * received;
            self.by_delay = self.by_delay.min(most.max(self.range.min.0 as f64));
        }
    }

    fn note_convergence(&mut self, received: f64) {
        let (mean, variance) = self
            .converged
            .unwrap_or((received, (received * 0.05).powi(2)));
        let off = received - mean;
        self.converged = Some((
            mean + AVERAGE * off,
            (1.0 - AVERAGE) * (variance + AVERAGE * off * off),
        ));
    }

    /// The loss-based controller (section 6).
    fn control_loss(&mut self, now: Instant) {
        let last = *self.loss_updated.get_or_insert(now);
        let (lost, all) = self.lost;
        if now.since(last) < LOSS_EVERY || all == 0 {
            return;
        }
        let share = lost as f64 / all as f64;
        if share > HIGH_LOSS {
            self.by_loss *= 1.0 - 0.5 * share;
        } else if share < LOW_LOSS {
            self.by_loss *= LOSS_GROWTH;
        }
        self.by_loss = self.limited(self.by_loss);
        self.loss_updated = Some(now);
        self.lost = (0, 0);
    }
}

impl Controller for Gcc {
    fn target(&self) -> Bitrate {
        bitrate(self.by_delay.min(self.by_loss))
    }

    fn pacing(&self, _: Instant) -> Option<Bitrate> {
        Some(bitrate(self.by_delay.min(self.by_loss) * PACING))
    }

    fn on_report(&mut self, now: Instant, report: &FrameReport<'_>) {
        for one in report.datagrams {
            self.lost.1 += 1;
            let Some(arrived) = one.arrived else {
                self.lost.0 += 1;
                continue;
            };
            self.round_trip = report.round_trip(now, one).unwrap_or(self.round_trip);
            self.received.push_back((arrived, one.bytes));
            self.arrival.on_datagram(one.sent, arrived);
        }
        self.control_delay(now, self.arrival.usage());
        self.control_loss(now);
        // The loss-based rate stays near the delay-based rate, so that losses take effect soon.
        self.by_loss = self
            .by_loss
            .min(self.limited(self.by_delay * MOST_OF_RECEIVED));
    }
}
