//! The API functions, with one file per chapter of the specification. Each function validates its parameters, calls
//! `logic`, and writes the results. In these files, `SAFETY: the application passes valid pointers` means: the
//! specification requires that each pointer is null or valid, and the code checks for null.

pub(crate) mod action;
pub(crate) mod automation;
pub(crate) mod debug;
pub(crate) mod event;
pub(crate) mod frame;
pub(crate) mod gl;
pub(crate) mod instance;
pub(crate) mod layer;
pub(crate) mod mask;
pub(crate) mod path;
pub(crate) mod refresh;
pub(crate) mod session;
pub(crate) mod source;
pub(crate) mod space;
pub(crate) mod swapchain;
pub(crate) mod system;
pub(crate) mod time;
pub(crate) mod vulkan;

use openxr_sys as xr;

use crate::ffi::Outcome;
use openuvr_proto::time::Instant;

/// Validates a time that the application passes.
fn time(time: xr::Time) -> Outcome<Instant> {
    match time.as_nanos() {
        ..=0 => Err(xr::Result::ERROR_TIME_INVALID),
        nanos => Ok(Instant(nanos)),
    }
}
