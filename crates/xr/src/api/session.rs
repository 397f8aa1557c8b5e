//! Sessions (OpenXR 1.0, section 9).

use std::sync::{Arc, Weak};

use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use super::system::{self, count_views};
use crate::border::{DONE, Outcome, answer, call, chained, input};
use crate::extensions::Extension;
use crate::handles;
use crate::instance::Instance;
use crate::session::Session;
use crate::settings;
use crate::stream::Stream;
use crate::vulkan::graphics::Graphics;

pub(crate) unsafe extern "system" fn create(
    instance: xr::Instance,
    info: *const xr::SessionCreateInfo,
    session: *mut xr::Session,
) -> xr::Result {
    call(|| {
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        let parent = instance.into_raw();
        let instance = system::of(instance, info.system_id)?;
        if info.create_flags != xr::SessionCreateFlags::EMPTY || session.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let mut newest = lock(&instance.session);
        if newest.upgrade().is_some_and(|session| !session.is_gone()) {
            // One headset shows one.
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        // SAFETY: the application's.
        let graphics = unsafe { graphics(&instance, info)? };
        let both = settings::eye();
        let both = openuvr_proto::units::Size::new(both.width * 2, both.height);
        let stream = graphics.as_ref().and_then(|_| Stream::start(both));
        let made = Arc::new(Session::new(instance.clone(), graphics, stream));
        let handle = handles::add(parent, made.clone())?;
        let weak: Weak<Session> = Arc::downgrade(&made);
        *newest = weak;
        drop(newest);
        made.begins(handle);
        // SAFETY: the application's.
        unsafe { answer(session, handle)? };
        DONE
    })
}

/// What it draws with; `None` if it says that it draws nothing.
///
/// # Safety
/// `info` is the application's.
unsafe fn graphics(instance: &Instance, info: &xr::SessionCreateInfo) -> Outcome<Option<Graphics>> {
    // SAFETY: the application's.
    let binding = unsafe { chained::<xr::GraphicsBindingVulkanKHR>(info.next) };
    let has = |extension| instance.extensions.has(extension);
    let Some(binding) = binding else {
        return match has(Extension::Headless) {
            true => Ok(None),
            false => Err(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID),
        };
    };
    if !has(Extension::VulkanEnable) && !has(Extension::VulkanEnable2) {
        return Err(xr::Result::ERROR_GRAPHICS_DEVICE_INVALID);
    }
    // SAFETY: the application's.
    let binding = unsafe { input(binding)? };
    let choice = lock(&instance.vulkan);
    if !choice.asked {
        return Err(xr::Result::ERROR_GRAPHICS_REQUIREMENTS_CALL_MISSING);
    }
    // SAFETY: the application's, whose device lives as long as the session.
    unsafe { Graphics::new(binding, &choice).map(Some) }
}

pub(crate) unsafe extern "system" fn destroy(session: xr::Session) -> xr::Result {
    call(|| handles::destroy::<Session>(session))
}

pub(crate) unsafe extern "system" fn begin(
    session: xr::Session,
    info: *const xr::SessionBeginInfo,
) -> xr::Result {
    call(|| {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        let views = info.primary_view_configuration_type;
        if !session.is_headless() {
            count_views(views)?;
        }
        session.begin(views)?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn end(session: xr::Session) -> xr::Result {
    call(|| {
        handles::get::<Session>(session)?.end()?;
        DONE
    })
}

pub(crate) unsafe extern "system" fn request_exit(session: xr::Session) -> xr::Result {
    call(|| {
        handles::get::<Session>(session)?.request_exit()?;
        DONE
    })
}
