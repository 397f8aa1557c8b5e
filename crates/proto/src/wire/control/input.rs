//! The bytes of input events on their way to the host.

use crate::bytes::{Reader, Reject, Writer, span_to_wire};
use crate::id::{ConfigEpoch, DeviceId, InputSeq};
use crate::input::batch::{InputBatch, MAX_EVENTS};
use crate::input::event::{Button, InputEvent, KeyCode};
use crate::input::pressed::{MAX_PRESSED, PressedKey};
use crate::time::PeerInstant;

/// In place of the number of pressed keys: not known.
const NO_SNAPSHOT: u8 = u8::MAX;
/// In the code of what is pressed: it is part of a device, whose number follows.
const OF_DEVICE: u16 = 0x8000;

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
