//! Instances (OpenXR 1.0, section 4).

use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use openxr_sys as xr;

use crate::debug;
use crate::extensions::{Enabled, all, name};
use crate::ffi::{self, DONE, Outcome, call, chained, field, input, output, write_output};
use crate::handles;
use crate::instance::Instance;

/// Maximum number of instances (guess: the loader creates one).
const MAX_INSTANCES: u32 = 16;

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) unsafe extern "system" fn enumerate_extensions(
    layer: *const c_char,
    capacity: u32,
    count: *mut u32,
    properties: *mut xr::ExtensionProperties,
) -> xr::Result {
    call(c"xrEnumerateInstanceExtensionProperties", || {
        if !layer.is_null() {
            // The loader itself reports the extensions of API layers.
            return Err(xr::Result::ERROR_API_LAYER_NOT_PRESENT);
        }
        let put = |(_, its, version): &(_, &[u8], u32), pointer| {
            // SAFETY: the application passes valid pointers.
            let to = unsafe { output::<xr::ExtensionProperties>(pointer)? };
            field(&mut to.extension_name, name(its));
            to.extension_version = *version;
            Ok(())
        };
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::list(&all(), capacity, count, properties, put) }
    })
}

pub(crate) unsafe extern "system" fn create(
    info: *const xr::InstanceCreateInfo,
    instance: *mut xr::Instance,
) -> xr::Result {
    const NAME: &CStr = c"xrCreateInstance";
    call(NAME, || {
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        // SAFETY: the application passes valid pointers.
        let made = unsafe { make(info) };
        // SAFETY: the application passes valid pointers.
        let debugger = unsafe { debugger(info) };
        if let (Err(code), Some(debugger)) = (&made, debugger) {
            debug::report_to(&debugger, NAME, *code);
        }
        let made = made?;
        if COUNT.load(Ordering::Relaxed) >= MAX_INSTANCES {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        let handle = handles::add(0, Arc::new(made))?;
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the application passes valid pointers.
        let written = unsafe { write_output(instance, handle) };
        if written.is_err() {
            end(handle)?;
        }
        written?;
        DONE
    })
}

/// Creates an instance.
///
/// # Safety
/// `info` must come from the application.
unsafe fn make(info: &xr::InstanceCreateInfo) -> Outcome<Instance> {
    if info.create_flags != xr::InstanceCreateFlags::EMPTY {
        return Err(xr::Result::ERROR_VALIDATION_FAILURE);
    }
    let application = &info.application_info;
    let name_invalid = xr::Result::ERROR_NAME_INVALID;
    let name = ffi::field_text(&application.application_name).map_err(|_| name_invalid)?;
    ffi::field_text(&application.engine_name).map_err(|_| name_invalid)?;
    if name.is_empty() {
        return Err(name_invalid);
    }
    let mut extensions = Enabled::of(application.api_version)?;
    // SAFETY: the application passes valid pointers.
    let names = unsafe {
        ffi::array(
            info.enabled_extension_names,
            info.enabled_extension_count,
            1024,
        )?
    };
    for name in names {
        // SAFETY: the application passes valid pointers.
        extensions = extensions.with(unsafe { ffi::string(*name)? })?;
    }
    Ok(Instance::new(extensions))
}

/// The messenger in the `next` chain of the create info. It receives the messages of this call.
///
/// # Safety
/// `info` must come from the application.
unsafe fn debugger(info: &xr::InstanceCreateInfo) -> Option<debug::Messenger> {
    // SAFETY: the caller guarantees that `info`, and therefore its chain of structures, comes from the application.
    let given = unsafe {
        let given = chained::<xr::DebugUtilsMessengerCreateInfoEXT>(info.next)?;
        input(given).ok()?
    };
    debug::Messenger::read(0, given).ok()
}

fn end(instance: xr::Instance) -> Outcome {
    handles::destroy::<Instance>(instance)?;
    COUNT.fetch_sub(1, Ordering::Relaxed);
    DONE
}

pub(crate) unsafe extern "system" fn destroy(instance: xr::Instance) -> xr::Result {
    call(c"xrDestroyInstance", || end(instance))
}

pub(crate) unsafe extern "system" fn properties(
    instance: xr::Instance,
    properties: *mut xr::InstanceProperties,
) -> xr::Result {
    call(c"xrGetInstanceProperties", || {
        handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        let to = unsafe { output(properties)? };
        to.runtime_version = version();
        field(&mut to.runtime_name, "OpenUVR");
        DONE
    })
}

/// Version of this runtime.
fn version() -> xr::Version {
    let part = |text: &str| text.parse::<u16>().unwrap_or_default();
    xr::Version::new(
        part(env!("CARGO_PKG_VERSION_MAJOR")),
        part(env!("CARGO_PKG_VERSION_MINOR")),
        part(env!("CARGO_PKG_VERSION_PATCH")).into(),
    )
}

pub(crate) unsafe extern "system" fn result_to_string(
    instance: xr::Instance,
    value: xr::Result,
    buffer: *mut c_char,
) -> xr::Result {
    call(c"xrResultToString", || {
        handles::get::<Instance>(instance)?;
        let known = format!("{value:?}");
        let text = match known.parse::<i32>() {
            Ok(number) if number < 0 => format!("XR_UNKNOWN_FAILURE_{number}"),
            Ok(number) => format!("XR_UNKNOWN_SUCCESS_{number}"),
            Err(_) => format!("XR_{known}"),
        };
        let mut string = [0; xr::MAX_RESULT_STRING_SIZE];
        field(&mut string, &text);
        // SAFETY: the application passes a valid buffer of this size.
        unsafe { write_output(buffer.cast(), string)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn structure_type_to_string(
    instance: xr::Instance,
    value: xr::StructureType,
    buffer: *mut c_char,
) -> xr::Result {
    call(c"xrStructureTypeToString", || {
        handles::get::<Instance>(instance)?;
        let known = format!("{value:?}");
        let text = match known.parse::<i32>() {
            Ok(number) => format!("XR_UNKNOWN_STRUCTURE_TYPE_{number}"),
            Err(_) => format!("XR_TYPE_{known}"),
        };
        let mut string = [0; xr::MAX_STRUCTURE_NAME_SIZE];
        field(&mut string, &text);
        // SAFETY: the application passes a valid buffer of this size.
        unsafe { write_output(buffer.cast(), string)? };
        DONE
    })
}
