//! Frame reports that wait until the display reports when it showed the frame.
//!
//! The host gets each report at once, because its rate control and loss recovery depend on the reports. The application
//! gets the report later, with the stage Presented, in the order of the frames.

use std::collections::VecDeque;

use openuvr_proto::id::FrameId;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::Outcome;
use openuvr_proto::wire::control::Report;

/// Maximum number of waiting reports (guess): a quarter of a second at 60 frames a second. If the display reports
/// nothing, each report is delayed by this number of frames.
const MAX_WAITING: usize = 16;

/// The waiting reports, in the order of their frames.
#[derive(Default)]
pub(super) struct DisplayTimes {
    waiting: VecDeque<WaitingReport>,
}

struct WaitingReport {
    report: Report,
    /// Whether the report no longer waits for the display.
    complete: bool,
}

impl DisplayTimes {
    /// Adds the report of a finished frame. `reported` states whether the display will report the time at which the
    /// frame becomes visible. Completed reports go to `pass`.
    pub(super) fn add(&mut self, report: Report, reported: bool, mut pass: impl FnMut(Report)) {
        if !reported {
            self.finish(&mut pass);
            pass(report);
            return;
        }
        if self.waiting.len() == MAX_WAITING
            && let Some(oldest) = self.waiting.pop_front()
        {
            pass(oldest.report);
        }
        let complete = !matches!(report.outcome, Outcome::Displayed(_));
        self.waiting.push_back(WaitingReport { report, complete });
        self.pass_complete(pass);
    }

    /// Handles the display's report on a frame. `at` is the time at which the frame became visible; `None` if it never
    /// became visible. The display reports visible frames in order. It reports a replaced frame at once, even before
    /// earlier frames become visible.
    pub(super) fn presented(
        &mut self,
        frame: FrameId,
        at: Option<Instant>,
        pass: impl FnMut(Report),
    ) {
        let Some(place) = (self.waiting.iter()).position(|each| each.report.frame == frame) else {
            return;
        };
        let first = if at.is_some() { 0 } else { place };
        for waiting in self.waiting.range_mut(first..=place) {
            waiting.complete = true;
        }
        if let Some(waiting) = self.waiting.get_mut(place) {
            stamp(&mut waiting.report, at);
        }
        self.pass_complete(pass);
    }

    /// Passes all reports before the first report that still waits.
    fn pass_complete(&mut self, mut pass: impl FnMut(Report)) {
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.complete) {
            pass(waiting.report);
        }
    }

    /// Passes all reports. Called when the session ends or the display no longer reports times.
    pub(super) fn finish(&mut self, mut pass: impl FnMut(Report)) {
        let all = self.waiting.drain(..);
        all.for_each(|waiting| pass(waiting.report));
    }
}

/// Stamps the stage Presented, and extends the motion-to-photon latency to that stage.
fn stamp(report: &mut Report, at: Option<Instant>) {
    let (Some(at), Some(first)) = (at, report.first_received) else {
        return;
    };
    // The report is for the host, whose peer is this client. So `first_received` has the type of a time on the peer's
    // clock, but is a time on the local clock.
    let presented = at.since(Instant(first.0));
    let later = report.submitted.map_or_else(Default::default, |submitted| {
        presented.saturating_sub(submitted)
    });
    report.presented = Some(presented);
    report.motion_to_photon = report.motion_to_photon.map(|span| span + later);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openuvr_proto::time::PeerInstant;
    use openuvr_proto::trace::{DropCause, Fidelity, Stage};

    use super::*;

    fn displayed(id: u32) -> Report {
        let mut report = Report::new(FrameId(id), Outcome::Displayed(Fidelity::Complete));
        report.first_received = Some(PeerInstant(1_000_000));
        report.submitted = Some(Duration::from_millis(4));
        report.motion_to_photon = Some(Duration::from_millis(10));
        report
    }

    fn dropped(id: u32) -> Report {
        let (stage, why) = (Stage::Decoded, DropCause::DecodeFailed);
        Report::new(FrameId(id), Outcome::Dropped { stage, why })
    }

    #[test]
    fn reports_get_their_times_in_order() {
        let (mut times, mut out) = (DisplayTimes::default(), Vec::new());
        for report in [
            dropped(1),
            displayed(2),
            displayed(3),
            dropped(4),
            displayed(5),
        ] {
            times.add(report, true, |report| out.push(report));
        }
        assert_eq!(out, [dropped(1)]);
        // The third frame was replaced before the second frame became visible.
        times.presented(FrameId(3), None, |report| out.push(report));
        assert_eq!(out.len(), 1);
        times.presented(FrameId(2), Some(Instant(7_000_000)), |r| out.push(r));
        assert_eq!(out[1].presented, Some(Duration::from_millis(6)));
        assert_eq!(out[1].motion_to_photon, Some(Duration::from_millis(12)));
        assert_eq!(out[2..], [displayed(3), dropped(4)]);
        // The display never reports on the fifth frame.
        times.add(displayed(6), true, |report| out.push(report));
        times.add(displayed(7), true, |report| out.push(report));
        times.presented(FrameId(6), Some(Instant(9_000_000)), |r| out.push(r));
        assert_eq!(out[4], displayed(5));
        assert_eq!(out[5].presented, Some(Duration::from_millis(8)));
        // A report on an unknown frame changes nothing. `finish` passes the remaining reports.
        times.presented(FrameId(99), Some(Instant(0)), |report| out.push(report));
        times.finish(|report| out.push(report));
        assert_eq!(out[6], displayed(7));
    }

    #[test]
    fn a_silent_display_delays_a_bounded_number_of_reports() {
        let (mut times, mut out) = (DisplayTimes::default(), Vec::new());
        for id in 1..=40 {
            times.add(displayed(id), true, |report| out.push(report.frame.0));
        }
        assert_eq!(out, (1..=24).collect::<Vec<_>>());
        // The surface no longer reports times.
        times.add(displayed(41), false, |report| out.push(report.frame.0));
        assert_eq!(out, (1..=41).collect::<Vec<_>>());
    }
}
