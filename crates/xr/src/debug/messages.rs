//! Default explanations of error codes.

use std::ffi::CStr;

use openxr_sys as xr;

use super::{Kind, Severity};

macro_rules! table {
    ($($name:ident: $message:literal;)*) => {
        /// The name of an error code.
        pub(super) fn name(code: xr::Result) -> &'static CStr {
            match code {
                $(xr::Result::$name => {
                    const NAME: &str = concat!("XR_", stringify!($name), "\0");
                    CStr::from_bytes_with_nul(NAME.as_bytes()).unwrap_or(c"XR")
                })*
                _ => c"XR_ERROR",
            }
        }

        /// The default explanation of an error code.
        pub(super) fn default_message(code: xr::Result) -> &'static CStr {
            match code {
                $(xr::Result::$name => $message,)*
                _ => c"the call failed",
            }
        }
    };
}

table! {
    ERROR_VALIDATION_FAILURE: c"a parameter is null, has the wrong type, or is outside its valid range";
    ERROR_RUNTIME_FAILURE: c"the runtime failed: the graphics driver failed, or OpenUVR has a bug";
    ERROR_OUT_OF_MEMORY: c"out of memory";
    ERROR_API_VERSION_UNSUPPORTED: c"the requested version of OpenXR is not supported";
    ERROR_INITIALIZATION_FAILED: c"the runtime could not be initialized";
    ERROR_FUNCTION_UNSUPPORTED: c"the function does not exist, or its extension is not enabled";
    ERROR_FEATURE_UNSUPPORTED: c"the feature is not supported";
    ERROR_EXTENSION_NOT_PRESENT: c"the extension is not supported";
    ERROR_LIMIT_REACHED: c"a limit of the runtime has been reached";
    ERROR_SIZE_INSUFFICIENT: c"the buffer is too small: query the size with a capacity of 0";
    ERROR_HANDLE_INVALID: c"the handle is invalid, was destroyed, or belongs to another type of object";
    ERROR_SESSION_RUNNING: c"the session is already running";
    ERROR_SESSION_NOT_RUNNING: c"the session is not running: call xrBeginSession first";
    ERROR_SESSION_LOST: c"the session is lost";
    ERROR_SYSTEM_INVALID: c"the system id was not returned by xrGetSystem";
    ERROR_PATH_INVALID: c"the path was not returned by xrStringToPath";
    ERROR_PATH_FORMAT_INVALID: c"malformed path or name: only lower-case letters, digits, - _ . and, in paths, / are allowed";
    ERROR_PATH_UNSUPPORTED: c"unsupported path: unknown interaction profile, component, or top level user path";
    ERROR_LAYER_INVALID: c"the layer type is not supported, or the layer has no image";
    ERROR_LAYER_LIMIT_EXCEEDED: c"the frame has more layers than XrSystemGraphicsProperties::maxLayerCount";
    ERROR_SWAPCHAIN_RECT_INVALID: c"the rectangle is outside the swapchain's images";
    ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED: c"the format is not in the list of xrEnumerateSwapchainFormats";
    ERROR_ACTION_TYPE_MISMATCH: c"the action's type does not match the call";
    ERROR_SESSION_NOT_READY: c"the session is not in XR_SESSION_STATE_READY";
    ERROR_SESSION_NOT_STOPPING: c"the session is not in XR_SESSION_STATE_STOPPING: call xrRequestExitSession first";
    ERROR_TIME_INVALID: c"the time is zero or negative";
    ERROR_REFERENCE_SPACE_UNSUPPORTED: c"the space is not in the list of xrEnumerateReferenceSpaces";
    ERROR_FORM_FACTOR_UNSUPPORTED: c"only head-mounted displays are supported";
    ERROR_CALL_ORDER_INVALID: c"the call is out of order";
    ERROR_GRAPHICS_DEVICE_INVALID: c"the graphics device or context is unusable, or its binding is missing";
    ERROR_POSE_INVALID: c"the orientation is not a unit quaternion, or the position is not finite";
    ERROR_INDEX_OUT_OF_RANGE: c"the index is too large";
    ERROR_VIEW_CONFIGURATION_TYPE_UNSUPPORTED: c"the view configuration is not in the list of xrEnumerateViewConfigurations";
    ERROR_ENVIRONMENT_BLEND_MODE_UNSUPPORTED: c"only XR_ENVIRONMENT_BLEND_MODE_OPAQUE is supported";
    ERROR_NAME_DUPLICATED: c"the name is already in use";
    ERROR_NAME_INVALID: c"the name is empty, or too long";
    ERROR_ACTIONSET_NOT_ATTACHED: c"the action set is not attached to the session";
    ERROR_ACTIONSETS_ALREADY_ATTACHED: c"the session's action sets are already attached and cannot be changed";
    ERROR_LOCALIZED_NAME_DUPLICATED: c"the localized name is already in use";
    ERROR_LOCALIZED_NAME_INVALID: c"the localized name is empty, or too long";
    ERROR_GRAPHICS_REQUIREMENTS_CALL_MISSING: c"call xrGet...GraphicsRequirements first";
    ERROR_DISPLAY_REFRESH_RATE_UNSUPPORTED_FB: c"the rate is not in the list of xrEnumerateDisplayRefreshRatesFB";
}

/// The severity and type of the message for an error.
pub(super) fn severity(code: xr::Result) -> (Severity, Kind) {
    match code {
        // These codes are results of a capability query.
        xr::Result::ERROR_FUNCTION_UNSUPPORTED
        | xr::Result::ERROR_FEATURE_UNSUPPORTED
        | xr::Result::ERROR_FORM_FACTOR_UNSUPPORTED
        | xr::Result::ERROR_EXTENSION_NOT_PRESENT => (Severity::WARNING, Kind::GENERAL),
        // These errors are not caused by the application.
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
    fn errors_have_names_and_explanations() {
        let order = xr::Result::ERROR_CALL_ORDER_INVALID;
        assert_eq!(name(order), c"XR_ERROR_CALL_ORDER_INVALID");
        assert_eq!(default_message(order), c"the call is out of order");
        assert_eq!(severity(order), (Severity::ERROR, Kind::VALIDATION));
        let unknown = xr::Result::from_raw(-4711);
        assert_eq!(name(unknown), c"XR_ERROR");
    }
}
