//! Description and state of an event device, in a file that its server writes and any process may
//! read. It contains the answers to the kernel's `EVIOCG…` requests (`linux/input.h`), each at a
//! fixed offset.
//!
//! Server and readers belong to the same build on the same machine, so numbers have native byte order.

use super::codes::{ABS_CNT, EV_ABS, EV_CNT, EV_FF, EV_KEY, EV_SYN, FF_CNT, KEY_CNT};

/// The first bytes of a file. The value must change whenever the offsets below change.
pub const MAGIC: u32 = 0x4f56_5031;

/// `struct input_id`: bus, vendor, product, version, a `u16` each.
pub const ID: Field = Field::new(8, 8);
/// The name, padded with zeros.
pub const NAME: Field = Field::new(ID.end(), 96);
/// The physical location, padded with zeros.
pub const LOCATION: Field = Field::new(NAME.end(), 32);
/// The number of effects that may be uploaded, an `i32`.
pub const EFFECTS: Field = Field::new(LOCATION.end(), 4);
/// A bit for each supported event type.
pub const KINDS: Field = Field::new(EFFECTS.end(), EV_CNT / 8);
/// A bit for each supported key and button.
pub const KEYS: Field = Field::new(KINDS.end(), KEY_CNT / 8);
/// A bit for each key and button that is down.
pub const KEYS_DOWN: Field = Field::new(KEYS.end(), KEY_CNT / 8);
/// A bit for each supported axis.
pub const AXES: Field = Field::new(KEYS_DOWN.end(), ABS_CNT / 8);
/// A bit for each supported effect type.
pub const FORCES: Field = Field::new(AXES.end(), FF_CNT / 8);
/// `struct input_absinfo` of each axis.
pub const AXIS_INFO: Field = Field::new(FORCES.end(), ABS_CNT * AXIS);

/// Size of a `struct input_absinfo`: value, minimum, maximum, fuzz, flat, resolution.
pub const AXIS: usize = 24;

/// Size of a file.
pub const LENGTH: usize = AXIS_INFO.end();

/// A field of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its offset.
    pub at: usize,
    /// Its length in bytes.
    pub length: usize,
}

impl Field {
    const fn new(at: usize, length: usize) -> Field {
        Field { at, length }
    }

    const fn end(self) -> usize {
        self.at + self.length
    }

    fn of(self, bytes: &mut [u8; LENGTH]) -> &mut [u8] {
        &mut bytes[self.at..self.end()]
    }
}

/// The bit set of the supported codes of an event type; `None` if the type has no such set.
#[must_use]
pub fn bits_of(kind: u16) -> Option<Field> {
    match kind {
        // As in the kernel, "synchronisation" means the event types.
        EV_SYN => Some(KINDS),
        EV_KEY => Some(KEYS),
        EV_ABS => Some(AXES),
        EV_FF => Some(FORCES),
        _ => None,
    }
}

/// The field with an axis's `struct input_absinfo`; `None` for an invalid axis.
#[must_use]
pub fn info_of(axis: u16) -> Option<Field> {
    let axis = usize::from(axis);
    (axis < ABS_CNT).then(|| Field::new(AXIS_INFO.at + axis * AXIS, AXIS))
}

/// An axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Axis {
    /// Current value.
    pub value: i32,
    /// Minimum value.
    pub minimum: i32,
    /// Maximum value.
    pub maximum: i32,
    /// Noise threshold.
    pub fuzz: i32,
    /// Dead zone around the centre.
    pub flat: i32,
}

/// Description and state of an event device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description(Box<[u8; LENGTH]>);

