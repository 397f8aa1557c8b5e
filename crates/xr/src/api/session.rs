//! Sessions (OpenXR 1.0, section 9).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use super::system::{self, count_views};
use crate::debug::with_message;
use crate::extensions::Extension;
use crate::ffi::{DONE, Outcome, call, chained, input, write_output};
use crate::graphics::Graphics;
use crate::handles;
use crate::instance::Instance;
use crate::session::Session;
use crate::settings;
use crate::stream::Stream;
use crate::{gl, vulkan};

pub(crate) unsafe extern "system" fn create(
    instance: xr::Instance,
    info: *const xr::SessionCreateInfo,
    session: *mut xr::Session,
) -> xr::Result {
    call(c"xrCreateSession", || {
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let parent = instance.into_raw();
        let instance = system::of(instance, info.system_id)?;
        if info.create_flags != xr::SessionCreateFlags::EMPTY || session.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let mut newest = lock(&instance.session);
        if newest
            .upgrade()
            .is_some_and(|session| !session.is_destroyed())
        {
            let message = c"the instance already has a session: destroy that session first";
            return Err(with_message(xr::Result::ERROR_LIMIT_REACHED, message));
        }
        // SAFETY: the application passes valid pointers.
        let graphics = unsafe { graphics(&instance, info)? };
        let both = settings::eye_size();
        let both = openuvr_proto::units::Size::new(both.width * 2, both.height);
        let stream = graphics.as_ref().and_then(|_| Stream::start(both));
        let made = Arc::new(Session::new(instance.clone(), graphics, stream));
        let handle = handles::add(parent, made.clone())?;
        let weak: Weak<Session> = Arc::downgrade(&made);
        *newest = weak;
        drop(newest);
        made.set_handle(handle);
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(session, handle)? };
        DONE
    })
}

/// Creates the graphics; `None` for a headless session.
///
/// # Safety
/// `info` must come from the application.
unsafe fn graphics(instance: &Instance, info: &xr::SessionCreateInfo) -> Outcome<Option<Graphics>> {
    let has = |extensions: &[Extension]| extensions.iter().any(|e| instance.extensions.has(*e));
    // SAFETY: the application passes valid pointers.
    let (vulkan, glx, egl) = unsafe {
        (
            chained::<xr::GraphicsBindingVulkanKHR>(info.next),
            chained::<xr::GraphicsBindingOpenGLXlibKHR>(info.next),
            chained::<xr::GraphicsBindingEGLMNDX>(info.next),
        )
    };
    let missing = xr::Result::ERROR_GRAPHICS_REQUIREMENTS_CALL_MISSING;
    if let Some(binding) = vulkan
        && has(&[Extension::VulkanEnable, Extension::VulkanEnable2])
    {
        let selection = lock(&instance.vulkan);
        // SAFETY: the application passes valid pointers. The application's device outlives the session.
        unsafe {
            let binding = input(binding)?;
            if !selection.requirements_queried {
                return Err(missing);
            }
            let graphics = vulkan::graphics::Graphics::new(binding, &selection)?;
            return Ok(Some(Graphics::Vulkan(Box::new(graphics))));
        }
    }
    // SAFETY: the application passes valid pointers. The application's context outlives the session.
    let context = unsafe {
        match (glx, egl) {
            (Some(binding), _) if has(&[Extension::OpenGlEnable]) => {
                Some(gl::binding::Binding::glx(input(binding)?)?)
            }
            (_, Some(binding)) if has(&[Extension::EglEnable]) => {
                Some(gl::binding::Binding::egl(input(binding)?)?)
            }
            _ => None,
        }
    };
    if let Some(binding) = context {
        if !instance.gl_requirements_queried.load(Ordering::Relaxed) {
            return Err(missing);
        }
        // SAFETY: OpenXR requires that the application's context outlives the session, and that no other thread uses it
        // now.
        let graphics = unsafe { gl::graphics::Graphics::new(binding)? };
        return Ok(Some(Graphics::OpenGl(Box::new(graphics))));
    }
    match has(&[Extension::Headless]) && vulkan.is_none() && glx.is_none() && egl.is_none() {
        true => Ok(None),
        false => Err(with_message(
            xr::Result::ERROR_GRAPHICS_DEVICE_INVALID,
            c"XrSessionCreateInfo::next has no graphics binding that the instance's extensions allow",
        )),
    }
}

pub(crate) unsafe extern "system" fn destroy(session: xr::Session) -> xr::Result {
    call(c"xrDestroySession", || handles::destroy::<Session>(session))
}

pub(crate) unsafe extern "system" fn begin(
    session: xr::Session,
    info: *const xr::SessionBeginInfo,
) -> xr::Result {
    call(c"xrBeginSession", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let views = info.primary_view_configuration_type;
        // A headless session may omit the view configuration.
        let views = match session.is_headless() && views.into_raw() == 0 {
            true => xr::ViewConfigurationType::PRIMARY_STEREO,
            false => views,
        };
        count_views(views)?;
        session.begin(views)?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn end(session: xr::Session) -> xr::Result {
    call(c"xrEndSession", || {
        handles::get::<Session>(session)?.end()?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn request_exit(session: xr::Session) -> xr::Result {
    call(c"xrRequestExitSession", || {
        handles::get::<Session>(session)?.request_exit()?;
        DONE
    })
}
