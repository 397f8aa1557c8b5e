//! What happens when the application presents: whether its picture is read back, and how the
//! presentation then waits for that.
//!
//! The application's call goes on in any case, with everything that hangs on it. Only what it waits
//! for may change: the copy waits for what it waited for, and it waits for the copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk::{self, Handle};

use super::device::{Device, Swapchain, chained};
use super::instance::{Instance, Window};
use super::ring::Copy;
use crate::stream::{Stream, stream};
use crate::windows::{Key, Place};

/// Begins to read back what is about to be presented, if that is wanted and possible now. The
/// presentation then has to wait for the semaphore, and for nothing else.
///
/// # Safety
/// `info` is what the application gave to `vkQueuePresentKHR` with `queue`, in this call.
pub(super) unsafe fn read_back(
    device: &Device,
    queue: vk::Queue,
    info: &vk::PresentInfoKHR<'_>,
) -> Option<vk::Semaphore> {
    let stream = stream()?;
    // SAFETY: the application's arrays, as long as it says.
    let (swapchains, images, waits) = unsafe {
        (
            array(info.p_swapchains, info.swapchain_count),
            array(info.p_image_indices, info.swapchain_count),
            array(info.p_wait_semaphores, info.wait_semaphore_count),
        )
    };
    let (swapchain, index) = largest(device, swapchains, images)?;
    // SAFETY: the application's chain.
    let apart =
        unsafe { chained(info.p_next, vk::StructureType::DEVICE_GROUP_PRESENT_INFO_KHR) };
    let pixels = match &swapchain.pixels {
        Ok(_) if device.group || apart.is_some() => {
            Err("pictures that several graphics devices draw together are not streamed")
        }
        Ok(pixels) => Ok(*pixels),
        Err(why) => Err(why.as_str()),
    };
    let pixels = match pixels {
        Ok(pixels) => pixels,
        Err(why) => {
            refuse(stream, &swapchain, why);
            return None;
        }
    };
    let Some(family) = device.copying_family(queue) else {
        refuse(stream, &swapchain, "the queue that presents can't copy");
        return None;
    };
    let (image, done) = swapchain.image(index)?;
    let ring = device.ring()?;
    if !ring.idle() {
        return None;
    }
    let to = stream.wants(key(&device.instance, swapchain.surface), swapchain.size, || {
        place(&swapchain)
    })?;
    let copy = Copy {
        queue,
        family,
        image,
        size: swapchain.size,
        pixels,
        after: waits,
        done,
        to,
    };
    // SAFETY: the application presents the image with this queue, so it may use both; after the
    // presentation, which waits for the copy, it may use them again.
    unsafe { ring.copy(&copy) }.then_some(done)
}

/// A surface is about to go: it is streamed no more.
pub(super) fn forget(instance: &Arc<Instance>, surface: vk::SurfaceKHR) {
    if let Some(stream) = crate::stream::begun() {
        stream.gone(key(instance, surface));
    }
}

/// Of all that is presented in one call, the largest picture.
fn largest(
    device: &Device,
    swapchains: &[vk::SwapchainKHR],
    images: &[u32],
) -> Option<(Arc<Swapchain>, u32)> {
    let all = swapchains.iter().zip(images);
    let known = all.filter_map(|(handle, index)| Some((device.swapchain(*handle)?, *index)));
    known.max_by_key(|(swapchain, _)| swapchain.size.pixels())
}

/// The surface stays when the swapchain is made anew, with another size for example.
fn key(instance: &Arc<Instance>, surface: vk::SurfaceKHR) -> Key {
    Key(Arc::as_ptr(instance) as usize, surface.as_raw())
}

/// Where the person's input has to go.
fn place(swapchain: &Swapchain) -> Option<Place> {
    match swapchain.window {
        Window::X11(window) => Some(Place {
            display: std::env::var("DISPLAY").ok()?,
            window,
        }),
        Window::Wayland | Window::Other => None,
    }
}

/// Says once for each swapchain why it is not streamed.
fn refuse(stream: &Stream, swapchain: &Swapchain, why: &str) {
    if !swapchain.said.swap(true, Ordering::Relaxed) {
        stream.say(why);
    }
}

/// # Safety
/// `first` points to `count` elements, or `count` is 0.
unsafe fn array<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's duty.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}