impl Description {
    /// A device with only a name (at most 95 bytes) and its `struct input_id`.
    #[must_use]
    pub fn new(name: &str, id: [u16; 4]) -> Description {
        let mut description = Description(Box::new([0; LENGTH]));
        let bytes = &mut *description.0;
        bytes[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        for (to, number) in ID.of(bytes).chunks_exact_mut(2).zip(id) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        let name = &name[..name.floor_char_boundary(NAME.length - 1)];
        NAME.of(bytes)[..name.len()].copy_from_slice(name.as_bytes());
        set(KINDS.of(bytes), EV_SYN, true);
        description
    }

    /// Sets the physical location (at most 31 bytes).
    #[must_use]
    pub fn at(mut self, place: &str) -> Description {
        let place = &place[..place.floor_char_boundary(LOCATION.length - 1)];
        LOCATION.of(&mut self.0)[..place.len()].copy_from_slice(place.as_bytes());
        self
    }

    /// Adds a key or button.
    #[must_use]
    pub fn with_key(mut self, code: u16) -> Description {
        set(KINDS.of(&mut self.0), EV_KEY, true);
        set(KEYS.of(&mut self.0), code, true);
        self
    }

    /// Adds an axis.
    #[must_use]
    pub fn with_axis(mut self, code: u16, axis: Axis) -> Description {
        set(KINDS.of(&mut self.0), EV_ABS, true);
        set(AXES.of(&mut self.0), code, true);
        let numbers = [
            axis.value,
            axis.minimum,
            axis.maximum,
            axis.fuzz,
            axis.flat,
            0,
        ];
        if let Some(info) = info_of(code) {
            let places = info.of(&mut self.0).chunks_exact_mut(4);
            for (to, number) in places.zip(numbers) {
                to.copy_from_slice(&number.to_ne_bytes());
            }
        }
        self
    }

    /// Adds an effect type, and the number of effects that may be uploaded.
    #[must_use]
    pub fn with_force(mut self, code: u16, effects: i32) -> Description {
        set(KINDS.of(&mut self.0), EV_FF, true);
        set(FORCES.of(&mut self.0), code, true);
        EFFECTS
            .of(&mut self.0)
            .copy_from_slice(&effects.to_ne_bytes());
        self
    }

    /// Applies an event. Returns the changed field.
    pub fn follow(&mut self, kind: u16, code: u16, value: i32) -> Option<Field> {
        match kind {
            EV_KEY => {
                set(KEYS_DOWN.of(&mut self.0), code, value != 0);
                Some(KEYS_DOWN)
            }
            EV_ABS => {
                let info = info_of(code)?;
                let place = Field::new(info.at, 4);
                place.of(&mut self.0).copy_from_slice(&value.to_ne_bytes());
                Some(place)
            }
            _ => None,
        }
    }

    /// The bytes of a field.
    #[must_use]
    pub fn part(&self, part: Field) -> &[u8] {
        &self.0[part.at..part.end()]
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &*self.0
    }
}

fn set(bits: &mut [u8], number: u16, on: bool) {
    if let Some(byte) = bits.get_mut(usize::from(number / 8)) {
        let bit = 1 << (number % 8);
        *byte = if on { *byte | bit } else { *byte & !bit };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_at_their_documented_offsets() {
        let axis = Axis {
            value: 1,
            minimum: -5,
            maximum: 5,
            fuzz: 2,
            flat: 3,
        };
        let mut it = Description::new(&"n".repeat(200), [3, 0x45e, 0x28e, 0x110])
            .at("here")
            .with_key(0x130)
            .with_axis(0x11, axis)
            .with_force(0x50, 16);
        assert_eq!(it.part(NAME), [&[b'n'; 95][..], &[0]].concat());
        assert_eq!(it.part(ID)[..4], [3, 0, 0x5e, 4]);
        assert_eq!(it.part(KINDS), [0b1011, 0, 0b10_0000, 0]);
        assert_eq!(it.part(KEYS)[0x26], 1);
        let info = info_of(0x11).unwrap();
        let numbers: Vec<i32> = it
            .part(info)
            .chunks_exact(4)
            .map(|n| i32::from_ne_bytes(n.try_into().unwrap()))
            .collect();
        assert_eq!(numbers, [1, -5, 5, 2, 3, 0]);
        assert_eq!(it.follow(EV_KEY, 0x130, 1), Some(KEYS_DOWN));
        assert_eq!(it.part(KEYS_DOWN)[0x26], 1);
        assert_eq!(it.follow(EV_ABS, 0x11, -4).unwrap().at, info.at);
        assert_eq!(it.part(info)[..4], (-4_i32).to_ne_bytes());
        // Invalid numbers.
        assert_eq!(it.follow(EV_ABS, 0x40, 1), None);
        it.follow(EV_KEY, u16::MAX, 1);
        it.follow(EV_KEY, 0x130, 0);
        assert!(it.part(KEYS_DOWN).iter().all(|byte| *byte == 0));
    }
}
