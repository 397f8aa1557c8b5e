//! Reports survive a round trip, and other bytes are refused.

use std::num::NonZeroU16;
use std::time::Duration;

use openuvr_proto::control::negotiate::{ClientConstraints, Refusal, Role};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::{ControlEvent, RateChange};
use openuvr_proto::ecn::EcnCounts;
use openuvr_proto::host::{Ending, WantedDisplay};
use openuvr_proto::id::{FrameId, PoseId, RenditionId, SessionId, SubscriberId, ViewId};
use openuvr_proto::time::{Instant, Mapped, PeerInstant};
use openuvr_proto::trace::{
    ClientStamps, DisplayLatency, DropCause, Fidelity, FrameCost, FrameRecord, Outcome, Stage,
    Stamps,
};
use openuvr_proto::units::Bitrate;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_proto::wire::video::EchoKind;
use proptest::prelude::*;

use super::*;
use crate::frame::{FrameError, from_bytes, prefix, to_bytes};

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
            repeats: true,
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
        ecn: Some(EcnCounts {
            ect1: 20,
            ce: 7,
            ..EcnCounts::default()
        }),
        age: DisplayLatency::default(),
    }
}

#[test]
fn reports_survive_a_round_trip() {
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
    let mut notices = vec![
        Notice::Paired {
            name: "a b".into(),
            fingerprint: "ab:cd".into(),
        },
        Notice::Pairing("a wrong PIN came from [::1]:9; it has one more try".into()),
        Notice::Subscribed {
            subscriber: SessionId(u32::MAX).into(),
            role: Role::Observer,
            name: String::new(),
            software: "openuvr 0.1".into(),
            constraints: ClientConstraints::default(),
            rendition: RenditionId(3),
        },
        Notice::RoleChanged(SubscriberId::Other(1), Role::Player),
        Notice::Link(SessionId(1), TransportKind::Xdp),
        Notice::Record(Box::new(record())),
        Notice::Record(Box::new(dropped)),
        Notice::ControlEvent {
            rendition: RenditionId(2),
            event,
        },
        Notice::Record(Box::new(left)),
        Notice::EncoderOpened {
            rendition: RenditionId(1),
            encoder: "x264".into(),
            size,
        },
        Notice::EncoderClosed(RenditionId(7)),
        Notice::Resized(size),
        Notice::PlayerWindow(Some(WantedDisplay {
            size: Size::new(1280, 720),
            rate: NonZeroU16::new(144),
        })),
        Notice::PlayerWindow(None),
        Notice::SourceShown(true),
        Notice::Clipboard("text copied here".into()),
        Notice::Sound("sound follows the default device".into()),
        Notice::SourceShown(false),
        Notice::InputWithheld(Some("covered".into())),
        Notice::InputWithheld(None),
        Notice::SourceEnded("it ended".into()),
        Notice::Failed("x".into()),
        Notice::Warning("y".into()),
    ];
    let endings = [
        Ending::Goodbye(GoodbyeReason::Quit),
        Ending::Goodbye(GoodbyeReason::SourceEnded),
        Ending::Goodbye(GoodbyeReason::TakenOver),
        Ending::Goodbye(GoodbyeReason::Forbidden),
        Ending::Goodbye(GoodbyeReason::Failed),
        Ending::Silent,
        Ending::Replaced,
        Ending::Refused(Refusal::PlayerPresent),
        Ending::Refused(Refusal::NoCommonCodec),
        Ending::Refused(Refusal::Full),
        Ending::Closed,
    ];
    notices.extend(endings.map(|ending| Notice::Ended(SessionId(9).into(), ending)));
    notices.extend([Notice::NoPicture, Notice::Lost(7)]);
    let mut reports: Vec<LaunchReport> = notices.into_iter().map(LaunchReport::from).collect();
    reports.extend([
        LaunchReport::Streaming {
            size,
            endpoint: "UDP [::]:4710, udp-gso".into(),
        },
        LaunchReport::Invitation {
            pin: "004711".into(),
            seconds: 120,
        },
        LaunchReport::InputDisplay(":1".into()),
    ]);
    for report in reports {
        let bytes = to_bytes(&report).unwrap();
        assert_eq!(from_bytes(&bytes), Ok(report.clone()));
        for length in 0..bytes.len() {
            assert!(
                from_bytes::<LaunchReport>(&bytes[..length]).is_err(),
                "{report:?}"
            );
        }
    }
}

#[test]
fn a_text_that_is_too_long_is_not_sent() {
    let report = LaunchReport::from(Notice::Warning("x".repeat(LaunchReport::MAX_LEN)));
    assert_eq!(to_bytes(&report), Err(FrameError::TooLong));
}

#[test]
fn invalid_values_are_refused() {
    let size = |size| to_bytes(&LaunchReport::from(Notice::Resized(size))).unwrap();
    assert!(from_bytes::<LaunchReport>(&size(Size::new(Size::MAX_SIDE, 1))).is_ok());
    for invalid in [Size::new(0, 5), Size::new(5, Size::MAX_SIDE + 1)] {
        let refused = from_bytes::<LaunchReport>(&size(invalid));
        assert_eq!(refused, Err(FrameError::Invalid), "{invalid}");
    }
    for lost in [f64::NAN, f64::INFINITY, -0.5, 1.5] {
        let to = Bitrate(1);
        let event = ControlEvent::Rate(RateChange::Loss { to, lost });
        let rendition = RenditionId(1);
        let report = LaunchReport::from(Notice::ControlEvent { rendition, event });
        let refused = from_bytes::<LaunchReport>(&to_bytes(&report).unwrap());
        assert_eq!(refused, Err(FrameError::Invalid), "{lost}");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let framed = [&prefix(bytes.len(), 0)[..], &bytes].concat();
        if let Ok(report) = from_bytes::<LaunchReport>(&framed) {
            prop_assert_eq!(from_bytes(&to_bytes(&report).unwrap()), Ok(report));
        }
    }
}
