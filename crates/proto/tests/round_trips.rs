//! Writing a value and reading it back returns the same value.
#![allow(
    clippy::cast_possible_truncation,
    reason = "test values are known to fit"
)]

use std::num::NonZeroU16;
use std::time::Duration;

use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardPiece, MAX_TEXT, PIECE};
use openuvr_proto::control::negotiate::{
    ClientConstraints, Negotiation, ObserverReason, Offer, Refusal, Role,
};
use openuvr_proto::control::streams::{Grant, MAX_STREAMS, StreamOffer};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::{ControlEvent, KeyFrameReason, L4sChange, Loss, RateChange};
use openuvr_proto::controller::{Buttons, ControllerState, Hand, Haptic};
use openuvr_proto::display::{Display, Eyes, RefreshTiming};
use openuvr_proto::ecn::EcnCounts;
use openuvr_proto::id::{ConfigEpoch, DeviceId, FrameId, InputSeq, PayloadSeq, PoseId, ViewId};
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::input::pad::{MAX_PADS, PadId, PadIdentity, PadName, PadState, Rumble};
use openuvr_proto::input::pressed::PressedKey;
use openuvr_proto::pose::Pose;
use openuvr_proto::printable::printable;
use openuvr_proto::time::PeerInstant;
use openuvr_proto::trace::{DisplayLatency, DropCause, Fidelity, Outcome, Stage};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::{
    AudioReport, GoodbyeReason, InputBatch, MAX_EVENTS, MAX_PRESSED, MAX_RANGES, Message, Messages,
    MissingRange, Report, RetransmissionRequest,
};
use openuvr_proto::wire::fec::{BLOCK, FecRepair, MAX_PARITY, MAX_SHARD};
use openuvr_proto::wire::media::{Owner, StreamId, StreamKind};
use openuvr_proto::wire::timed::{MAX_BLOCKS, MAX_TIMED_BODY, Payload, Timed, TimedWriter};
use openuvr_proto::wire::video::{
    Configuration, DrawingTimes, EchoKind, Extensions, FecPlace, FieldOfView, Flags, Fragment,
    FragmentPlace, FrameHeader, InputEcho, MAX_FRAGMENTS, MAX_SLICES, PoseEcho, SlicePlace, View,
    Views,
};
use proptest::prelude::*;
use proptest::sample::select;

fn frame() -> impl Strategy<Value = FrameId> {
    any::<u32>().prop_map(FrameId)
}

/// Values that the wire format can represent: ratios are multiples of 1/65 535, run lengths are in hundredths, and
/// durations are in microseconds.
fn decision() -> impl Strategy<Value = ControlEvent> {
    let rate = || any::<u64>().prop_map(Bitrate);
    let span = || any::<u32>().prop_map(|us| Duration::from_micros(us.into()));
    let share = |one: f64| any::<u16>().prop_map(move |part| f64::from(part) / one);
    let why = select(&[
        KeyFrameReason::Requested,
        KeyFrameReason::NoReference,
        KeyFrameReason::RefreshFailed,
        KeyFrameReason::Periodic,
        KeyFrameReason::First,
    ]);
    let loss = (share(65_535.0), share(100.0)).prop_map(|(rate, run)| Loss { rate, run });
    prop_oneof![
        (rate(), span(), rate()).prop_map(|(to, waited, capacity)| ControlEvent::Rate(
            RateChange::Queue {
                to,
                waited,
                capacity
            }
        )),
        (rate(), share(65_535.0))
            .prop_map(|(to, lost)| ControlEvent::Rate(RateChange::Loss { to, lost })),
        rate().prop_map(|to| ControlEvent::Rate(RateChange::Silence { to })),
        rate().prop_map(|to| ControlEvent::Rate(RateChange::Increase { to })),
        rate().prop_map(|to| ControlEvent::Rate(RateChange::Maximum { to })),
        span().prop_map(|by| ControlEvent::Rate(RateChange::LongerPath { by })),
        rate().prop_map(|to| ControlEvent::Rate(RateChange::Reverted { to })),
        span().prop_map(|by| ControlEvent::Rate(RateChange::Stall { by })),
        (rate(), share(65_535.0))
            .prop_map(|(to, share)| ControlEvent::Rate(RateChange::Marked { to, share })),
        (rate(), span())
            .prop_map(|(to, waited)| ControlEvent::Rate(RateChange::ClassicMarks { to, waited })),
        select(&[L4sChange::Started, L4sChange::Bleached, L4sChange::Remarked])
            .prop_map(ControlEvent::L4s),
        rate().prop_map(|to| ControlEvent::Rate(RateChange::Estimate { to })),
        (frame(), frame())
            .prop_map(|(frame, to)| ControlEvent::ReferenceInvalidation { frame, to }),
        (frame(), frame()).prop_map(|(frame, lost)| ControlEvent::IntraRefresh { frame, lost }),
        (frame(), why).prop_map(|(frame, why)| ControlEvent::KeyFrame { frame, why }),
        (any::<u8>(), any::<bool>(), loss, span()).prop_map(
            |(parity, resend, loss, round_trip)| ControlEvent::Protection {
                parity,
                resend,
                loss,
                round_trip,
            }
        ),
        span().prop_map(|wait| ControlEvent::CongestionSkip { wait }),
    ]
}

