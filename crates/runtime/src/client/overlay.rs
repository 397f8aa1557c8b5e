//! The overlay over the client's picture: statistics of the last frames as lines of text.
//!
//! A hidden overlay keeps no frames and costs almost nothing. This module does not draw
//! ([`Presenter::panel`](openuvr_media::present::Presenter::panel) does). The overlay's figures are only for display;
//! reports use the host's records.

use std::collections::VecDeque;
use std::time::Duration;

use openuvr_media::input_source::SHORTCUTS;
use openuvr_proto::host::figures::WINDOW;
use openuvr_proto::printable::is_printable;
use openuvr_proto::quantile::nearest_rank;
use openuvr_proto::time::Instant;
use openuvr_proto::trace::Stage;
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::Report;

/// How often the figures are updated: often enough to follow changes, slowly enough to be readable.
const INTERVAL: Duration = Duration::from_millis(500);

/// Maximum number of kept frames: the frames that arrive within [`WINDOW`] at 240 frames/s.
const FRAMES: usize = 1200;

/// Maximum length of a shown control event, in characters: one line of the panel.
const MAX_EVENT_CHARS: usize = 80;

/// Statistics of a session, gathered while the overlay is shown.
#[derive(Default)]
pub(super) struct Overlay {
    shown: bool,
    due: Option<Instant>,
    frames: VecDeque<Frame>,
    /// Bytes of all media datagrams since the overlay was last shown or hidden.
    bytes: u64,
    control_event: Option<String>,
}

/// A finished frame.
struct Frame {
    at: Instant,
    report: Report,
    /// Time from the host's Captured stamp to the arrival of the first datagram at the client, with its error bound.
    transit: Option<(Duration, Duration)>,
    /// Value of [`Overlay::bytes`] when the frame finished.
    bytes: u64,
}

/// Figures that do not come from individual frames.
pub(super) struct OverlayFacts<'a> {
    pub(super) size: Option<Size>,
    pub(super) codec: &'a str,
    pub(super) link: &'a str,
    pub(super) round_trip: Option<Duration>,
}

impl Overlay {
    /// Shows or hides the overlay. Returns whether its visibility changed.
    pub(super) fn show(&mut self, now: Instant, shown: bool) -> bool {
        if self.shown == shown {
            return false;
        }
        let control_event = self.control_event.take();
        *self = Overlay {
            shown,
            due: shown.then_some(now),
            control_event,
            ..Overlay::default()
        };
        true
    }

