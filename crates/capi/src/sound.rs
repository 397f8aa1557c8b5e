//! Sound that the application of a host sends, and sound for the application of a MUD.

use std::ffi::c_int;

use openuvr_media::audio::CHANNELS;

use crate::error::{Failure, Outcome};
use crate::handle::{Handle, call};
use crate::host::{Host, openuvr_context};
use crate::mud::{Mud, openuvr_mud_context};

/// The maximum number of sample frames per call: one second.
const MAX_FRAMES: usize = 48_000;

/// The number of samples in `frames` sample frames.
fn samples_in(frames: usize) -> Outcome<usize> {
    match frames {
        0..=MAX_FRAMES => Ok(frames * CHANNELS),
        _ => Err(Failure::argument(format!(
            "too many sample frames ({frames}): at most {MAX_FRAMES}, one second of sound"
        ))),
    }
}

/// Submits sound that is played together with the picture submitted at the same time: `frames` pairs of samples, left and
/// right, −1 to 1, at 48 kHz. Call it every few milliseconds; gaps are silent. The configuration's `sound` must be 1.
/// Returns the number of accepted sample frames: all of them, or 0 while no MUD plays the sound. Does not block. From any
/// thread, but not concurrently.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `samples` is NULL or points to twice `frames` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_send_sound(
    context: *mut openuvr_context,
    samples: *const f32,
    frames: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Host>>(), |handle| {
            let length = samples_in(frames)?;
            if samples.is_null() {
                return Err(Failure::null("the samples"));
            }
            let given = handle.started()?.given.as_ref();
            let given = given.ok_or_else(|| {
                Failure::state("this host has no sound: set sound to 1 in its configuration")
            })?;
            let samples = std::slice::from_raw_parts(samples, length);
            Ok(c_int::try_from(given.write(samples)).unwrap_or(c_int::MAX))
        })
    }
}

/// Retrieves the sound to be played next: fills `samples` with `frames` pairs of samples, left and right, at 48 kHz. Call it
/// at the pace of the sound device, for example from its callback: retrieved sound counts as played, and the jitter buffer
/// holds one retrieved block plus the link's jitter. Missing sound is replaced by silence. The configuration's `sound` must
/// be `OPENUVR_SOUND_APPLICATION`. Returns the number of sample frames that were not replaced. Does not block. From any
/// thread, but not concurrently.
///
/// # Safety
/// `context` is NULL or a context that is not closed; `samples` is NULL or writable for twice `frames` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openuvr_take_sound(
    context: *mut openuvr_mud_context,
    samples: *mut f32,
    frames: usize,
) -> c_int {
    // SAFETY: the caller upholds this function's requirements, which include those of the called function.
    unsafe {
        call(context.cast::<Handle<Mud>>(), |handle| {
            let length = samples_in(frames)?;
            if samples.is_null() {
                return Err(Failure::null("the samples"));
            }
            let taken = handle.started()?.taken.as_ref();
            let taken = taken.ok_or_else(|| {
                let why = "this MUD's sound does not go to the application: set sound to \
                           OPENUVR_SOUND_APPLICATION in its configuration";
                Failure::state(why)
            })?;
            // The memory may be uninitialized.
            std::ptr::write_bytes(samples, 0, length);
            let samples = std::slice::from_raw_parts_mut(samples, length);
            Ok(c_int::try_from(taken.read(samples)).unwrap_or(c_int::MAX))
        })
    }
}