fn view() -> impl Strategy<Value = ViewId> {
    any::<(u8, u8)>().prop_map(|(stream, view)| ViewId { stream, view })
}

fn stream() -> impl Strategy<Value = StreamId> {
    use StreamKind::{Audio, Haptics, Poses, Video};
    (select(&[Video, Audio, Haptics, Poses]), any::<u8>())
        .prop_map(|(kind, number)| StreamId { kind, number })
}

fn offers() -> impl Strategy<Value = Vec<StreamOffer>> {
    let offer = (stream(), any::<(bool, bool, u32, u8)>());
    let offer = offer.prop_map(
        |(stream, (to_client, to_host, formats, views))| StreamOffer {
            stream,
            to_client,
            to_host,
            formats,
            views,
        },
    );
    prop::collection::vec(offer, 0..=MAX_STREAMS)
}

fn grants() -> impl Strategy<Value = Vec<Grant>> {
    let grant = (stream(), any::<(bool, bool, u8, u8)>());
    let grant = grant.prop_map(|(stream, (to_client, to_host, format, views))| Grant {
        stream,
        to_client,
        to_host,
        format,
        views,
    });
    prop::collection::vec(grant, 0..=MAX_STREAMS)
}

fn peer_instant() -> impl Strategy<Value = PeerInstant> {
    any::<i64>().prop_map(PeerInstant)
}

/// A duration within the range of the wire format: 32 bits of nanoseconds, excluding the value that encodes "not
/// measured".
fn span() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of((0..u32::MAX).prop_map(|ns| Duration::from_nanos(ns.into())))
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let fidelity = select(&[Fidelity::Complete, Fidelity::Concealed, Fidelity::Tainted]);
    let cause = select(&[
        DropCause::Superseded,
        DropCause::CongestionSkipped,
        DropCause::EncodeFailed,
        DropCause::SendBufferFull,
        DropCause::Lost,
        DropCause::DecodeFailed,
        DropCause::AwaitingKeyFrame,
        DropCause::SessionEnded,
        DropCause::Unreported,
    ]);
    prop_oneof![
        fidelity.prop_map(Outcome::Displayed),
        Just(Outcome::SentUnacknowledged),
        (select(Stage::ALL), cause).prop_map(|(stage, why)| Outcome::Dropped { stage, why }),
    ]
}

fn echo_kind() -> impl Strategy<Value = EchoKind> {
    select(&[EchoKind::None, EchoKind::Injected, EchoKind::Consumed])
}

