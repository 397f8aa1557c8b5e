//! Scheduling of a machine's threads, which are stalled while other work occupies its cores.

use std::time::Duration;

use openuvr_proto::time::Instant;

/// Periodic occupation of all cores of a machine by other programs, such as a build or a real-time loop.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// The period. There is one stall in each period, and its start within the period varies.
    pub every: Duration,
    /// Duration.
    pub lasts: Duration,
}

/// The wake-ups of one machine, which are punctual unless stalled.
#[derive(Clone, Debug, Default)]
pub struct Wakeups {
    stalls: Vec<Stall>,
    /// Start and end of the interval in which stalls occur; `None` if they occur at all times.
    within: Option<(Instant, Instant)>,
}

impl Wakeups {
    /// Wake-ups delayed by these stalls.
    #[must_use]
    pub fn stalled_by(stalls: &[Stall]) -> Wakeups {
        Wakeups {
            stalls: stalls.to_vec(),
            within: None,
        }
    }

    /// Limits the stalls to this interval of the world's clock.
    #[must_use]
    pub fn within(self, from: Instant, until: Instant) -> Wakeups {
        Wakeups {
            within: Some((from, until)),
            ..self
        }
    }

    /// When a thread that is due at `at` actually runs.
    pub(super) fn runs_at(&self, mut at: Instant) -> Instant {
        // Stalls may follow one another.
        while let Some(end) = self.stalls.iter().find_map(|stall| self.end(stall, at)) {
            at = end;
        }
        at
    }

    /// Whether threads run at `now`.
    pub(super) fn runs(&self, now: Instant) -> bool {
        self.runs_at(now) == now
    }

    /// The end of the stall in effect at `at`.
    fn end(&self, stall: &Stall, at: Instant) -> Option<Instant> {
        let (every, lasts) = (nanos(stall.every), nanos(stall.lasts));
        let period = at.0.div_euclid(every);
        // A multiplicative hash (Knuth, The Art of Computer Programming, 6.4) spreads the phases.
        let place = (period.wrapping_mul(2_654_435_761) >> 7).rem_euclid(every - lasts);
        let begin = period * every + place;
        let inside = (begin..begin + lasts).contains(&at.0);
        let allowed = (self.within).is_none_or(|(from, until)| (from..until).contains(&at));
        (inside && allowed).then_some(Instant(begin + lasts))
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
