//! The functions that the application calls, one file per chapter: each reads what it is given, asks what
//! is to be done, and writes the answer. Below, `SAFETY: the application's` means: what it handed over with
//! this call is what OpenXR says of it, and null is looked for.

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

use crate::border::Outcome;
use openuvr_proto::time::Instant;

/// A time that the application says.
fn time(time: xr::Time) -> Outcome<Instant> {
    match time.as_nanos() {
        ..=0 => Err(xr::Result::ERROR_TIME_INVALID),
        nanos => Ok(Instant(nanos)),
    }
}
