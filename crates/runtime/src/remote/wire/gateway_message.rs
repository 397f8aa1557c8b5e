//! Messages from a gateway to a host in another process.

use std::num::NonZeroU16;
use std::time::Duration;

use openuvr_proto::bytes::{Reader, Reject, Writer};
use openuvr_proto::control::clipboard::ClipboardPiece;
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::negotiate::{ClientConstraints, Role};
use openuvr_proto::control::pairing::Pin;
use openuvr_proto::control::ticket::MAX_TEXT;
use openuvr_proto::control_event::Loss;
use openuvr_proto::controller::Controllers;
use openuvr_proto::display::Display;
use openuvr_proto::host::{SubscribeRequest, SubscriberKind};
use openuvr_proto::id::{FrameId, PoseId};
use openuvr_proto::input::batch::InputBatch;
use openuvr_proto::input::event::InputEvent;
use openuvr_proto::pose::Pose;
use openuvr_proto::send::intake::Intake;
use openuvr_proto::send::loss::LinkState;
use openuvr_proto::send::subscriber::Feedback;
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::units::{Bitrate, Size};
use openuvr_proto::wire::control::{Message, Messages};

use super::{flag, index_in, one_of, refused, role, subscriber_kind, text};
use crate::host::Admission;

/// A message of a gateway. The first four start a connection.
#[derive(Clone, PartialEq, Debug)]
pub enum GatewayMessage {
    /// Requests a subscription.
    Subscribe(SubscribeRequest),
    /// Requests admission of a device.
    Admit(Admission),
    /// Requests the host's sound.
    Listen,
    /// Requests the statistics of all subscribers.
    Figures,
    /// Requests another role for the subscriber.
    Role {
        /// The role.
        role: Role,
        /// Whether to take it over from the current player.
        take_over: bool,
    },
    /// An input event.
    Input(InputEvent, PeerInstant),
    /// A numbered head pose.
    Pose((PoseId, Pose), PeerInstant),
    /// Controller states.
    Controllers(Controllers, PeerInstant),
    /// A numbered display description.
    Display(u32, Display),
    /// A piece of copied text.
    ClipboardPiece(ClipboardPiece),
    /// Activity of its client.
    Activity,
    /// Feedback on received frames.
    Feedback(Feedback),
}

mod kind {
    pub(super) const SUBSCRIBE: u8 = 1;
    pub(super) const ADMIT: u8 = 2;
    pub(super) const LISTEN: u8 = 3;
    pub(super) const ROLE: u8 = 4;
    pub(super) const INPUT: u8 = 5;
    pub(super) const ACTIVITY: u8 = 6;
    pub(super) const REPORT: u8 = 7;
    pub(super) const LINK: u8 = 8;
    pub(super) const KEY_FRAME: u8 = 9;
    pub(super) const CLOCK: u8 = 10;
    pub(super) const CLIPBOARD: u8 = 11;
    pub(super) const POSE: u8 = 12;
    pub(super) const CONTROLLERS: u8 = 13;
    pub(super) const DISPLAY: u8 = 14;
    pub(super) const FIGURES: u8 = 15;
}

