//! Sound that the application gives to its host, and that a MUD's application takes.

use std::ffi::c_int;

use openuvr_media::audio::CHANNELS;

use crate::error::{Failure, Outcome};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// Sample frames that are given or taken at once at most: a second.
const MOST: usize = 48_000;

/// How many samples so many sample frames are.
fn samples_in(frames: usize) -> Outcome<usize> {
    match frames {
        0..=MOST => Ok(frames * CHANNELS),
        _ => Err(Failure::argument(format!(
            "{frames} sample frames at once: {MOST} at most, a second"
        ))),
    }
}

/// Gives sound that is heard now, together with the picture that is given now: `frames` times two samples,
/// left and right, −1 to 1, 48000 of each a second, as they come: every few milliseconds. Where nothing is
/// given there is silence. `sound` must be 1 in the configuration. Returns how many sample frames were taken:
/// all, or 0 while no MUD listens. It does not wait. From any thread, one at a time.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `samples` is NULL or points to `frames` times two
/// numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_sound(
    context: *mut openuvr_context,
    samples: *const f32,
    frames: usize,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let length = samples_in(frames)?;
            if samples.is_null() {
                return Err(Failure::null("the samples"));
            }
            let given = handle.started()?.given.as_ref();
            let given = given.ok_or_else(|| {
                Failure::state("this host has no sound: set sound in its configuration to 1")
            })?;
            let samples = std::slice::from_raw_parts(samples, length);
            Ok(c_int::try_from(given.give(samples)).unwrap_or(c_int::MAX))
        })
    }
}

/// Takes the sound that is to be played next: fills `samples` with `frames` times two numbers, left and right,
/// at 48000 of each a second. Call it at the pace of the device that plays them, such as from its callback:
/// what it takes is what has been played, and the MUD keeps as much ready as was taken at once, and what the
/// link's jitter asks for. What is not there is silence. `sound` must be `OPENUVR_SOUND_APPLICATION` in the
/// configuration. Returns how many sample frames are sound of the host, and no such silence. It does not wait.
/// From any thread, one at a time.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `samples` is NULL or writable for `frames` times two
/// numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_take_sound(
    context: *mut openuvr_mud_context,
    samples: *mut f32,
    frames: usize,
) -> c_int {
    // SAFETY: the caller has promised this function the same.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let length = samples_in(frames)?;
            if samples.is_null() {
                return Err(Failure::null("the samples"));
            }
            let taken = handle.started()?.taken.as_ref();
            let taken = taken.ok_or_else(|| {
                let why = "this MUD's sound does not go to the application: set sound in its \
                           configuration to OPENUVR_SOUND_APPLICATION";
                Failure::state(why)
            })?;
            // The memory may never have been written.
            std::ptr::write_bytes(samples, 0, length);
            let samples = std::slice::from_raw_parts_mut(samples, length);
            Ok(c_int::try_from(taken.take(samples)).unwrap_or(c_int::MAX))
        })
    }
}