fn audio_report() -> impl Strategy<Value = AudioReport> {
    // Known durations are in microseconds, up to about an hour.
    let span = || (0..4_000_000_000_u32).prop_map(|us| Duration::from_micros(us.into()));
    let known = move || prop::option::of(span());
    let counts = any::<(u8, u64, u64, u32, u64, u64)>();
    ((known(), known(), known()), (span(), span()), counts).prop_map(
        |((latency, latency_p99, bound), (jitter, target), counts)| {
            let (stream, played, concealed, longest_concealment, underruns, discarded) = counts;
            AudioReport {
                stream,
                latency,
                latency_p99,
                bound,
                jitter,
                target,
                played,
                concealed,
                longest_concealment,
                underruns,
                discarded,
            }
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    let first_received = (i64::MIN + 1..=i64::MAX).prop_map(PeerInstant);
    (
        (view(), frame(), outcome(), prop::option::of(first_received)),
        [span(), span(), span(), span(), span()],
        (
            echo_kind(),
            any::<[u16; 5]>(),
            prop::option::of(1..=u32::MAX),
            prop::option::of(any::<[u16; 4]>()),
        ),
    )
        .prop_map(
            |((view, frame, outcome, first_received), spans, last)| Report {
                view,
                frame,
                outcome,
                first_received,
                recoverable: spans[0],
                decoded: spans[1],
                submitted: spans[2],
                presented: spans[3],
                motion_to_photon: spans[4],
                echo: last.0,
                datagrams: last.1[0],
                missing: last.1[1],
                runs: last.1[2],
                repaired: last.1[3],
                resent: last.1[4],
                pose: last.2.map(PoseId),
                ecn: last.3.map(|[not_ect, ect1, ect0, ce]| EcnCounts {
                    not_ect,
                    ect1,
                    ect0,
                    ce,
                }),
                age: DisplayLatency::default(),
            },
        )
}

fn pad() -> impl Strategy<Value = PadId> {
    (0..MAX_PADS).prop_map(|number| PadId::new(number).expect("below the maximum"))
}

fn pad_event() -> impl Strategy<Value = InputEvent> {
    let identity = ("\\PC{0,40}", any::<(u16, u16, u32, [bool; 2], bool)>());
    let identity = identity.prop_map(|(name, rest)| {
        let (vendor, product, buttons, sticks, rumbles) = rest;
        PadIdentity {
            name: PadName::new(&name),
            vendor,
            product,
            buttons,
            sticks,
            rumbles,
        }
    });
    let state = any::<(u32, [i16; 4], [u16; 2])>();
    let state = state.prop_map(|(buttons, sticks, triggers)| PadState {
        buttons,
        sticks,
        triggers,
    });
    prop_oneof![
        (pad(), identity).prop_map(|(pad, identity)| InputEvent::PadConnected { pad, identity }),
        pad().prop_map(|pad| InputEvent::PadDisconnected { pad }),
        (pad(), state).prop_map(|(pad, state)| InputEvent::Pad { pad, state }),
    ]
}

fn event() -> impl Strategy<Value = InputEvent> {
    let key = |(code, text, pressed): (u16, Option<char>, bool)| InputEvent::Key {
        code: KeyCode(code),
        // On the wire, zero encodes "no text".
        text: text.filter(|c| *c != '\0'),
        pressed,
    };
    prop_oneof![
        any::<(u16, Option<char>, bool)>().prop_map(key),
        any::<(u16, u16)>().prop_map(|(x, y)| InputEvent::PointerAbsolute { x, y }),
        any::<(i16, i16)>().prop_map(|(dx, dy)| InputEvent::PointerRelative { dx, dy }),
        any::<(u16, bool)>().prop_map(|(button, pressed)| InputEvent::Button {
            button: Button(button),
            pressed
        }),
        any::<(i16, i16)>().prop_map(|(dx, dy)| InputEvent::Wheel { dx, dy }),
        Just(InputEvent::ReleaseAll),
        pad_event(),
        any::<(u8, u16, u16, i32)>().prop_map(|(device, kind, code, value)| InputEvent::Device {
            device: DeviceId(device),
            kind,
            code,
            value,
        }),
    ]
}

fn held() -> impl Strategy<Value = PressedKey> {
    (any::<Option<u8>>(), 0..0x8000_u16).prop_map(|(device, code)| PressedKey {
        device: device.map(DeviceId),
        code,
    })
}

fn position() -> impl Strategy<Value = Pose> {
    let three = || prop::array::uniform3(-1e6_f32..1e6);
    let moving = || prop::option::of(three());
    let turned = prop::array::uniform3(-0.5_f32..0.5).prop_map(|[x, y, z]| {
        let w = (1.0 - x * x - y * y - z * z).sqrt();
        [x, y, z, w]
    });
    (three(), turned, moving(), moving()).prop_map(|(position, orientation, linear, angular)| {
        Pose::new(position, orientation)
            .and_then(|pose| pose.moving(linear, angular))
            .expect("finite and a rotation")
    })
}

fn pose() -> impl Strategy<Value = Message<'static>> {
    (any::<(u32, i64)>(), position()).prop_map(|((id, sampled), pose)| Message::Pose {
        id: PoseId(id),
        sampled: PeerInstant(sampled),
        pose,
    })
}

fn controller(hand: Hand) -> impl Strategy<Value = ControllerState> {
    let place = || prop::option::of(position());
    let numbers = any::<(u16, u16, u16, i16, i16)>();
    (place(), place(), numbers).prop_map(move |(grip, aim, numbers)| ControllerState {
        hand,
        grip,
        aim,
        buttons: Buttons(numbers.0),
        trigger: numbers.1,
        squeeze: numbers.2,
        thumbstick: (numbers.3, numbers.4),
    })
}

fn controllers() -> impl Strategy<Value = Message<'static>> {
    let [left, right] = Hand::ALL.map(|hand| prop::option::of(controller(hand)));
    (any::<(u32, i64)>(), left, right).prop_map(|((number, sampled), left, right)| {
        Message::Controllers {
            number,
            sampled: PeerInstant(sampled),
            states: [left, right],
        }
    })
}

