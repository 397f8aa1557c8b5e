//! The control messages whose bytes are published.

use std::time::Duration;

use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::{ControlEvent, KeyFrameReason, L4sChange, Loss, RateChange};
use openuvr_proto::controller::{Buttons, ControllerState, Hand, Haptic};
use openuvr_proto::display::{Display, Eyes, RefreshTiming};
use openuvr_proto::ecn::EcnCounts;
use openuvr_proto::id::{ConfigEpoch, DeviceId, FrameId, InputSeq, PoseId, ViewId};
use openuvr_proto::input::event::{Button, EV_KEY, EV_REL, InputEvent, KeyCode};
use openuvr_proto::input::pad::{PadButton, PadId, PadIdentity, PadName, PadState, Rumble};
use openuvr_proto::input::pressed::PressedKey;
use openuvr_proto::pose::Pose;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::trace::{DisplayLatency, DropCause, Fidelity, Outcome, Stage};
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::{
    AudioReport, GoodbyeReason, InputBatch, Message, MissingRange, Report, RetransmissionRequest,
};
use openuvr_proto::wire::video::{EchoKind, FieldOfView};

pub(crate) fn control_events() -> Vec<(&'static str, ControlEvent)> {
    let ms = Duration::from_millis;
    let (to, capacity) = (Bitrate::from_mbps(8), Bitrate::from_mbps(10));
    let (frame, why) = (FrameId(9), KeyFrameReason::RefreshFailed);
    let queue = RateChange::Queue {
        to,
        waited: ms(25),
        capacity,
    };
    let protect = ControlEvent::Protection {
        parity: 3,
        resend: true,
        loss: Loss {
            rate: 6_554.0 / 65_535.0,
            run: 1.25,
        },
        round_trip: ms(4),
    };
    let refresh = ControlEvent::IntraRefresh {
        frame,
        lost: FrameId(7),
    };
    let skip = ControlEvent::ReferenceInvalidation {
        frame,
        to: FrameId(6),
    };
    let lost = 13_107.0 / 65_535.0;
    vec![
        ("decision_queue", ControlEvent::Rate(queue)),
        (
            "decision_loss",
            ControlEvent::Rate(RateChange::Loss { to, lost }),
        ),
        (
            "decision_silence",
            ControlEvent::Rate(RateChange::Silence { to }),
        ),
        (
            "decision_climb",
            ControlEvent::Rate(RateChange::Increase { to }),
        ),
        (
            "decision_full",
            ControlEvent::Rate(RateChange::Maximum { to }),
        ),
        (
            "decision_longer",
            ControlEvent::Rate(RateChange::LongerPath { by: ms(12) }),
        ),
        (
            "decision_taken_back",
            ControlEvent::Rate(RateChange::Reverted { to }),
        ),
        (
            "decision_pause",
            ControlEvent::Rate(RateChange::Stall { by: ms(40) }),
        ),
        (
            "decision_marked",
            ControlEvent::Rate(RateChange::Marked { to, share: lost }),
        ),
        (
            "decision_classic_marks",
            ControlEvent::Rate(RateChange::ClassicMarks { to, waited: ms(25) }),
        ),
        (
            "decision_estimate",
            ControlEvent::Rate(RateChange::Estimate { to }),
        ),
        ("decision_skip_back", skip),
        ("decision_refresh", refresh),
        ("decision_key", ControlEvent::KeyFrame { frame, why }),
        ("decision_protect", protect),
        (
            "decision_hold",
            ControlEvent::CongestionSkip { wait: ms(30) },
        ),
        ("decision_l4s", ControlEvent::L4s(L4sChange::Bleached)),
    ]
}