impl GatewayMessage {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        match self {
            GatewayMessage::Subscribe(request) => subscribe(w.u8(kind::SUBSCRIBE), request),
            GatewayMessage::Admit(admission) => {
                let pin = admission.pin.as_ref().map(Pin::to_string);
                w.u8(kind::ADMIT)
                    .bytes(&admission.key.0)
                    .text(admission.name.as_str())
                    .text(&pin.unwrap_or_default())
                    .text(admission.ticket.as_deref().unwrap_or_default())
                    .text(&admission.from.to_string());
            }
            GatewayMessage::Listen => {
                w.u8(kind::LISTEN);
            }
            GatewayMessage::Role { role, take_over } => {
                w.u8(kind::ROLE).u8(*role as u8).u8(u8::from(*take_over));
            }
            GatewayMessage::Input(event, sampled) => {
                w.u8(kind::INPUT);
                let batch = InputBatch {
                    events: vec![(*event, *sampled)],
                    ..InputBatch::default()
                };
                Message::Input(batch).write(&mut bytes);
            }
            GatewayMessage::Pose((id, pose), sampled) => {
                w.u8(kind::POSE);
                let (id, pose, sampled) = (*id, *pose, *sampled);
                Message::Pose { id, sampled, pose }.write(&mut bytes);
            }
            GatewayMessage::Controllers(states, sampled) => {
                w.u8(kind::CONTROLLERS);
                let held = Message::Controllers {
                    number: 0,
                    sampled: *sampled,
                    states: *states,
                };
                held.write(&mut bytes);
            }
            GatewayMessage::Display(number, display) => {
                w.u8(kind::DISPLAY);
                let (number, display) = (*number, *display);
                Message::Display { number, display }.write(&mut bytes);
            }
            GatewayMessage::ClipboardPiece(piece) => piece.write(w.u8(kind::CLIPBOARD)),
            GatewayMessage::Activity => {
                w.u8(kind::ACTIVITY);
            }
            GatewayMessage::Figures => {
                w.u8(kind::FIGURES);
            }
            GatewayMessage::Feedback(feedback) => write_feedback(&mut bytes, feedback),
        }
        bytes
    }

    /// Parses its bytes.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn read(bytes: &[u8]) -> Result<GatewayMessage, Reject> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            kind::SUBSCRIBE => GatewayMessage::Subscribe(request(&mut r)?),
            kind::ADMIT => GatewayMessage::Admit(admission(&mut r)?),
            kind::LISTEN => GatewayMessage::Listen,
            kind::ROLE => GatewayMessage::Role {
                role: role(r.u8()?)?,
                take_over: flag(&mut r)?,
            },
            kind::INPUT => match message(&mut r)? {
                Message::Input(batch) => match batch.events[..] {
                    [(event, sampled)] => GatewayMessage::Input(event, sampled),
                    _ => return Err(refused("number of events")),
                },
                _ => return Err(refused("message")),
            },
            kind::POSE => match message(&mut r)? {
                Message::Pose { id, pose, sampled } => GatewayMessage::Pose((id, pose), sampled),
                _ => return Err(refused("message")),
            },
            kind::CONTROLLERS => match message(&mut r)? {
                Message::Controllers {
                    states, sampled, ..
                } => GatewayMessage::Controllers(states, sampled),
                _ => return Err(refused("message")),
            },
            kind::DISPLAY => match message(&mut r)? {
                Message::Display { number, display } => GatewayMessage::Display(number, display),
                _ => return Err(refused("message")),
            },
            kind::CLIPBOARD => GatewayMessage::ClipboardPiece(ClipboardPiece::parse(&mut r)?),
            kind::ACTIVITY => GatewayMessage::Activity,
            kind::FIGURES => GatewayMessage::Figures,
            kind::REPORT => match message(&mut r)? {
                Message::Report(report) => GatewayMessage::Feedback(Feedback::Frame(report)),
                _ => return Err(refused("message")),
            },
            kind::LINK => GatewayMessage::Feedback(Feedback::Link(link(&mut r)?)),
            kind::KEY_FRAME => GatewayMessage::Feedback(Feedback::KeyFrame {
                last_good: FrameId(r.u32()?),
                newest: FrameId(r.u32()?),
            }),
            kind::CLOCK => GatewayMessage::Feedback(Feedback::Clock {
                asked: Instant(r.i64()?),
                received: PeerInstant(r.i64()?),
                answered: PeerInstant(r.i64()?),
                heard: Instant(r.i64()?),
            }),
            other => return Err(Reject::Kind(other)),
        };
        r.end()?;
        Ok(message)
    }
}

