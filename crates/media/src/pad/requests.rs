//! Requests that a game sends to the server of a device that the game has opened: the `struct input_event`s that the game
//! writes, and `ioctl` calls in the same form.

use super::codes::{EV_FF, FF_GAIN};

/// Size of a request in bytes: the size of a `struct input_event` with 64-bit times.
pub const LENGTH: usize = 24;

/// Types that no game writes, far from the kernel's types, which are below 0x20.
const UPLOAD: u16 = 0xf001;
const ERASE: u16 = 0xf002;
const CLOCK: u16 = 0xf003;

/// A rumble effect of a game (`struct ff_effect`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effect {
    /// The heavy motor; the maximum is 65 535.
    pub strong: u16,
    /// The light motor.
    pub weak: u16,
    /// Duration in milliseconds; 0 means until stopped.
    pub length: u16,
    /// Delay after the start in milliseconds.
    pub delay: u16,
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Uploads or changes an effect (`EVIOCSFF`).
    Upload(u16, Effect),
    /// Removes an effect (`EVIOCRMFF`).
    Erase(u16),
    /// Plays an effect this many times; 0 or less stops it.
    Play(u16, i32),
    /// Sets the gain of all effects; the maximum is 65 535.
    Gain(u16),
    /// Selects the clock of event timestamps (`EVIOCSCLOCKID`): `CLOCK_REALTIME` 0, `CLOCK_MONOTONIC` 1,
    /// `CLOCK_BOOTTIME` 7.
    Clock(i32),
}

impl Request {
    /// The request in the wire format.
    #[must_use]
    pub fn to_bytes(self) -> [u8; LENGTH] {
        let (kind, code, value, effect) = match self {
            Request::Upload(id, effect) => (UPLOAD, id, 0, effect),
            Request::Erase(id) => (ERASE, id, 0, Effect::default()),
            Request::Play(id, count) => (EV_FF, id, count, Effect::default()),
            Request::Gain(gain) => (EV_FF, FF_GAIN, gain.into(), Effect::default()),
            Request::Clock(clock) => (CLOCK, 0, clock, Effect::default()),
        };
        let mut out = [0; LENGTH];
        let numbers = [effect.strong, effect.weak, effect.length, effect.delay];
        for (to, number) in out.chunks_exact_mut(2).zip(numbers) {
            to.copy_from_slice(&number.to_ne_bytes());
        }
        out[16..18].copy_from_slice(&kind.to_ne_bytes());
        out[18..20].copy_from_slice(&code.to_ne_bytes());
        out[20..].copy_from_slice(&value.to_ne_bytes());
        out
    }

    /// Parses a request; `None` if it does not concern a pad (a light, a sound).
    #[must_use]
    pub fn from_bytes(bytes: &[u8; LENGTH]) -> Option<Request> {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let [.., a, b, c, d] = *bytes;
        let (kind, code, value) = (half(16), half(18), i32::from_ne_bytes([a, b, c, d]));
        Some(match (kind, code) {
            (UPLOAD, id) => {
                let effect = Effect {
                    strong: half(0),
                    weak: half(2),
                    length: half(4),
                    delay: half(6),
                };
                Request::Upload(id, effect)
            }
            (ERASE, id) => Request::Erase(id),
            (CLOCK, _) => Request::Clock(value),
            (EV_FF, FF_GAIN) => Request::Gain(u16::try_from(value.clamp(0, 0xffff)).unwrap_or(0)),
            (EV_FF, id) if id < FF_GAIN => Request::Play(id, value),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_round_trip() {
        let effect = Effect {
            strong: 0xffff,
            weak: 2,
            length: 300,
            delay: 40,
        };
        for request in [
            Request::Upload(15, effect),
            Request::Erase(3),
            Request::Play(3, 2),
            Request::Play(3, 0),
            Request::Gain(0x7fff),
            Request::Clock(1),
        ] {
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(Request::from_bytes(&[0; LENGTH]), None);
        assert_eq!(Request::from_bytes(&[0xff; LENGTH]), None);
    }
}
