//! Claims of a study and the verdicts on them: shared by all studies.

use super::data::Data;

/// A figure of a paper: its place, what it claims, how that is judged (`None` without data), and the
/// command that measures it.
pub(super) type Claim = (
    &'static str,
    &'static str,
    fn(&Data) -> Option<(Mark, String)>,
    &'static str,
);

/// The verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    Reproduced,
    NotReproduced,
    /// Measured, but the data does not suffice: noise, a single or quick run, a busy machine.
    Inconclusive,
    /// A prerequisite is missing: a radio, a graphics card, a privilege.
    NotTestable,
    /// The bench, or this part of it, has not run.
    NotMeasured,
}

impl Mark {
    pub(super) fn words(self) -> &'static str {
        match self {
            Mark::Reproduced => "reproduced",
            Mark::NotReproduced => "not reproduced",
            Mark::Inconclusive => "inconclusive",
            Mark::NotTestable => "not testable here",
            Mark::NotMeasured => "not measured",
        }
    }
}

/// The verdict of a measurement without uncertainty.
pub(super) fn holds(claim: bool) -> Mark {
    if claim {
        Mark::Reproduced
    } else {
        Mark::NotReproduced
    }
}

/// The verdict of measurements with a range: `all` of it, or `some` of it, supports the claim.
pub(super) fn holds_of(all: bool, some: bool) -> Mark {
    match (all, some) {
        (true, _) => Mark::Reproduced,
        (false, false) => Mark::NotReproduced,
        (false, true) => Mark::Inconclusive,
    }
}