fn display() -> impl Strategy<Value = Message<'static>> {
    let refresh = (any::<i64>(), 1_000_000..=100_000_000_u64);
    let refresh = refresh.prop_map(|(phase, nanos)| RefreshTiming {
        phase: PeerInstant(phase),
        period: Duration::from_nanos(nanos),
    });
    let eyes = (eye(), eye(), 0.0..=0.2_f32).prop_map(|(left, right, between)| Eyes {
        fov: [left.fov, right.fov],
        between,
    });
    let display = (prop::option::of(refresh), prop::option::of(eyes));
    (any::<u32>(), display).prop_map(|(number, (refresh, eyes))| Message::Display {
        number,
        display: Display { refresh, eyes },
    })
}

fn pose_schedule() -> impl Strategy<Value = Message<'static>> {
    (any::<(u32, i64)>(), 1_000_000..=100_000_000_u64).prop_map(|((number, phase), nanos)| {
        let at = RefreshTiming {
            phase: PeerInstant(phase),
            period: Duration::from_nanos(nanos),
        };
        Message::PoseSchedule { number, at }
    })
}

fn haptic() -> impl Strategy<Value = Message<'static>> {
    let numbers = (any::<(u32, u16, u16)>(), 0..60_000_000_u64);
    (select(&Hand::ALL), numbers).prop_map(|(hand, ((serial, amplitude, frequency), micros))| {
        Message::Haptic {
            serial,
            haptic: Haptic {
                hand,
                amplitude,
                frequency,
                duration: Duration::from_micros(micros),
            },
        }
    })
}

