//! Bound sources of an action, and their localized names (OpenXR 1.0, section 11.7).

use std::ffi::c_char;

use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::ffi::{self, call, input};
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
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let action = handles::get::<Action>(info.action)?;
        session.check_attached(action.id.0)?;
        let all = lock(&session.input).sources(action.id);
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::values(&all, capacity, count, sources) }
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
        // SAFETY: the application passes valid pointers.
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
        session.check_any_attached()?;
        let (user, component) = split_user_path(path);
        let profile = lock(&session.input).profile(user).map(str::to_owned);
        let mut words = Vec::new();
        if wanted.contains(xr::InputSourceLocalizedNameFlags::USER_PATH) {
            words.push(display_name(user.strip_prefix("/user").unwrap_or(user)));
        }
        if wanted.contains(xr::InputSourceLocalizedNameFlags::INTERACTION_PROFILE) {
            let profile = profile.as_deref().unwrap_or_default();
            let name = profile.strip_prefix("/interaction_profiles");
            words.push(display_name(name.unwrap_or_default()));
        }
        if wanted.contains(xr::InputSourceLocalizedNameFlags::COMPONENT) {
            let name = component
                .strip_prefix("/input")
                .or(component.strip_prefix("/output"));
            words.push(display_name(name.unwrap_or(component)));
        }
        words.retain(|word| !word.is_empty());
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::text(&words.join(" "), capacity, count, buffer) }
    })
}

/// Splits a path into top level user path and component.
fn split_user_path(path: &str) -> (&str, &str) {
    let at = ["/input", "/output"]
        .iter()
        .find_map(|part| path.find(*part));
    path.split_at(at.unwrap_or(path.len()))
}

/// A path as a display name: `/hand/left` is "Hand Left".
fn display_name(path: &str) -> String {
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
        let (user, component) = split_user_path("/user/hand/left/input/trigger/value");
        assert_eq!(
            (user, component),
            ("/user/hand/left", "/input/trigger/value")
        );
        assert_eq!(display_name("/hand/left"), "Hand Left");
        assert_eq!(
            display_name("/oculus/touch_controller"),
            "Oculus Touch Controller"
        );
        assert_eq!(split_user_path("/user/hand/left").1, "");
    }
}
