//! A link's schedule: successive impairments over the time of a run.
//!
//! A schedule is not random. The link model is in [`link`](crate::link), and the text that describes a schedule in
//! [`script`](crate::script).

use std::time::Duration;

use crate::impairment::Impairment;

/// Impairments, each with its start time relative to the start of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct ImpairmentSchedule {
    /// The first step starts at zero. Times are strictly increasing.
    steps: Vec<(Duration, Impairment)>,
}

/// A constant part of a schedule.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The impairment in effect.
    pub impairment: &'a Impairment,
    /// The end of the segment; `None` if it lasts until the end of the run.
    pub until: Option<Duration>,
}

impl ImpairmentSchedule {
    /// This schedule until `at`, then `impairment`.
    #[must_use]
    pub fn then(mut self, at: Duration, impairment: Impairment) -> ImpairmentSchedule {
        self.steps.retain(|(from, _)| *from < at);
        self.steps.push((at, impairment));
        self
    }

    /// The impairment in effect at `time`, and its end.
    #[must_use]
    pub fn segment_at(&self, time: Duration) -> Segment<'_> {
        let next = self.steps.partition_point(|(from, _)| *from <= time);
        Segment {
            impairment: &self.steps[next.max(1) - 1].1,
            until: self.steps.get(next.max(1)).map(|(from, _)| *from),
        }
    }

    /// All steps. The first one is at zero.
    #[must_use]
    pub fn steps(&self) -> &[(Duration, Impairment)] {
        &self.steps
    }

    /// The last impairment.
    #[must_use]
    pub fn last(&self) -> &Impairment {
        &self.steps[self.steps.len() - 1].1
    }
}

impl From<Impairment> for ImpairmentSchedule {
    /// A constant schedule.
    fn from(impairment: Impairment) -> ImpairmentSchedule {
        ImpairmentSchedule {
            steps: vec![(Duration::ZERO, impairment)],
        }
    }
}

impl From<&Impairment> for ImpairmentSchedule {
    fn from(impairment: &Impairment) -> ImpairmentSchedule {
        impairment.clone().into()
    }
}

impl Default for ImpairmentSchedule {
    /// A perfect link.
    fn default() -> ImpairmentSchedule {
        Impairment::default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_holds_from_its_time_to_the_next() {
        let losing = |loss| Impairment {
            loss,
            ..Impairment::default()
        };
        let second = Duration::from_secs(1);
        let schedule = ImpairmentSchedule::from(losing(0.1))
            .then(second, losing(0.2))
            .then(3 * second, losing(0.3));
        let at = |time| {
            let segment = schedule.segment_at(time);
            (segment.impairment.loss, segment.until)
        };
        assert_eq!(at(Duration::ZERO), (0.1, Some(second)));
        assert_eq!(at(second - Duration::from_nanos(1)), (0.1, Some(second)));
        assert_eq!(at(second), (0.2, Some(3 * second)));
        assert_eq!(at(4 * second), (0.3, None));
        // A new step replaces the steps that start at its time or later.
        let other = schedule.then(second, losing(0.4));
        assert_eq!(other.steps().len(), 2);
        assert_eq!(other.last().loss, 0.4);
        let all = other.then(Duration::ZERO, losing(0.5));
        assert_eq!(all, losing(0.5).into());
    }
}
