//! Messages from a host in another process to a gateway: answers, frames, sound, and updates.

use std::sync::Arc;
use std::time::Duration;

use openuvr_proto::bytes::{Reader, Reject, Writer};
use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardText};
use openuvr_proto::control::handshake::PinRefused;
use openuvr_proto::control::negotiate::{MAX_CURSOR_SIDE, Refusal};
use openuvr_proto::control::ticket::TicketRefused;
use openuvr_proto::host::Grant;
use openuvr_proto::host::figures::SubscriberFigures;
use openuvr_proto::id::{ConfigEpoch, FrameId, InputSeq};
use openuvr_proto::input::echo::{EchoKind, InputEcho};
use openuvr_proto::input::pad::{PadId, Rumble};
use openuvr_proto::send::subscriber::Frame;
use openuvr_proto::send::update::{CursorShape, Update};
use openuvr_proto::time::Instant;
use openuvr_proto::trace::{DropCause, Stage};
use openuvr_proto::units::Size;
use openuvr_proto::wire::control::{GoodbyeReason, Message, Messages};
use openuvr_proto::wire::video::{Extensions, FrameHeader, MAX_SLICES, SlicePlace};

use super::{REFUSALS, figures, flag, grant, index_in, one_of, refused, role, text, write_grant};
use crate::host::{AdmissionGrant, AdmitRefused};

/// A message of a host. Frame messages follow the order of the calls of
/// [`Subscriber`](openuvr_proto::send::subscriber::Subscriber).
#[derive(Clone, PartialEq, Debug)]
pub enum HostMessage {
    /// The subscription or role request was granted with this role.
    Granted(Grant),
    /// The subscription or role request was refused.
    Refused(Refusal),
    /// The subscription failed for this reason.
    Failed(String),
    /// The device was admitted.
    Admitted(AdmissionGrant),
    /// The device was refused.
    NotAdmitted(AdmitRefused),
    /// A frame begins. The player's link state is not sent.
    Begin(Instant, Box<Frame>),
    /// A slice of the frame.
    Slice(Instant, SlicePlace, Option<u16>, Vec<u8>),
    /// The frame is complete.
    End(Instant),
    /// The frame was dropped.
    Dropped(Instant, FrameId, Stage, DropCause),
    /// An update.
    Update(Update),
    /// An Opus packet with its capture time and number of samples.
    Sound(Instant, u16, Vec<u8>),
    /// Statistics of each subscriber.
    Figures(Vec<SubscriberFigures>),
}

mod kind {
    pub(super) const GRANTED: u8 = 1;
    pub(super) const REFUSED: u8 = 2;
    pub(super) const FAILED: u8 = 3;
    pub(super) const ADMITTED: u8 = 4;
    pub(super) const NOT_ADMITTED: u8 = 5;
    pub(super) const BEGIN: u8 = 6;
    pub(super) const SLICE: u8 = 7;
    pub(super) const END: u8 = 8;
    pub(super) const DROPPED: u8 = 9;
    pub(super) const SOUND: u8 = 10;
    pub(super) const ROLE: u8 = 11;
    pub(super) const SHOWN: u8 = 12;
    pub(super) const RELATIVE: u8 = 13;
    pub(super) const SHAPE: u8 = 14;
    pub(super) const MOVED: u8 = 15;
    pub(super) const DECISION: u8 = 16;
    pub(super) const ENDED: u8 = 17;
    pub(super) const CLIPBOARD_WAYS: u8 = 18;
    pub(super) const CLIPBOARD: u8 = 19;
    pub(super) const RUMBLE: u8 = 20;
    pub(super) const HAPTIC: u8 = 21;
    pub(super) const FIGURES: u8 = 22;
}

const GOODBYES: [GoodbyeReason; 5] = [
    GoodbyeReason::Quit,
    GoodbyeReason::SourceEnded,
    GoodbyeReason::TakenOver,
    GoodbyeReason::Forbidden,
    GoodbyeReason::Failed,
];

const ECHOES: [EchoKind; 3] = [EchoKind::None, EchoKind::Injected, EchoKind::Consumed];

/// The longest Opus packet (RFC 6716 section 3.2.1 and 3.4), doubled as a margin.
const MAX_PACKET: usize = 2 * 1275;

