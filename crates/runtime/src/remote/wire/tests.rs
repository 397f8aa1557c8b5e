use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardPiece, MAX_TEXT};
use openuvr_proto::control::handshake::PinRefused;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::{ClientConstraints, ObserverReason, Refusal, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::TicketRefused;
use openuvr_proto::control_event::Loss;
use openuvr_proto::controller::{ControllerState, Hand, Haptic};
use openuvr_proto::display::{Display, Eyes, RefreshTiming};
use openuvr_proto::host::figures::{LatencyFigures, SubscriberFigures};
use openuvr_proto::host::{Grant, SubscribeRequest};
use openuvr_proto::id::{ConfigEpoch, FrameId, InputSeq, PoseId};
use openuvr_proto::input::echo::{EchoKind, InputEcho};
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::input::pad::{PadId, Rumble};
use openuvr_proto::pose::Pose;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::loss::LinkState;
use openuvr_proto::send::subscriber::{Feedback, Frame};
use openuvr_proto::send::update::{CursorShape, Update};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Fidelity, Outcome, Stage};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::{GoodbyeReason, Report};
use openuvr_proto::wire::video::{
    Configuration, DrawingTimes, FieldOfView, FrameHeader, PoseEcho, SlicePlace, View, Views,
};

use super::*;
use crate::host::{Admission, AdmissionGrant, AdmitRefused};

fn gateway_messages() -> Vec<GatewayMessage> {
    let key = PublicKey([7; 32]);
    let mut all = vec![
        GatewayMessage::Subscribe(SubscribeRequest {
            codecs: 1 << 3,
            kind: SubscriberKind::Browser,
            intake: Intake::Complete,
            software: "a browser".to_owned(),
            constraints: ClientConstraints {
                bitrate: Some(Bitrate(5_000_000)),
                size: Some(Size::new(1280, 720)),
                fps: NonZeroU16::new(60),
            },
            reports: true,
            device: Some(key),
            ..SubscribeRequest::new(Role::Player, "Maria's phone")
        }),
        GatewayMessage::Subscribe(SubscribeRequest::new(Role::Observer, "")),
        GatewayMessage::Listen,
        GatewayMessage::Figures,
        GatewayMessage::Role {
            role: Role::Player,
            take_over: true,
        },
        GatewayMessage::Activity,
        GatewayMessage::Pose(
            (
                PoseId(3),
                Pose::new([0.5, 1.5, -2.0], [0.0, 0.6, 0.0, 0.8]).unwrap(),
            ),
            PeerInstant(7),
        ),
        GatewayMessage::Controllers(
            [None, Some(ControllerState::new(Hand::Right))],
            PeerInstant(8),
        ),
        GatewayMessage::Display(
            4,
            Display {
                refresh: Some(RefreshTiming {
                    phase: PeerInstant(8),
                    period: Duration::from_micros(11_111),
                }),
                eyes: Some(Eyes {
                    fov: [eye(0.0).fov; 2],
                    between: 0.0625,
                }),
            },
        ),
        GatewayMessage::ClipboardPiece(ClipboardPiece {
            total: 9_000,
            offset: 8_192,
            bytes: vec![b'x'; 808],
        }),
    ];
    for (pin, from) in [(None, "[::1]:80"), (Some("0042"), "192.0.2.1:4711")] {
        all.push(GatewayMessage::Admit(Admission {
            key,
            name: DeviceName::new("a phone"),
            pin: pin.map(|digits| Pin::parse(digits).unwrap()),
            ticket: pin.map(|_| "AQEB".to_owned()),
            from: from.parse().unwrap(),
        }));
    }
    let (pressed, code) = (true, KeyCode(30));
    for event in [
        InputEvent::Key {
            code,
            text: Some('ä'),
            pressed,
        },
        InputEvent::PointerAbsolute { x: 1, y: 65_535 },
        InputEvent::Button {
            button: Button::LEFT,
            pressed,
        },
        InputEvent::ReleaseAll,
    ] {
        all.push(GatewayMessage::Input(event, PeerInstant(-5)));
    }
    for feedback in [
        Feedback::Frame(Report::new(
            FrameId(9),
            Outcome::Displayed(Fidelity::Complete),
        )),
        Feedback::Link(LinkState {
            round_trip: Duration::from_millis(7),
            loss: Loss {
                rate: 0.25,
                run: 2.5,
            },
        }),
        Feedback::KeyFrame {
            last_good: FrameId::NONE,
            newest: FrameId(70),
        },
        Feedback::Clock {
            asked: Instant(1),
            received: PeerInstant(-2),
            answered: PeerInstant(3),
            heard: Instant(4),
        },
    ] {
        all.push(GatewayMessage::Feedback(feedback));
    }
    all
}

