//! Swapchains (OpenXR 1.0, section 10.1).

use std::sync::{Arc, Mutex};

use openuvr_runtime::lock::lock;
use openxr_sys as xr;
use openxr_sys::Handle as _;

use crate::debug::with_message;
use crate::ffi::{self, DONE, call, input, optional, write_output};
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
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::values(&all, capacity, count, out) }
    })
}

pub(crate) unsafe extern "system" fn create(
    handle: xr::Session,
    info: *const xr::SwapchainCreateInfo,
    out: *mut xr::Swapchain,
) -> xr::Result {
    call(c"xrCreateSwapchain", || {
        let session = handles::get::<Session>(handle)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        let graphics = session.graphics.as_ref();
        // A headless session supports no format.
        let graphics = graphics.ok_or_else(|| {
            let message = c"a session without graphics has no swapchains";
            with_message(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED, message)
        })?;
        if out.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        let (swapchain_images, queue) = graphics.make(info).inspect_err(|why| {
            if *why == xr::Result::ERROR_OUT_OF_MEMORY {
                session.report("the device has no memory for an image of this size");
            }
        })?;
        let swapchain = Arc::new(Swapchain {
            session: session.clone(),
            queue: Mutex::new(queue),
            images: swapchain_images,
        });
        let made = handles::add(handle.into_raw(), swapchain.clone());
        let made = made.inspect_err(|_| graphics.destroy_images(&swapchain.images))?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(out, made)? };
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
        let swapchain_images = &swapchain.images;
        let all: Vec<usize> = (0..swapchain_images.count()).collect();
        // The element size depends on the graphics API, so `put` gets the index and the start of the array.
        // SAFETY: the application passes valid pointers.
        unsafe {
            ffi::list(&all, capacity, count, out.cast::<u8>(), |index, _| {
                swapchain_images.put(*index, out)
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
        // SAFETY: the application passes valid pointers.
        unsafe { optional(info)? };
        if index.is_null() {
            return Err(xr::Result::ERROR_VALIDATION_FAILURE);
        }
        swapchain.acquired()?;
        let acquired = lock(&swapchain.queue).acquire()?;
        // SAFETY: the application passes valid pointers.
        unsafe { write_output(index, acquired)? };
        DONE
    })
}

pub(crate) unsafe extern "system" fn wait(
    swapchain: xr::Swapchain,
    info: *const xr::SwapchainImageWaitInfo,
) -> xr::Result {
    call(c"xrWaitSwapchainImage", || {
        let swapchain = handles::get::<Swapchain>(swapchain)?;
        // SAFETY: the application passes valid pointers.
        unsafe { input(info)? };
        // This call does not wait, regardless of the timeout, because the device orders the accesses. With Vulkan, the
        // runtime submitted its reads of the image earlier, to the queue that the application uses for rendering. With
        // OpenGL, it submitted them in the private context, and the application's context waits for them on the device.
        let mut queue = lock(&swapchain.queue);
        queue.next_to_wait()?;
        queue.mark_waited();
        DONE
    })
}

pub(crate) unsafe extern "system" fn release(
    swapchain: xr::Swapchain,
    info: *const xr::SwapchainImageReleaseInfo,
) -> xr::Result {
    call(c"xrReleaseSwapchainImage", || {
        let swapchain = handles::get::<Swapchain>(swapchain)?;
        // SAFETY: the application passes valid pointers.
        unsafe { optional(info)? };
        lock(&swapchain.queue).release()?;
        DONE
    })
}
