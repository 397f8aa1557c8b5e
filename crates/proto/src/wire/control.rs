//! The bodies of control datagrams: messages one behind the other, each kind (u8), length (u16),
//! bytes. Unknown kinds are skipped, so that a newer peer can say more.

use std::time::Duration;

use super::Reject;
use super::fields::{Reader, Writer};
use super::video::EchoKind;
use crate::control::ladder::Rung;
use crate::id::{ConfigEpoch, DeviceId, FrameId, InputSeq, PoseId};
use crate::input::event::{Button, InputEvent, KeyCode};
use crate::input::pressed::PressedKey;
use crate::pose::Pose;
use crate::time::PeerInstant;
use crate::trace::{DropCause, Fidelity, Outcome, Stage};

/// Bytes of a control datagram's body at most: what a full datagram has beside header and tag.
pub const MAX_CONTROL_BODY: usize =
    super::MAX_DATAGRAM - super::header::HEADER - super::header::TAG;

/// One message of the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// "What time is it there?"
    Ping {
        /// When it was asked, on the asker's clock.
        asked: i64,
    },
    /// The answer.
    Pong {
        /// The asker's own stamp, given back.
        asked: i64,
        /// When the question arrived, on the answerer's clock.
        received: PeerInstant,
        /// When the answer left, on the answerer's clock.
        answered: PeerInstant,
    },
    /// What became of one frame at the client. Reports come in order and without a gap: of a frame
    /// between two neighbours the client has never heard. Nor has it of any before the first of a
    /// datagram that is not acknowledged, unless [`Message::ReportsAfter`] says otherwise.
    Report(Report),
    /// The reports behind it in the datagram follow the one on this frame: older ones that are not
    /// acknowledged are not repeated here.
    ReportsAfter {
        /// The frame.
        frame: FrameId,
    },
    /// All reports up to and with this frame arrived, without a gap.
    ReportsSeen {
        /// The newest of them.
        through: FrameId,
    },
    /// The client's picture is broken: a key frame is wanted. Idempotent: it names what the
    /// client knew.
    KeyFrameWanted {
        /// The newest frame that was displayed whole.
        last_good: FrameId,
        /// The newest frame that came to an end at the client, whatever became of it.
        newest: FrameId,
    },
    /// Parts of a frame that the client lacks are to be sent again.
    Resend(ResendRequest),
    /// The newest frame that was sent, sent again after a burst of activity.
    Beacon {
        /// That frame.
        newest: FrameId,
    },
    /// The pointer's place.
    CursorMoved {
        /// Counts up; an older one is ignored.
        serial: u32,
        /// Across and down, 0–65 535 each; `None` while it is outside the picture.
        at: Option<(u16, u16)>,
    },
    /// Input events that the host has not acknowledged yet, and what is pressed after them.
    Input(InputBatch),
    /// All input events up to and with this one were applied.
    InputSeen {
        /// The newest of them.
        through: InputSeq,
    },
    /// A piece of the reliable stream.
    Segment {
        /// Its place in the stream, in bytes.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// All bytes of the reliable stream before this place arrived.
    SegmentsSeen {
        /// The first byte that is still missing.
        through: u64,
    },
    /// What the host's policy decided last and why, in words of at most 255 bytes, for a person.
    Decision {
        /// The words.
        words: String,
    },
    /// The peer leaves; nothing follows.
    Goodbye {
        /// Why.
        reason: GoodbyeReason,
    },
    /// The client asks for a burst of full datagrams on the way that this came; it is alone in its
    /// datagram, which does not move the session.
    Probe {
        /// Comes back with the answer.
        token: u32,
        /// Whether the host may let the kernel cut what it sends on this way, now and later.
        segmented: bool,
    },
    /// A datagram of the answer, filled up to the length of a full one.
    Probed {
        /// The question's.
        token: u32,
        /// Which datagram of the burst, from 0.
        piece: u8,
        /// What the host sent it with; `None`: something that this program does not know.
        rung: Option<Rung>,
        /// Zeros behind it.
        padding: u16,
    },
    /// The host asks whether the client receives on the way that this came: the answer goes the same
    /// way, alone in its datagram.
    PathChallenge {
        /// Comes back with the answer.
        token: u64,
    },
    /// The client does; it does not move the session.
    PathResponse {
        /// The challenge's.
        token: u64,
    },
    /// Where the person's head is. Not retransmitted when it is lost: the next one follows.
    Pose {
        /// Counts up; an older one is ignored.
        id: PoseId,
        /// When it was sampled, or what moment it was predicted for, on the client's clock.
        sampled: PeerInstant,
        /// The pose.
        pose: Pose,
    },
}

