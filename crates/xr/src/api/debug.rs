//! `XR_EXT_debug_utils`: messengers, object names and labels. `crate::debug` delivers the messages.

use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;

use openxr_sys as xr;
use openxr_sys::Handle as _;

use crate::debug::{self, Message, Object};
use crate::ffi::{self, DONE, Outcome, call, input, write_output};
use crate::handles;
use crate::instance::{Instance, Messenger};
use crate::session::Session;

/// Maximum number of objects in a message (guess).
const MAX_OBJECTS: u32 = 256;

pub(crate) unsafe extern "system" fn create_messenger(
    handle: xr::Instance,
    info: *const xr::DebugUtilsMessengerCreateInfoEXT,
    out: *mut xr::DebugUtilsMessengerEXT,
) -> xr::Result {
    call(c"xrCreateDebugUtilsMessengerEXT", || {
        handles::get::<Instance>(handle)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        if out.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let messenger = debug::Messenger::read(handle.into_raw(), info)?;
        let number = debug::add(messenger);
        let made = handles::add(handle.into_raw(), Arc::new(Messenger { number }));
        let made = made.inspect_err(|_| debug::remove(number))?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(out, made)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn destroy_messenger(
    messenger: xr::DebugUtilsMessengerEXT,
) -> xr::Result {
    call(c"xrDestroyDebugUtilsMessengerEXT", || {
        handles::destroy::<Messenger>(messenger)
    })
}

pub(crate) unsafe extern "system" fn set_name(
    instance: xr::Instance,
    info: *const xr::DebugUtilsObjectNameInfoEXT,
) -> xr::Result {
    call(c"xrSetDebugUtilsObjectNameEXT", || {
        handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        let (info, name) = unsafe {
            let info = input(info)?;
            (info, text(info.object_name)?)
        };
        if info.object_type == xr::ObjectType::UNKNOWN || info.object_handle == 0 {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        debug::annotate(|annotations| {
            annotations.set_name(info.object_type, info.object_handle, name)
        })?;
        DONE
    })
}

/// # Safety
/// `pointer` is null or a zero-terminated string of the application.
unsafe fn text(pointer: *const c_char) -> Outcome<CString> {
    // SAFETY: the caller guarantees that `pointer` is null or a zero-terminated string.
    let text = unsafe { ffi::string(pointer)? };
    CString::new(text).map_err(|_| xr::Result::ERROR_VALIDATION_FAILURE)
}

/// Like [`text`], for an optional string.
///
/// # Safety
/// The same as for [`text`].
unsafe fn optional_text<'a>(pointer: *const c_char) -> &'a CStr {
    match pointer.is_null() {
        true => c"",
        // SAFETY: the caller guarantees that `pointer` is null or a zero-terminated string.
        false => unsafe { CStr::from_ptr(pointer) },
    }
}

pub(crate) unsafe extern "system" fn submit(
    instance: xr::Instance,
    severity: xr::DebugUtilsMessageSeverityFlagsEXT,
    kind: xr::DebugUtilsMessageTypeFlagsEXT,
    data: *const xr::DebugUtilsMessengerCallbackDataEXT,
) -> xr::Result {
    call(c"xrSubmitDebugUtilsMessageEXT", || {
        handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        let (data, objects) = unsafe {
            let data = input(data)?;
            let first = data.objects.cast_const();
            (data, ffi::array(first, data.object_count, MAX_OBJECTS)?)
        };
        if data.message.is_null() || severity.into_raw() == 0 || kind.into_raw() == 0 {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let object = |info: &xr::DebugUtilsObjectNameInfoEXT| Object {
            kind: info.object_type,
            handle: info.object_handle,
            // SAFETY: the application passes valid pointers.
            name: unsafe { text(info.object_name) }.ok(),
        };
        // SAFETY: the application passes valid pointers.
        let message = unsafe {
            Message {
                severity,
                kind,
                id: optional_text(data.message_id),
                function: optional_text(data.function_name),
                text: optional_text(data.message),
                objects: objects.iter().map(object).collect(),
            }
        };
        debug::submit(instance.into_raw(), &message);
        DONE
    })
}

/// The session's handle as a number, and its label.
///
/// # Safety
/// `info` must be null or come from the application.
unsafe fn label(
    session: xr::Session,
    info: *const xr::DebugUtilsLabelEXT,
) -> Outcome<(u64, CString)> {
    handles::get::<Session>(session)?;
    // SAFETY: the caller guarantees that `info` is null or comes from the application.
    let text = unsafe { text(input(info)?.label_name)? };
    Ok((session.into_raw(), text))
}

pub(crate) unsafe extern "system" fn begin_region(
    session: xr::Session,
    info: *const xr::DebugUtilsLabelEXT,
) -> xr::Result {
    call(c"xrSessionBeginDebugUtilsLabelRegionEXT", || {
        // SAFETY: the application passes valid pointers.
        let (session, label) = unsafe { label(session, info)? };
        debug::annotate(|annotations| annotations.begin_region(session, label))?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn end_region(session: xr::Session) -> xr::Result {
    call(c"xrSessionEndDebugUtilsLabelRegionEXT", || {
        handles::get::<Session>(session)?;
        debug::annotate(|annotations| annotations.end_region(session.into_raw()));
        DONE
    })
}

pub(crate) unsafe extern "system" fn insert_label(
    session: xr::Session,
    info: *const xr::DebugUtilsLabelEXT,
) -> xr::Result {
    call(c"xrSessionInsertDebugUtilsLabelEXT", || {
        // SAFETY: the application passes valid pointers.
        let (session, label) = unsafe { label(session, info)? };
        debug::annotate(|annotations| annotations.insert_label(session, label));
        DONE
    })
}
