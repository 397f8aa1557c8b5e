use super::*;
use crate::trace::Stage;

fn policy() -> Policy {
    let rate = Bitrate::from_mbps(10);
    let mut policy = Policy::new(Settings {
        fps: 60.0,
        range: Range {
            min: rate,
            start: rate,
            max: rate,
        },
        adaptive: true,
        l4s: L4sMode::Off,
        recovery: Recovery::ReferenceInvalidation,
        key_frame_interval: None,
    });
    policy.encoder_opened(7);
    policy.join(KeyFrameRequester::Player);
    policy
}

#[test]
fn without_references_each_frame_is_a_key_frame() {
    let mut policy = policy();
    policy.encoder_opened(0);
    for frame in 1..=3 {
        assert_eq!(policy.next(at(frame), FrameId(frame)), NextFrame::Key);
        policy.sent(at(frame), FrameId(frame), Some(1000));
    }
    assert_eq!(policy.poll_control_event(), None);
    report_frame(&mut policy, 4, 2, LOST);
    assert_eq!(policy.due(), None, "frame 3 has repaired it");
    policy.request_key_frame(KeyFrameRequester::Player, FrameId(1), FrameId(3));
    assert!(
        policy.due().is_some(),
        "frame 3 is lost too, and the source is still"
    );
    assert_eq!(policy.next(at(9), FrameId(9)), NextFrame::Key);
    assert_eq!(policy.due(), None);
}

fn report(frame: u32, outcome: Outcome) -> Report {
    Report::new(FrameId(frame), outcome)
}

fn report_frame(policy: &mut Policy, now: u32, frame: u32, outcome: Outcome) {
    policy.on_report(at(now), &report(frame, outcome), None);
}

const WHOLE: Outcome = Outcome::Displayed(Fidelity::Complete);
const LOST: Outcome = Outcome::Dropped {
    stage: Stage::FirstReceived,
    why: DropCause::Lost,
};

fn at(frame: u32) -> Instant {
    Instant(i64::from(frame) * 16_666_667)
}

fn code(policy: &mut Policy, frame: u32) -> NextFrame {
    let next = policy.next(at(frame), FrameId(frame));
    policy.sent(at(frame), FrameId(frame), Some(20_000));
    next
}

#[test]
fn a_lost_frame_costs_no_key_frame() {
    let mut policy = policy();
    assert_eq!(code(&mut policy, 1), NextFrame::Key);
    for frame in 2..=5 {
        assert_eq!(
            code(&mut policy, frame),
            NextFrame::Predicted(FrameId(frame - 1))
        );
    }
    report_frame(&mut policy, 5, 2, WHOLE);
    report_frame(&mut policy, 5, 3, LOST);
    assert!(policy.due().is_some_and(|due| due <= at(8)));
    assert_eq!(code(&mut policy, 6), NextFrame::Predicted(FrameId(2)));
    assert_eq!(policy.due(), None);
    // Frames in flight are reported as tainted. Neither the request nor these reports change anything.
    let tainted = Outcome::Displayed(Fidelity::Tainted);
    report_frame(&mut policy, 6, 4, tainted);
    policy.request_key_frame(KeyFrameRequester::Player, FrameId(2), FrameId(4));
    report_frame(&mut policy, 6, 5, tainted);
    assert_eq!(code(&mut policy, 7), NextFrame::Predicted(FrameId(6)));
    let decisions: Vec<_> = std::iter::from_fn(|| policy.poll_control_event()).collect();
    let (frame, to) = (FrameId(6), FrameId(2));
    assert_eq!(
        decisions[1..],
        [ControlEvent::ReferenceInvalidation { frame, to }]
    );
}

#[test]
fn without_an_intact_reference_one_key_frame_follows() {
    let mut policy = policy();
    code(&mut policy, 1);
    for frame in 2..=12 {
        code(&mut policy, frame);
    }
    report_frame(&mut policy, 12, 3, LOST);
    assert_eq!(code(&mut policy, 13), NextFrame::Key);
    report_frame(&mut policy, 13, 13, LOST);
    // Within the hold-off of the lost key frame, all frames are tainted.
    assert_eq!(code(&mut policy, 14), NextFrame::Predicted(FrameId(13)));
    assert_eq!(code(&mut policy, 15), NextFrame::Key);
}

#[test]
fn a_group_of_pictures_ends_without_loss() {
    let mut policy = Policy::new(Settings {
        key_frame_interval: Some(5),
        ..policy().settings
    });
    policy.encoder_opened(7);
    policy.join(KeyFrameRequester::Player);
    let keys: Vec<u32> = (1..=12)
        .filter(|frame| code(&mut policy, *frame) == NextFrame::Key)
        .collect();
    assert_eq!(keys, [1, 6, 11]);
    let last = policy.events.back().map(ToString::to_string);
    assert!(last.is_some_and(|words| words.ends_with("periodic")));
}

#[test]
fn without_recovery_only_the_group_of_pictures_repairs() {
    let mut policy = Policy::new(Settings {
        recovery: Recovery::None,
        key_frame_interval: Some(10),
        ..policy().settings
    });
    policy.encoder_opened(7);
    policy.join(KeyFrameRequester::Player);
    let mut types = Vec::new();
    for frame in 1..=14 {
        types.push(code(&mut policy, frame));
        report_frame(&mut policy, frame, frame, LOST);
        policy.request_key_frame(KeyFrameRequester::Player, FrameId::NONE, FrameId(frame));
    }
    for (frame, found) in (1..).zip(types) {
        let expected = match frame {
            1 | 11 => NextFrame::Key,
            _ => NextFrame::Predicted(FrameId(frame - 1)),
        };
        assert_eq!(found, expected, "frame {frame}");
    }
    // A subscriber that joins still gets a key frame.
    policy.join(KeyFrameRequester::Player);
    assert_eq!(code(&mut policy, 15), NextFrame::Key);
}

