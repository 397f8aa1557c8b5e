//! The encoding of input events from client to host.

use crate::bytes::{Reader, Reject, Writer, span_to_wire};
use crate::id::{ConfigEpoch, DeviceId, InputSeq};
use crate::input::batch::{InputBatch, MAX_EVENTS};
use crate::input::event::{Button, InputEvent, KeyCode};
use crate::input::pad::{MAX_PAD_NAME, PadId, PadIdentity, PadName, PadState};
use crate::input::pressed::{MAX_PRESSED, PressedKey};
use crate::time::PeerInstant;

/// Encodes "pressed keys unknown", in place of the number of pressed keys.
const NO_SNAPSHOT: u8 = u8::MAX;
/// Flag in the code of a pressed key or button: the key belongs to a specific device, and the device number follows.
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
            InputEvent::PadConnected { pad, identity } => {
                write_identity(w.u8(10).u8(pad.number()), &identity)
            }
            InputEvent::PadDisconnected { pad } => w.u8(11).u8(pad.number()),
            InputEvent::Pad { pad, state } => write_pad(w.u8(12).u8(pad.number()), &state),
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

const LEFT_STICK: u8 = 1;
const RIGHT_STICK: u8 = 2;
const RUMBLES: u8 = 4;

fn write_identity<'w, 'a>(w: &'w mut Writer<'a>, identity: &PadIdentity) -> &'w mut Writer<'a> {
    let [left, right] = identity.sticks;
    let has = (u8::from(left) * LEFT_STICK)
        | (u8::from(right) * RIGHT_STICK)
        | (u8::from(identity.rumbles) * RUMBLES);
    w.u16(identity.vendor)
        .u16(identity.product)
        .u32(identity.buttons)
        .u8(has)
        .text(identity.name.as_str())
}

fn parse_identity(r: &mut Reader<'_>) -> Result<PadIdentity, Reject> {
    let (vendor, product, buttons) = (r.u16()?, r.u16()?, r.u32()?);
    let has = r.u8()?;
    let name = r.text()?;
    if name.len() > MAX_PAD_NAME {
        return Err(Reject::Range("pad name"));
    }
    Ok(PadIdentity {
        name: PadName::new(name),
        vendor,
        product,
        buttons,
        sticks: [has & LEFT_STICK != 0, has & RIGHT_STICK != 0],
        rumbles: has & RUMBLES != 0,
    })
}

fn write_pad<'w, 'a>(w: &'w mut Writer<'a>, state: &PadState) -> &'w mut Writer<'a> {
    w.u32(state.buttons);
    for place in state.sticks {
        w.i16(place);
    }
    w.u16(state.triggers[0]).u16(state.triggers[1])
}

fn parse_pad(r: &mut Reader<'_>) -> Result<PadState, Reject> {
    Ok(PadState {
        buttons: r.u32()?,
        sticks: [r.i16()?, r.i16()?, r.i16()?, r.i16()?],
        triggers: [r.u16()?, r.u16()?],
    })
}

pub(super) fn pad(r: &mut Reader<'_>) -> Result<PadId, Reject> {
    PadId::new(r.u8()?).ok_or(Reject::Range("pad"))
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
            10 => InputEvent::PadConnected {
                pad: pad(r)?,
                identity: parse_identity(r)?,
            },
            11 => InputEvent::PadDisconnected { pad: pad(r)? },
            12 => InputEvent::Pad {
                pad: pad(r)?,
                state: parse_pad(r)?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::batch::event_length;

    #[test]
    fn events_have_the_stated_length() {
        let pad = PadId::new(0).unwrap();
        let identity = PadIdentity {
            name: PadName::new("Pad"),
            vendor: 1,
            product: 2,
            buttons: 3,
            sticks: [true, true],
            rumbles: true,
        };
        let batch = |events: Vec<InputEvent>| {
            let mut bytes = Vec::new();
            let batch = InputBatch {
                events: events.into_iter().map(|e| (e, PeerInstant(0))).collect(),
                ..InputBatch::default()
            };
            write(&mut Writer(&mut bytes), &batch);
            bytes.len()
        };
        let none = batch(Vec::new());
        for event in [
            InputEvent::Key {
                code: KeyCode(1),
                text: None,
                pressed: true,
            },
            InputEvent::PointerAbsolute { x: 1, y: 2 },
            InputEvent::PointerRelative { dx: 1, dy: 2 },
            InputEvent::Button {
                button: Button::LEFT,
                pressed: true,
            },
            InputEvent::Wheel { dx: 1, dy: 2 },
            InputEvent::ReleaseAll,
            InputEvent::Device {
                device: DeviceId(1),
                kind: 1,
                code: 2,
                value: 3,
            },
            InputEvent::PadConnected { pad, identity },
            InputEvent::PadDisconnected { pad },
            InputEvent::Pad {
                pad,
                state: PadState::NEUTRAL,
            },
        ] {
            let length = batch(vec![event]) - none;
            assert_eq!(length, event_length(&event), "{event:?}");
        }
    }
}
