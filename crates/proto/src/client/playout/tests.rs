use super::*;
use crate::control::handshake::{PublicKey, SessionSecret};
use crate::control::negotiate::{ClientConstraints, Offer, Role};
use crate::ecn::{Ecn, EcnCounts};
use crate::id::{ConfigEpoch, SessionId};
use crate::input::event::InputEvent;
use crate::pose::Pose;
use crate::recv::ArrivalTimes;
use crate::send::packetize::SendBuf;
use crate::send::plane::MediaSender;
use crate::trace::Fidelity;
use crate::wire::video::{DrawingTimes, Extensions, FrameHeader, InputEcho, PoseEcho, SlicePlace};

const MS: Duration = Duration::from_millis(1);

fn established() -> Established {
    Established {
        session: SessionId(1),
        secret: SessionSecret([7; 32]),
        peer: PublicKey([7; 32]),
        version: 1,
    }
}

fn client() -> (Playout, ClientSession) {
    let established = established();
    let offer = Offer {
        role: Role::Player,
        take_over: false,
        codecs: 2,
        name: String::new(),
        software: String::new(),
        constraints: ClientConstraints::default(),
        streams: Vec::new(),
    };
    let session = ClientSession::new(Instant(0), &established, offer);
    (Playout::new(&established), session)
}

/// A frame that completed at `at` and echoes input `seq`.
fn out(frame: u32, at: Instant, seq: u32) -> FrameResult {
    FrameResult::Completed(FrameEnd {
        header: FrameHeader {
            frame: FrameId(frame),
            reference: FrameId::NONE,
            epoch: ConfigEpoch(1),
            stream: 0,
            view: 0,
            captured: 0,
            clock_epoch: 0,
            echo: InputEcho {
                seq: InputSeq(seq),
                kind: EchoKind::Injected,
            },
        },
        fidelity: Fidelity::Complete,
        first_received: at,
        recoverable: Some(at + MS),
        repaired: 1,
        resent: 2,
        pose: None,
        views: None,
        times: DrawingTimes::default(),
    })
}

fn at(ms: u32) -> Instant {
    Instant(0) + MS * ms
}

/// A presentation that was submitted two milliseconds after arrival.
fn shown(came: Instant) -> Presentation {
    Presentation {
        decoded: Some(came + MS),
        submitted: Some(came + MS * 2),
        failure: None,
    }
}

#[test]
fn a_frame_is_reported_with_stages_and_first_shown_input() {
    let (mut playout, mut session) = client();
    let moved = InputEvent::PointerRelative { dx: 1, dy: 1 };
    for ms in [10, 20, 30] {
        session.input(at(ms), moved, at(ms));
    }
    let mut finish = |frame, ms, seq| {
        let result = out(frame, at(ms), seq);
        playout.finish(
            at(ms) + MS * 2,
            ViewId::FIRST,
            &result,
            &shown(at(ms)),
            &mut session,
        )
    };
    let first = finish(1, 40, 2);
    assert_eq!(first.outcome, Outcome::Displayed(Fidelity::Complete));
    assert_eq!(first.first_received, Some(PeerInstant(at(40).0)));
    let spans = (first.recoverable, first.decoded, first.submitted);
    assert_eq!(spans, (Some(MS), Some(MS), Some(MS * 2)));
    assert_eq!((first.repaired, first.resent), (1, 2));
    assert_eq!(first.motion_to_photon, Some(MS * 22), "from 20 to 42");
    // The first frame echoes an input that has already been shown, the second an older input, and the third a new one.
    let motion = [finish(2, 50, 2), finish(3, 60, 1), finish(4, 70, 3)];
    let motion = motion.map(|report| report.motion_to_photon);
    assert_eq!(motion, [None, None, Some(MS * 42)]);
}

