//! The bodies of control datagrams. A body is a sequence of messages. Each message has a kind (u8), a length (u16) and
//! its bytes. Readers skip unknown kinds, so newer peers can add messages.

mod audio;
mod control_event;
mod input;
mod report;
mod retransmission;
mod view;

pub use self::audio::AudioReport;
pub use self::report::Report;
pub use self::retransmission::{MAX_RANGES, MissingRange, RetransmissionRequest};
use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer};
use crate::control_event::ControlEvent;
use crate::controller::{self, Controllers, Haptic};
use crate::display::{Display, RefreshTiming};
use crate::id::{FrameId, InputSeq, PoseId, ViewId};
pub use crate::input::batch::{InputBatch, MAX_EVENTS};
use crate::input::pad::{PadId, Rumble};
pub use crate::input::pressed::MAX_PRESSED;
use crate::pose::Pose;
use crate::time::PeerInstant;
use crate::transport::TransportKind;

/// Maximum size of a control datagram's body: the size of a full datagram minus header and tag.
pub const MAX_CONTROL_BODY: usize =
    crate::bytes::MAX_DATAGRAM - super::header::HEADER - super::header::TAG;

/// A control message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message<'a> {
    /// Clock request.
    Ping {
        /// Send time of the request (requester clock).
        asked: i64,
    },
    /// Clock response.
    Pong {
        /// Echo of the request's send time (requester clock).
        asked: i64,
        /// Receive time of the request (responder clock).
        received: PeerInstant,
        /// Send time of the response (responder clock).
        answered: PeerInstant,
    },
    /// The result of one frame at the client. Reports of a view arrive in order and without a gap: between two
    /// consecutive reports, there is no frame of which a datagram reached the client. The same holds between the newest
    /// acknowledged report and the first unacknowledged report in the datagram, unless the datagram contains
    /// [`Message::ReportsAfter`].
    Report(Report),
    /// The reports that follow in this datagram start after this frame. The datagram does not repeat older
    /// unacknowledged reports.
    ReportsAfter {
        /// The view.
        view: ViewId,
        /// The frame of the view.
        frame: FrameId,
    },
    /// All reports of a view up to and including this frame have arrived, without a gap.
    ReportsAcked {
        /// The view.
        view: ViewId,
        /// The newest frame whose report has arrived.
        through: FrameId,
    },
    /// The client's picture is damaged, so the client requests a key frame. The message is idempotent, because it
    /// contains the state known to the client.
    KeyFrameRequest {
        /// The view.
        view: ViewId,
        /// The newest frame that was displayed completely.
        last_good: FrameId,
        /// The newest frame that was finished at the client, whatever its outcome.
        newest: FrameId,
    },
    /// Requests retransmission of missing parts of a frame.
    RetransmissionRequest(RetransmissionRequest),
    /// The newest sent frame of a view. The message is repeated until another frame is sent.
    Beacon {
        /// The view.
        view: ViewId,
        /// The newest sent frame.
        newest: FrameId,
    },
    /// The pointer's position.
    CursorMoved {
        /// Increases by one. Older messages are ignored.
        serial: u32,
        /// Horizontal and vertical position, 0–65 535 each; `None` while the pointer is outside the picture.
        at: Option<(u16, u16)>,
    },
    /// Input events that the host has not acknowledged yet, and the keys and buttons that are held down after these
    /// events.
    Input(InputBatch),
    /// The host has applied all input events up to and including `through`.
    InputAcked {
        /// The newest applied event.
        through: InputSeq,
    },
    /// A segment of the reliable stream.
    Segment {
        /// The offset of the segment in the stream, in bytes.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// All bytes of the reliable stream before `through` have arrived.
    SegmentsAcked {
        /// The offset of the first missing byte.
        through: u64,
    },
    /// The last rate-control event of the host and its cause, for display by the client.
    ControlEvent(ControlEvent),
    /// The sender leaves the session. It sends no other message afterwards.
    Goodbye {
        /// The reason.
        reason: GoodbyeReason,
    },
    /// The client requests a burst of full datagrams on the path of this datagram. The request is the only message in
    /// its datagram, and does not migrate the session.
    Probe {
        /// Echoed in the response.
        token: u32,
        /// Whether the host may use segmentation offload on this path, for this burst and afterwards.
        segmented: bool,
    },
    /// One datagram of the burst that answers a probe, padded to the length of a full datagram.
    Probed {
        /// The token of the probe.
        token: u32,
        /// Index of the datagram in the burst, from 0.
        piece: u8,
        /// The transport with which the host sent the datagram; `None` if this program does not know the transport.
        transport: Option<TransportKind>,
        /// Length of the zero padding that follows.
        padding: u16,
    },
    /// The host checks whether the client receives on the path of this datagram. The client responds on the same path,
    /// with the response alone in its datagram.
    PathChallenge {
        /// Echoed in the response.
        token: u64,
    },
    /// The response to a path challenge. It does not migrate the session.
    PathResponse {
        /// The token of the challenge.
        token: u64,
    },
    /// The pose of the user's head. It is not retransmitted, because the next pose replaces it.
    Pose {
        /// Increases by one. Older messages are ignored.
        id: PoseId,
        /// The sampling time, or the time for which the pose was predicted (client clock).
        sampled: PeerInstant,
        /// The pose.
        pose: Pose,
    },
    /// Playback statistics of an audio stream. They are not retransmitted, because the counts are cumulative and the
    /// next message includes them.
    AudioReport(AudioReport),
    /// The host's application sets the motors of a gamepad. Instead of being retransmitted, the message is repeated
    /// while the motors run.
    Rumble {
        /// Increases by one with each message for any gamepad. The client ignores a message that is older than the
        /// newest message for the same gamepad.
        serial: u32,
        /// The gamepad.
        pad: PadId,
        /// The strength.
        rumble: Rumble,
        /// Duration in milliseconds. A repetition of the message extends it.
        millis: u16,
    },
    /// The state of the controllers in both hands. It is not retransmitted, because the next state replaces it.
    Controllers {
        /// Increases by one. Older messages are ignored.
        number: u32,
        /// The sampling time (client clock).
        sampled: PeerInstant,
        /// Left and right.
        states: Controllers,
    },
    /// Properties of the client's display. Sent once a second, as long as they are known.
    Display {
        /// Increases by one. Older messages are ignored.
        number: u32,
        /// The properties.
        display: Display,
    },
    /// The times at which the host's application samples poses, minus the one-way delay of a pose. A client that
    /// samples at these times sends poses that are neither late nor outdated. Sent once a second, and whenever the
    /// times have changed.
    PoseSchedule {
        /// Increases by one. Older messages are ignored.
        number: u32,
        /// The times (host clock).
        at: RefreshTiming<PeerInstant>,
    },
    /// A haptic effect of the host's application for one hand. Sent several times.
    Haptic {
        /// Increases by one with each effect for either hand. The client ignores a message that is not newer than the
        /// newest message for the same hand.
        serial: u32,
        /// The effect.
        haptic: Haptic,
    },
}

