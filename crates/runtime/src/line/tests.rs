//! Lines survive a round trip, and other text is rejected.

use super::*;

fn record() -> FrameRecord {
    let mut host = Stamps::default();
    host.stamp(Stage::Captured, Instant(5_000_000_007));
    host.stamp(Stage::LastSent, Instant(-3));
    FrameRecord {
        subscriber: SessionId(77).into(),
        view: ViewId { stream: 2, view: 1 },
        frame: FrameId(4_000_000_000),
        host,
        client: ClientStamps {
            first_received: Some(PeerInstant(12)),
            first_received_here: Some(Mapped {
                at: Instant(13),
                bound: Duration::from_micros(9),
            }),
            recoverable: Some(Duration::from_millis(1)),
            decoded: None,
            submitted: Some(Duration::ZERO),
            presented: None,
        },
        outcome: Outcome::Displayed(Fidelity::Tainted),
        cost: FrameCost {
            key_frame: true,
            qp: 23,
            datagrams: 31,
            parity: 4,
            bytes: 42_000,
        },
        motion_to_photon: Some(Duration::from_millis(20)),
        echo: EchoKind::Injected,
        received: 27,
        missing: 1,
        runs: 2,
        repaired: 3,
        resent: 4,
        pose: Some(PoseId(9)),
        age: DisplayLatency::default(),
    }
}

#[test]
fn lines_survive_a_round_trip() {
    let dropped = FrameRecord {
        outcome: Outcome::Dropped {
            stage: Stage::FirstSent,
            why: DropCause::SendBufferFull,
        },
        client: ClientStamps::default(),
        ..record()
    };
    let left = FrameRecord {
        subscriber: SubscriberId::Other(3),
        outcome: Outcome::SentUnacknowledged,
        ..dropped
    };
    let event = ControlEvent::ReferenceInvalidation {
        frame: FrameId(9),
        to: FrameId(7),
    };
    let size = Size::new(640, 480);
    let mut lines = vec![
        Line::Streaming {
            size,
            endpoint: "UDP [::]:4710, udp-gso".into(),
        },
        Line::Invitation {
            pin: "004711".into(),
            seconds: 120,
        },
        Line::Paired {
            name: "a b".into(),
            fingerprint: "ab:cd".into(),
        },
        Line::Pairing("a wrong PIN came from [::1]:9; it has one more try".into()),
        Line::Subscribed {
            subscriber: SessionId(u32::MAX).into(),
            role: Role::Observer,
            name: String::new(),
            software: "openuvr 0.1".into(),
            rendition: RenditionId(3),
        },
        Line::RoleChanged(SubscriberId::Other(1), Role::Player),
        Line::Link(SessionId(1), TransportKind::Xdp),
        Line::Record(Box::new(record())),
        Line::Record(Box::new(dropped)),
        Line::ControlEvent(RenditionId(2), event),
        Line::Record(Box::new(left)),
        Line::EncoderOpened {
            rendition: RenditionId(1),
            encoder: "x264".into(),
            size,
        },
        Line::EncoderClosed(RenditionId(7)),
        Line::Resized(size),
        Line::PlayerWindow(Some(Size::new(1280, 720))),
        Line::PlayerWindow(None),
        Line::SourceShown(true),
        Line::Clipboard("text copied here".into()),
        Line::Sound("sound follows the default device".into()),
        Line::SourceShown(false),
        Line::InputDisplay(":1".into()),
        Line::InputWithheld(Some("covered".into())),
        Line::InputWithheld(None),
        Line::SourceEnded("it ended".into()),
        Line::Failed("x".into()),
        Line::Warning("y".into()),
    ];
    lines.extend(ENDINGS.map(|(_, ending)| Line::Ended(SessionId(9).into(), ending)));
    for line in lines {
        let text = line.text();
        assert!(text.len() < Line::MAX_LEN);
        assert_eq!(Line::read(&text), Some(line), "{text}");
    }
}

#[test]
fn a_name_can_not_forge_a_field_and_nonsense_is_ignored() {
    let line = Line::Warning("a\tb\nc".into());
    assert_eq!(line.text(), "trouble\ta b c");
    let text = Line::Record(Box::new(record())).text();
    for (at, _) in text.char_indices().filter(|(_, c)| *c == '\t') {
        assert_eq!(Line::read(&text[..at]), None, "{}", &text[..at]);
    }
    for text in [
        "",
        "what",
        "role\t1\tking",
        "resized\t0\t5",
        "ended\t1\t?",
        "decision\té",
    ] {
        assert_eq!(Line::read(text), None, "{text}");
    }
}

#[test]
fn launch_settings_survive_a_round_trip() {
    let settings = LaunchSettings {
        input: true,
        window: Some("glx".into()),
        eye: Some("960x960".to_owned()),
        gateways: true,
        host: Config {
            pin: Some("0042".into()),
            bitrate: Some(5_000_000),
            ..Config::default()
        },
    };
    let text = settings.text().unwrap();
    assert!(text.len() < LaunchSettings::MAX_LEN);
    assert_eq!(LaunchSettings::read(text.as_bytes()), Ok(settings));
    let refused = LaunchSettings::read(b"input = 7").unwrap_err();
    assert!(refused.contains("different versions"), "{refused}");
}
