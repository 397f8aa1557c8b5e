//! Why an OpenXR application can't go on, as one line.

/// What failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct VrError(pub String);

impl VrError {
    /// For `map_err`: OpenXR did not do this.
    pub(crate) fn openxr(what: &'static str) -> impl Fn(openxr::sys::Result) -> VrError {
        move |why| VrError(format!("the OpenXR runtime can't {what}: {why}"))
    }

    /// For `map_err`: Vulkan did not do this.
    pub(crate) fn vulkan(what: &'static str) -> impl Fn(ash::vk::Result) -> VrError {
        move |why| VrError(format!("Vulkan can't {what}: {why}"))
    }
}