/// Why a peer leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum GoodbyeReason {
    /// The person ended it.
    Quit = 0,
    /// The captured application or window ended.
    SourceEnded = 1,
    /// Another client took the player's role, and this one may not observe.
    TakenOver = 2,
    /// The host forbids this device.
    Forbidden = 3,
    /// Something failed; the log of the peer says what.
    Failed = 4,
}

/// What became of one frame at the client; stamps on the client's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The frame.
    pub frame: FrameId,
    /// How it ended.
    pub outcome: Outcome,
    /// [`Stage::FirstReceived`] and the base of the spans below.
    pub first_received: Option<PeerInstant>,
    /// From `first_received` to [`Stage::Recoverable`].
    pub recoverable: Option<Duration>,
    /// From `first_received` to [`Stage::Decoded`].
    pub decoded: Option<Duration>,
    /// From `first_received` to [`Stage::Submitted`].
    pub submitted: Option<Duration>,
    /// From `first_received` to [`Stage::Presented`].
    pub presented: Option<Duration>,
    /// From [`Stage::InputSampled`] of the newest input that this frame is the first to show, to
    /// its last stage.
    pub motion_to_photon: Option<Duration>,
    /// Whether that figure is exact or a lower bound.
    pub echo: EchoKind,
    /// Media datagrams received since the report before.
    pub datagrams: u16,
    /// Media datagrams found missing since the report before. One that may only be late is counted
    /// with the next report.
    pub missing: u16,
    /// Runs of missing datagrams that began since the report before: what was lost in a row.
    pub runs: u16,
    /// Fragments of this frame that parity brought back.
    pub repaired: u16,
    /// Fragments of this frame that came because they were asked for.
    pub resent: u16,
}

/// What a client lacks of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResendRequest {
    /// The frame.
    pub frame: FrameId,
    /// At most [`MAX_RANGES`]; none: all of the frame.
    pub ranges: Vec<MissingRange>,
}

impl ResendRequest {
    /// Whether it asks for this fragment.
    #[must_use]
    pub fn wants(&self, frame: FrameId, slice: u8, fragment: u16) -> bool {
        let within = |r: &MissingRange| r.slice == slice && (r.first..=r.last).contains(&fragment);
        frame == self.frame && (self.ranges.is_empty() || self.ranges.iter().any(within))
    }
}

/// Fragments of a slice in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingRange {
    /// The slice.
    pub slice: u8,
    /// The first fragment.
    pub first: u16,
    /// The last one; [`u16::MAX`]: to the end of the slice.
    pub last: u16,
}

/// Ranges in one request at most: what is missing beyond them is asked for next time.
pub const MAX_RANGES: usize = 64;

/// Events in the order in which they happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InputBatch {
    /// The configuration epoch that pointer places refer to.
    pub epoch: ConfigEpoch,
    /// Number of the first event; the others follow without a gap.
    pub first: InputSeq,
    /// When the newest event was sampled, on the client's clock, and how much earlier each was.
    pub events: Vec<(InputEvent, PeerInstant)>,
    /// The keys and buttons that are pressed once all these events are applied; `None` if more
    /// events wait than fit, so that it is not known how they end.
    pub pressed: Option<Vec<PressedKey>>,
}

/// Events in one datagram at most: 48 of at most 14 bytes leave room for everything else.
pub const MAX_EVENTS: usize = 48;
/// Pressed keys and buttons that a snapshot names at most: more than there are fingers, twice.
pub const MAX_PRESSED: usize = 32;

