//! Paths (OpenXR 1.0, section 6).

use std::ffi::c_char;

use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::ffi::{self, DONE, call, write_output};
use crate::handles;
use crate::instance::Instance;

pub(crate) unsafe extern "system" fn from_string(
    instance: xr::Instance,
    text: *const c_char,
    path: *mut xr::Path,
) -> xr::Result {
    call(c"xrStringToPath", || {
        let instance = handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        unsafe {
            let number = lock(&instance.paths).number(ffi::string(text)?)?;
            write_output(path, number)?;
        }
        DONE
    })
}

pub(crate) unsafe extern "system" fn to_string(
    instance: xr::Instance,
    path: xr::Path,
    capacity: u32,
    count: *mut u32,
    buffer: *mut c_char,
) -> xr::Result {
    call(c"xrPathToString", || {
        let instance = handles::get::<Instance>(instance)?;
        let paths = lock(&instance.paths);
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::text(paths.text(path)?, capacity, count, buffer) }
    })
}
