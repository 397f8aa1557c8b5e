//! Events (OpenXR 1.0, section 2.20).

use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::ffi::{DONE, call, output};
use crate::handles;
use crate::instance::Instance;
use crate::logic::events::Event;

/// Writes an event to the application's buffer.
///
/// # Safety
/// `buffer` must be writable. `T` must be an event structure, and not larger than the buffer.
unsafe fn put<T>(buffer: *mut xr::EventDataBuffer, event: T) {
    const { assert!(size_of::<T>() <= size_of::<xr::EventDataBuffer>()) };
    // SAFETY: the caller passes an event structure of OpenXR, which fits into the buffer. Its alignment is not stricter
    // than the buffer's, because all event structures start with the same two fields.
    unsafe { buffer.cast::<T>().write(event) };
}

pub(crate) unsafe extern "system" fn poll(
    instance: xr::Instance,
    buffer: *mut xr::EventDataBuffer,
) -> xr::Result {
    call(c"xrPollEvent", || {
        let instance = handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        let buffer = &raw mut *unsafe { output(buffer)? };
        let session = lock(&instance.session).upgrade();
        if let Some(session) = session {
            session.update();
        }
        let next = std::ptr::null();
        let event = lock(&instance.events).pop();
        // SAFETY: each value passed to `put` is an event structure of OpenXR.
        unsafe {
            match event {
                None => return Ok(xr::Result::EVENT_UNAVAILABLE),
                Some(Event::State(session, state, at)) => {
                    let event = xr::EventDataSessionStateChanged {
                        ty: xr::EventDataSessionStateChanged::TYPE,
                        next,
                        session,
                        state: state.raw(),
                        time: xr::Time::from_nanos(at.0),
                    };
                    put(buffer, event);
                }
                Some(Event::Profile(session)) => {
                    let event = xr::EventDataInteractionProfileChanged {
                        ty: xr::EventDataInteractionProfileChanged::TYPE,
                        next,
                        session,
                    };
                    put(buffer, event);
                }
                Some(Event::Refresh(_, from_display_refresh_rate, to_display_refresh_rate)) => {
                    let event = xr::EventDataDisplayRefreshRateChangedFB {
                        ty: xr::EventDataDisplayRefreshRateChangedFB::TYPE,
                        next,
                        from_display_refresh_rate,
                        to_display_refresh_rate,
                    };
                    put(buffer, event);
                }
                Some(Event::Lost(lost_event_count)) => {
                    let event = xr::EventDataEventsLost {
                        ty: xr::EventDataEventsLost::TYPE,
                        next,
                        lost_event_count,
                    };
                    put(buffer, event);
                }
            }
        }
        DONE
    })
}