    /// The time of the next update; `None` while the overlay is hidden.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due
    }

    /// Counts a media datagram.
    pub(super) fn received(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Adds a finished frame. `transit` is the time from the host's Captured stamp to the arrival of the first datagram
    /// at the client, with its error bound.
    pub(super) fn frame(
        &mut self,
        now: Instant,
        report: &Report,
        transit: Option<(Duration, Duration)>,
    ) {
        if !self.shown {
            return;
        }
        if self.frames.len() == FRAMES {
            self.frames.pop_front();
        }
        self.frames.push_back(Frame {
            at: now,
            report: *report,
            transit,
            bytes: self.bytes,
        });
    }

    /// Sets the text of the host's last control event, including its reason. The event is shown even if it arrived
    /// while the overlay was hidden.
    pub(super) fn set_control_event(&mut self, words: &str) {
        let visible = words.chars().filter(|c| is_printable(*c));
        self.control_event = Some(visible.take(MAX_EVENT_CHARS).collect());
    }

    /// The lines to show; `None` if no update is due.
    pub(super) fn lines(&mut self, now: Instant, facts: &OverlayFacts<'_>) -> Option<Vec<String>> {
        if self.due? > now {
            return None;
        }
        self.due = Some(now + INTERVAL);
        while self
            .frames
            .front()
            .is_some_and(|f| now.since(f.at) > WINDOW)
        {
            self.frames.pop_front();
        }
        let mut lines = vec![self.counts(now, facts)];
        lines.push(format!("{:31}{:>7}{:>7} ms", "", "p50", "p99"));
        lines.extend(self.spans());
        lines.push(self.link(now, facts));
        let control_event = self.control_event.as_deref().unwrap_or("none yet");
        lines.push(format!("last control event: {control_event}"));
        let shortcuts = SHORTCUTS.iter().map(|s| format!("{}  {}", s.keys, s.does));
        lines.extend(shortcuts);
        Some(lines)
    }

    /// The kept frames that were displayed completely. As in the host's table, only these frames count for the frame
    /// rate and the durations.
    fn complete(&self) -> impl Iterator<Item = &Frame> {
        self.frames
            .iter()
            .filter(|f| f.report.outcome.is_complete())
    }

    fn counts(&self, now: Instant, facts: &OverlayFacts<'_>) -> String {
        let (all, complete) = (self.frames.len(), self.complete().count());
        let size = facts.size.map_or_else(String::new, |size| size.to_string());
        format!(
            "{:.1} complete frames/s, {} of {all} incomplete, {size} {}",
            // There are only n - 1 intervals between the first and the last of n frames.
            self.per_second(now, complete.saturating_sub(1)),
            all - complete,
            facts.codec
        )
    }

    /// The rows of measured durations.
    fn spans(&self) -> Vec<String> {
        let of = |span: &dyn Fn(&Frame) -> Option<Duration>| -> Vec<Duration> {
            self.complete().filter_map(span).collect()
        };
        let bound = self.frames.iter().filter_map(|f| Some(f.transit?.1)).max();
        let bound = bound.map_or_else(String::new, |b| format!(" +-{:.1}", millis(b)));
        let rows = [
            row(
                (Stage::InputSampled, Stage::Submitted),
                of(&|f| f.report.motion_to_photon),
                "",
            ),
            named_row("imu_to_display", of(&|f| f.report.age.imu_to_display), ""),
            named_row(
                "predict_to_display",
                of(&|f| f.report.age.predict_to_display),
                &bound,
            ),
            named_row(
                "render_to_display",
                of(&|f| f.report.age.render_to_display),
                &bound,
            ),
            row(
                (Stage::Captured, Stage::Submitted),
                of(&|f| Some(f.transit?.0 + f.report.submitted?)),
                &bound,
            ),
            row(
                (Stage::Captured, Stage::FirstReceived),
                of(&|f| Some(f.transit?.0)),
                &bound,
            ),
            row(
                (Stage::FirstReceived, Stage::Recoverable),
                of(&|f| f.report.recoverable),
                "",
            ),
            row(
                (Stage::Recoverable, Stage::Decoded),
                of(&|f| f.report.decoded?.checked_sub(f.report.recoverable?)),
                "",
            ),
            row(
                (Stage::Decoded, Stage::Submitted),
                of(&|f| f.report.submitted?.checked_sub(f.report.decoded?)),
                "",
            ),
        ];
        rows.into_iter().flatten().collect()
    }

    fn link(&self, now: Instant, facts: &OverlayFacts<'_>) -> String {
        let sum = |of: fn(&Report) -> u16| -> u64 {
            self.frames.iter().map(|f| u64::from(of(&f.report))).sum()
        };
        let (arrived, missing) = (sum(|r| r.datagrams), sum(|r| r.missing));
        let bytes = match (self.frames.front(), self.frames.back()) {
            (Some(first), Some(last)) => last.bytes - first.bytes,
            _ => 0,
        };
        let rate = self.per_second(now, usize::try_from(bytes).unwrap_or(usize::MAX));
        let trip = facts.round_trip.map_or_else(
            || "unknown".to_owned(),
            |span| format!("{:.1} ms", millis(span)),
        );
        format!(
            "{:.1} Mb/s, {:.1} % lost, {}, round trip {trip}",
            rate * 8.0 / 1e6,
            percent(missing, arrived + missing),
            facts.link
        )
    }

    /// The rate per second of `count` events that occurred since the oldest kept frame.
    #[allow(clippy::cast_precision_loss, reason = "a displayed figure is rounded")]
    fn per_second(&self, now: Instant, count: usize) -> f64 {
        let span = self.frames.front().map(|first| now.since(first.at));
        let span = span.filter(|span| !span.is_zero());
        span.map_or(0.0, |span| count as f64 / span.as_secs_f64())
    }
}

/// A row of the table; `None` if nothing was measured.
fn row((from, to): (Stage, Stage), spans: Vec<Duration>, note: &str) -> Option<String> {
    named_row(&format!("{} > {}", from.name(), to.name()), spans, note)
}

fn named_row(name: &str, mut spans: Vec<Duration>, note: &str) -> Option<String> {
    spans.sort_unstable();
    let at = |percent| nearest_rank(&spans, percent).map(millis);
    Some(format!("{name:31}{:7.1}{:7.1}{note}", at(50)?, at(99)?))
}

