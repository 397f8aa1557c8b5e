//! What `openuvr xr` is told where an application is refused what it can't do without, before it has a session and
//! with that a host: most applications end then, and say little.

use std::ffi::CStr;
use std::sync::Mutex;

use openuvr_runtime::launched::Launcher;
use openuvr_runtime::line::Line;
use openuvr_runtime::lock::lock;

use crate::settings::{self, Source};

/// The functions without which there is no session.
const NEEDED: [&CStr; 3] = [c"xrCreateInstance", c"xrGetSystem", c"xrCreateSession"];

/// What was told of this process. Applications ask again and again.
static TOLD: Mutex<Vec<(&CStr, &CStr)>> = Mutex::new(Vec::new());

/// A call of the application has failed: if it was one of those, that is told once.
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