fn eye() -> impl Strategy<Value = View> {
    let angles = prop::array::uniform4(-1.57_f32..1.57);
    let fov = angles.prop_map(|[l, r, u, d]| FieldOfView::new(l, r, u, d).expect("within 90°"));
    (position(), fov).prop_map(|(pose, fov)| View { pose, fov })
}

fn extensions() -> impl Strategy<Value = Extensions> {
    let echo = (any::<u32>(), prop::option::of(i64::MIN + 1..), position());
    let echo = echo.prop_map(|(id, display, at)| PoseEcho {
        pose: PoseId(id),
        at,
        display: display.map(PeerInstant),
    });
    let instant = || prop::option::of((i64::MIN + 1..).prop_map(PeerInstant));
    let times = (instant(), instant());
    let times = times.prop_map(|(predicted, begun)| DrawingTimes { predicted, begun });
    let views = prop_oneof![
        eye().prop_map(Views::one),
        (eye(), eye()).prop_map(|(left, right)| Views::two(left, right)),
    ];
    (
        prop::option::of(configuration()),
        any::<Option<u16>>(),
        prop::option::of(echo),
        prop::option::of(views),
        times,
    )
        .prop_map(
            |(configuration, clean_after, pose, views, times)| Extensions {
                configuration,
                clean_after,
                pose,
                views,
                times,
            },
        )
}

/// Events in the order of their sampling, within the 4.29 s that the wire format can represent.
fn batch() -> impl Strategy<Value = InputBatch> {
    let events = prop::collection::vec((event(), 0_i64..50_000_000), 0..=MAX_EVENTS);
    let pressed = prop::collection::vec(held(), 0..=MAX_PRESSED);
    let start = -1_i64 << 60..1 << 60;
    let ids = (any::<u16>(), any::<u32>());
    (ids, start, events, prop::option::of(pressed)).prop_map(|(ids, mut at, events, pressed)| {
        let sampled = |(event, later)| {
            at += later;
            (event, PeerInstant(at))
        };
        InputBatch {
            epoch: ConfigEpoch(ids.0),
            first: InputSeq(ids.1),
            events: events.into_iter().map(sampled).collect(),
            pressed,
        }
    })
}

fn resend() -> impl Strategy<Value = RetransmissionRequest> {
    let range = |(slice, first, last)| MissingRange { slice, first, last };
    let ranges = prop::collection::vec(any::<(u8, u16, u16)>().prop_map(range), 0..=MAX_RANGES);
    (view(), frame(), ranges).prop_map(|(view, frame, ranges)| RetransmissionRequest {
        view,
        frame,
        ranges,
    })
}

fn reason() -> impl Strategy<Value = GoodbyeReason> {
    select(&[
        GoodbyeReason::Quit,
        GoodbyeReason::SourceEnded,
        GoodbyeReason::TakenOver,
        GoodbyeReason::Forbidden,
        GoodbyeReason::Failed,
    ])
}

fn rumble() -> impl Strategy<Value = Message<'static>> {
    let numbers = any::<(u32, u16, u16, u16)>();
    (pad(), numbers).prop_map(|(pad, (serial, strong, weak, millis))| Message::Rumble {
        serial,
        pad,
        rumble: Rumble { strong, weak },
        millis,
    })
}