#[test]
fn the_first_frame_of_a_pose_reports_its_latency_after_an_input() {
    let (mut playout, mut session) = client();
    let moved = InputEvent::PointerRelative { dx: 1, dy: 1 };
    session.input(at(5), moved, at(5));
    let head = Pose::new([0.0; 3], [0.0, 0.0, 0.0, 1.0]).unwrap();
    let poses = [10, 20, 30].map(|ms| session.pose(at(ms), head, at(ms)));
    let mut finish = |frame, ms, pose| {
        let FrameResult::Completed(mut end) = out(frame, at(ms), 1) else {
            unreachable!("it completed");
        };
        end.pose = Some(PoseEcho {
            pose,
            at: head,
            display: None,
        });
        let result = FrameResult::Completed(end);
        let (now, shown) = (at(ms) + MS * 2, shown(at(ms)));
        let report = playout.finish(now, ViewId::FIRST, &result, &shown, &mut session);
        (report.motion_to_photon, report.echo)
    };
    // The first frame is also the first to show the input. All frames echo the input, which is the newest one.
    let injected = Some(MS * 37);
    assert_eq!(finish(1, 40, poses[0]), (injected, EchoKind::Injected));
    let drawn = Some(MS * 32);
    assert_eq!(finish(2, 50, poses[1]), (drawn, EchoKind::Consumed));
    assert_eq!(finish(3, 60, poses[1]).0, None, "the same pose again");
    assert_eq!(finish(4, 70, poses[0]).0, None, "an older pose");
    let drawn = Some(MS * 52);
    assert_eq!(finish(5, 80, poses[2]), (drawn, EchoKind::Consumed));
}

#[test]
fn ages_from_the_hosts_clock_carry_the_larger_bound() {
    let (mut playout, mut session) = client();
    // The host's clock is one second ahead of the local one.
    let there = |ms: u32| PeerInstant(at(1000 + ms).0);
    let mut finish = |session: &mut ClientSession, frame, times| {
        let FrameResult::Completed(mut end) = out(frame, at(40), 0) else {
            unreachable!("it completed");
        };
        end.times = times;
        let (now, shown) = (at(42), shown(at(40)));
        let report = playout.finish(
            now,
            ViewId::FIRST,
            &FrameResult::Completed(end),
            &shown,
            session,
        );
        report.age
    };
    let both = DrawingTimes {
        predicted: Some(there(20)),
        begun: Some(there(25)),
    };
    let unknown = finish(&mut session, 1, both);
    assert_eq!(unknown, DisplayLatency::default(), "no clock, no age");
    // A clock exchange with a round trip of 4 ms. The asymmetry of the delays is unknown.
    session.plane.clock.note(at(0), there(2), there(2), at(4));
    let age = finish(&mut session, 2, both);
    assert_eq!(age.predict_to_display, Some(MS * 22));
    assert_eq!(age.render_to_display, Some(MS * 17));
    let farther = session.clock().to_mine(there(25), at(42)).unwrap();
    assert_eq!(age.bound, Some(farther.bound));
    assert!(farther.bound > MS * 2 && farther.bound < MS * 3);
    let one = DrawingTimes {
        begun: None,
        ..both
    };
    let age = finish(&mut session, 3, one);
    assert_eq!(age.render_to_display, None);
    let nearer = session.clock().to_mine(there(20), at(42)).unwrap();
    assert_eq!(age.bound, Some(nearer.bound));
    assert!(nearer.bound < farther.bound);
    let neither = finish(&mut session, 4, DrawingTimes::default());
    assert_eq!(neither.bound, None);
}

