//! Bound sources of an action, and their localized names (OpenXR 1.0, section 11.7).

use std::ffi::c_char;

use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::border::{self, call, input};
use crate::handles;
use crate::instance::Action;
use crate::session::Session;

pub(crate) unsafe extern "system" fn bound(
    session: xr::Session,
    info: *const xr::BoundSourcesForActionEnumerateInfo,
    capacity: u32,
    count: *mut u32,
    sources: *mut xr::Path,
) -> xr::Result {
    call(c"xrEnumerateBoundSourcesForAction", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        let action = handles::get::<Action>(info.action)?;
        session.has_set(action.id.0)?;
        let all = lock(&session.input).sources(action.id);
        // SAFETY: the application's.
        unsafe { border::values(&all, capacity, count, sources) }
    })
}

pub(crate) unsafe extern "system" fn name(
    session: xr::Session,
    info: *const xr::InputSourceLocalizedNameGetInfo,
    capacity: u32,
    count: *mut u32,
    buffer: *mut c_char,
) -> xr::Result {
    call(c"xrGetInputSourceLocalizedName", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        let wanted = info.which_components;
        let known = xr::InputSourceLocalizedNameFlags::USER_PATH
            | xr::InputSourceLocalizedNameFlags::INTERACTION_PROFILE
            | xr::InputSourceLocalizedNameFlags::COMPONENT;
        if wanted.is_empty() || wanted.intersects(!known) {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let paths = lock(&session.instance.paths);
        let path = paths.text(info.source_path)?;
        session.has_sets()?;
        let (user, place) = apart(path);
        let held = lock(&session.input).profile(user).map(str::to_owned);
        let mut words = Vec::new();
        if wanted.contains(xr::InputSourceLocalizedNameFlags::USER_PATH) {
            words.push(people_say(user.strip_prefix("/user").unwrap_or(user)));
        }
        if wanted.contains(xr::InputSourceLocalizedNameFlags::INTERACTION_PROFILE) {
            let profile = held.as_deref().unwrap_or_default();
            let name = profile.strip_prefix("/interaction_profiles");
            words.push(people_say(name.unwrap_or_default()));
        }
        if wanted.contains(xr::InputSourceLocalizedNameFlags::COMPONENT) {
            let name = place
                .strip_prefix("/input")
                .or(place.strip_prefix("/output"));
            words.push(people_say(name.unwrap_or(place)));
        }
        words.retain(|word| !word.is_empty());
        // SAFETY: the application's.
        unsafe { border::text(&words.join(" "), capacity, count, buffer) }
    })
}

/// Splits a path into top level user path and component.
fn apart(path: &str) -> (&str, &str) {
    let at = ["/input", "/output"]
        .iter()
        .find_map(|part| path.find(*part));
    path.split_at(at.unwrap_or(path.len()))
}

/// A path as a display name: `/hand/left` is "Hand Left".
fn people_say(path: &str) -> String {
    let words = path.split(['/', '_']).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    words.map(capital).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_a_localized_name() {
        let (user, place) = apart("/user/hand/left/input/trigger/value");
        assert_eq!((user, place), ("/user/hand/left", "/input/trigger/value"));
        assert_eq!(people_say("/hand/left"), "Hand Left");
        assert_eq!(
            people_say("/oculus/touch_controller"),
            "Oculus Touch Controller"
        );
        assert_eq!(apart("/user/hand/left").1, "");
    }
}
