//! The bytes of this protocol version, published in `vectors/` for other implementations. A changed byte makes this
//! test fail until [`PROTOCOL_VERSION`] is raised. `UPDATE_VECTORS=1 cargo test -p openuvr-proto --test vectors` then
//! writes the file of the new version. The command never overwrites an existing `protocol-*.txt`.
//!
//! This test computes keys and tags from the rules in `docs/protocol.md`, without the crate's code.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "test values are known to fit, and a test may panic"
)]

mod messages;
#[path = "../support/mod.rs"]
mod support;
mod tickets;

use std::fmt::Write as _;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf;
use messages::{control_events, messages};
use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardPiece};
use openuvr_proto::control::negotiate::{
    ClientConstraints, Negotiation, ObserverReason, Offer, Refusal, Role,
};
use openuvr_proto::control::streams::{AudioFormat, Grant, StreamOffer};
use openuvr_proto::control_event::Loss;
use openuvr_proto::id::{ConfigEpoch, FrameId, InputSeq, PoseId, ViewId};
use openuvr_proto::input::keys::Keys;
use openuvr_proto::pose::Pose;
use openuvr_proto::send::fec::{FecLevel, FecPlan};
use openuvr_proto::send::packetize::{Protection, SendBuf, VideoSender};
use openuvr_proto::send::plane::MediaSender;
use openuvr_proto::send::timed::TimedSender;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::{Message, MissingRange, RetransmissionRequest};
use openuvr_proto::wire::header::{HEADER, PROTOCOL_VERSION, Plane, TAG};
use openuvr_proto::wire::media::{StreamId, StreamKind};
use openuvr_proto::wire::seal::{Direction, Opener, PACKETS_PER_KEY, Sealer};
use openuvr_proto::wire::video::{
    Configuration, DrawingTimes, EchoKind, Extensions, FieldOfView, FrameHeader, InputEcho,
    PoseEcho, SlicePlace, View, Views,
};
use support::established;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The text of the published file, and the same bytes as seeds for the fuzz targets (path and content).
#[derive(Default)]
struct Vectors {
    text: String,
    seeds: Vec<(PathBuf, Vec<u8>)>,
}

impl Vectors {
    fn title(&mut self, title: &str) {
        let _ = write!(self.text, "\n# {title}\n");
    }

    fn field(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.text, "{name:<27} {value}");
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        self.field(name, &hex(bytes));
    }

    fn seed(&mut self, target: &str, name: &str, bytes: &[u8]) {
        let path = Path::new(target).join(name);
        self.seeds.push((path, bytes.to_vec()));
    }
}

struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand<const N: usize>(secret: &[u8], label: &str) -> [u8; N] {
    let mut out = [0; N];
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"openuvr 1").extract(secret);
    let info = [label.as_bytes()];
    prk.expand(&info, Bytes(N)).unwrap().fill(&mut out).unwrap();
    out
}

/// Opens a datagram according to the specification.
fn open(key: [u8; 16], datagram: &[u8]) -> Vec<u8> {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&datagram[8..16]);
    let mut body = datagram[HEADER..].to_vec();
    let aad = Aad::from(&datagram[..HEADER]);
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.open_in_place(nonce, aad, &mut body).unwrap().to_vec()
}

fn media_key(phase: usize) -> [u8; 16] {
    let mut chain: [u8; 32] = expand(&established().secret.0, "HostToClient Media");
    for _ in 0..phase {
        chain = expand(&chain, "next phase");
    }
    expand(&chain, "key")
}

fn keys(v: &mut Vectors) {
    v.title("Keys: HKDF-SHA256 with the salt \"openuvr 1\"");
    let secret = established().secret.0;
    v.bytes("session secret", &secret);
    for direction in ["HostToClient", "ClientToHost"] {
        for plane in ["Media", "Control"] {
            let label = format!("{direction} {plane}");
            let chain: [u8; 32] = expand(&secret, &label);
            v.bytes(&format!("chain {label}"), &chain);
            v.bytes(&format!("key {label}"), &expand::<16>(&chain, "key"));
        }
    }
    v.bytes("phase 1 of the first", &media_key(1));
}

fn header(frame: u32, reference: u32) -> FrameHeader {
    FrameHeader {
        frame: FrameId(frame),
        reference: FrameId(reference),
        epoch: ConfigEpoch(2),
        stream: 0,
        view: 0,
        captured: 1_234_567_890_123,
        clock_epoch: 1,
        echo: InputEcho {
            seq: InputSeq(77),
            kind: EchoKind::Injected,
        },
    }
}

