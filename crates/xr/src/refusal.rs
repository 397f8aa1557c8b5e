//! Reports failed calls without which no session exists to `openuvr xr`. At that point there is no host yet,
//! and most applications exit with little explanation.

use std::ffi::CStr;
use std::sync::Mutex;

use openuvr_runtime::launched::Launcher;
use openuvr_runtime::line::Line;
use openuvr_runtime::lock::lock;

use crate::settings::{self, Source};

/// The calls that a session requires.
const NEEDED: [&CStr; 3] = [c"xrCreateInstance", c"xrGetSystem", c"xrCreateSession"];

/// Reports sent by this process. Applications repeat failed calls.
static TOLD: Mutex<Vec<(&CStr, &CStr)>> = Mutex::new(Vec::new());

/// Reports a failed call once if a session requires it.
pub(crate) fn tell(function: &CStr, words: &'static CStr, error: &'static CStr) {
    let Some(needed) = NEEDED.into_iter().find(|needed| *needed == function) else {
        return;
    };
    let mut told = lock(&TOLD);
    if told.contains(&(needed, error)) {
        return;
    }
    told.push((needed, error));
    drop(told);
    if let Some(Source::Launcher) = settings::source()
        && let Ok(launcher) = Launcher::connect()
    {
        launcher.say(&Line::Trouble(line(needed, words, error)));
    }
}

fn line(function: &CStr, words: &CStr, error: &CStr) -> String {
    let [function, words, error] = [function, words, error].map(CStr::to_string_lossy);
    format!("the application was refused {function}: {words} ({error})")
}