#[test]
fn the_group_of_pictures_changes_with_the_next_frame() {
    let mut policy = policy();
    let mut keys = Vec::new();
    for frame in 1..=40 {
        match frame {
            11 => policy.set_key_frame_interval(Some(4)),
            21 => policy.set_key_frame_interval(Some(8)),
            31 => policy.set_key_frame_interval(None),
            _ => {}
        }
        if code(&mut policy, frame) == NextFrame::Key {
            keys.push(frame);
        }
    }
    assert_eq!(keys, [1, 11, 15, 19, 27]);
}

#[test]
fn an_encoder_without_references_gets_key_frames() {
    let mut policy = policy();
    policy.encoder_opened(1);
    code(&mut policy, 1);
    code(&mut policy, 2);
    code(&mut policy, 3);
    policy.request_key_frame(KeyFrameRequester::Player, FrameId(1), FrameId(2));
    assert_eq!(code(&mut policy, 4), NextFrame::Key);
}

#[test]
fn observers_requests_for_key_frames_are_rate_limited() {
    let mut policy = policy();
    code(&mut policy, 1);
    policy.join(KeyFrameRequester::Observer);
    assert_eq!(code(&mut policy, 2), NextFrame::Predicted(FrameId(1)));
    let due = policy.due();
    assert!(due.is_some_and(|at| at > self::at(2)), "{due:?}");
}

/// An adaptive policy between 1 and 20 Mb/s.
fn following() -> Policy {
    let rate = Bitrate::from_mbps;
    Policy::new(Settings {
        range: Range {
            min: rate(1),
            start: rate(20),
            max: rate(20),
        },
        ..policy().settings
    })
}

/// Reports the outcome of a frame of 20 datagrams.
fn sent(policy: &mut Policy, now: u32, frame: u32, outcome: Outcome, missing: u16) {
    let mut arrival = report(frame, outcome);
    arrival.missing = missing;
    if outcome == WHOLE {
        arrival.first_received = Some(PeerInstant(at(frame).0));
        arrival.recoverable = Some(Duration::from_millis(1));
    }
    let left = Departure {
        first: Some(at(frame)),
        last: Some(at(frame)),
        datagrams: 20,
        bytes: 20_000,
        ..Departure::default()
    };
    policy.on_report(at(now), &arrival, Some(&left));
}

#[test]
fn missing_reports_do_not_count_as_capacity() {
    let mut policy = following();
    for frame in 1..=300 {
        policy.held_until(at(frame));
        policy.sent(at(frame), FrameId(frame), Some(20_000));
        // The ledger closes an unreported frame two seconds after it was sent.
        if let Some(old @ 1..) = frame.checked_sub(120) {
            let unreported = Outcome::Dropped {
                stage: Stage::FirstReceived,
                why: DropCause::Unreported,
            };
            sent(&mut policy, frame, old, unreported, 0);
        }
    }
    assert_eq!(policy.target(), Bitrate::from_mbps(1));
    let rises = |d: &ControlEvent| matches!(d, ControlEvent::Rate(RateChange::Increase { .. }));
    assert!(!policy.events.iter().any(rises));
}

#[test]
fn losses_of_complete_frames_are_counted() {
    let mut policy = following();
    for frame in 1..=60 {
        policy.sent(at(frame), FrameId(frame), Some(20_000));
        // Two of ten frames are lost completely, and the next report counts their datagrams.
        let (outcome, missing) = match frame % 10 {
            1 | 2 => (LOST, 0),
            3 => (WHOLE, 40),
            _ => (WHOLE, 0),
        };
        sent(&mut policy, frame, frame, outcome, missing);
    }
    assert!(policy.target() < Bitrate::from_mbps(20));
}

#[test]
fn estimates_of_the_transport_replace_the_congestion_control() {
    let mut policy = following();
    let mbps = Bitrate::from_mbps;
    policy.on_estimate(mbps(8));
    assert_eq!(policy.target(), mbps(8));
    // Reports of lost frames would make the policy's own congestion control lower the rate and skip frames.
    for frame in 1..=300 {
        assert_eq!(policy.held_until(at(frame)), None);
        policy.sent(at(frame), FrameId(frame), Some(20_000));
        sent(&mut policy, frame, frame, LOST, 20);
    }
    assert_eq!(policy.target(), mbps(8));
    assert!(policy.pacing(at(300)).is_none());
    // A small difference is ignored; the range holds.
    policy.on_estimate(Bitrate(8_200_000));
    assert_eq!(policy.target(), mbps(8));
    for (estimate, target) in [(mbps(50), 20), (Bitrate(1), 1), (mbps(5), 5)] {
        policy.on_estimate(estimate);
        assert_eq!(policy.target(), mbps(target));
    }
    let events = std::iter::from_fn(|| policy.poll_control_event());
    let rates: Vec<_> = events
        .filter_map(|event| match event {
            ControlEvent::Rate(change) => Some(change),
            _ => None,
        })
        .collect();
    let estimate = |to| RateChange::Estimate { to: mbps(to) };
    assert_eq!(rates, [8, 20, 1, 5].map(estimate));
    // The next player starts without an estimate.
    policy.player_changed();
    assert_eq!(policy.target(), mbps(20));
}

#[test]
fn a_constant_rate_ignores_estimates() {
    let mut policy = Policy::new(Settings {
        adaptive: false,
        ..following().settings
    });
    policy.on_estimate(Bitrate::from_mbps(2));
    assert_eq!(policy.target(), Bitrate::from_mbps(20));
    assert_eq!(policy.poll_control_event(), None);
}
