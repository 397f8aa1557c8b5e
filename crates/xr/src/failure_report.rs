//! Reports to `openuvr xr` the failures of those calls that every session requires. When such a call fails, there is no
//! host yet, and most applications exit with little explanation.

use std::ffi::CStr;
use std::sync::Mutex;

use openuvr_runtime::host::Notice;
use openuvr_runtime::launcher::Launcher;
use openuvr_runtime::lock::lock;

use crate::settings::{self, Source};

/// The calls that a session requires.
const NEEDED: [&CStr; 3] = [c"xrCreateInstance", c"xrGetSystem", c"xrCreateSession"];

/// The reports that this process has sent. They are not repeated, because applications repeat failed calls.
static REPORTED: Mutex<Vec<(&CStr, &CStr)>> = Mutex::new(Vec::new());

/// Reports a failed call if every session requires this call. Each failure is reported once.
pub(crate) fn report(function: &CStr, message: &'static CStr, error: &'static CStr) {
    let Some(needed) = NEEDED.into_iter().find(|needed| *needed == function) else {
        return;
    };
    let mut reported = lock(&REPORTED);
    if reported.contains(&(needed, error)) {
        return;
    }
    reported.push((needed, error));
    drop(reported);
    if let Some(Source::Launcher) = settings::source()
        && let Ok(launcher) = Launcher::connect()
    {
        launcher.send(&Notice::Warning(line(needed, message, error)).into());
    }
}

fn line(function: &CStr, message: &CStr, error: &CStr) -> String {
    let [function, message, error] = [function, message, error].map(CStr::to_string_lossy);
    format!("the application's {function} failed: {message} ({error})")
}
