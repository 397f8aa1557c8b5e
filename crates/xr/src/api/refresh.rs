//! `XR_FB_display_refresh_rate`: the refresh rate of the player's display. The application cannot change it. A request
//! is accepted only for the current rate, or for no particular rate.

use openxr_sys as xr;

use crate::ffi::{self, DONE, Outcome, call, write_output};
use crate::handles;
use crate::session::Session;

/// Rates that differ by less than this (in Hz) are equal.
const SAME: f32 = 0.01;

fn rate(session: xr::Session) -> Outcome<f32> {
    Ok(handles::get::<Session>(session)?.refresh())
}

pub(crate) unsafe extern "system" fn enumerate(
    session: xr::Session,
    capacity: u32,
    count: *mut u32,
    rates: *mut f32,
) -> xr::Result {
    call(c"xrEnumerateDisplayRefreshRatesFB", || {
        let rate = rate(session)?;
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::values(&[rate], capacity, count, rates) }
    })
}

pub(crate) unsafe extern "system" fn get(session: xr::Session, to: *mut f32) -> xr::Result {
    call(c"xrGetDisplayRefreshRateFB", || {
        let rate = rate(session)?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(to, rate)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn request(session: xr::Session, wanted: f32) -> xr::Result {
    call(c"xrRequestDisplayRefreshRateFB", || {
        let rate = rate(session)?;
        // Zero: no preference.
        match wanted == 0.0 || (wanted - rate).abs() < SAME {
            true => DONE,
            false => Err(xr::Result::ERROR_DISPLAY_REFRESH_RATE_UNSUPPORTED_FB),
        }
    })
}
