//! What each error means, for people: where a function has no words of its own.

use std::ffi::CStr;

use openxr_sys as xr;

use super::{Kind, Severity};

macro_rules! table {
    ($($name:ident: $words:literal;)*) => {
        /// The error's name.
        pub(super) fn name(code: xr::Result) -> &'static CStr {
            match code {
                $(xr::Result::$name => {
                    const NAME: &str = concat!("XR_", stringify!($name), "\0");
                    CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or(c"XR")
                })*
                _ => c"XR_ERROR",
            }
        }

        /// What it means.
        pub(super) fn usual(code: xr::Result) -> &'static CStr {
            match code {
                $(xr::Result::$name => $words,)*
                _ => c"the call failed",
            }
        }
    };
}

table! {
    ERROR_VALIDATION_FAILURE: c"an argument is null, of the wrong kind, or outside of what the specification allows";
    ERROR_RUNTIME_FAILURE: c"the runtime failed: this is an error of OpenUVR's, or the process is a forked child";
    ERROR_OUT_OF_MEMORY: c"there is no memory for it";
    ERROR_API_VERSION_UNSUPPORTED: c"this runtime has another version of OpenXR than the one that is asked for";
    ERROR_INITIALIZATION_FAILED: c"it could not be started";
    ERROR_FUNCTION_UNSUPPORTED: c"there is no such function, or the instance was created without its extension";
    ERROR_FEATURE_UNSUPPORTED: c"this runtime can't do that";
    ERROR_EXTENSION_NOT_PRESENT: c"this runtime has no such extension";
    ERROR_LIMIT_REACHED: c"there are as many of them as there can be";
    ERROR_SIZE_INSUFFICIENT: c"the buffer is too small: ask with a capacity of 0 how large it has to be";
    ERROR_HANDLE_INVALID: c"the handle was destroyed, is of another kind, or never was one";
    ERROR_SESSION_RUNNING: c"the session runs already";
    ERROR_SESSION_NOT_RUNNING: c"the session does not run: xrBeginSession comes first";
    ERROR_SESSION_LOST: c"the session is lost";
    ERROR_SYSTEM_INVALID: c"the system is none that xrGetSystem has given";
    ERROR_PATH_INVALID: c"the path is none that xrStringToPath has given";
    ERROR_PATH_FORMAT_INVALID: c"the text is no path or name: lower case letters, digits, - _ and . only";
    ERROR_PATH_UNSUPPORTED: c"the path means nothing here: no such profile, or no such place of it or of the person's";
    ERROR_LAYER_INVALID: c"the layer is of a kind that this runtime does not show, or has nothing to show";
    ERROR_LAYER_LIMIT_EXCEEDED: c"more layers than XrSystemGraphicsProperties::maxLayerCount";
    ERROR_SWAPCHAIN_RECT_INVALID: c"the rectangle lies outside of the swapchain's images";
    ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED: c"xrEnumerateSwapchainFormats does not name this format";
    ERROR_ACTION_TYPE_MISMATCH: c"the action is of another type";
    ERROR_SESSION_NOT_READY: c"the session is not in XR_SESSION_STATE_READY";
    ERROR_SESSION_NOT_STOPPING: c"the session is not in XR_SESSION_STATE_STOPPING: xrRequestExitSession leads there";
    ERROR_TIME_INVALID: c"the time is zero or negative";
    ERROR_REFERENCE_SPACE_UNSUPPORTED: c"xrEnumerateReferenceSpaces does not name this space";
    ERROR_FORM_FACTOR_UNSUPPORTED: c"this runtime is a head-mounted display only";
    ERROR_CALL_ORDER_INVALID: c"the call is out of order";
    ERROR_GRAPHICS_DEVICE_INVALID: c"the device or context can't be drawn with, or there is no binding for it";
    ERROR_POSE_INVALID: c"the orientation is not of length one, or the position is no number";
    ERROR_INDEX_OUT_OF_RANGE: c"the index is too large";
    ERROR_VIEW_CONFIGURATION_TYPE_UNSUPPORTED: c"xrEnumerateViewConfigurations does not name these views";
    ERROR_ENVIRONMENT_BLEND_MODE_UNSUPPORTED: c"this runtime has XR_ENVIRONMENT_BLEND_MODE_OPAQUE only";
    ERROR_NAME_DUPLICATED: c"there is one of this name already";
    ERROR_NAME_INVALID: c"the name is empty, or too long";
    ERROR_ACTIONSET_NOT_ATTACHED: c"the action set is not attached to the session";
    ERROR_ACTIONSETS_ALREADY_ATTACHED: c"the session has its action sets already, and they stay as they are";
    ERROR_LOCALIZED_NAME_DUPLICATED: c"there is one with this name for people already";
    ERROR_LOCALIZED_NAME_INVALID: c"the name for people is empty, or too long";
    ERROR_GRAPHICS_REQUIREMENTS_CALL_MISSING: c"xrGet...GraphicsRequirements has to be called before";
    ERROR_DISPLAY_REFRESH_RATE_UNSUPPORTED_FB: c"xrEnumerateDisplayRefreshRatesFB does not name this rate";
}

/// How bad an error is, and whose.
pub(super) fn rank(code: xr::Result) -> (Severity, Kind) {
    match code {
        // Answers to a question.
        xr::Result::ERROR_FUNCTION_UNSUPPORTED
        | xr::Result::ERROR_FEATURE_UNSUPPORTED
        | xr::Result::ERROR_FORM_FACTOR_UNSUPPORTED
        | xr::Result::ERROR_EXTENSION_NOT_PRESENT => (Severity::WARNING, Kind::GENERAL),
        // Not of the application's making.
        xr::Result::ERROR_RUNTIME_FAILURE
        | xr::Result::ERROR_OUT_OF_MEMORY
        | xr::Result::ERROR_LIMIT_REACHED
        | xr::Result::ERROR_SESSION_LOST
        | xr::Result::ERROR_INITIALIZATION_FAILED => (Severity::ERROR, Kind::GENERAL),
        _ => (Severity::ERROR, Kind::VALIDATION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_names_and_words() {
        let order = xr::Result::ERROR_CALL_ORDER_INVALID;
        assert_eq!(name(order), c"XR_ERROR_CALL_ORDER_INVALID");
        assert_eq!(usual(order), c"the call is out of order");
        assert_eq!(rank(order), (Severity::ERROR, Kind::VALIDATION));
        let unknown = xr::Result::from_raw(-4711);
        assert_eq!(name(unknown), c"XR_ERROR");
    }
}