#[test]
fn undisplayed_frames_report_their_stage_and_no_input() {
    let (mut playout, mut session) = client();
    session.input(at(10), InputEvent::ReleaseAll, at(10));
    let superseded = (Stage::Submitted, DropCause::Superseded);
    let late = Presentation {
        decoded: Some(at(41)),
        submitted: None,
        failure: Some(superseded),
    };
    let report = playout.finish(
        at(42),
        ViewId::FIRST,
        &out(1, at(40), 1),
        &late,
        &mut session,
    );
    let (stage, why) = superseded;
    assert_eq!(report.outcome, Outcome::Dropped { stage, why });
    assert_eq!((report.decoded, report.submitted), (Some(MS), None));
    assert_eq!(
        (report.motion_to_photon, report.echo),
        (None, EchoKind::None)
    );
    let report = playout.finish(
        at(52),
        ViewId::FIRST,
        &out(2, at(50), 1),
        &Presentation::default(),
        &mut session,
    );
    let (stage, why) = (Stage::Decoded, DropCause::DecodeFailed);
    assert_eq!(report.outcome, Outcome::Dropped { stage, why });
    // The next displayed frame is the first to show the input.
    let report = playout.finish(
        at(62),
        ViewId::FIRST,
        &out(3, at(60), 1),
        &shown(at(60)),
        &mut session,
    );
    assert_eq!(report.motion_to_photon, Some(MS * 52));
}

#[test]
fn an_undecoded_frame_ends_at_its_last_stage() {
    let (mut playout, mut session) = client();
    for (why, first, stage) in [
        (DropCause::Lost, None, Stage::FirstReceived),
        (DropCause::Lost, Some(at(5)), Stage::Recoverable),
        (DropCause::AwaitingKeyFrame, Some(at(5)), Stage::Decoded),
        (DropCause::AwaitingKeyFrame, None, Stage::Decoded),
    ] {
        let result = FrameResult::Dropped {
            frame: FrameId(9),
            why,
            first_received: first,
        };
        let report = playout.finish(at(9), ViewId::FIRST, &result, &shown(at(5)), &mut session);
        assert_eq!(report.outcome, Outcome::Dropped { stage, why });
        assert_eq!(report.frame, FrameId(9));
        assert_eq!(report.first_received, first.map(|at| PeerInstant(at.0)));
        assert_eq!((report.decoded, report.submitted), (None, None));
    }
}

/// After a request for ECN counts, a report counts the ECN fields of the authentic datagrams since the previous report.
#[test]
fn a_report_counts_ecn_fields_on_request() {
    let (mut playout, mut session) = client();
    let mut sender = MediaSender::new(&established()).video();
    let mut out = SendBuf::default();
    let mut frame = |playout: &mut Playout, number: u32, fields: &[Ecn]| {
        let FrameResult::Completed(end) = self::out(number, at(number), 0) else {
            unreachable!("it completed");
        };
        let place = SlicePlace {
            index: 0,
            count: 1,
            first_mb: 0,
            mbs: 1,
        };
        let (now, none) = (at(number), Extensions::default());
        // 3000 bytes need three datagrams.
        sender.slice(now, &end.header, none, place, &[0; 3000], &mut out);
        assert_eq!(out.datagrams(), 3);
        let times = ArrivalTimes { now, arrived: now };
        for (datagram, ecn) in out.iter().zip(fields) {
            let ecn = Some(*ecn);
            let taken = playout.media.handle_arrival(times, ecn, datagram);
            assert_eq!(taken, Ok(()));
            assert!(playout.media.handle_arrival(times, ecn, datagram).is_err());
        }
        let result = FrameResult::Completed(end);
        let shown = shown(now);
        let report = playout.finish(now, ViewId::FIRST, &result, &shown, &mut session);
        report.ecn
    };
    assert_eq!(frame(&mut playout, 1, &[Ecn::Ce; 3]), None);
    playout.media.report_ecn();
    let fields = [Ecn::Ect1, Ecn::Ce, Ecn::Ect1];
    let counts = frame(&mut playout, 2, &fields);
    let expected = EcnCounts {
        ect1: 2,
        ce: 1,
        ..EcnCounts::default()
    };
    assert_eq!(counts, Some(expected));
    let fields = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect0];
    let expected = EcnCounts {
        not_ect: 1,
        ect0: 2,
        ..EcnCounts::default()
    };
    assert_eq!(frame(&mut playout, 3, &fields), Some(expected));
}