impl HostMessage {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        match self {
            HostMessage::Granted(grant) => write_grant(w.u8(kind::GRANTED), *grant),
            HostMessage::Refused(why) => {
                w.u8(kind::REFUSED).u8(index_in(&REFUSALS, why));
            }
            HostMessage::Failed(why) => {
                w.u8(kind::FAILED).text(why);
            }
            HostMessage::Admitted(admitted) => {
                w.u8(kind::ADMITTED)
                    .u8(admitted.max_role as u8)
                    .text(&admitted.title);
            }
            HostMessage::NotAdmitted(why) => write_refused(w.u8(kind::NOT_ADMITTED), *why),
            HostMessage::Begin(now, frame) => write_frame(w.u8(kind::BEGIN).i64(now.0), frame),
            HostMessage::Slice(now, place, clean_after, slice) => {
                return HostMessage::slice(*now, *place, *clean_after, slice);
            }
            HostMessage::End(now) => {
                w.u8(kind::END).i64(now.0);
            }
            HostMessage::Dropped(now, frame, stage, why) => {
                w.u8(kind::DROPPED)
                    .i64(now.0)
                    .u32(frame.0)
                    .u8(index_in(Stage::ALL, stage))
                    .u8(index_in(&DropCause::ALL, why));
            }
            HostMessage::Sound(captured, samples, packet) => {
                w.u8(kind::SOUND)
                    .i64(captured.0)
                    .u16(*samples)
                    .bytes(packet);
            }
            HostMessage::Figures(all) => figures::write(w.u8(kind::FIGURES), all),
            HostMessage::Update(update) => write_update(&mut bytes, update),
        }
        bytes
    }

    /// The bytes of [`HostMessage::Slice`], without an intermediate copy of the slice.
    #[must_use]
    pub fn slice(
        now: Instant,
        place: SlicePlace,
        clean_after: Option<u16>,
        slice: &[u8],
    ) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(slice.len() + 20);
        Writer(&mut bytes)
            .u8(kind::SLICE)
            .i64(now.0)
            .u8(place.index)
            .u8(place.count)
            .u16(place.first_mb)
            .u16(place.mbs)
            .u8(u8::from(clean_after.is_some()))
            .u16(clean_after.unwrap_or(0))
            .bytes(slice);
        bytes
    }

    /// Parses its bytes.
    ///
    /// # Errors
    /// The reason for the rejection.
    pub fn read(bytes: &[u8]) -> Result<HostMessage, Reject> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            kind::GRANTED => HostMessage::Granted(grant(&mut r)?),
            kind::REFUSED => HostMessage::Refused(one_of(&REFUSALS, r.u8()?, "refusal")?),
            kind::FAILED => HostMessage::Failed(text(&mut r)?),
            kind::ADMITTED => {
                let max_role = role(r.u8()?)?;
                let title = text(&mut r)?;
                HostMessage::Admitted(AdmissionGrant { title, max_role })
            }
            kind::NOT_ADMITTED => HostMessage::NotAdmitted(not_admitted(&mut r)?),
            kind::BEGIN => HostMessage::Begin(Instant(r.i64()?), Box::new(frame(&mut r)?)),
            kind::SLICE => {
                let now = Instant(r.i64()?);
                let place = place(&mut r)?;
                let (known, after) = (flag(&mut r)?, r.u16()?);
                let slice = r.bytes(r.remaining())?.to_vec();
                HostMessage::Slice(now, place, known.then_some(after), slice)
            }
            kind::END => HostMessage::End(Instant(r.i64()?)),
            kind::DROPPED => HostMessage::Dropped(
                Instant(r.i64()?),
                FrameId(r.u32()?),
                one_of(Stage::ALL, r.u8()?, "stage")?,
                one_of(&DropCause::ALL, r.u8()?, "cause")?,
            ),
            kind::SOUND => {
                let (captured, samples) = (Instant(r.i64()?), r.u16()?);
                if r.remaining() > MAX_PACKET {
                    return Err(refused("length of sound"));
                }
                HostMessage::Sound(captured, samples, r.bytes(r.remaining())?.to_vec())
            }
            kind::FIGURES => HostMessage::Figures(figures::read(&mut r)?),
            kind => HostMessage::Update(update(kind, &mut r)?),
        };
        r.end()?;
        Ok(message)
    }
}