/// The reason why a peer leaves the session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub enum GoodbyeReason {
    /// The client disconnected, or the host was stopped.
    Quit = 0,
    /// The captured application or window ended.
    SourceEnded = 1,
    /// Another client took over the player's role and no further observer is allowed, or the same device started a new
    /// session.
    TakenOver = 2,
    /// The host denies access to this device.
    Forbidden = 3,
    /// An error; the peer's log contains the details.
    Failed = 4,
}

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
    pub(super) const AUDIO_REPORT: u8 = 21;
    pub(super) const RUMBLE: u8 = 22;
    pub(super) const CONTROLLERS: u8 = 23;
    pub(super) const HAPTIC: u8 = 24;
    pub(super) const DISPLAY: u8 = 25;
    pub(super) const POSE_SCHEDULE: u8 = 26;
}

/// The number that encodes an unknown transport.
const UNKNOWN_TRANSPORT: u8 = u8::MAX;
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
            Message::Report(report) => report::write(&mut w, report),
            Message::ReportsAcked {
                view,
                through: frame,
            }
            | Message::Beacon {
                view,
                newest: frame,
            }
            | Message::ReportsAfter { view, frame } => {
                view::write(&mut w, *view).u32(frame.0);
            }
            Message::KeyFrameRequest {
                view,
                last_good,
                newest,
            } => {
                view::write(&mut w, *view).u32(last_good.0).u32(newest.0);
            }
            Message::RetransmissionRequest(request) => retransmission::write(&mut w, request),
            Message::CursorMoved { serial, at } => {
                let (x, y) = at.unwrap_or_default();
                w.u32(*serial).u8(u8::from(at.is_some())).u16(x).u16(y);
            }
            Message::Input(batch) => input::write(&mut w, batch),
            Message::InputAcked { through } => {
                w.u32(through.0);
            }
            Message::Segment { offset, bytes } => {
                w.u64(*offset).bytes(bytes);
            }
            Message::SegmentsAcked { through } => {
                w.u64(*through);
            }
            Message::ControlEvent(decision) => control_event::write(&mut w, decision),
            Message::Goodbye { reason } => {
                w.u8(*reason as u8);
            }
            Message::Probe { token, segmented } => {
                w.u32(*token).u8(u8::from(*segmented));
            }
            Message::Probed {
                token,
                piece,
                transport,
                padding,
            } => {
                let transport = transport.map_or(UNKNOWN_TRANSPORT, |transport| transport as u8);
                w.u32(*token).u8(*piece).u8(transport);
                out.resize(out.len() + usize::from(*padding), 0);
            }
            Message::PathChallenge { token } | Message::PathResponse { token } => {
                w.u64(*token);
            }
            Message::Pose { id, sampled, pose } => {
                w.u32(id.0).i64(sampled.0);
                pose.write(&mut w);
            }
            Message::AudioReport(report) => audio::write(&mut w, report),
            Message::Rumble {
                serial,
                pad,
                rumble,
                millis,
            } => {
                w.u32(*serial)
                    .u8(pad.number())
                    .u16(rumble.strong)
                    .u16(rumble.weak)
                    .u16(*millis);
            }
            Message::Controllers {
                number,
                sampled,
                states,
            } => {
                w.u32(*number).i64(sampled.0);
                controller::write_both(states, &mut w);
            }
            Message::Display { number, display } => {
                w.u32(*number);
                display.write(&mut w);
            }
            Message::PoseSchedule { number, at } => {
                w.u32(*number);
                at.write(&mut w);
            }
            Message::Haptic { serial, haptic } => {
                w.u32(*serial);
                haptic.write(&mut w);
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
            Message::ReportsAcked { .. } => kind::REPORTS_SEEN,
            Message::KeyFrameRequest { .. } => kind::KEY_FRAME_WANTED,
            Message::RetransmissionRequest(_) => kind::RESEND,
            Message::Beacon { .. } => kind::BEACON,
            Message::CursorMoved { .. } => kind::CURSOR_MOVED,
            Message::Input(_) => kind::INPUT,
            Message::InputAcked { .. } => kind::INPUT_SEEN,
            Message::Segment { .. } => kind::SEGMENT,
            Message::SegmentsAcked { .. } => kind::SEGMENTS_SEEN,
            Message::ControlEvent(_) => kind::DECISION,
            Message::Goodbye { .. } => kind::GOODBYE,
            Message::Probe { .. } => kind::PROBE,
            Message::Probed { .. } => kind::PROBED,
            Message::PathChallenge { .. } => kind::PATH_CHALLENGE,
            Message::PathResponse { .. } => kind::PATH_RESPONSE,
            Message::Pose { .. } => kind::POSE,
            Message::ReportsAfter { .. } => kind::REPORTS_AFTER,
            Message::AudioReport(_) => kind::AUDIO_REPORT,
            Message::Rumble { .. } => kind::RUMBLE,
            Message::Controllers { .. } => kind::CONTROLLERS,
            Message::Haptic { .. } => kind::HAPTIC,
            Message::Display { .. } => kind::DISPLAY,
            Message::PoseSchedule { .. } => kind::POSE_SCHEDULE,
        }
    }
}