fn media(v: &mut Vectors) {
    let mut sender = MediaSender::new(&established()).video();
    let mut out = SendBuf::default();
    let place = |index| SlicePlace {
        index,
        count: 2,
        first_mb: u16::from(index) * 1800,
        mbs: 1800,
    };
    let configuration = Configuration {
        size: Size::new(1280, 720),
        codec: 1,
        colour: 1,
        fps: 60,
    };
    let cases = [
        ("key_frame", 5, 0, Some(configuration), 0),
        ("second_slice", 5, 0, None, 1),
        ("frame", 6, 5, None, 0),
    ];
    v.title("Media datagrams of session 0a0b0c0d, sealed at 2 000 000 000 ns");
    for (name, frame, reference, configuration, slice) in cases {
        let header = header(frame, reference);
        let bytes = format!("slice {slice} of frame {frame}");
        let now = Instant(2_000_000_000);
        let place = place(slice);
        let extensions = Extensions {
            configuration,
            ..Extensions::default()
        };
        sender.slice(now, &header, extensions, place, bytes.as_bytes(), &mut out);
        let datagram = out.iter().next().unwrap();
        let body = open(media_key(0), datagram);
        v.bytes(&format!("{name} body"), &body);
        v.bytes(&format!("{name} datagram"), datagram);
        v.seed("fragment", name, &body);
        v.seed("header", name, datagram);
    }
    protected(v, &mut sender);
    refresh(v);
    right_eye(v);
    both_eyes(v);
    timed(v);
}

/// The view of an eye at this x coordinate.
fn eye(right: f32) -> View {
    View {
        pose: Pose::new([right, 1.75, -3.0], [0.0, 0.6, 0.0, 0.8]).unwrap(),
        fov: FieldOfView::new(-0.75, 0.5, 0.625, -0.875).unwrap(),
    }
}

/// A frame with the views of both eyes side by side.
fn both_eyes(v: &mut Vectors) {
    let mut sender = MediaSender::new(&established()).video();
    let mut out = SendBuf::default();
    let extensions = Extensions {
        views: Some(Views::two(eye(0.21875), eye(0.28125))),
        times: DrawingTimes {
            predicted: Some(PeerInstant(1_990_000_000)),
            begun: Some(PeerInstant(1_991_000_000)),
        },
        ..Extensions::default()
    };
    let place = SlicePlace {
        index: 0,
        count: 1,
        first_mb: 0,
        mbs: 3600,
    };
    v.title("Body of a frame with two views side by side");
    let (now, header) = (Instant(2_000_000_000), header(10, 9));
    let bytes = b"slice 0 of frame 10";
    sender.slice(now, &header, extensions, place, bytes, &mut out);
    let body = open(media_key(0), out.iter().next().unwrap());
    v.bytes("both_eyes", &body);
    v.seed("fragment", "both_eyes", &body);
}

/// A frame of view 1, with its field of view and the pose with which it was drawn.
fn right_eye(v: &mut Vectors) {
    let mut sender = MediaSender::new(&established()).video();
    let mut out = SendBuf::default();
    let at = Pose::new([0.25, 1.75, -3.0], [0.0, 0.6, 0.0, 0.8]).unwrap();
    let extensions = Extensions {
        pose: Some(PoseEcho {
            pose: PoseId(12),
            at,
            display: Some(PeerInstant(2_011_000_000)),
        }),
        views: Some(Views::one(eye(0.28125))),
        ..Extensions::default()
    };
    let place = SlicePlace {
        index: 0,
        count: 1,
        first_mb: 0,
        mbs: 3600,
    };
    let header = FrameHeader {
        stream: 0,
        view: 1,
        ..header(9, 8)
    };
    v.title("Body of a frame of view 1, drawn with pose 12, with one view in its picture");
    let bytes = b"slice 0 of frame 9";
    sender.slice(
        Instant(2_000_000_000),
        &header,
        extensions,
        place,
        bytes,
        &mut out,
    );
    let body = open(media_key(0), out.iter().next().unwrap());
    v.bytes("right_eye", &body);
    v.seed("fragment", "right_eye", &body);
}

