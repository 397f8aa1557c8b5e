//! `XR_KHR_opengl_enable`: the supported versions of OpenGL.

use std::sync::atomic::Ordering;

use openxr_sys as xr;

use super::system;
use crate::ffi::{DONE, call, output};

/// The first version has immutable multisample textures; the last is the newest version of OpenGL.
const VERSIONS: [xr::Version; 2] = [xr::Version::new(4, 3, 0), xr::Version::new(4, 6, 0)];

pub(crate) unsafe extern "system" fn requirements(
    instance: xr::Instance,
    system: xr::SystemId,
    requirements: *mut xr::GraphicsRequirementsOpenGLKHR,
) -> xr::Result {
    call(c"xrGetOpenGLGraphicsRequirementsKHR", || {
        let instance = system::of(instance, system)?;
        // SAFETY: the application passes valid pointers.
        let to = unsafe { output(requirements)? };
        [to.min_api_version_supported, to.max_api_version_supported] = VERSIONS;
        instance
            .gl_requirements_queried
            .store(true, Ordering::Relaxed);
        DONE
    })
}