fn message() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        any::<i64>().prop_map(|asked| Message::Ping { asked }),
        (any::<i64>(), peer_instant(), peer_instant()).prop_map(|(asked, received, answered)| {
            Message::Pong {
                asked,
                received,
                answered,
            }
        }),
        report().prop_map(Message::Report),
        (view(), frame()).prop_map(|(view, through)| Message::ReportsAcked { view, through }),
        (view(), frame()).prop_map(|(view, frame)| Message::ReportsAfter { view, frame }),
        (view(), frame(), frame()).prop_map(|(view, last_good, newest)| Message::KeyFrameRequest {
            view,
            last_good,
            newest
        }),
        (view(), frame()).prop_map(|(view, newest)| Message::Beacon { view, newest }),
        resend().prop_map(Message::RetransmissionRequest),
        any::<(u32, Option<(u16, u16)>)>()
            .prop_map(|(serial, at)| Message::CursorMoved { serial, at }),
        batch().prop_map(Message::Input),
        rumble(),
        pose(),
        controllers(),
        haptic(),
        pose_schedule(),
        display(),
        any::<u32>().prop_map(|seq| Message::InputAcked {
            through: InputSeq(seq)
        }),
        (any::<u64>(), select(vec![&b""[..], b"x", &[7; 1200]]))
            .prop_map(|(offset, bytes)| Message::Segment { offset, bytes }),
        any::<u64>().prop_map(|through| Message::SegmentsAcked { through }),
        decision().prop_map(Message::ControlEvent),
        audio_report().prop_map(Message::AudioReport),
        reason().prop_map(|reason| Message::Goodbye { reason }),
        any::<(u32, bool)>().prop_map(|(token, segmented)| Message::Probe { token, segmented }),
        any::<u64>().prop_map(|token| Message::PathChallenge { token }),
        any::<u64>().prop_map(|token| Message::PathResponse { token }),
        (any::<(u32, u8)>(), 0_u8..5, 0_u16..1300).prop_map(
            |((token, piece), transport, padding)| {
                Message::Probed {
                    token,
                    piece,
                    transport: TransportKind::of(transport),
                    padding,
                }
            }
        ),
    ]
}

fn negotiation() -> impl Strategy<Value = Negotiation> {
    let role = || select(&[Role::Player, Role::Observer]);
    let refusal = select(&[
        Refusal::PlayerPresent,
        Refusal::NoCommonCodec,
        Refusal::Full,
    ]);
    // At most 63 characters of any kind, and so at most 255 bytes. Unprintable characters are excluded, because the
    // receiver removes them.
    let text = || "[^\\p{Cc}]{0,63}".prop_map(|text| printable(&text));
    prop_oneof![
        grants().prop_map(Negotiation::Streams),
        (
            (role(), any::<bool>(), any::<u32>(), text(), text()),
            (
                any::<u64>(),
                prop::option::of((1..=Size::MAX_SIDE, 1..=Size::MAX_SIDE)),
                any::<u16>(),
                offers()
            ),
        )
            .prop_map(
                |((role, take_over, codecs, name, software), (bitrate, size, fps, streams))| {
                    let constraints = ClientConstraints {
                        bitrate: Some(Bitrate(bitrate)).filter(|rate| rate.0 != 0),
                        size: size.map(|(width, height)| Size::new(width, height)),
                        fps: NonZeroU16::new(fps),
                        chosen_fps: None,
                    };
                    Negotiation::Offer(Offer {
                        role,
                        take_over,
                        codecs,
                        name,
                        software,
                        constraints,
                        streams,
                    })
                }
            ),
        (
            role(),
            text(),
            select(&[Keys::Symbol, Keys::Position, Keys::Both]),
            select(&[
                None,
                Some(ObserverReason::Requested),
                Some(ObserverReason::PlayerPresent),
                Some(ObserverReason::TakeOverRefused),
                Some(ObserverReason::TakenOver),
            ])
        )
            .prop_map(|(role, host, keys, observer_reason)| Negotiation::Granted {
                role,
                host,
                keys,
                observer_reason,
            }),
        refusal.prop_map(Negotiation::Refused),
        any::<bool>().prop_map(Negotiation::RelativeMouse),
        any::<u8>().prop_map(Negotiation::PadsTaken),
        Just(Negotiation::EcnFeedback),
        (1..=Size::MAX_SIDE, 1..=Size::MAX_SIDE)
            .prop_map(|(width, height)| Negotiation::WindowSize(Size::new(width, height))),
        any::<(bool, bool)>().prop_map(|(to_host, to_client)| {
            Negotiation::ClipboardDirections(ClipboardDirections { to_host, to_client })
        }),
        (
            0..MAX_TEXT as u32 - PIECE as u32,
            prop::collection::vec(any::<u8>(), 1..PIECE)
        )
            .prop_map(|(offset, bytes)| {
                let total = offset + bytes.len() as u32;
                Negotiation::ClipboardPiece(ClipboardPiece {
                    total,
                    offset,
                    bytes,
                })
            }),
        (0_u32..20, 0_u32..20, any::<(u16, u16)>(), any::<u32>()).prop_map(
            |(width, height, hot, pixel)| Negotiation::CursorShape {
                size: Size::new(width, height),
                hot,
                argb: (0..width * height).map(|i| pixel.wrapping_mul(i)).collect(),
            }
        ),
    ]
}