/// Two audio payloads and one haptic payload. The datagram of the second audio payload repeats the first.
fn timed(v: &mut Vectors) {
    let media = MediaSender::new(&established());
    let mut out = SendBuf::default();
    let now = Instant(2_000_000_000);
    v.title("Bodies of timed streams: sound, haptics of stream 3, sound with the previous payload");
    let mut audio = media.timed(StreamId::first(StreamKind::Audio));
    let haptics = StreamId {
        kind: StreamKind::Haptics,
        number: 3,
    };
    let mut haptics = media.timed(haptics);
    let mut case =
        |sender: &mut TimedSender, name: &str, (at, samples): (i64, u16), bytes: &[u8]| {
            let sent = sender.send(now, (Instant(at), samples), bytes, &mut out);
            sent.unwrap();
            let body = open(media_key(0), out.iter().next().unwrap());
            v.bytes(name, &body);
            v.seed("timed", name, &body);
        };
    case(&mut audio, "audio_first", (1_990_000_000, 120), b"sound 0");
    case(&mut haptics, "haptics", (1_991_000_000, 0), b"buzz");
    case(
        &mut audio,
        "audio_repeated",
        (1_992_500_000, 120),
        b"sound 1!",
    );
}

/// A frame with one slice, which starts an intra refresh.
fn refresh(v: &mut Vectors) {
    let mut sender = MediaSender::new(&established()).video();
    let mut out = SendBuf::default();
    let extensions = Extensions {
        clean_after: Some(78),
        ..Extensions::default()
    };
    let place = SlicePlace {
        index: 0,
        count: 1,
        first_mb: 0,
        mbs: 3600,
    };
    v.title("Body of a frame that begins an intra refresh: clean 78 frames later");
    let header = header(8, 7);
    sender.slice(
        Instant(2_000_000_000),
        &header,
        extensions,
        place,
        b"slice 0 of frame 8",
        &mut out,
    );
    let body = open(media_key(0), out.iter().next().unwrap());
    v.bytes("refresh", &body);
    v.seed("fragment", "refresh", &body);
}

/// A frame of two slices with FEC; the second slice is retransmitted.
fn protected(v: &mut Vectors, sender: &mut VideoSender) {
    let loss = Loss {
        rate: 0.01,
        run: 1.0,
    };
    sender.protect(&Protection {
        parity: FecPlan::of(loss, FecLevel::Standard),
        resend: true,
    });
    let now = Instant(2_000_000_000);
    let header = header(7, 5);
    let mut out = SendBuf::default();
    v.title("Bodies of a protected frame: two slices, their parity, the second slice again");
    for index in 0..2 {
        let place = SlicePlace {
            index,
            count: 2,
            first_mb: u16::from(index) * 1800,
            mbs: 1800,
        };
        let bytes = format!("slice {index} of frame 7{}", "!".repeat(usize::from(index)));
        let extensions = Extensions::default();
        sender.slice(now, &header, extensions, place, bytes.as_bytes(), &mut out);
        let body = open(media_key(0), out.iter().next().unwrap());
        v.bytes(&format!("protected_{index}"), &body);
        v.seed("fragment", &format!("protected_{index}"), &body);
    }
    sender.parity(now, &mut out);
    for (index, datagram) in out.iter().enumerate() {
        let body = open(media_key(0), datagram);
        v.bytes(&format!("parity_{index}"), &body);
        v.seed("parity", &format!("parity_{index}"), &body);
    }
    let request = RetransmissionRequest {
        view: ViewId::FIRST,
        frame: FrameId(7),
        ranges: vec![MissingRange {
            slice: 1,
            first: 0,
            last: u16::MAX,
        }],
    };
    sender.resend(now, &request, &mut out);
    let body = open(media_key(0), out.iter().next().unwrap());
    v.bytes("protected_1 again", &body);
    v.seed("fragment", "again", &body);
}

/// The last datagram under a key and the first under the next key.
fn rotation(v: &mut Vectors) {
    let e = established();
    let mut sealer = Sealer::new(&e.secret, e.session, Direction::HostToClient, Plane::Media);
    let mut opener = Opener::new(&e.secret, e.session, Direction::HostToClient, Plane::Media);
    let mut datagram = [0; HEADER + 1 + TAG];
    let mut seal = |number: u64| {
        datagram[HEADER] = b'x';
        sealer.seal(Instant(3_000_000_000 + number as i64), &mut datagram);
        datagram
    };
    v.title(
        "Key rotation: datagrams with the body \"x\". Each is sealed at 3 000 000 000 ns plus its number in ns",
    );
    for number in 0..PACKETS_PER_KEY + 1 {
        let datagram = seal(number);
        if number + 1 < PACKETS_PER_KEY {
            continue;
        }
        let phase = usize::from(number == PACKETS_PER_KEY);
        assert_eq!(open(media_key(phase), &datagram), b"x");
        opener.open(&datagram, &mut Vec::new()).unwrap();
        v.bytes(&format!("number {number}"), &datagram);
    }
}