pub(crate) fn messages() -> Vec<(&'static str, Message<'static>)> {
    let ms = Duration::from_millis;
    let report = Report {
        view: ViewId { stream: 0, view: 1 },
        frame: FrameId(9),
        outcome: Outcome::Displayed(Fidelity::Concealed),
        first_received: Some(PeerInstant(5_000_000_000)),
        recoverable: Some(ms(1)),
        decoded: Some(ms(2)),
        submitted: Some(ms(3)),
        presented: None,
        motion_to_photon: Some(ms(30)),
        echo: EchoKind::Injected,
        datagrams: 20,
        missing: 4,
        runs: 2,
        repaired: 3,
        resent: 1,
        pose: Some(PoseId(12)),
        ecn: None,
        age: DisplayLatency::default(),
    };
    let dropped = Report {
        frame: FrameId(10),
        outcome: Outcome::Dropped {
            stage: Stage::FirstReceived,
            why: DropCause::Lost,
        },
        first_received: None,
        recoverable: None,
        decoded: None,
        submitted: None,
        motion_to_photon: None,
        echo: EchoKind::None,
        pose: None,
        ..report
    };
    let with_ecn = Report {
        ecn: Some(EcnCounts {
            not_ect: 1,
            ect1: 9,
            ect0: 2,
            ce: 8,
        }),
        ..report
    };
    let pad = PadId::new(1).expect("there are more");
    let events = [
        InputEvent::Key {
            code: KeyCode(30),
            text: Some('ä'),
            pressed: true,
        },
        InputEvent::Key {
            code: KeyCode(30),
            text: None,
            pressed: false,
        },
        InputEvent::PointerAbsolute { x: 1, y: 65_535 },
        InputEvent::PointerRelative { dx: -1, dy: 300 },
        InputEvent::Button {
            button: Button::LEFT,
            pressed: true,
        },
        InputEvent::Button {
            button: Button::LEFT,
            pressed: false,
        },
        InputEvent::Wheel { dx: 0, dy: -120 },
        InputEvent::ReleaseAll,
        InputEvent::Device {
            device: DeviceId(2),
            kind: EV_KEY,
            code: 30,
            value: 1,
        },
        InputEvent::Device {
            device: DeviceId(255),
            kind: EV_REL,
            code: 0,
            value: -2,
        },
        InputEvent::PadConnected {
            pad,
            identity: PadIdentity {
                name: PadName::new("Pad ä"),
                vendor: 0x045e,
                product: 0x028e,
                buttons: 0x1_ffff,
                sticks: [true, false],
                rumbles: true,
            },
        },
        InputEvent::Pad {
            pad,
            state: PadState {
                buttons: PadButton::South.bit() | PadButton::Guide.bit(),
                sticks: [i16::MIN, -1, 0, i16::MAX],
                triggers: [1, u16::MAX],
            },
        },
        InputEvent::PadDisconnected { pad },
    ];
    let held = |device, code| PressedKey { device, code };
    let events = (0_i64..).zip(events);
    let input = InputBatch {
        epoch: ConfigEpoch(2),
        first: InputSeq(70),
        events: events.map(|(i, e)| (e, PeerInstant(i * 1000))).collect(),
        pressed: Some(vec![
            held(None, 42),
            held(None, 0x110),
            held(Some(DeviceId(2)), 30),
        ]),
    };
    let unsettled = InputBatch {
        events: Vec::new(),
        pressed: None,
        ..input.clone()
    };
    vec![
        ("ping", Message::Ping { asked: -2 }),
        (
            "pong",
            Message::Pong {
                asked: 1,
                received: PeerInstant(2),
                answered: PeerInstant(3),
            },
        ),
        ("report_displayed", Message::Report(report)),
        ("report_dropped", Message::Report(dropped)),
        ("report_ecn", Message::Report(with_ecn)),
        (
            "reports_seen",
            Message::ReportsAcked {
                view: ViewId { stream: 0, view: 1 },
                through: FrameId(9),
            },
        ),
        (
            "key_frame_wanted",
            Message::KeyFrameRequest {
                view: ViewId { stream: 2, view: 1 },
                last_good: FrameId(7),
                newest: FrameId(9),
            },
        ),
        (
            "beacon",
            Message::Beacon {
                view: ViewId { stream: 0, view: 1 },
                newest: FrameId(9),
            },
        ),
        (
            "resend",
            Message::RetransmissionRequest(RetransmissionRequest {
                view: ViewId { stream: 0, view: 1 },
                frame: FrameId(9),
                ranges: vec![
                    MissingRange {
                        slice: 2,
                        first: 3,
                        last: 5,
                    },
                    MissingRange {
                        slice: 7,
                        first: 0,
                        last: u16::MAX,
                    },
                ],
            }),
        ),
        (
            "resend_all",
            Message::RetransmissionRequest(RetransmissionRequest {
                view: ViewId { stream: 0, view: 1 },
                frame: FrameId(9),
                ranges: Vec::new(),
            }),
        ),
        (
            "cursor_inside",
            Message::CursorMoved {
                serial: 4,
                at: Some((100, 200)),
            },
        ),
        (
            "cursor_outside",
            Message::CursorMoved {
                serial: 5,
                at: None,
            },
        ),
        ("input", Message::Input(input)),
        ("input_unsettled", Message::Input(unsettled)),
        (
            "input_seen",
            Message::InputAcked {
                through: InputSeq(77),
            },
        ),
        (
            "segment",
            Message::Segment {
                offset: 1 << 33,
                bytes: b"stream",
            },
        ),
        ("segments_seen", Message::SegmentsAcked { through: 1 << 33 }),
        (
            "goodbye",
            Message::Goodbye {
                reason: GoodbyeReason::TakenOver,
            },
        ),
        (
            "path_challenge",
            Message::PathChallenge {
                token: 0x0102_0304_0506_0708,
            },
        ),
        (
            "path_response",
            Message::PathResponse {
                token: 0x0102_0304_0506_0708,
            },
        ),
        (
            "probe",
            Message::Probe {
                token: 0x0a0b_0c0d,
                segmented: true,
            },
        ),
        (
            "probed",
            Message::Probed {
                token: 0x0a0b_0c0d,
                piece: 7,
                transport: Some(TransportKind::Raw),
                padding: 5,
            },
        ),
        ("pose", pose(None)),
        ("audio_report", Message::AudioReport(audio_report())),
        (
            "audio_report_unknown",
            Message::AudioReport(AudioReport::default()),
        ),
        (
            "rumble",
            Message::Rumble {
                serial: 3,
                pad,
                rumble: Rumble {
                    strong: 0x8000,
                    weak: 0xff,
                },
                millis: 350,
            },
        ),
        ("controllers", controllers()),
        (
            "haptic",
            Message::Haptic {
                serial: 4,
                haptic: Haptic {
                    hand: Hand::Right,
                    amplitude: 0x8000,
                    frequency: 160,
                    duration: ms(20),
                },
            },
        ),
        ("display", display()),
        (
            "poses_wanted",
            Message::PoseSchedule {
                number: 5,
                at: RefreshTiming {
                    phase: PeerInstant(6_000_000_000),
                    period: ms(11),
                },
            },
        ),
        ("pose_moving", pose(Some([0.5, -0.25, 0.0]))),
        (
            "reports_after",
            Message::ReportsAfter {
                view: ViewId { stream: 0, view: 1 },
                frame: FrameId(6),
            },
        ),
    ]
}