fn header() -> impl Strategy<Value = FrameHeader> {
    (
        (1..=u32::MAX, any::<u32>(), any::<u16>()),
        any::<(u8, u8, i64, u8, u32)>(),
        echo_kind(),
    )
        .prop_map(|((frame, before, epoch), rest, kind)| FrameHeader {
            frame: FrameId(frame),
            reference: FrameId(before % frame),
            epoch: ConfigEpoch(epoch),
            stream: rest.0,
            view: rest.1,
            captured: rest.2,
            clock_epoch: rest.3,
            echo: InputEcho {
                seq: InputSeq(rest.4),
                kind,
            },
        })
}

fn places() -> impl Strategy<Value = (SlicePlace, FragmentPlace)> {
    let slice = (1..=MAX_SLICES, any::<u8>(), 0_u16..=0x7fff, 0_u16..=0x8000);
    let fragment = (1..=MAX_FRAGMENTS, any::<u16>(), 1_u32..20_000_000);
    (slice, fragment).prop_map(|((count, index, first_mb, mbs), f)| {
        let slice = SlicePlace {
            index: index % count,
            count,
            first_mb,
            mbs,
        };
        let index = f.1 % f.0;
        let place = FragmentPlace {
            index,
            count: f.0,
            offset: if index == 0 { 0 } else { f.2 },
        };
        (slice, place)
    })
}

fn configuration() -> impl Strategy<Value = Configuration> {
    let side = || 1..=Size::MAX_SIDE;
    (side(), side(), any::<(u8, u8, u16)>()).prop_map(|(width, height, rest)| Configuration {
        size: Size::new(width, height),
        codec: rest.0,
        colour: rest.1,
        fps: rest.2,
    })
}