fn write_refused(w: &mut Writer<'_>, why: AdmitRefused) {
    let (number, seconds) = match why {
        AdmitRefused::Unknown => (0, 0),
        AdmitRefused::Forbidden => (1, 0),
        AdmitRefused::Pin(PinRefused::Closed) => (2, 0),
        AdmitRefused::Pin(PinRefused::Wait(seconds)) => (3, seconds),
        AdmitRefused::Pin(PinRefused::Wrong) => (4, 0),
        AdmitRefused::Pin(PinRefused::Forbidden) => (5, 0),
        AdmitRefused::Ticket(why) => (6, u16::from(index_in(&TICKET_REFUSALS, &why))),
    };
    w.u8(number).u16(seconds);
}

/// Ticket refusals by wire number.
const TICKET_REFUSALS: [TicketRefused; 10] = [
    TicketRefused::NotTaken,
    TicketRefused::Malformed,
    TicketRefused::Version,
    TicketRefused::Forged,
    TicketRefused::OtherSession,
    TicketRefused::OtherKey,
    TicketRefused::Expired,
    TicketRefused::TooLong,
    TicketRefused::Used,
    TicketRefused::Full,
];

fn not_admitted(r: &mut Reader<'_>) -> Result<AdmitRefused, Reject> {
    let (number, seconds) = (r.u8()?, r.u16()?);
    if number == 6 {
        let which = u8::try_from(seconds).unwrap_or(u8::MAX);
        let why = one_of(&TICKET_REFUSALS, which, "refusal")?;
        return Ok(AdmitRefused::Ticket(why));
    }
    let all = [
        AdmitRefused::Unknown,
        AdmitRefused::Forbidden,
        AdmitRefused::Pin(PinRefused::Closed),
        AdmitRefused::Pin(PinRefused::Wait(seconds)),
        AdmitRefused::Pin(PinRefused::Wrong),
        AdmitRefused::Pin(PinRefused::Forbidden),
    ];
    one_of(&all, number, "refusal")
}

fn write_frame(w: &mut Writer<'_>, frame: &Frame) {
    let header = &frame.header;
    w.u32(header.frame.0)
        .u32(header.reference.0)
        .u16(header.epoch.0)
        .u8(header.stream)
        .u8(header.view)
        .i64(header.captured)
        .u8(header.clock_epoch)
        .u32(header.echo.seq.0)
        .u8(index_in(&ECHOES, &header.echo.kind))
        .u8(frame.slices)
        .u64(u64::try_from(frame.interval.as_nanos()).unwrap_or(u64::MAX));
    let extensions = Extensions {
        configuration: frame.configuration,
        clean_after: None,
        pose: frame.pose,
        views: frame.views,
        times: frame.times,
    };
    // The extensions come last.
    extensions.write(w.0);
}

fn frame(r: &mut Reader<'_>) -> Result<Frame, Reject> {
    let header = FrameHeader {
        frame: FrameId(r.u32()?),
        reference: FrameId(r.u32()?),
        epoch: ConfigEpoch(r.u16()?),
        stream: r.u8()?,
        view: r.u8()?,
        captured: r.i64()?,
        clock_epoch: r.u8()?,
        echo: InputEcho {
            seq: InputSeq(r.u32()?),
            kind: one_of(&ECHOES, r.u8()?, "echo")?,
        },
    };
    let slices = r.u8()?;
    if slices > MAX_SLICES {
        return Err(refused("slices"));
    }
    let interval = Duration::from_nanos(r.u64()?);
    let extensions = Extensions::parse(r.bytes(r.remaining())?)?;
    Ok(Frame {
        header,
        configuration: extensions.configuration,
        pose: extensions.pose,
        views: extensions.views,
        times: extensions.times,
        slices,
        interval,
        link: None,
        capacity: None,
    })
}

fn place(r: &mut Reader<'_>) -> Result<SlicePlace, Reject> {
    let place = SlicePlace {
        index: r.u8()?,
        count: r.u8()?,
        first_mb: r.u16()?,
        mbs: r.u16()?,
    };
    match place.index < place.count && place.count <= MAX_SLICES {
        true => Ok(place),
        false => Err(refused("slice")),
    }
}

