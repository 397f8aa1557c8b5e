//! The use of ECT(1) in the player's datagrams, and the check that the path preserves the ECN field.
//!
//! A sender may use ECT(1) only while its congestion control is scalable (RFC 9331, section 4.3), so it needs the
//! client's counts of ECN fields. Datagrams carry ECT(1) after the first report that contains counts. Some networks
//! clear the field or replace ECT(1) by ECT(0). No mark of an L4S queue can then arrive. The sender detects such a
//! network from the counts and no longer sends ECT(1).

use serde::{Deserialize, Serialize};

use crate::control_event::L4sChange;
use crate::ecn::{Ecn, EcnCounts};
use crate::id::FrameId;

/// The setting of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum L4sMode {
    /// ECT(1) on each path that preserves the ECN field, after the first counts.
    Auto,
    /// ECT(1) on each path after the first counts, even if the path changes the field. For measurements.
    On,
    /// Never ECT(1).
    #[default]
    Off,
}

/// Number of datagrams after which the counts are evaluated (guess): about six frames at 10 Mb/s and 60 frames/s. The
/// sample algorithm for QUIC tests ten packets (RFC 9000, appendix A.4).
const SAMPLE: u32 = 100;

/// Use of ECT(1) on the player's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No report with counts has arrived yet.
    Waiting,
    /// Datagrams carry ECT(1), from this frame on (`None`: from the next frame on).
    Marking(Option<FrameId>),
    /// The path does not preserve the field.
    Unusable,
}

/// Decides whether the player's datagrams carry ECT(1). Sans-I/O; owned by the policy of a rendition.
#[derive(Clone, Copy, Debug)]
pub struct L4s {
    mode: L4sMode,
    state: State,
    /// Datagram counts since the last evaluation, for frames that were sent with ECT(1): all datagrams, those that
    /// arrived with ECT(1) or CE, and those that arrived with ECT(0).
    counted: (u32, u32, u32),
    /// With [`L4sMode::On`]: whether the path was reported as unusable.
    reported: bool,
}

impl L4s {
    /// The state for a new path.
    #[must_use]
    pub fn new(mode: L4sMode) -> L4s {
        L4s {
            mode,
            state: State::Waiting,
            counted: (0, 0, 0),
            reported: false,
        }
    }

    /// Restarts on a new path.
    pub fn path_changed(&mut self) {
        *self = L4s::new(self.mode);
    }

    /// The ECN field of the datagrams of `frame`, which starts now.
    pub fn mark(&mut self, frame: FrameId) -> Ecn {
        let marks = match &mut self.state {
            State::Marking(since) => {
                since.get_or_insert(frame);
                true
            }
            State::Unusable | State::Waiting => false,
        };
        if marks { Ecn::Ect1 } else { Ecn::NotEct }
    }

    /// Handles the counts of the report on `frame`. Returns a change of the use of ECT(1).
    pub fn on_report(&mut self, frame: FrameId, counts: &EcnCounts) -> Option<L4sChange> {
        if self.mode == L4sMode::Off {
            return None;
        }
        match self.state {
            State::Waiting => {
                self.state = State::Marking(None);
                Some(L4sChange::Started)
            }
            State::Marking(Some(since)) if frame > since => self.evaluate(counts),
            State::Marking(_) | State::Unusable => None,
        }
    }

    /// Whether the counts of the report on `frame` cover only datagrams that were sent with ECT(1).
    #[must_use]
    pub fn covers(&self, frame: FrameId) -> bool {
        matches!(self.state, State::Marking(Some(since)) if frame > since)
    }

    /// Checks that at least half of the datagrams arrived with ECT(1) or CE.
    fn evaluate(&mut self, counts: &EcnCounts) -> Option<L4sChange> {
        self.counted.0 += counts.total();
        self.counted.1 += u32::from(counts.ect1) + u32::from(counts.ce);
        self.counted.2 += u32::from(counts.ect0);
        let (all, kept, remarked) = self.counted;
        if all < SAMPLE {
            return None;
        }
        self.counted = (0, 0, 0);
        if kept * 2 >= all {
            return None;
        }
        if self.mode == L4sMode::Auto {
            self.state = State::Unusable;
        } else if std::mem::replace(&mut self.reported, true) {
            return None;
        }
        match remarked * 2 >= all {
            true => Some(L4sChange::Remarked),
            false => Some(L4sChange::Bleached),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: EcnCounts = EcnCounts {
        not_ect: 0,
        ect1: 0,
        ect0: 0,
        ce: 0,
    };

    /// Sends and reports 100 frames of 20 datagrams each. `arrived` contains the counts that the client reports for a
    /// frame with ECT(1). Returns the changes, and the number of frames whose report contained these counts.
    fn run(l4s: &mut L4s, arrived: EcnCounts) -> (Vec<L4sChange>, usize) {
        let (mut changes, mut marked) = (Vec::new(), 0);
        for frame in (1..=100).map(FrameId) {
            let counts = match l4s.mark(frame) {
                Ecn::Ect1 => arrived,
                _ => EcnCounts {
                    not_ect: 20,
                    ..EMPTY
                },
            };
            marked += usize::from(counts == arrived);
            changes.extend(l4s.on_report(frame, &counts));
        }
        (changes, marked)
    }

    #[test]
    fn marking_starts_with_the_first_counts() {
        let mut l4s = L4s::new(L4sMode::Auto);
        for frame in (1..=100).map(FrameId) {
            assert_eq!(l4s.mark(frame), Ecn::NotEct, "an old client counts nothing");
        }
        let kept = EcnCounts { ect1: 20, ..EMPTY };
        let mut l4s = L4s::new(L4sMode::Auto);
        assert_eq!(run(&mut l4s, kept), (vec![L4sChange::Started], 99));
        assert_eq!(run(&mut L4s::new(L4sMode::Off), kept), (vec![], 0));
    }

    #[test]
    fn a_path_that_marks_all_datagrams_is_usable() {
        let all = EcnCounts { ce: 20, ..EMPTY };
        let mut l4s = L4s::new(L4sMode::Auto);
        assert_eq!(run(&mut l4s, all), (vec![L4sChange::Started], 99));
        assert!(l4s.covers(FrameId(100)) && !l4s.covers(FrameId(2)));
    }

    #[test]
    fn bleaching_and_remarking_end_the_marking() {
        let bleached = EcnCounts {
            not_ect: 20,
            ..EMPTY
        };
        let remarked = EcnCounts { ect0: 20, ..EMPTY };
        for (arrived, change) in [
            (remarked, L4sChange::Remarked),
            (bleached, L4sChange::Bleached),
        ] {
            let mut l4s = L4s::new(L4sMode::Auto);
            let (changes, _) = run(&mut l4s, arrived);
            assert_eq!(changes, [L4sChange::Started, change]);
            assert_eq!(l4s.mark(FrameId(101)), Ecn::NotEct);
            assert!(!l4s.covers(FrameId(101)));
            // A new path is tried again.
            l4s.path_changed();
            let kept = EcnCounts { ect1: 20, ..EMPTY };
            assert_eq!(run(&mut l4s, kept).0, [L4sChange::Started]);
        }
        let mut always = L4s::new(L4sMode::On);
        let (changes, marked) = run(&mut always, remarked);
        assert_eq!(changes, [L4sChange::Started, L4sChange::Remarked], "once");
        assert_eq!(marked, 99, "ECT(1) stays on request");
    }
}