mod kind {
    pub(super) const PING: u8 = 1;
    pub(super) const PONG: u8 = 2;
    pub(super) const REPORT: u8 = 3;
    pub(super) const REPORTS_SEEN: u8 = 4;
    pub(super) const KEY_FRAME_WANTED: u8 = 5;
    pub(super) const BEACON: u8 = 6;
    pub(super) const CURSOR_MOVED: u8 = 7;
    pub(super) const INPUT: u8 = 8;
    pub(super) const INPUT_SEEN: u8 = 9;
    pub(super) const SEGMENT: u8 = 10;
    pub(super) const SEGMENTS_SEEN: u8 = 11;
    pub(super) const GOODBYE: u8 = 12;
    pub(super) const RESEND: u8 = 13;
    pub(super) const DECISION: u8 = 14;
    pub(super) const PROBE: u8 = 15;
    pub(super) const PROBED: u8 = 16;
    pub(super) const POSE: u8 = 17;
    pub(super) const REPORTS_AFTER: u8 = 18;
    pub(super) const PATH_CHALLENGE: u8 = 19;
    pub(super) const PATH_RESPONSE: u8 = 20;
}

/// In place of a transport's number.
const UNKNOWN_RUNG: u8 = u8::MAX;
/// In place of the number of pressed keys: not known.
const NO_SNAPSHOT: u8 = u8::MAX;
/// In the code of what is pressed: it is part of a device, whose number follows.
const OF_DEVICE: u16 = 0x8000;
/// A span that was not measured, or is longer than 4.29 s.
const NO_SPAN: u32 = u32::MAX;
const NO_INSTANT: i64 = i64::MIN;

fn span_to_wire(span: Option<Duration>) -> u32 {
    span.and_then(|s| u32::try_from(s.as_nanos()).ok())
        .unwrap_or(NO_SPAN)
}

fn span_from_wire(v: u32) -> Option<Duration> {
    (v != NO_SPAN).then(|| Duration::from_nanos(u64::from(v)))
}

impl InputBatch {
    /// The number of its newest event; the one before `first` if it has none.
    #[must_use]
    pub fn newest(&self) -> InputSeq {
        let count = u32::try_from(self.events.len()).unwrap_or(0);
        InputSeq(self.first.0.wrapping_add(count).wrapping_sub(1))
    }
}

impl Message<'_> {
    /// Appends the message to a datagram's body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut w = Writer(out);
        w.u8(self.kind()).u16(0);
        match self {
            Message::Ping { asked } => {
                w.i64(*asked);
            }
            Message::Pong {
                asked,
                received,
                answered,
            } => {
                w.i64(*asked).i64(received.0).i64(answered.0);
            }
            Message::Report(report) => write_report(&mut w, report),
            Message::ReportsSeen { through: frame }
            | Message::Beacon { newest: frame }
            | Message::ReportsAfter { frame } => {
                w.u32(frame.0);
            }
            Message::KeyFrameWanted { last_good, newest } => {
                w.u32(last_good.0).u32(newest.0);
            }
            Message::Resend(request) => write_resend(&mut w, request),
            Message::CursorMoved { serial, at } => {
                let (x, y) = at.unwrap_or_default();
                w.u32(*serial).u8(u8::from(at.is_some())).u16(x).u16(y);
            }
            Message::Input(batch) => write_input(&mut w, batch),
            Message::InputSeen { through } => {
                w.u32(through.0);
            }
            Message::Segment { offset, bytes } => {
                w.u64(*offset).bytes(bytes);
            }
            Message::SegmentsSeen { through } => {
                w.u64(*through);
            }
            Message::Decision { words } => {
                w.text(words);
            }
            Message::Goodbye { reason } => {
                w.u8(*reason as u8);
            }
            Message::Probe { token, segmented } => {
                w.u32(*token).u8(u8::from(*segmented));
            }
            Message::Probed {
                token,
                piece,
                rung,
                padding,
            } => {
                let rung = rung.map_or(UNKNOWN_RUNG, |rung| rung as u8);
                w.u32(*token).u8(*piece).u8(rung);
                out.resize(out.len() + usize::from(*padding), 0);
            }
            Message::PathChallenge { token } | Message::PathResponse { token } => {
                w.u64(*token);
            }
            Message::Pose { id, sampled, pose } => {
                w.u32(id.0).i64(sampled.0);
                pose.write(&mut w);
            }
        }
        let length = u16::try_from(out.len() - start - 3).unwrap_or(u16::MAX);
        out[start + 1..start + 3].copy_from_slice(&length.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Ping { .. } => kind::PING,
            Message::Pong { .. } => kind::PONG,
            Message::Report(_) => kind::REPORT,
            Message::ReportsSeen { .. } => kind::REPORTS_SEEN,
            Message::KeyFrameWanted { .. } => kind::KEY_FRAME_WANTED,
            Message::Resend(_) => kind::RESEND,
            Message::Beacon { .. } => kind::BEACON,
            Message::CursorMoved { .. } => kind::CURSOR_MOVED,
            Message::Input(_) => kind::INPUT,
            Message::InputSeen { .. } => kind::INPUT_SEEN,
            Message::Segment { .. } => kind::SEGMENT,
            Message::SegmentsSeen { .. } => kind::SEGMENTS_SEEN,
            Message::Decision { .. } => kind::DECISION,
            Message::Goodbye { .. } => kind::GOODBYE,
            Message::Probe { .. } => kind::PROBE,
            Message::Probed { .. } => kind::PROBED,
            Message::PathChallenge { .. } => kind::PATH_CHALLENGE,
            Message::PathResponse { .. } => kind::PATH_RESPONSE,
            Message::Pose { .. } => kind::POSE,
            Message::ReportsAfter { .. } => kind::REPORTS_AFTER,
        }
    }
}