fn write_update(bytes: &mut Vec<u8>, update: &Update) {
    let mut w = Writer(bytes);
    match update {
        Update::Role {
            role,
            observer_reason,
        } => {
            let (role, observer_reason) = (*role, *observer_reason);
            write_grant(
                w.u8(kind::ROLE),
                Grant {
                    role,
                    observer_reason,
                },
            );
        }
        Update::SourceShown(shown) => {
            w.u8(kind::SHOWN).u8(u8::from(*shown));
        }
        Update::RelativeMouse(relative) => {
            w.u8(kind::RELATIVE).u8(u8::from(*relative));
        }
        Update::CursorShape(shape) => {
            write_size(w.u8(kind::SHAPE), shape.size);
            w.u16(shape.hot.0).u16(shape.hot.1);
            for pixel in &shape.argb {
                w.u32(*pixel);
            }
        }
        Update::CursorMoved(at) => {
            let (x, y) = at.unwrap_or_default();
            let inside = u8::from(at.is_some());
            w.u8(kind::MOVED).u8(inside).u16(x).u16(y);
        }
        Update::ControlEvent(event) => {
            w.u8(kind::DECISION);
            Message::ControlEvent(*event).write(bytes);
        }
        Update::ClipboardDirections(directions) => {
            let (to_host, to_client) =
                (u8::from(directions.to_host), u8::from(directions.to_client));
            w.u8(kind::CLIPBOARD_WAYS).u8(to_host).u8(to_client);
        }
        Update::Rumble {
            pad,
            rumble,
            millis,
        } => {
            w.u8(kind::RUMBLE)
                .u8(pad.number())
                .u16(rumble.strong)
                .u16(rumble.weak)
                .u16(*millis);
        }
        Update::Haptic(haptic) => {
            w.u8(kind::HAPTIC);
            let (serial, haptic) = (0, *haptic);
            Message::Haptic { serial, haptic }.write(bytes);
        }
        Update::Clipboard(text) => {
            w.u8(kind::CLIPBOARD).bytes(text.0.as_bytes());
        }
        Update::Ended(why) => {
            w.u8(kind::ENDED).u8(index_in(&GOODBYES, why));
        }
    }
}

fn update(kind: u8, r: &mut Reader<'_>) -> Result<Update, Reject> {
    Ok(match kind {
        kind::ROLE => {
            let Grant {
                role,
                observer_reason,
            } = grant(r)?;
            Update::Role {
                role,
                observer_reason,
            }
        }
        kind::SHOWN => Update::SourceShown(flag(r)?),
        kind::RELATIVE => Update::RelativeMouse(flag(r)?),
        kind::SHAPE => Update::CursorShape(Arc::new(shape(r)?)),
        kind::MOVED => {
            let (inside, at) = (flag(r)?, (r.u16()?, r.u16()?));
            Update::CursorMoved(inside.then_some(at))
        }
        kind::DECISION => {
            let mut messages = Messages::new(r.bytes(r.remaining())?);
            match messages.next().ok_or(Reject::Truncated)?? {
                Message::ControlEvent(event) => Update::ControlEvent(event),
                _ => return Err(refused("decision")),
            }
        }
        kind::CLIPBOARD_WAYS => Update::ClipboardDirections(ClipboardDirections {
            to_host: flag(r)?,
            to_client: flag(r)?,
        }),
        kind::RUMBLE => Update::Rumble {
            pad: PadId::new(r.u8()?).ok_or(refused("pad"))?,
            rumble: Rumble {
                strong: r.u16()?,
                weak: r.u16()?,
            },
            millis: r.u16()?,
        },
        kind::HAPTIC => {
            let mut messages = Messages::new(r.bytes(r.remaining())?);
            match messages.next().ok_or(Reject::Truncated)?? {
                Message::Haptic { haptic, .. } => Update::Haptic(haptic),
                _ => return Err(refused("vibration")),
            }
        }
        kind::CLIPBOARD => {
            let text = std::str::from_utf8(r.bytes(r.remaining())?);
            let text = ClipboardText::from(text.map_err(|_| refused("text"))?);
            match text.fits() {
                true => Update::Clipboard(text),
                false => return Err(refused("length of a text")),
            }
        }
        kind::ENDED => Update::Ended(one_of(&GOODBYES, r.u8()?, "goodbye")?),
        other => return Err(Reject::Kind(other)),
    })
}

fn shape(r: &mut Reader<'_>) -> Result<CursorShape, Reject> {
    let size = Size::new(r.u32()?, r.u32()?);
    if size.width > MAX_CURSOR_SIDE || size.height > MAX_CURSOR_SIDE {
        return Err(refused("pointer's size"));
    }
    let hot = (r.u16()?, r.u16()?);
    let pixels = (0..size.width * size.height).map(|_| r.u32());
    Ok(CursorShape {
        size,
        hot,
        argb: pixels.collect::<Result<_, _>>()?,
    })
}

fn write_size(w: &mut Writer<'_>, size: Size) {
    w.u32(size.width).u32(size.height);
}