proptest! {
    #[test]
    fn control_messages(messages in prop::collection::vec(message(), 0..6)) {
        let mut body = Vec::new();
        for message in &messages {
            message.write(&mut body);
        }
        let read: Result<Vec<_>, _> = Messages::new(&body).collect();
        prop_assert_eq!(read, Ok(messages));
    }

    /// A newer peer's messages are skipped, at any position.
    #[test]
    fn unknown_messages_are_skipped(
        before in message(), after in message(),
        kind in 27_u8.., unknown in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut body = Vec::new();
        before.write(&mut body);
        body.push(kind);
        body.extend_from_slice(&(unknown.len() as u16).to_le_bytes());
        body.extend_from_slice(&unknown);
        after.write(&mut body);
        let read: Result<Vec<_>, _> = Messages::new(&body).collect();
        prop_assert_eq!(read, Ok(vec![before, after]));
    }

    #[test]
    fn negotiation_messages(message in negotiation(), newer in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut bytes = message.to_bytes();
        prop_assert_eq!(Negotiation::parse(&bytes), Ok(Some(message.clone())));
        bytes.extend(newer);
        prop_assert_eq!(Negotiation::parse(&bytes), Ok(Some(message)));
    }

    #[test]
    fn fragments(
        header in header(), (slice, place) in places(), fec in (any::<u8>(), 0..BLOCK),
        flags in any::<[bool; 3]>(),
        extensions in extensions(),
        payload in prop::collection::vec(any::<u8>(), 0..1200),
    ) {
        let fragment = Fragment {
            header,
            slice,
            place,
            fec: FecPlace { block: fec.0, index: fec.1 as u8 },
            flags: Flags { resend: flags[0], parity: flags[1], again: flags[2] },
            extensions,
            payload: &payload,
        };
        let mut body = Vec::new();
        fragment.write(&mut body);
        prop_assert_eq!(Fragment::parse(&body), Ok(fragment));
        prop_assert_eq!(Owner::of(&body), Ok(Some(Owner::Fragment(header.view_id()))));
        // The sender reserves as much space for the extensions as they report.
        let without = Fragment { extensions: Extensions::default(), ..fragment };
        let mut short = Vec::new();
        without.write(&mut short);
        prop_assert_eq!(body.len() - short.len(), extensions.len());
    }

    #[test]
    fn parities(
        ids in (1..=u32::MAX, any::<(u8, u8, bool, u8)>()),
        (data, parity, index) in (1..=BLOCK, 1..=MAX_PARITY, any::<u8>()),
        shard in prop::collection::vec(any::<[u8; 2]>(), 25..=MAX_SHARD / 2),
    ) {
        let shard = shard.concat();
        let (frame, (stream, view, last, block)) = ids;
        let parity = FecRepair {
            stream,
            view,
            last,
            frame: FrameId(frame),
            block,
            index: index % parity as u8,
            data: data as u8,
            parity: parity as u8,
            shard: &shard,
        };
        let mut body = Vec::new();
        parity.write(&mut body);
        prop_assert_eq!(Owner::of(&body), Ok(Some(Owner::FecRepair(ViewId { stream, view }))));
        prop_assert_eq!(FecRepair::parse(&body), Ok(parity));
    }

    #[test]
    fn timed_payloads(
        number in any::<u8>(), newest in 7_u64..u64::MAX - 1, captured in i64::MIN / 2..i64::MAX / 2,
        payloads in prop::collection::vec(
            (0_u32.., any::<u16>(), prop::collection::vec(any::<u8>(), 0..300)), 1..12,
        ),
    ) {
        let stream = StreamId { kind: StreamKind::Haptics, number };
        let payload = |back: usize| {
            let (age, samples, bytes) = &payloads[back];
            let age = if back == 0 { 0 } else { i64::from(*age) };
            Payload {
                seq: PayloadSeq(newest - back.min(7) as u64),
                captured: PeerInstant(captured - age),
                samples: *samples,
                bytes,
            }
        };
        let mut body = Vec::new();
        let mut writer = TimedWriter::new(&mut body, stream, &payload(0));
        let written = (1..payloads.len()).take_while(|back| writer.repeat(&payload(*back)));
        let written = 1 + written.count();
        prop_assert!(body.len() <= MAX_TIMED_BODY && written <= MAX_BLOCKS);
        prop_assert_eq!(Owner::of(&body), Ok(Some(Owner::Timed(stream))));
        let timed = Timed::parse(&body).unwrap();
        let read: Vec<_> = timed.payloads().collect();
        prop_assert_eq!(read, (0..written).map(payload).collect::<Vec<_>>());
        for length in 0..body.len() {
            prop_assert!(Timed::parse(&body[..length]).is_err(), "cut at {}", length);
        }
    }

    /// Any bytes are either parsed or rejected.
    #[test]
    fn timed_bodies_of_any_bytes(kind in 0_u8..8, bytes in prop::collection::vec(any::<u8>(), 0..90)) {
        let mut body = vec![kind];
        body.extend(bytes);
        if let Ok(timed) = Timed::parse(&body) {
            prop_assert!(timed.payloads().count() <= MAX_BLOCKS);
            prop_assert_eq!(Owner::of(&body), Ok(Some(Owner::Timed(timed.stream))));
        }
    }
}