fn eye(right: f32) -> View {
    View {
        pose: Pose::new([right, 1.5, 0.0], [0.0, 0.0, 0.0, 1.0]).unwrap(),
        fov: FieldOfView::new(-0.75, 0.5, 0.625, -0.875).unwrap(),
    }
}

fn figures(rate: Option<f64>) -> SubscriberFigures {
    let ms = Duration::from_millis;
    SubscriberFigures {
        kind: SubscriberKind::VideoPlayer,
        role: Role::Observer,
        frames_per_second: rate,
        latency: rate.map(|_| LatencyFigures {
            p50: ms(7),
            p99: ms(15),
            bound: ms(1),
        }),
    }
}

fn host_messages() -> Vec<HostMessage> {
    let (role, observer_reason) = (Role::Observer, Some(ObserverReason::TakenOver));
    let header = FrameHeader {
        frame: FrameId(5),
        reference: FrameId::NONE,
        epoch: ConfigEpoch(2),
        stream: 0,
        view: 1,
        captured: 123_456_789_000,
        clock_epoch: 3,
        echo: InputEcho {
            seq: InputSeq(8),
            kind: EchoKind::Consumed,
        },
    };
    let frame = |configuration| Frame {
        header,
        configuration,
        pose: Some(PoseEcho {
            pose: PoseId(6),
            at: Pose::new([0.5, 1.5, 0.0], [0.0, 0.0, 0.0, 1.0]).unwrap(),
            display: Some(PeerInstant(77)),
        }),
        views: Some(Views::two(eye(-0.5), eye(0.5))),
        times: DrawingTimes {
            predicted: Some(PeerInstant(55)),
            begun: None,
        },
        slices: 8,
        interval: Duration::from_micros(16_667),
        link: None,
        capacity: None,
    };
    let configuration = Configuration {
        size: Size::new(1280, 720),
        codec: 1,
        colour: 1,
        fps: 60,
    };
    let place = SlicePlace {
        index: 7,
        count: 8,
        first_mb: 3000,
        mbs: 600,
    };
    let now = Instant(99);
    let mut all = vec![
        HostMessage::Granted(Grant {
            role,
            observer_reason,
        }),
        HostMessage::Granted(Grant {
            role: Role::Player,
            observer_reason: None,
        }),
        HostMessage::Failed("no thread".to_owned()),
        HostMessage::Admitted(AdmissionGrant {
            title: "Maria's phone".to_owned(),
            max_role: Role::Observer,
        }),
        HostMessage::Begin(now, Box::new(frame(None))),
        HostMessage::Begin(now, Box::new(frame(Some(configuration)))),
        HostMessage::Slice(now, place, None, vec![1; 100_000]),
        HostMessage::Slice(now, place, Some(79), Vec::new()),
        HostMessage::End(now),
        HostMessage::Sound(now, 240, vec![5; 80]),
        HostMessage::Figures(Vec::new()),
        HostMessage::Figures(vec![figures(Some(59.5)), figures(None)]),
    ];
    all.extend(REFUSALS.map(HostMessage::Refused));
    for why in [
        AdmitRefused::Unknown,
        AdmitRefused::Forbidden,
        AdmitRefused::Pin(PinRefused::Closed),
        AdmitRefused::Pin(PinRefused::Wait(30)),
        AdmitRefused::Pin(PinRefused::Wrong),
        AdmitRefused::Pin(PinRefused::Forbidden),
        AdmitRefused::Ticket(TicketRefused::Used),
    ] {
        all.push(HostMessage::NotAdmitted(why));
    }
    let dropped = |stage| HostMessage::Dropped(now, FrameId(4), stage, DropCause::Superseded);
    all.extend(Stage::ALL.iter().copied().map(dropped));
    for update in [
        Update::Role {
            role,
            observer_reason,
        },
        Update::SourceShown(false),
        Update::RelativeMouse(true),
        Update::CursorShape(Arc::new(CursorShape {
            size: Size::new(2, 1),
            hot: (1, 0),
            argb: vec![0xff00_0000, 7],
        })),
        Update::CursorMoved(None),
        Update::CursorMoved(Some((1, 65_535))),
        Update::ClipboardDirections(ClipboardDirections {
            to_host: true,
            to_client: false,
        }),
        Update::Clipboard("Füße".into()),
        Update::Rumble {
            pad: PadId::new(3).unwrap(),
            rumble: Rumble {
                strong: 65_535,
                weak: 1,
            },
            millis: 350,
        },
        Update::Haptic(Haptic {
            hand: Hand::Left,
            amplitude: 32_768,
            frequency: 160,
            duration: Duration::from_millis(20),
        }),
        Update::Ended(GoodbyeReason::SourceEnded),
    ] {
        all.push(HostMessage::Update(update));
    }
    all
}