/// The messages of a control datagram's body.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a>(Reader<'a>);

impl<'a> Messages<'a> {
    /// Reads a decrypted body.
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
        kind::REPORT => Message::Report(report::parse(&mut r)?),
        kind::REPORTS_SEEN => Message::ReportsAcked {
            view: view::parse(&mut r)?,
            through: FrameId(r.u32()?),
        },
        kind::REPORTS_AFTER => Message::ReportsAfter {
            view: view::parse(&mut r)?,
            frame: FrameId(r.u32()?),
        },
        kind::KEY_FRAME_WANTED => Message::KeyFrameRequest {
            view: view::parse(&mut r)?,
            last_good: FrameId(r.u32()?),
            newest: FrameId(r.u32()?),
        },
        kind::RESEND => Message::RetransmissionRequest(retransmission::parse(&mut r)?),
        kind::BEACON => Message::Beacon {
            view: view::parse(&mut r)?,
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
        kind::INPUT => Message::Input(input::parse(&mut r)?),
        kind::INPUT_SEEN => Message::InputAcked {
            through: InputSeq(r.u32()?),
        },
        kind::SEGMENT => {
            let offset = r.u64()?;
            Message::Segment {
                offset,
                bytes: r.bytes(r.remaining())?,
            }
        }
        kind::SEGMENTS_SEEN => Message::SegmentsAcked { through: r.u64()? },
        kind::DECISION => {
            let Some(decision) = control_event::parse(&mut r)? else {
                // Skip an event that only a newer host sends.
                return Ok(None);
            };
            Message::ControlEvent(decision)
        }
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
            transport: TransportKind::of(r.u8()?),
            padding: {
                let padding = r.remaining();
                r.bytes(padding)?;
                u16::try_from(padding).unwrap_or(u16::MAX)
            },
        },
        kind::POSE => {
            let (id, sampled) = (PoseId(r.u32()?), PeerInstant(r.i64()?));
            let Some(pose) = Pose::parse(&mut r)? else {
                // Skip an invalid pose, but read the rest of the datagram.
                return Ok(None);
            };
            Message::Pose { id, sampled, pose }
        }
        kind::AUDIO_REPORT => Message::AudioReport(audio::parse(&mut r)?),
        kind::RUMBLE => Message::Rumble {
            serial: r.u32()?,
            pad: input::pad(&mut r)?,
            rumble: Rumble {
                strong: r.u16()?,
                weak: r.u16()?,
            },
            millis: r.u16()?,
        },
        kind::CONTROLLERS => Message::Controllers {
            number: r.u32()?,
            sampled: PeerInstant(r.i64()?),
            states: controller::parse_both(&mut r)?,
        },
        kind::DISPLAY => Message::Display {
            number: r.u32()?,
            display: Display::parse(&mut r)?,
        },
        kind::POSE_SCHEDULE => {
            let (number, at) = (r.u32()?, RefreshTiming::parse(&mut r)?);
            let Some(at) = at.valid_only() else {
                // Skip an invalid schedule, but read the rest of the datagram.
                return Ok(None);
            };
            Message::PoseSchedule { number, at }
        }
        kind::HAPTIC => Message::Haptic {
            serial: r.u32()?,
            haptic: Haptic::parse(&mut r)?,
        },
        _ => return Ok(None),
    };
    r.end()?;
    Ok(Some(message))
}