fn control(v: &mut Vectors) {
    v.title("Control messages, as they lie in a datagram's body");
    let events = control_events().into_iter();
    let events = events.map(|(name, event)| (name, Message::ControlEvent(event)));
    for (name, message) in messages().into_iter().chain(events) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        v.bytes(name, &bytes);
        v.seed("control_messages", name, &bytes);
    }
}

fn negotiation(v: &mut Vectors) {
    let messages = [
        (
            "offer",
            Negotiation::Offer(Offer {
                role: Role::Player,
                take_over: true,
                codecs: 0b110,
                name: "attic".into(),
                software: "openuvr 0.1.0".into(),
                constraints: ClientConstraints {
                    bitrate: Some(Bitrate::from_mbps(5)),
                    size: Some(Size::new(1280, 720)),
                    fps: NonZeroU16::new(144),
                    chosen_fps: None,
                },
                streams: vec![
                    StreamOffer {
                        stream: StreamId::first(StreamKind::Video),
                        to_client: true,
                        to_host: false,
                        formats: 0,
                        views: 2,
                    },
                    StreamOffer {
                        stream: StreamId::first(StreamKind::Audio),
                        to_client: true,
                        to_host: true,
                        formats: 1 << AudioFormat::Pcm as u8 | 1 << AudioFormat::Opus as u8,
                        views: 0,
                    },
                ],
            }),
        ),
        (
            "granted",
            Negotiation::Granted {
                role: Role::Observer,
                host: "tower".into(),
                keys: Keys::Position,
                observer_reason: Some(ObserverReason::TakenOver),
            },
        ),
        ("refused", Negotiation::Refused(Refusal::NoCommonCodec)),
        (
            "cursor_shape",
            Negotiation::CursorShape {
                size: Size::new(2, 1),
                hot: (1, 0),
                argb: vec![0xff00_0000, 0x80ff_ffff],
            },
        ),
        ("relative_mouse", Negotiation::RelativeMouse(true)),
        ("source_hidden", Negotiation::SourceShown(false)),
        (
            "streams",
            Negotiation::Streams(vec![Grant {
                stream: StreamId::first(StreamKind::Audio),
                to_client: true,
                to_host: false,
                format: AudioFormat::Opus as u8,
                views: 0,
            }]),
        ),
        ("window_size", Negotiation::WindowSize(Size::new(1280, 720))),
        (
            "clipboard_piece",
            Negotiation::ClipboardPiece(ClipboardPiece {
                total: 6,
                offset: 2,
                bytes: "ü!".into(),
            }),
        ),
        (
            "clipboard_ways",
            Negotiation::ClipboardDirections(ClipboardDirections {
                to_host: true,
                to_client: false,
            }),
        ),
        ("pads_taken", Negotiation::PadsTaken(4)),
        ("ecn_feedback", Negotiation::EcnFeedback),
    ];
    v.title("Messages of the reliable stream, without their length");
    for (name, message) in messages {
        let bytes = message.to_bytes();
        v.bytes(name, &bytes);
        v.seed("negotiation", name, &bytes);
        let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
        framed.extend(bytes);
        v.seed("stream_segments", name, &framed);
    }
}

#[test]
fn the_bytes_of_this_version_are_the_ones_that_were_published() {
    let mut v = Vectors::default();
    let _ = writeln!(
        v.text,
        "# OpenUVR protocol, version {PROTOCOL_VERSION}. See docs/protocol.md. Bytes in hexadecimal, in the order of\n\
         # transmission."
    );
    keys(&mut v);
    media(&mut v);
    rotation(&mut v);
    control(&mut v);
    negotiation(&mut v);
    tickets::tickets(&mut v);

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    let file = folder.join(format!("protocol-{PROTOCOL_VERSION}.txt"));
    if !file.exists() && std::env::var_os("UPDATE_VECTORS").is_some_and(|v| v == "1") {
        for (path, bytes) in &v.seeds {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        std::fs::write(&file, &v.text).unwrap();
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    for (now, known) in v.text.lines().zip(known.lines()) {
        assert_eq!(now, known, "{CHANGED}");
    }
    assert_eq!(v.text.lines().count(), known.lines().count(), "{CHANGED}");
    for (path, bytes) in &v.seeds {
        let known = std::fs::read(folder.join(path)).unwrap_or_default();
        assert_eq!(bytes, &known, "{}", path.display());
    }
}

const CHANGED: &str = "bytes on the wire changed: raise PROTOCOL_VERSION, and write the vectors of \
                       the new version";