fn write_feedback(bytes: &mut Vec<u8>, feedback: &Feedback) {
    let mut w = Writer(bytes);
    match feedback {
        Feedback::Frame(report) => {
            w.u8(kind::REPORT);
            Message::Report(*report).write(bytes);
        }
        Feedback::Link(link) => {
            let nanos = u64::try_from(link.round_trip.as_nanos()).unwrap_or(u64::MAX);
            w.u8(kind::LINK)
                .u64(nanos)
                .u64(link.loss.rate.to_bits())
                .u64(link.loss.run.to_bits());
        }
        Feedback::KeyFrame { last_good, newest } => {
            w.u8(kind::KEY_FRAME).u32(last_good.0).u32(newest.0);
        }
        Feedback::Clock {
            asked,
            received,
            answered,
            heard,
        } => {
            w.u8(kind::CLOCK)
                .i64(asked.0)
                .i64(received.0)
                .i64(answered.0)
                .i64(heard.0);
        }
    }
}

fn subscribe(w: &mut Writer<'_>, request: &SubscribeRequest) {
    w.u8(request.role as u8)
        .u8(u8::from(request.take_over))
        .u32(request.codecs)
        .u8(index_in(&SubscriberKind::ALL, &request.kind))
        .u8(index_in(&Intake::ALL, &request.intake))
        .text(&request.name)
        .text(&request.software);
    let ClientConstraints { bitrate, size, fps } = request.constraints;
    let size = size.unwrap_or_default();
    w.u64(bitrate.unwrap_or_default().0)
        .u32(size.width)
        .u32(size.height)
        .u16(fps.map_or(0, NonZeroU16::get))
        .u8(u8::from(request.reports))
        .u8(u8::from(request.device.is_some()));
    if let Some(device) = &request.device {
        w.bytes(&device.0);
    }
}

fn request(r: &mut Reader<'_>) -> Result<SubscribeRequest, Reject> {
    Ok(SubscribeRequest {
        role: role(r.u8()?)?,
        take_over: flag(r)?,
        codecs: r.u32()?,
        kind: subscriber_kind(r)?,
        intake: one_of(&Intake::ALL, r.u8()?, "intake")?,
        name: text(r)?,
        software: text(r)?,
        constraints: ClientConstraints {
            bitrate: Some(Bitrate(r.u64()?)).filter(|rate| rate.0 != 0),
            size: match Size::new(r.u32()?, r.u32()?) {
                size if size == Size::default() => None,
                size if size.is_valid() => Some(size),
                _ => return Err(refused("picture size")),
            },
            fps: NonZeroU16::new(r.u16()?),
        },
        reports: flag(r)?,
        device: match flag(r)? {
            true => Some(key(r)?),
            false => None,
        },
    })
}

fn admission(r: &mut Reader<'_>) -> Result<Admission, Reject> {
    Ok(Admission {
        key: key(r)?,
        name: DeviceName::new(r.text()?),
        pin: match r.text()? {
            "" => None,
            digits => Some(Pin::parse(digits).map_err(|_| refused("PIN"))?),
        },
        ticket: match r.text()? {
            "" => None,
            text if text.len() <= MAX_TEXT => Some(text.to_owned()),
            _ => return Err(refused("ticket")),
        },
        from: r.text()?.parse().map_err(|_| refused("address"))?,
    })
}

fn key(r: &mut Reader<'_>) -> Result<PublicKey, Reject> {
    let bytes = r.bytes(32)?;
    bytes
        .try_into()
        .map(PublicKey)
        .map_err(|_| Reject::Truncated)
}

fn link(r: &mut Reader<'_>) -> Result<LinkState, Reject> {
    let round_trip = Duration::from_nanos(r.u64()?);
    let [rate, run] = [f64::from_bits(r.u64()?), f64::from_bits(r.u64()?)];
    let possible = (0.0..=1.0).contains(&rate) && (1.0..=1e6).contains(&run);
    match possible && round_trip < Duration::from_secs(3600) {
        true => Ok(LinkState {
            round_trip,
            loss: Loss { rate, run },
        }),
        false => Err(refused("link")),
    }
}

/// Parses the remaining bytes as one control message.
fn message<'a>(r: &mut Reader<'a>) -> Result<Message<'a>, Reject> {
    let mut messages = Messages::new(r.bytes(r.remaining())?);
    let first = messages.next().ok_or(Reject::Truncated)??;
    match messages.next() {
        None => Ok(first),
        Some(_) => Err(Reject::TooLong),
    }
}
