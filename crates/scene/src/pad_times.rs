//! Times at which the scene reads a game pad. It reads the pad like a game that opens `/dev/input` itself, in a thread
//! that waits for events.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use openuvr_clock as clock;
use openuvr_media::pad::FIRST_EVENT;
use openuvr_media::pad::codes::{ABS_X, EV_ABS};

/// The size of the time in a `struct input_event` (linux/input.h): two longs.
const TIME_BYTES: usize = 2 * size_of::<libc::c_long>();
const EVENT_BYTES: usize = TIME_BYTES + 8;

/// Starts a thread that writes the horizontal positions of the first pad's left stick to `file`, one per line, with the
/// time of reading in nanoseconds of the monotonic clock. The thread ends with the process, when the pad is removed, or
/// when it can't write.
///
/// # Errors
/// Returns an error if there is no such pad, or if the file can't be created.
pub(super) fn start(file: &Path) -> Result<()> {
    let device = format!("/dev/input/event{FIRST_EVENT}");
    let mut pad = File::open(&device).with_context(|| {
        format!("can't read {device}: start the scene with `openuvr run`, which provides a pad")
    })?;
    let made = File::create(file);
    let mut output = made.with_context(|| format!("can't write {}", file.display()))?;
    let thread = std::thread::Builder::new().name("pad".into());
    thread.spawn(move || {
        let mut bytes = [0; 64 * EVENT_BYTES];
        while let Ok(length @ 1..) = pad.read(&mut bytes) {
            let now = clock::now();
            let events = bytes[..length].chunks_exact(EVENT_BYTES);
            for value in events.filter_map(stick_position) {
                if writeln!(output, "{value} {}", now.0).is_err() {
                    return;
                }
            }
        }
    })?;
    Ok(())
}

/// The horizontal position of the left stick, if this event contains it.
fn stick_position(event: &[u8]) -> Option<i32> {
    let number = |at: usize| Some(u16::from_ne_bytes(event.get(at..at + 2)?.try_into().ok()?));
    let is_x_axis = number(TIME_BYTES)? == EV_ABS && number(TIME_BYTES + 2)? == ABS_X;
    let value = event.get(TIME_BYTES + 4..)?.try_into().ok()?;
    is_x_axis.then(|| i32::from_ne_bytes(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_left_stick_is_recorded() {
        let event = |kind: u16, code: u16, value: i32| {
            let mut bytes = vec![0; EVENT_BYTES];
            bytes[TIME_BYTES..TIME_BYTES + 2].copy_from_slice(&kind.to_ne_bytes());
            bytes[TIME_BYTES + 2..TIME_BYTES + 4].copy_from_slice(&code.to_ne_bytes());
            bytes[TIME_BYTES + 4..].copy_from_slice(&value.to_ne_bytes());
            bytes
        };
        assert_eq!(stick_position(&event(EV_ABS, ABS_X, -7)), Some(-7));
        assert_eq!(stick_position(&event(EV_ABS, ABS_X + 1, -7)), None);
        assert_eq!(stick_position(&event(0, 0, 0)), None);
        assert_eq!(stick_position(&[0; 4]), None);
    }
}