#[test]
fn gateway_messages_survive_a_round_trip() {
    for message in gateway_messages() {
        assert_eq!(GatewayMessage::read(&message.to_bytes()), Ok(message));
    }
}

#[test]
fn host_messages_survive_a_round_trip() {
    for message in host_messages() {
        assert_eq!(HostMessage::read(&message.to_bytes()), Ok(message));
    }
}

#[test]
fn truncated_or_overlong_messages_are_refused() {
    let all = gateway_messages()
        .into_iter()
        .map(|message| message.to_bytes());
    for bytes in all {
        for length in 0..bytes.len() {
            assert!(GatewayMessage::read(&bytes[..length]).is_err(), "{bytes:?}");
        }
        assert!(GatewayMessage::read(&[&bytes[..], &[0]].concat()).is_err());
    }
    let long = HostMessage::Sound(Instant(0), 960, vec![0; 3000]);
    assert!(HostMessage::read(&long.to_bytes()).is_err());
}

#[test]
fn invalid_values_are_refused() {
    let size = |width| {
        HostMessage::Update(Update::CursorShape(Arc::new(CursorShape {
            size: Size::new(width, 1),
            hot: (0, 0),
            argb: vec![0; width as usize],
        })))
    };
    assert!(HostMessage::read(&size(256).to_bytes()).is_ok());
    assert!(HostMessage::read(&size(257).to_bytes()).is_err());
    for (rate, run) in [
        (f64::NAN, 1.0),
        (1.5, 1.0),
        (0.5, 0.0),
        (0.0, f64::INFINITY),
    ] {
        let link = LinkState {
            round_trip: Duration::ZERO,
            loss: Loss { rate, run },
        };
        let message = GatewayMessage::Feedback(Feedback::Link(link));
        assert!(
            GatewayMessage::read(&message.to_bytes()).is_err(),
            "{rate} {run}"
        );
    }
    for rate in [f64::NAN, f64::INFINITY, -1.0] {
        let message = HostMessage::Figures(vec![figures(Some(rate))]);
        assert!(HostMessage::read(&message.to_bytes()).is_err(), "{rate}");
    }
    let mut turned = figures(Some(1.0));
    turned.latency = turned.latency.map(|of| LatencyFigures {
        p50: of.p99,
        p99: of.p50,
        ..of
    });
    let message = HostMessage::Figures(vec![turned]);
    assert!(HostMessage::read(&message.to_bytes()).is_err());
    // More subscribers than fit are truncated.
    let message = HostMessage::Figures(vec![figures(None); 300]).to_bytes();
    let Ok(HostMessage::Figures(all)) = HostMessage::read(&message) else {
        panic!("valid statistics");
    };
    assert_eq!(all, vec![figures(None); 128]);
    let place = SlicePlace {
        index: 8,
        count: 8,
        first_mb: 0,
        mbs: 1,
    };
    for text in ["", &"x".repeat(MAX_TEXT + 1)] {
        let copied = HostMessage::Update(Update::Clipboard(text.into()));
        assert!(HostMessage::read(&copied.to_bytes()).is_err());
    }
    let slice = HostMessage::Slice(Instant(0), place, None, vec![1]);
    assert!(HostMessage::read(&slice.to_bytes()).is_err());
    assert_eq!(HostMessage::read(&[2, 9]), Err(Reject::Range("refusal")));
    assert!(matches!(Refusal::Full, why if index_in(&REFUSALS, &why) == 2));
}
