//! `XR_KHR_convert_timespec_time`: an OpenXR time is a `CLOCK_MONOTONIC` time in nanoseconds.

use openxr_sys as xr;

use super::time as checked;
use crate::ffi::{DONE, call, write_output};
use crate::handles;
use crate::instance::Instance;

const SECOND: i64 = 1_000_000_000;

pub(crate) unsafe extern "system" fn from_timespec(
    instance: xr::Instance,
    from: *const libc::timespec,
    to: *mut xr::Time,
) -> xr::Result {
    call(c"xrConvertTimespecTimeToTimeKHR", || {
        handles::get::<Instance>(instance)?;
        if from.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        // SAFETY: the application passes a valid pointer, and it is not null.
        let from = unsafe { from.read() };
        let nanos = from.tv_sec.checked_mul(SECOND);
        let nanos = nanos.and_then(|nanos| nanos.checked_add(from.tv_nsec));
        let sensible = (0..SECOND).contains(&from.tv_nsec);
        let nanos = nanos.filter(|nanos| sensible && *nanos > 0);
        let nanos = nanos.ok_or(xr::Result::ERROR_TIME_INVALID)?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(to, xr::Time::from_nanos(nanos))? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn to_timespec(
    instance: xr::Instance,
    from: xr::Time,
    to: *mut libc::timespec,
) -> xr::Result {
    call(c"xrConvertTimeToTimespecTimeKHR", || {
        handles::get::<Instance>(instance)?;
        let nanos = checked(from)?.0;
        let time = libc::timespec {
            tv_sec: nanos / SECOND,
            tv_nsec: nanos % SECOND,
        };
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(to, time)? };
        DONE
    })
}
