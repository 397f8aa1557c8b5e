//! Swapchains (OpenXR 1.0, section 10.1).

use std::sync::{Arc, Mutex};

use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use crate::border::{self, DONE, answer, call, input, optional};
use crate::debug::because;
use crate::graphics::Graphics;
use crate::handles;
use crate::session::Session;
use crate::swapchain::Swapchain;

pub(crate) unsafe extern "system" fn formats(
    session: xr::Session,
    capacity: u32,
    count: *mut u32,
    out: *mut i64,
) -> xr::Result {
    call(c"xrEnumerateSwapchainFormats", || {
        let session = handles::get::<Session>(session)?;
        let graphics = session.graphics.as_ref();
        let all = graphics.map_or(Vec::new(), Graphics::formats);
        // SAFETY: the application's.
        unsafe { border::values(&all, capacity, count, out) }
    })
}

pub(crate) unsafe extern "system" fn create(
    handle: xr::Session,
    info: *const xr::SwapchainCreateInfo,
    out: *mut xr::Swapchain,
) -> xr::Result {
    call(c"xrCreateSwapchain", || {
        let session = handles::get::<Session>(handle)?;
        // SAFETY: the application's.
        let info = unsafe { input(info)? };
        let graphics = session.graphics.as_ref();
        // A headless session supports no format.
        let graphics = graphics.ok_or_else(|| {
            let words = c"a session without graphics has no swapchains";
            because(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED, words)
        })?;
        if out.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let (pictures, images) = graphics.make(info).inspect_err(|why| {
            if *why == xr::Result::ERROR_OUT_OF_MEMORY {
                session.say("the device has no memory for an image of this size");
            }
        })?;
        let swapchain = Arc::new(Swapchain {
            session: session.clone(),
            images: Mutex::new(images),
            pictures,
        });
        let made = handles::add(handle.into_raw(), swapchain.clone());
        let made = made.inspect_err(|_| graphics.forget(&swapchain.pictures))?;
        // SAFETY: the application's.
        unsafe { answer(out, made)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn destroy(swapchain: xr::Swapchain) -> xr::Result {
    call(c"xrDestroySwapchain", || {
        handles::destroy::<Swapchain>(swapchain)
    })
}

pub(crate) unsafe extern "system" fn images(
    swapchain: xr::Swapchain,
    capacity: u32,
    count: *mut u32,
    out: *mut xr::SwapchainImageBaseHeader,
) -> xr::Result {
    call(c"xrEnumerateSwapchainImages", || {
        let swapchain = handles::get::<Swapchain>(swapchain)?;
        let pictures = &swapchain.pictures;
        let all: Vec<usize> = (0..pictures.count()).collect();
        // The element size depends on the graphics API: `put` gets the index and the start of the array.
        // SAFETY: the application's.
        unsafe {
            border::list(&all, capacity, count, out.cast::<u8>(), |index, _| {
                pictures.put(*index, out)
            })
        }
    })
}

pub(crate) unsafe extern "system" fn acquire(
    swapchain: xr::Swapchain,
    info: *const xr::SwapchainImageAcquireInfo,
    index: *mut u32,
) -> xr::Result {
    call(c"xrAcquireSwapchainImage", || {
        let swapchain = handles::get::<Swapchain>(swapchain)?;
        // SAFETY: the application's.
        unsafe { optional(info)? };
        if index.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        swapchain.acquired()?;
        let acquired = lock(&swapchain.images).acquire()?;
        // SAFETY: the application's.
        unsafe { answer(index, acquired)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn wait(
    swapchain: xr::Swapchain,
    info: *const xr::SwapchainImageWaitInfo,
) -> xr::Result {
    call(c"xrWaitSwapchainImage", || {
        let swapchain = handles::get::<Swapchain>(swapchain)?;
        // SAFETY: the application's.
        unsafe { input(info)? };
        // The runtime's reads were submitted earlier to the queue that the application renders with, so no
        // wait is necessary, whatever the timeout.
        let mut images = lock(&swapchain.images);
        images.to_wait_for()?;
        images.waited();
        DONE
    })
}

pub(crate) unsafe extern "system" fn release(
    swapchain: xr::Swapchain,
    info: *const xr::SwapchainImageReleaseInfo,
) -> xr::Result {
    call(c"xrReleaseSwapchainImage", || {
        let swapchain = handles::get::<Swapchain>(swapchain)?;
        // SAFETY: the application's.
        unsafe { optional(info)? };
        lock(&swapchain.images).release()?;
        DONE
    })
}
