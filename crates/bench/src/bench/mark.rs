//! What a study claims, and what became of it: what all studies have in common.

use super::data::Data;

/// A figure of a paper: its place, what it claims, how that is judged (`None` without data), and the
/// command that measures it.
pub(super) type Claim = (
    &'static str,
    &'static str,
    fn(&Data) -> Option<(Mark, String)>,
    &'static str,
);

/// What became of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    Reproduced,
    Refuted,
    /// It was measured, and the data does not tell: noise, one run, a quick one, a busy machine.
    Undecided,
    /// What it needs is not here: a radio, a graphics card, a privilege.
    NotTestable,
    /// The bench has not run, or not this part.
    NotMeasured,
}

impl Mark {
    pub(super) fn words(self) -> &'static str {
        match self {
            Mark::Reproduced => "reproduced",
            Mark::Refuted => "refuted here",
            Mark::Undecided => "undecided",
            Mark::NotTestable => "not testable here",
            Mark::NotMeasured => "not measured",
        }
    }
}

/// Of what was measured without a doubt.
pub(super) fn holds(claim: bool) -> Mark {
    if claim {
        Mark::Reproduced
    } else {
        Mark::Refuted
    }
}

/// The same of measurements with a range: `all` of it bears the claim out, or `some` could.
pub(super) fn holds_of(all: bool, some: bool) -> Mark {
    match (all, some) {
        (true, _) => Mark::Reproduced,
        (false, false) => Mark::Refuted,
        (false, true) => Mark::Undecided,
    }
}
