//! `XR_KHR_visibility_mask`: the hidden parts of a view. The mesh is empty, because a client shows whole pictures.

use openxr_sys as xr;

use super::system::count_views;
use crate::ffi::{DONE, call, output};
use crate::handles;
use crate::session::Session;

pub(crate) unsafe extern "system" fn get(
    session: xr::Session,
    configuration: xr::ViewConfigurationType,
    view: u32,
    kind: xr::VisibilityMaskTypeKHR,
    mask: *mut xr::VisibilityMaskKHR,
) -> xr::Result {
    call(c"xrGetVisibilityMaskKHR", || {
        handles::get::<Session>(session)?;
        let views = count_views(configuration)?;
        let kinds = [
            xr::VisibilityMaskTypeKHR::HIDDEN_TRIANGLE_MESH,
            xr::VisibilityMaskTypeKHR::VISIBLE_TRIANGLE_MESH,
            xr::VisibilityMaskTypeKHR::LINE_LOOP,
        ];
        if view as usize >= views || !kinds.contains(&kind) {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        // SAFETY: the application passes valid pointers.
        let to = unsafe { output(mask)? };
        (to.vertex_count_output, to.index_count_output) = (0, 0);
        DONE
    })
}
