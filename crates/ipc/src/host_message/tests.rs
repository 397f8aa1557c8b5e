use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::control::clipboard::{ClipboardDirections, MAX_TEXT};
use openuvr_proto::control::handshake::PinRefused;
use openuvr_proto::control::negotiate::{ObserverReason, Refusal, Role};
use openuvr_proto::control::ticket::TicketRefused;
use openuvr_proto::controller::{Hand, Haptic};
use openuvr_proto::ecn::Ecn;
use openuvr_proto::host::figures::{LatencyFigures, SubscriberFigures};
use openuvr_proto::host::{Grant, SubscriberKind};
use openuvr_proto::id::{ConfigEpoch, FrameId, InputSeq, PoseId};
use openuvr_proto::input::echo::{EchoKind, InputEcho};
use openuvr_proto::input::pad::{PadId, Rumble};
use openuvr_proto::pose::Pose;
use openuvr_proto::send::subscriber::Frame;
use openuvr_proto::send::update::{CursorShape, Update};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::{
    Configuration, DrawingTimes, FieldOfView, FrameHeader, PoseEcho, SlicePlace, View, Views,
};
use proptest::prelude::*;

use super::*;
use crate::admission::{AdmissionGrant, AdmitRefused};
use crate::frame::{Assembler, FrameError, encode, from_bytes, prefix, to_bytes};

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
        ce_share: rate.map(|_| 0.125),
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
        pacing: None,
        ecn: Ecn::NotEct,
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
        HostMessage::Slice(now, place, None),
        HostMessage::Slice(now, place, Some(79)),
        HostMessage::End(now),
        HostMessage::Sound(now, 240),
        HostMessage::Figures(Vec::new()),
        HostMessage::Figures(vec![figures(Some(59.5)), figures(None)]),
    ];
    all.extend(
        [
            Refusal::PlayerPresent,
            Refusal::NoCommonCodec,
            Refusal::Full,
        ]
        .map(HostMessage::Refused),
    );
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
fn host_messages_survive_a_round_trip() {
    for message in host_messages() {
        let bytes = to_bytes(&message).unwrap();
        for length in 0..bytes.len() {
            assert!(
                from_bytes::<HostMessage>(&bytes[..length]).is_err(),
                "{message:?}"
            );
        }
        assert_eq!(from_bytes(&bytes), Ok(message));
    }
}

#[test]
fn slices_and_sound_carry_their_bytes_as_payload() {
    let place = SlicePlace {
        index: 7,
        count: 8,
        first_mb: 3000,
        mbs: 600,
    };
    let slice = HostMessage::Slice(Instant(99), place, None);
    let sound = HostMessage::Sound(Instant(0), 960);
    for (message, length) in [(slice, 100_000), (sound.clone(), 80)] {
        let payload = vec![7; length];
        let mut bytes = Vec::new();
        encode(&mut bytes, &message, length).unwrap();
        bytes.extend_from_slice(&payload);
        let received = Assembler::default().add(&bytes);
        assert_eq!(received, Ok(Some((message, payload))));
    }
    let mut bytes = Vec::new();
    assert_eq!(encode(&mut bytes, &sound, 3000), Err(FrameError::TooLong));
    let end = HostMessage::End(Instant(0));
    assert_eq!(encode(&mut bytes, &end, 1), Err(FrameError::TooLong));
}

/// Whether a message that can be sent is refused by the receiver.
fn is_refused(message: &HostMessage) -> bool {
    let bytes = to_bytes(message).unwrap();
    from_bytes::<HostMessage>(&bytes) == Err(FrameError::Invalid)
}

#[test]
fn invalid_values_are_refused() {
    let shape = |width: u32, pixels: usize| {
        HostMessage::Update(Update::CursorShape(Arc::new(CursorShape {
            size: Size::new(width, 1),
            hot: (0, 0),
            argb: vec![0; pixels],
        })))
    };
    assert!(!is_refused(&shape(256, 256)));
    assert!(is_refused(&shape(257, 257)));
    assert!(is_refused(&shape(256, 255)));
    for rate in [f64::NAN, f64::INFINITY, -1.0] {
        assert!(
            is_refused(&HostMessage::Figures(vec![figures(Some(rate))])),
            "{rate}"
        );
    }
    let mut turned = figures(Some(1.0));
    turned.latency = turned.latency.map(|of| LatencyFigures {
        p50: of.p99,
        p99: of.p50,
        ..of
    });
    assert!(is_refused(&HostMessage::Figures(vec![turned])));
    let subscribers = |count| HostMessage::Figures(vec![figures(None); count]);
    assert!(!is_refused(&subscribers(MAX_SUBSCRIBERS)));
    assert!(is_refused(&subscribers(MAX_SUBSCRIBERS + 1)));
    for text in ["", &"x".repeat(MAX_TEXT + 1)] {
        assert!(is_refused(&HostMessage::Update(Update::Clipboard(
            text.into()
        ))));
    }
    let text = HostMessage::Update(Update::Clipboard((&*"x".repeat(MAX_TEXT)).into()));
    assert!(!is_refused(&text));
    let place = SlicePlace {
        index: 8,
        count: 8,
        first_mb: 0,
        mbs: 1,
    };
    assert!(is_refused(&HostMessage::Slice(Instant(0), place, None)));
    assert!(from_bytes::<HostMessage>(&[&prefix(2, 0)[..], &[1, 9]].concat()).is_err());
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let framed = [&prefix(bytes.len(), 0)[..], &bytes].concat();
        if let Ok(message) = from_bytes::<HostMessage>(&framed) {
            prop_assert_eq!(from_bytes(&to_bytes(&message).unwrap()), Ok(message));
        }
    }
}
