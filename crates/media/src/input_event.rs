//! `struct input_event` of Linux (`linux/input.h`) as bytes, as read from and written to evdev
//! devices.

use std::mem::size_of;
use std::time::Duration;

/// Size of an event in bytes: 24 with 64-bit times.
pub const BYTES: usize = size_of::<libc::input_event>();

/// Size of the event's time in bytes. The time consists of two words of equal length: seconds and microseconds.
const TIME: usize = BYTES - 8;
const WORD: usize = TIME / 2;

/// `SYN_DROPPED`: the kernel's buffer overflowed.
#[cfg(feature = "client")]
pub const SYN_DROPPED: u16 = 3;

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time on the device's clock.
    pub time: Duration,
    /// `EV_*`
    pub kind: u16,
    /// `KEY_*`, `REL_*` and so on, depending on `kind`.
    pub code: u16,
    /// The meaning depends on `kind`.
    pub value: i32,
}

impl Event {
    /// The event as the kernel reads it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let words = [self.time.as_secs(), self.time.subsec_micros().into()];
        for (to, word) in out[..TIME].chunks_exact_mut(WORD).zip(words) {
            // With 32-bit words, only the lower half is copied.
            #[cfg(target_endian = "little")]
            to.copy_from_slice(&word.to_le_bytes()[..WORD]);
            #[cfg(target_endian = "big")]
            to.copy_from_slice(&word.to_be_bytes()[8 - WORD..]);
        }
        out[TIME..TIME + 2].copy_from_slice(&self.kind.to_ne_bytes());
        out[TIME + 2..TIME + 4].copy_from_slice(&self.code.to_ne_bytes());
        out[TIME + 4..].copy_from_slice(&self.value.to_ne_bytes());
        out
    }

    /// The event that the kernel wrote.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Event {
        let word = |at: usize| {
            let mut word = [0; 8];
            #[cfg(target_endian = "little")]
            word[..WORD].copy_from_slice(&bytes[at..at + WORD]);
            #[cfg(target_endian = "big")]
            word[8 - WORD..].copy_from_slice(&bytes[at..at + WORD]);
            u64::from_ne_bytes(word)
        };
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let [.., a, b, c, d] = *bytes;
        // A pipe may contain any data, so the arithmetic must not overflow.
        let micros = u32::try_from(word(WORD)).unwrap_or(0).min(999_999);
        Event {
            time: Duration::new(word(0), micros * 1000),
            kind: half(TIME),
            code: half(TIME + 2),
            value: i32::from_ne_bytes([a, b, c, d]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_kernel() {
        let event = Event {
            time: Duration::new(5, 7_000),
            kind: 1,
            code: 30,
            value: -2,
        };
        let bytes = event.to_bytes();
        assert_eq!(Event::from_bytes(&bytes), event);
        #[cfg(all(target_endian = "little", target_pointer_width = "64"))]
        assert_eq!(
            bytes,
            [
                5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 30, 0, 254, 255, 255, 255
            ]
        );
        let absurd = Event::from_bytes(&[0xff; BYTES]);
        assert_eq!((absurd.kind, absurd.value), (0xffff, -1));
    }
}
