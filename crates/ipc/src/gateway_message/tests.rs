use std::num::NonZeroU16;
use std::time::Duration;

use openuvr_proto::control::clipboard::ClipboardPiece;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control_event::Loss;
use openuvr_proto::controller::{ControllerState, Hand};
use openuvr_proto::display::{Display, Eyes, RefreshTiming};
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::{FrameId, PoseId};
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::pose::Pose;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::loss::LinkState;
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{Fidelity, Outcome};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::Report;
use openuvr_proto::wire::video::{FieldOfView, View};
use proptest::prelude::*;

use super::*;
use crate::admission::Admission;
use crate::frame::{from_bytes, prefix, to_bytes};

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
                chosen_fps: NonZeroU16::new(120),
            },
            display: Some(Size::new(1280, 720)),
            reports: true,
            device: Some(key),
            ..SubscribeRequest::new(Role::Player, "Maria's phone")
        }),
        GatewayMessage::Subscribe(SubscribeRequest::new(Role::Observer, "")),
        GatewayMessage::Listen(SoundCodec::Opus),
        GatewayMessage::Listen(SoundCodec::Aac),
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
    for (pin, from) in [(None, "[fe80::1%2]:80"), (Some("0042"), "192.0.2.1:4711")] {
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
        Feedback::Estimate(Bitrate(7_000_000)),
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

#[test]
fn gateway_messages_survive_a_round_trip() {
    for message in gateway_messages() {
        let bytes = to_bytes(&message).unwrap();
        for length in 0..bytes.len() {
            assert!(
                from_bytes::<GatewayMessage>(&bytes[..length]).is_err(),
                "{message:?}"
            );
        }
        assert!(from_bytes::<GatewayMessage>(&[&bytes[..], &[0]].concat()).is_err());
        assert_eq!(from_bytes(&bytes), Ok(message));
    }
}

#[test]
fn invalid_values_are_refused() {
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
        let bytes = to_bytes(&message).unwrap();
        assert!(
            from_bytes::<GatewayMessage>(&bytes).is_err(),
            "{rate} {run}"
        );
    }
    let link = LinkState {
        round_trip: Duration::from_secs(3600),
        loss: Loss::NONE,
    };
    let bytes = to_bytes(&GatewayMessage::Feedback(Feedback::Link(link))).unwrap();
    assert!(from_bytes::<GatewayMessage>(&bytes).is_err());
    let piece = GatewayMessage::ClipboardPiece(ClipboardPiece {
        total: 100,
        offset: 99,
        bytes: vec![b'x'; 2],
    });
    assert!(from_bytes::<GatewayMessage>(&to_bytes(&piece).unwrap()).is_err());
}

#[test]
fn invalid_parts_of_a_display_are_omitted() {
    let display = Display {
        refresh: Some(RefreshTiming {
            phase: PeerInstant(8),
            period: Duration::from_nanos(1),
        }),
        eyes: None,
    };
    let bytes = to_bytes(&GatewayMessage::Display(1, display)).unwrap();
    let received = from_bytes(&bytes);
    assert_eq!(received, Ok(GatewayMessage::Display(1, Display::default())));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let framed = [&prefix(bytes.len(), 0)[..], &bytes].concat();
        if let Ok(message) = from_bytes::<GatewayMessage>(&framed) {
            prop_assert_eq!(from_bytes(&to_bytes(&message).unwrap()), Ok(message));
        }
    }
}