/// The messages of a control datagram's body.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(Reader<'a>);

impl<'a> Messages<'a> {
    /// Reads an opened body.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Messages<'a> {
        Messages(Reader::new(body))
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Reject>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.0.remaining() > 0 {
            let read = (|| {
                let kind = self.0.u8()?;
                let length = self.0.u16()?;
                Ok((kind, self.0.bytes(usize::from(length))?))
            })();
            let parsed = match read {
                Ok((kind, body)) => parse(kind, Reader::new(body)),
                Err(reject) => Err(reject),
            };
            if let Err(_) | Ok(Some(_)) = parsed {
                if parsed.is_err() {
                    self.0 = Reader::new(&[]);
                }
                return parsed.transpose();
            }
        }
        None
    }
}

fn parse<'a>(kind: u8, mut r: Reader<'a>) -> Result<Option<Message<'a>>, Reject> {
    let message = match kind {
        kind::PING => Message::Ping { asked: r.i64()? },
        kind::PONG => Message::Pong {
            asked: r.i64()?,
            received: PeerInstant(r.i64()?),
            answered: PeerInstant(r.i64()?),
        },
        kind::REPORT => Message::Report(parse_report(&mut r)?),
        kind::REPORTS_SEEN => Message::ReportsSeen {
            through: FrameId(r.u32()?),
        },
        kind::REPORTS_AFTER => Message::ReportsAfter {
            frame: FrameId(r.u32()?),
        },
        kind::KEY_FRAME_WANTED => Message::KeyFrameWanted {
            last_good: FrameId(r.u32()?),
            newest: FrameId(r.u32()?),
        },
        kind::RESEND => Message::Resend(parse_resend(&mut r)?),
        kind::BEACON => Message::Beacon {
            newest: FrameId(r.u32()?),
        },
        kind::CURSOR_MOVED => {
            let serial = r.u32()?;
            let inside = r.u8()? != 0;
            let at = (r.u16()?, r.u16()?);
            Message::CursorMoved {
                serial,
                at: inside.then_some(at),
            }
        }
        kind::INPUT => Message::Input(parse_input(&mut r)?),
        kind::INPUT_SEEN => Message::InputSeen {
            through: InputSeq(r.u32()?),
        },
        kind::SEGMENT => {
            let offset = r.u64()?;
            Message::Segment {
                offset,
                bytes: r.bytes(r.remaining())?,
            }
        }
        kind::SEGMENTS_SEEN => Message::SegmentsSeen { through: r.u64()? },
        kind::DECISION => Message::Decision {
            words: r.text()?.to_owned(),
        },
        kind::GOODBYE => Message::Goodbye {
            reason: match r.u8()? {
                0 => GoodbyeReason::Quit,
                1 => GoodbyeReason::SourceEnded,
                2 => GoodbyeReason::TakenOver,
                3 => GoodbyeReason::Forbidden,
                _ => GoodbyeReason::Failed,
            },
        },
        kind::PATH_CHALLENGE => Message::PathChallenge { token: r.u64()? },
        kind::PATH_RESPONSE => Message::PathResponse { token: r.u64()? },
        kind::PROBE => Message::Probe {
            token: r.u32()?,
            segmented: r.u8()? != 0,
        },
        kind::PROBED => Message::Probed {
            token: r.u32()?,
            piece: r.u8()?,
            rung: Rung::of(r.u8()?),
            padding: {
                let padding = r.remaining();
                r.bytes(padding)?;
                u16::try_from(padding).unwrap_or(u16::MAX)
            },
        },
        kind::POSE => {
            let (id, sampled) = (PoseId(r.u32()?), PeerInstant(r.i64()?));
            let Some(pose) = Pose::parse(&mut r)? else {
                // No pose at all, but no reason to lose what comes with it.
                return Ok(None);
            };
            Message::Pose { id, sampled, pose }
        }
        _ => return Ok(None),
    };
    r.end()?;
    Ok(Some(message))
}

