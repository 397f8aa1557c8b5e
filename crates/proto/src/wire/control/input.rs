//! Input events on their way to the host, and their bytes.

use crate::id::{ConfigEpoch, DeviceId, InputSeq};
use crate::input::event::{Button, InputEvent, KeyCode};
use crate::input::pressed::PressedKey;
use crate::time::PeerInstant;
use crate::wire::Reject;
use crate::wire::fields::{Reader, Writer, span_to_wire};

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

/// In place of the number of pressed keys: not known.
const NO_SNAPSHOT: u8 = u8::MAX;
/// In the code of what is pressed: it is part of a device, whose number follows.
const OF_DEVICE: u16 = 0x8000;

impl InputBatch {
    /// The number of its newest event; the one before `first` if it has none.
    #[must_use]
    pub fn newest(&self) -> InputSeq {
        let count = u32::try_from(self.events.len()).unwrap_or(0);
        InputSeq(self.first.0.wrapping_add(count).wrapping_sub(1))
    }
}

pub(super) fn write(w: &mut Writer<'_>, batch: &InputBatch) {
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

pub(super) fn parse(r: &mut Reader<'_>) -> Result<InputBatch, Reject> {
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
