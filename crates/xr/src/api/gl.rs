//! `XR_KHR_opengl_enable`: which versions of OpenGL an application may draw with.

use std::sync::atomic::Ordering;

use openxr_sys as xr;

use super::system;
use crate::border::{DONE, call, output};

/// Textures whose size stays, also with several samples, are in the first; more than the last is not there.
const VERSIONS: [xr::Version; 2] = [xr::Version::new(4, 3, 0), xr::Version::new(4, 6, 0)];

pub(crate) unsafe extern "system" fn requirements(
    instance: xr::Instance,
    system: xr::SystemId,
    requirements: *mut xr::GraphicsRequirementsOpenGLKHR,
) -> xr::Result {
    call(c"xrGetOpenGLGraphicsRequirementsKHR", || {
        let instance = system::of(instance, system)?;
        // SAFETY: the application's.
        let to = unsafe { output(requirements)? };
        [to.min_api_version_supported, to.max_api_version_supported] = VERSIONS;
        instance.asked_for_gl.store(true, Ordering::Relaxed);
        DONE
    })
}
