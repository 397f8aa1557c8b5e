//! Errors of the OpenXR applications. Each message is one line.

/// A fatal error: the failed operation, and a remedy if known.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VrError(pub String);

impl VrError {
    /// For `map_err`: the OpenXR call for `what` failed.
    pub(crate) fn openxr(what: &'static str) -> impl Fn(openxr::sys::Result) -> VrError {
        move |why| VrError(format!("OpenXR: cannot {what}: {why}"))
    }

    /// For `map_err`: the Vulkan call for `what` failed.
    pub(crate) fn vulkan(what: &'static str) -> impl Fn(ash::vk::Result) -> VrError {
        move |why| VrError(format!("Vulkan: cannot {what}: {why}"))
    }
}
