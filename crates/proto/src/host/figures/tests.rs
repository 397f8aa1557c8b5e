use super::*;
use crate::control::clock::Mapped;
use crate::ecn::EcnCounts;
use crate::id::{FrameId, SessionId};
use crate::time::PeerInstant;
use crate::trace::{Fidelity, Stage};

const PLAYER: SubscriberId = SubscriberId::Session(SessionId(7));
const OBSERVER_ID: SubscriberId = SubscriberId::Other(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(at: u64) -> Instant {
    Instant(0) + ms(at)
}

fn ended(of: SubscriberId, outcome: Outcome) -> FrameRecord {
    FrameRecord::new(of, (ViewId::FIRST, FrameId(1)), outcome)
}

/// A frame displayed with this latency.
fn displayed(of: SubscriberId, latency: Duration) -> FrameRecord {
    let mut record = ended(of, Outcome::Displayed(Fidelity::Complete));
    record.host.stamp(Stage::Captured, at(1000));
    record.client.first_received = Some(PeerInstant(5));
    record.client.first_received_here = Some(Mapped {
        at: at(1001),
        bound: Duration::from_micros(300),
    });
    record.client.submitted = Some(latency - ms(1));
    record
}

fn unreported(of: SubscriberId) -> FrameRecord {
    let (stage, why) = (Stage::FirstReceived, DropCause::Unreported);
    ended(of, Outcome::Dropped { stage, why })
}

fn one(figures: &Figures, now: Instant) -> SubscriberFigures {
    let all = figures.read(now);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

/// A player that displayed 50 frames a second from 0 to `until` milliseconds.
fn playing(until: u64) -> Figures {
    let mut figures = Figures::default();
    figures.joined(PLAYER, SubscriberKind::Client, Role::Player);
    for frame in (0..=until).step_by(20) {
        figures.note(at(frame), &displayed(PLAYER, ms(9)));
    }
    figures
}

#[test]
fn subscribers_without_reports_have_no_figures() {
    let mut figures = Figures::default();
    figures.joined(PLAYER, SubscriberKind::Client, Role::Observer);
    figures.joined(OBSERVER_ID, SubscriberKind::VideoPlayer, Role::Observer);
    figures.role_changed(PLAYER, Role::Player);
    for frame in 0..100 {
        figures.note(
            at(frame * 20),
            &ended(OBSERVER_ID, Outcome::SentUnacknowledged),
        );
        // A frame of a subscriber that has left is ignored.
        figures.note(at(frame * 20), &displayed(SubscriberId::Other(2), ms(9)));
    }
    let unknown = |kind, role| SubscriberFigures {
        kind,
        role,
        frames_per_second: None,
        latency: None,
        ce_share: None,
    };
    let player = unknown(SubscriberKind::Client, Role::Player);
    let observer = unknown(SubscriberKind::VideoPlayer, Role::Observer);
    assert_eq!(figures.read(at(2000)), [player, observer]);
    figures.left(PLAYER);
    assert_eq!(figures.read(at(2000)), [observer]);
}

#[test]
fn figures_are_those_of_the_newest_seconds() {
    let mut figures = playing(10_000);
    // The worst latency (90 ms) has left the window when the figures are read. Of the newest 250 frames, three are
    // late.
    figures.note(at(10_010), &displayed(PLAYER, ms(90)));
    for frame in 1..=250 {
        let late = frame > 247;
        let latency = if late { ms(40 + frame - 247) } else { ms(7) };
        figures.note(at(10_010 + frame * 20), &displayed(PLAYER, latency));
    }
    let known = one(&figures, at(15_010));
    assert_eq!(known.frames_per_second, Some(50.0));
    let latency = LatencyFigures {
        p50: ms(7),
        p99: ms(41),
        bound: Duration::from_micros(300),
    };
    assert_eq!(known.latency, Some(latency));
    // One second later, four fifths of the frames remain in the window.
    assert_eq!(one(&figures, at(16_010)).frames_per_second, Some(40.0));
}

#[test]
fn no_rate_for_too_short_a_time() {
    let figures = playing(980);
    let known = one(&figures, at(999));
    assert_eq!(known.frames_per_second, None);
    assert_eq!(known.latency.unwrap().p50, ms(9));
    assert_eq!(one(&playing(2000), at(2000)).frames_per_second, Some(50.0));
}

#[test]
fn a_still_picture_is_not_taken_for_a_silent_client() {
    let mut figures = playing(2000);
    let still = one(&figures, at(60_000));
    assert_eq!((still.frames_per_second, still.latency), (Some(0.0), None));
    // Single lost reports do not matter.
    figures.note(at(2100), &unreported(PLAYER));
    assert!(one(&figures, at(2100)).frames_per_second.is_some());
    figures.note(at(6999), &unreported(PLAYER));
    assert!(one(&figures, at(7000)).frames_per_second.is_some());
    figures.note(at(7000), &unreported(PLAYER));
    assert_eq!(one(&figures, at(7000)).frames_per_second, None);
    figures.note(at(7100), &displayed(PLAYER, ms(9)));
    assert_eq!(one(&figures, at(7100)).frames_per_second, Some(0.2));
}

#[test]
fn incompletely_displayed_frames_are_not_counted() {
    let mut figures = playing(0);
    for frame in 1..=50 {
        let now = at(frame * 20);
        let (stage, why) = (Stage::Recoverable, DropCause::Lost);
        figures.note(now, &ended(PLAYER, Outcome::Dropped { stage, why }));
        let mut concealed = displayed(PLAYER, ms(50));
        concealed.outcome = Outcome::Displayed(Fidelity::Concealed);
        figures.note(now, &concealed);
        let mut second_view = displayed(PLAYER, ms(50));
        second_view.view.view = 1;
        figures.note(now, &second_view);
    }
    let known = one(&figures, at(1000));
    assert_eq!(known.frames_per_second, Some(0.0));
    assert_eq!(known.latency.unwrap().p99, ms(9), "of the one before");
}

#[test]
fn a_frame_without_both_times_counts_and_has_no_latency() {
    let mut figures = playing(0);
    for frame in 1..=100 {
        let mut record = displayed(PLAYER, ms(9));
        record.client.first_received_here = None;
        figures.note(at(frame * 20), &record);
    }
    let known = one(&figures, at(10_000 / 5));
    assert_eq!(known.frames_per_second, Some(50.0));
    assert_eq!(known.latency.unwrap().p99, ms(9), "of the first");
}

#[test]
fn a_group_has_the_worst_of_its_members() {
    let one = |kind, role, rate, latency: Option<[u64; 2]>| SubscriberFigures {
        kind,
        role,
        frames_per_second: rate,
        latency: latency.map(|[p50, p99]| LatencyFigures {
            p50: ms(p50),
            p99: ms(p99),
            bound: ms(1),
        }),
        ce_share: rate.map(|rate| rate / 100.0),
    };
    let (observes, plays) = (Role::Observer, Role::Player);
    let all = [
        one(SubscriberKind::Recorder, observes, None, None),
        one(SubscriberKind::Browser, observes, Some(60.0), Some([7, 30])),
        one(SubscriberKind::Browser, observes, None, None),
        one(SubscriberKind::Browser, observes, Some(31.5), Some([9, 20])),
        one(SubscriberKind::Browser, plays, Some(59.0), Some([5, 6])),
    ];
    let groups = grouped(&all);
    let names: Vec<_> = (groups.iter())
        .map(|group| (group.kind.name(), group.role.name(), group.count))
        .collect();
    let want = [
        ("browser", "player", 1),
        ("browser", "observer", 3),
        ("recorder", "observer", 1),
    ];
    assert_eq!(names, want);
    assert_eq!(groups[1].frames_per_second, Some(31.5));
    let latency = groups[1].latency.unwrap();
    assert_eq!((latency.p50, latency.p99), (ms(9), ms(30)));
    assert_eq!(groups[1].ce_share, Some(0.6));
    let unknown = groups[2];
    assert_eq!((unknown.frames_per_second, unknown.latency), (None, None));
    assert_eq!(grouped(&[]), []);
}

#[test]
fn the_share_of_marks_covers_the_window() {
    let mut figures = playing(0);
    let mut record = displayed(PLAYER, ms(9));
    assert_eq!(one(&figures, at(1)).ce_share, None);
    for frame in 1..=400 {
        record.ecn = Some(EcnCounts {
            ect1: 15,
            // The older frames, which have left the window at the end, have more marks.
            ce: if frame <= 100 { 15 } else { 5 },
            ..EcnCounts::default()
        });
        figures.note(at(frame * 20), &record);
    }
    assert_eq!(one(&figures, at(8000)).ce_share, Some(0.25));
}

#[test]
fn memory_is_bounded_by_a_shorter_window() {
    let mut figures = playing(0);
    // 1000 frames a second for 3 s.
    for frame in 1..=3000 {
        figures.note(at(frame), &displayed(PLAYER, ms(9)));
    }
    assert_eq!(figures.subscribers[0].frames.len(), FRAMES);
    assert_eq!(figures.subscribers[0].frames.capacity(), FRAMES);
    assert_eq!(one(&figures, at(3000)).frames_per_second, Some(1000.0));
}

#[test]
fn the_display_times_of_the_display_are_used() {
    let mut record = displayed(PLAYER, ms(9));
    assert_eq!(record.captured_to_last().unwrap().at, ms(9));
    record.client.presented = Some(ms(19));
    assert_eq!(record.captured_to_last().unwrap().at, ms(20));
    record.host.clear(Stage::Captured);
    assert_eq!(record.captured_to_last(), None);
}