#[allow(clippy::cast_precision_loss, reason = "a displayed figure is rounded")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use openuvr_proto::id::{FrameId, ViewId};
    use openuvr_proto::time::PeerInstant;
    use openuvr_proto::trace::{DisplayLatency, DropCause, Fidelity, Outcome};
    use openuvr_proto::wire::video::EchoKind;

    use super::*;

    const FACTS: OverlayFacts<'static> = OverlayFacts {
        size: Some(Size::new(1280, 720)),
        codec: "H264",
        link: "udp-gso",
        round_trip: Some(Duration::from_micros(1500)),
    };

    fn at(ms: u64) -> Instant {
        Instant(0) + Duration::from_millis(ms)
    }

    fn report(frame: u32) -> Report {
        let span = |ms| Some(Duration::from_millis(ms));
        Report {
            view: ViewId::FIRST,
            frame: FrameId(frame),
            outcome: Outcome::Displayed(Fidelity::Complete),
            first_received: Some(PeerInstant(0)),
            recoverable: span(2),
            decoded: span(3),
            submitted: span(5),
            presented: None,
            motion_to_photon: None,
            age: DisplayLatency::default(),
            echo: EchoKind::None,
            datagrams: 9,
            missing: 1,
            runs: 0,
            repaired: 0,
            resent: 0,
            pose: None,
            ecn: None,
        }
    }

    #[test]
    fn nothing_is_kept_or_due_while_it_is_hidden() {
        let mut overlay = Overlay::default();
        overlay.frame(at(0), &report(1), None);
        assert_eq!(overlay.next(), None);
        assert_eq!(overlay.lines(at(0), &FACTS), None);
        assert!(overlay.frames.is_empty());
        overlay.set_control_event("fewer bits: \u{7}the queue grows");
        assert!(overlay.show(at(0), true) && !overlay.show(at(0), true));
        let lines = overlay.lines(at(0), &FACTS).unwrap();
        let (figures, shortcuts) = lines.split_at(lines.len() - SHORTCUTS.len());
        assert_eq!(
            figures.last().unwrap(),
            "last control event: fewer bits: the queue grows"
        );
        assert!(
            shortcuts[0].starts_with("Ctrl+Alt+Shift+G  grab"),
            "{shortcuts:?}"
        );
        assert!(overlay.show(at(1), false));
        assert_eq!(overlay.next(), None);
    }

    #[test]
    fn figures_are_those_of_the_last_seconds() {
        let mut overlay = Overlay::default();
        overlay.show(at(0), true);
        // The old frames have another rate and long delays.
        for n in 0..100 {
            let late = Report {
                recoverable: Some(Duration::from_millis(90)),
                ..report(n)
            };
            overlay.frame(at(u64::from(n)), &late, None);
        }
        for n in 0..100u32 {
            overlay.received(12_000);
            let frame = match n {
                50 => Report {
                    outcome: Outcome::Dropped {
                        stage: Stage::Recoverable,
                        why: DropCause::Lost,
                    },
                    recoverable: None,
                    decoded: None,
                    submitted: None,
                    ..report(n)
                },
                51 => Report {
                    motion_to_photon: Some(Duration::from_millis(12)),
                    ..report(n)
                },
                // Displayed, but late and not completely.
                52 => Report {
                    outcome: Outcome::Displayed(Fidelity::Concealed),
                    submitted: Some(Duration::from_millis(90)),
                    motion_to_photon: Some(Duration::from_millis(99)),
                    ..report(n)
                },
                _ => report(n),
            };
            let transit = (Duration::from_millis(4), Duration::from_micros(200));
            overlay.frame(at(10_000 + u64::from(n) * 20), &frame, Some(transit));
        }
        let lines = overlay.lines(at(12_000), &FACTS).unwrap();
        assert_eq!(
            lines[..lines.len() - SHORTCUTS.len()],
            [
                "48.5 complete frames/s, 2 of 100 incomplete, 1280x720 H264",
                "                                   p50    p99 ms",
                "InputSampled > Submitted          12.0   12.0",
                "Captured > Submitted               9.0    9.0 +-0.2",
                "Captured > FirstReceived           4.0    4.0 +-0.2",
                "FirstReceived > Recoverable        2.0    2.0",
                "Recoverable > Decoded              1.0    1.0",
                "Decoded > Submitted                2.0    2.0",
                "4.8 Mb/s, 10.0 % lost, udp-gso, round trip 1.5 ms",
                "last control event: none yet",
            ]
        );
        assert_eq!(overlay.next(), Some(at(12_500)));
        assert_eq!(overlay.lines(at(12_100), &FACTS), None);
    }

    #[test]
    fn the_number_of_kept_frames_is_bounded() {
        let mut overlay = Overlay::default();
        overlay.show(at(0), true);
        for n in 0..10_000 {
            overlay.frame(at(0), &report(n), None);
        }
        assert_eq!(overlay.frames.len(), FRAMES);
        let lines = overlay.lines(at(0), &FACTS).unwrap();
        assert!(lines[0].starts_with("0.0 complete"), "{}", lines[0]);
    }
}