const CAUSES: [DropCause; 9] = [
    DropCause::Superseded,
    DropCause::HeldBack,
    DropCause::EncodeFailed,
    DropCause::SendBufferFull,
    DropCause::Lost,
    DropCause::DecodeFailed,
    DropCause::AwaitingKeyFrame,
    DropCause::SessionEnded,
    DropCause::Unreported,
];

fn write_report(w: &mut Writer<'_>, report: &Report) {
    w.u32(report.frame.0);
    match report.outcome {
        Outcome::Displayed(fidelity) => {
            let how = match fidelity {
                Fidelity::Whole => 0,
                Fidelity::Concealed => 1,
                Fidelity::Tainted => 2,
            };
            w.u8(how).u8(0);
        }
        Outcome::Dropped { stage, why } => {
            let cause = CAUSES.iter().position(|c| *c == why).unwrap_or(0);
            w.u8(16 + u8::try_from(cause).unwrap_or(0)).u8(stage as u8);
        }
    }
    w.i64(report.first_received.map_or(NO_INSTANT, |at| at.0));
    for span in [
        report.recoverable,
        report.decoded,
        report.submitted,
        report.presented,
        report.motion_to_photon,
    ] {
        w.u32(span_to_wire(span));
    }
    w.u8(report.echo as u8)
        .u16(report.datagrams)
        .u16(report.missing)
        .u16(report.runs)
        .u16(report.repaired)
        .u16(report.resent);
}

fn parse_report(r: &mut Reader<'_>) -> Result<Report, Reject> {
    let frame = FrameId(r.u32()?);
    let how = r.u8()?;
    let stage = usize::from(r.u8()?);
    let outcome = match how {
        0 => Outcome::Displayed(Fidelity::Whole),
        1 => Outcome::Displayed(Fidelity::Concealed),
        2 => Outcome::Displayed(Fidelity::Tainted),
        16.. => Outcome::Dropped {
            stage: *Stage::ALL.get(stage).ok_or(Reject::Range("stage"))?,
            why: *CAUSES
                .get(usize::from(how - 16))
                .ok_or(Reject::Range("drop cause"))?,
        },
        other => return Err(Reject::Kind(other)),
    };
    let first_received = r.i64()?;
    Ok(Report {
        frame,
        outcome,
        first_received: (first_received != NO_INSTANT).then_some(PeerInstant(first_received)),
        recoverable: span_from_wire(r.u32()?),
        decoded: span_from_wire(r.u32()?),
        submitted: span_from_wire(r.u32()?),
        presented: span_from_wire(r.u32()?),
        motion_to_photon: span_from_wire(r.u32()?),
        echo: match r.u8()? {
            0 => EchoKind::None,
            1 => EchoKind::Injected,
            2 => EchoKind::Consumed,
            other => return Err(Reject::Kind(other)),
        },
        datagrams: r.u16()?,
        missing: r.u16()?,
        runs: r.u16()?,
        repaired: r.u16()?,
        resent: r.u16()?,
    })
}

fn write_resend(w: &mut Writer<'_>, request: &ResendRequest) {
    let ranges = &request.ranges[..request.ranges.len().min(MAX_RANGES)];
    w.u32(request.frame.0)
        .u8(u8::try_from(ranges.len()).unwrap_or(u8::MAX));
    for range in ranges {
        w.u8(range.slice).u16(range.first).u16(range.last);
    }
}

fn parse_resend(r: &mut Reader<'_>) -> Result<ResendRequest, Reject> {
    let frame = FrameId(r.u32()?);
    let count = usize::from(r.u8()?);
    if count > MAX_RANGES {
        return Err(Reject::Range("missing ranges"));
    }
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        ranges.push(MissingRange {
            slice: r.u8()?,
            first: r.u16()?,
            last: r.u16()?,
        });
    }
    Ok(ResendRequest { frame, ranges })
}

