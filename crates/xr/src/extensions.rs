//! The version of OpenXR and the extensions that this runtime has, and those that an instance asked for.

use openxr_sys as xr;

/// Set to `1`, this variable of the environment makes `XR_EXT_conformance_automation` be there: for Khronos'
/// conformance suite, in which the application itself says what its player holds.
const AUTOMATION: &str = "OPENUVR_XR_AUTOMATION";

/// The newest version of OpenXR that instances may have.
pub(crate) const API: xr::Version = xr::Version::new(1, 0, 34);

/// An extension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extension {
    CompositionLayerDepth,
    ConformanceAutomation,
    ConvertTimespecTime,
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

/// Each that an instance may ask for here and now, with its name, which ends with a zero byte, and the version of
/// its text.
pub(crate) fn all() -> Vec<(Extension, &'static [u8], u32)> {
    let asked = std::env::var_os(AUTOMATION).is_some_and(|value| value == "1");
    let there = |extension| asked || extension != Extension::ConformanceAutomation;
    ALL.into_iter()
        .filter(|(extension, ..)| there(*extension))
        .collect()
}

const ALL: [(Extension, &[u8], u32); 12] = [
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

/// The name without the byte at its end.
pub(crate) fn name(with_end: &[u8]) -> &str {
    let bytes = with_end.strip_suffix(&[0]).unwrap_or(with_end);
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The extensions of an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Enabled(u32);

impl Enabled {
    /// With one more.
    ///
    /// # Errors
    /// This runtime does not have it.
    pub(crate) fn with(self, wanted: &str) -> crate::border::Outcome<Enabled> {
        let found = all().into_iter().find(|(_, its, _)| name(its) == wanted);
        let (extension, ..) = found.ok_or(xr::Result::ERROR_EXTENSION_NOT_PRESENT)?;
        Ok(Enabled(self.0 | 1 << extension as u32))
    }

    pub(crate) fn has(self, extension: Extension) -> bool {
        self.0 & 1 << extension as u32 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_what_it_asked_for() {
        let enabled = Enabled::default().with("XR_MND_headless").unwrap();
        assert!(enabled.has(Extension::Headless) && !enabled.has(Extension::VulkanEnable));
        let unknown = enabled.with("XR_ACME_glove");
        assert_eq!(unknown, Err(xr::Result::ERROR_EXTENSION_NOT_PRESENT));
    }
}
