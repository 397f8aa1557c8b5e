//! The supported OpenXR version and extensions, and the set that an instance has enabled.

use openxr_sys as xr;

use crate::ffi::Outcome;

/// An environment variable. The value `1` makes `XR_EXT_conformance_automation` available. The Khronos conformance
/// suite simulates input devices with this extension.
const AUTOMATION: &str = "OPENUVR_XR_AUTOMATION";

/// The newest supported version of OpenXR.
pub(crate) const API: xr::Version = xr::Version::new(1, 1, 41);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extension {
    CompositionLayerDepth,
    ConformanceAutomation,
    ConvertTimespecTime,
    DebugUtils,
    DisplayRefreshRate,
    EglEnable,
    Headless,
    LocalFloor,
    LocateSpaces,
    OpenGlEnable,
    VisibilityMask,
    VulkanEnable,
    VulkanEnable2,
}

/// The available extensions, each with its name (zero-terminated) and specification version.
pub(crate) fn all() -> Vec<(Extension, &'static [u8], u32)> {
    let automation = std::env::var_os(AUTOMATION).is_some_and(|value| value == "1");
    let is_available = |extension| automation || extension != Extension::ConformanceAutomation;
    ALL.into_iter()
        .filter(|(extension, ..)| is_available(*extension))
        .collect()
}

const ALL: [(Extension, &[u8], u32); 13] = [
    (
        Extension::CompositionLayerDepth,
        xr::KHR_COMPOSITION_LAYER_DEPTH_EXTENSION_NAME,
        xr::KHR_composition_layer_depth_SPEC_VERSION,
    ),
    (
        Extension::ConformanceAutomation,
        xr::EXT_CONFORMANCE_AUTOMATION_EXTENSION_NAME,
        xr::EXT_conformance_automation_SPEC_VERSION,
    ),
    (
        Extension::ConvertTimespecTime,
        xr::KHR_CONVERT_TIMESPEC_TIME_EXTENSION_NAME,
        xr::KHR_convert_timespec_time_SPEC_VERSION,
    ),
    (
        Extension::DebugUtils,
        xr::EXT_DEBUG_UTILS_EXTENSION_NAME,
        xr::EXT_debug_utils_SPEC_VERSION,
    ),
    (
        Extension::DisplayRefreshRate,
        xr::FB_DISPLAY_REFRESH_RATE_EXTENSION_NAME,
        xr::FB_display_refresh_rate_SPEC_VERSION,
    ),
    (
        Extension::EglEnable,
        xr::MNDX_EGL_ENABLE_EXTENSION_NAME,
        xr::MNDX_egl_enable_SPEC_VERSION,
    ),
    (
        Extension::Headless,
        xr::MND_HEADLESS_EXTENSION_NAME,
        xr::MND_headless_SPEC_VERSION,
    ),
    (
        Extension::LocalFloor,
        xr::EXT_LOCAL_FLOOR_EXTENSION_NAME,
        xr::EXT_local_floor_SPEC_VERSION,
    ),
    (
        Extension::LocateSpaces,
        xr::KHR_LOCATE_SPACES_EXTENSION_NAME,
        xr::KHR_locate_spaces_SPEC_VERSION,
    ),
    (
        Extension::OpenGlEnable,
        xr::KHR_OPENGL_ENABLE_EXTENSION_NAME,
        xr::KHR_opengl_enable_SPEC_VERSION,
    ),
    (
        Extension::VisibilityMask,
        xr::KHR_VISIBILITY_MASK_EXTENSION_NAME,
        xr::KHR_visibility_mask_SPEC_VERSION,
    ),
    (
        Extension::VulkanEnable,
        xr::KHR_VULKAN_ENABLE_EXTENSION_NAME,
        xr::KHR_vulkan_enable_SPEC_VERSION,
    ),
    (
        Extension::VulkanEnable2,
        xr::KHR_VULKAN_ENABLE2_EXTENSION_NAME,
        xr::KHR_vulkan_enable2_SPEC_VERSION,
    ),
];

/// The name without its terminating zero.
pub(crate) fn name(terminated: &[u8]) -> &str {
    let bytes = terminated.strip_suffix(&[0]).unwrap_or(terminated);
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The API version and the enabled extensions of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Enabled {
    extensions: u32,
    is_1_1: bool,
}

impl Enabled {
    /// An instance of this version without extensions.
    ///
    /// # Errors
    /// Returns an error if the version is not supported.
    pub(crate) fn of(version: xr::Version) -> Outcome<Enabled> {
        let is_1_1 = match (version.major(), version.minor()) {
            (1, 0) => false,
            (1, 1) => true,
            _ => return Err(xr::Result::ERROR_API_VERSION_UNSUPPORTED),
        };
        Ok(Enabled {
            extensions: 0,
            is_1_1,
        })
    }

    /// Whether the version is at least OpenXR 1.1. Its core contains several extensions of OpenXR 1.0.
    pub(crate) fn is_1_1(self) -> bool {
        self.is_1_1
    }

    /// Enables one more extension.
    ///
    /// # Errors
    /// Returns an error if the extension is not supported.
    pub(crate) fn with(self, wanted: &str) -> Outcome<Enabled> {
        let found = all().into_iter().find(|(_, its, _)| name(its) == wanted);
        let (extension, ..) = found.ok_or(xr::Result::ERROR_EXTENSION_NOT_PRESENT)?;
        Ok(Enabled {
            extensions: self.extensions | 1 << extension as u32,
            ..self
        })
    }

    pub(crate) fn has(self, extension: Extension) -> bool {
        self.extensions & 1 << extension as u32 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_the_enabled_extensions() {
        let enabled = Enabled::default().with("XR_MND_headless").unwrap();
        assert!(enabled.has(Extension::Headless) && !enabled.has(Extension::VulkanEnable));
        let unknown = enabled.with("XR_ACME_glove");
        assert_eq!(unknown, Err(xr::Result::ERROR_EXTENSION_NOT_PRESENT));
        let of = |major, minor| Enabled::of(xr::Version::new(major, minor, 99));
        assert!(of(1, 1).unwrap().is_1_1() && !of(1, 0).unwrap().is_1_1());
        let unsupported = Err(xr::Result::ERROR_API_VERSION_UNSUPPORTED);
        assert!(of(1, 2) == unsupported && of(0, 9) == unsupported);
    }
}
