//! The only system: a client as the headset, and its views (OpenXR 1.0, sections 5 and 8).

use std::sync::Arc;

use openxr_sys as xr;

use crate::ffi::{self, DONE, Outcome, call, field, input, output, write_output};
use crate::handles;
use crate::instance::Instance;
use crate::logic::swapchain_info::{MAX_IMAGE_SIDE, MAX_VIEW_SIDE};
use crate::logic::views::MAX_LAYERS;
use crate::settings;

/// The only system id.
const SYSTEM: u64 = 1;

/// The only environment blend mode: opaque.
pub(crate) const BLEND_MODE: xr::EnvironmentBlendMode = xr::EnvironmentBlendMode::OPAQUE;

/// Maximum sample count that is reported to applications. Images with more samples work, too.
const SAMPLES: u32 = 4;

const VIEW_CONFIGURATIONS: [xr::ViewConfigurationType; 2] = [
    xr::ViewConfigurationType::PRIMARY_STEREO,
    xr::ViewConfigurationType::PRIMARY_MONO,
];

/// The instance, if the system id is valid.
pub(super) fn of(instance: xr::Instance, system: xr::SystemId) -> Outcome<Arc<Instance>> {
    let instance = handles::get::<Instance>(instance)?;
    match system.into_raw() {
        SYSTEM => Ok(instance),
        _ => Err(xr::Result::ERROR_SYSTEM_INVALID),
    }
}

/// Number of views of a view configuration.
pub(crate) fn count_views(configuration: xr::ViewConfigurationType) -> Outcome<usize> {
    match configuration {
        xr::ViewConfigurationType::PRIMARY_STEREO => Ok(2),
        xr::ViewConfigurationType::PRIMARY_MONO => Ok(1),
        _ => Err(xr::Result::ERROR_VIEW_CONFIGURATION_TYPE_UNSUPPORTED),
    }
}

pub(crate) unsafe extern "system" fn get(
    instance: xr::Instance,
    info: *const xr::SystemGetInfo,
    system: *mut xr::SystemId,
) -> xr::Result {
    call(c"xrGetSystem", || {
        handles::get::<Instance>(instance)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        match info.form_factor {
            xr::FormFactor::HEAD_MOUNTED_DISPLAY => {}
            // Other values include those that the specification does not define yet.
            _ => return Err(xr::Result::ERROR_FORM_FACTOR_UNSUPPORTED),
        }
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(system, xr::SystemId::from_raw(SYSTEM))? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn properties(
    instance: xr::Instance,
    system: xr::SystemId,
    properties: *mut xr::SystemProperties,
) -> xr::Result {
    call(c"xrGetSystemProperties", || {
        of(instance, system)?;
        // SAFETY: the application passes valid pointers.
        let to = unsafe { output(properties)? };
        to.system_id = system;
        to.vendor_id = 0;
        field(&mut to.system_name, "OpenUVR client");
        to.graphics_properties = xr::SystemGraphicsProperties {
            max_swapchain_image_height: MAX_IMAGE_SIDE,
            max_swapchain_image_width: MAX_IMAGE_SIDE,
            max_layer_count: MAX_LAYERS,
        };
        to.tracking_properties = xr::SystemTrackingProperties {
            orientation_tracking: xr::TRUE,
            position_tracking: xr::TRUE,
        };
        DONE
    })
}

pub(crate) unsafe extern "system" fn view_configurations(
    instance: xr::Instance,
    system: xr::SystemId,
    capacity: u32,
    count: *mut u32,
    configurations: *mut xr::ViewConfigurationType,
) -> xr::Result {
    call(c"xrEnumerateViewConfigurations", || {
        of(instance, system)?;
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::values(&VIEW_CONFIGURATIONS, capacity, count, configurations) }
    })
}

pub(crate) unsafe extern "system" fn view_configuration(
    instance: xr::Instance,
    system: xr::SystemId,
    configuration: xr::ViewConfigurationType,
    properties: *mut xr::ViewConfigurationProperties,
) -> xr::Result {
    call(c"xrGetViewConfigurationProperties", || {
        of(instance, system)?;
        count_views(configuration)?;
        // SAFETY: the application passes valid pointers.
        let to = unsafe { output(properties)? };
        to.view_configuration_type = configuration;
        // Layers are shown with the field of view that the application declares for them.
        to.fov_mutable = xr::TRUE;
        DONE
    })
}

pub(crate) unsafe extern "system" fn views(
    instance: xr::Instance,
    system: xr::SystemId,
    configuration: xr::ViewConfigurationType,
    capacity: u32,
    count: *mut u32,
    views: *mut xr::ViewConfigurationView,
) -> xr::Result {
    call(c"xrEnumerateViewConfigurationViews", || {
        of(instance, system)?;
        let eye = settings::eye_size();
        let put = |_: &(), pointer| {
            // SAFETY: the application passes valid pointers.
            let to = unsafe { output::<xr::ViewConfigurationView>(pointer)? };
            to.recommended_image_rect_width = eye.width;
            to.recommended_image_rect_height = eye.height;
            to.max_image_rect_width = MAX_VIEW_SIDE;
            to.max_image_rect_height = MAX_VIEW_SIDE;
            to.recommended_swapchain_sample_count = 1;
            to.max_swapchain_sample_count = SAMPLES;
            Ok(())
        };
        let all = vec![(); count_views(configuration)?];
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::list(&all, capacity, count, views, put) }
    })
}

pub(crate) unsafe extern "system" fn blend_modes(
    instance: xr::Instance,
    system: xr::SystemId,
    configuration: xr::ViewConfigurationType,
    capacity: u32,
    count: *mut u32,
    modes: *mut xr::EnvironmentBlendMode,
) -> xr::Result {
    call(c"xrEnumerateEnvironmentBlendModes", || {
        of(instance, system)?;
        count_views(configuration)?;
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::values(&[BLEND_MODE], capacity, count, modes) }
    })
}