fn write_input(w: &mut Writer<'_>, batch: &InputBatch) {
    let events = &batch.events[..batch.events.len().min(MAX_EVENTS)];
    let newest = events.last().map_or(PeerInstant(0), |e| e.1);
    w.u16(batch.epoch.0)
        .u32(batch.first.0)
        .i64(newest.0)
        .u8(u8::try_from(events.len()).unwrap_or(u8::MAX));
    for (event, sampled) in events {
        w.u32(span_to_wire(Some(newest.since(*sampled))));
        match *event {
            InputEvent::Key {
                code,
                text,
                pressed,
            } => w
                .u8(if pressed { 1 } else { 2 })
                .u16(code.0)
                .u32(text.map_or(0, u32::from)),
            InputEvent::PointerAbsolute { x, y } => w.u8(3).u16(x).u16(y),
            InputEvent::PointerRelative { dx, dy } => w.u8(4).i16(dx).i16(dy),
            InputEvent::Button { button, pressed } => {
                w.u8(if pressed { 5 } else { 6 }).u16(button.0)
            }
            InputEvent::Wheel { dx, dy } => w.u8(7).i16(dx).i16(dy),
            InputEvent::ReleaseAll => w.u8(8),
            InputEvent::Device {
                device,
                kind,
                code,
                value,
            } => w.u8(9).u8(device.0).u16(kind).u16(code).i32(value),
        };
    }
    let Some(pressed) = &batch.pressed else {
        w.u8(NO_SNAPSHOT);
        return;
    };
    let pressed = &pressed[..pressed.len().min(MAX_PRESSED)];
    w.u8(u8::try_from(pressed.len()).unwrap_or(NO_SNAPSHOT));
    for PressedKey { device, code } in pressed {
        match device {
            None => w.u16(code & !OF_DEVICE),
            Some(device) => w.u16(code | OF_DEVICE).u8(device.0),
        };
    }
}

fn parse_input(r: &mut Reader<'_>) -> Result<InputBatch, Reject> {
    let epoch = ConfigEpoch(r.u16()?);
    let first = InputSeq(r.u32()?);
    let newest = r.i64()?;
    let count = usize::from(r.u8()?);
    if count > MAX_EVENTS {
        return Err(Reject::Range("input events"));
    }
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        let earlier = i64::from(r.u32()?);
        let event = match r.u8()? {
            kind @ (1 | 2) => {
                let code = KeyCode(r.u16()?);
                let text = r.u32()?;
                InputEvent::Key {
                    code,
                    text: if text == 0 {
                        None
                    } else {
                        Some(char::from_u32(text).ok_or(Reject::Range("character"))?)
                    },
                    pressed: kind == 1,
                }
            }
            3 => InputEvent::PointerAbsolute {
                x: r.u16()?,
                y: r.u16()?,
            },
            4 => InputEvent::PointerRelative {
                dx: r.i16()?,
                dy: r.i16()?,
            },
            kind @ (5 | 6) => InputEvent::Button {
                button: Button(r.u16()?),
                pressed: kind == 5,
            },
            7 => InputEvent::Wheel {
                dx: r.i16()?,
                dy: r.i16()?,
            },
            8 => InputEvent::ReleaseAll,
            9 => InputEvent::Device {
                device: DeviceId(r.u8()?),
                kind: r.u16()?,
                code: r.u16()?,
                value: r.i32()?,
            },
            other => return Err(Reject::Kind(other)),
        };
        events.push((event, PeerInstant(newest.saturating_sub(earlier))));
    }
    let pressed = match r.u8()? {
        NO_SNAPSHOT => None,
        count if usize::from(count) <= MAX_PRESSED => Some(
            (0..count)
                .map(|_| parse_held(r))
                .collect::<Result<_, _>>()?,
        ),
        _ => return Err(Reject::Range("pressed keys")),
    };
    Ok(InputBatch {
        epoch,
        first,
        events,
        pressed,
    })
}

fn parse_held(r: &mut Reader<'_>) -> Result<PressedKey, Reject> {
    let code = r.u16()?;
    let device = (code & OF_DEVICE != 0).then(|| r.u8()).transpose()?;
    Ok(PressedKey {
        device: device.map(DeviceId),
        code: code & !OF_DEVICE,
    })
}