fn audio_report() -> AudioReport {
    let us = Duration::from_micros;
    AudioReport {
        stream: 1,
        latency: Some(us(21_500)),
        latency_p99: Some(us(38_000)),
        bound: Some(us(40)),
        jitter: us(3_000),
        target: us(9_000),
        played: 12_000,
        concealed: 480,
        longest_concealment: 240,
        underruns: 1,
        discarded: 2,
    }
}

fn display() -> Message<'static> {
    let fov = FieldOfView::new(-0.75, 0.5, 0.625, -0.875).unwrap();
    Message::Display {
        number: 2,
        display: Display {
            refresh: Some(RefreshTiming {
                phase: PeerInstant(6_000_000_000),
                period: Duration::from_nanos(11_111_111),
            }),
            eyes: Some(Eyes {
                fov: [fov; 2],
                between: 0.0625,
            }),
        },
    }
}

fn controllers() -> Message<'static> {
    let aim = Pose::new([0.25, 1.75, -3.0], [0.0, 0.6, 0.0, 0.8]).unwrap();
    let left = ControllerState {
        grip: aim.moving(None, Some([0.5, -0.25, 0.0])).ok(),
        aim: Some(aim),
        buttons: Buttons::A_X.with(Buttons::TRIGGER_TOUCH),
        trigger: 0xc000,
        squeeze: 1,
        thumbstick: (-32_767, 0x100),
        ..ControllerState::new(Hand::Left)
    };
    Message::Controllers {
        number: 9,
        sampled: PeerInstant(6_000_000_000),
        states: [Some(left), Some(ControllerState::new(Hand::Right))],
    }
}

fn pose(velocity: Option<[f32; 3]>) -> Message<'static> {
    let pose = Pose::new([0.25, 1.75, -3.0], [0.0, 0.6, 0.0, 0.8]).unwrap();
    Message::Pose {
        id: PoseId(12),
        sampled: PeerInstant(6_000_000_000),
        pose: pose.moving(velocity, velocity).unwrap(),
    }
}
