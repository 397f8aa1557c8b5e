//! Presentation: decides whether to read the image back, and makes the presentation wait for the copy.
//!
//! The application's call is always forwarded, with its whole chain. Only its wait semaphores may change:
//! the copy waits for the original ones, and the presentation waits for the copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk::{self, Handle};
use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::vulkan::{Copy, CopyRegion, Pixels};

use super::device::{Device, Swapchain, chained};
use super::instance::{Instance, Window};
use crate::stream::{Stream, stream};
use crate::windows::{Key, XWindow};

/// Starts to read back the image that is about to be presented, if requested and possible now. The presentation must
/// then wait only for the returned semaphore.
///
/// # Safety
/// `info` and `queue` must be the application's arguments of the current `vkQueuePresentKHR` call.
pub(super) unsafe fn read_back(
    device: &Device,
    queue: vk::Queue,
    info: &vk::PresentInfoKHR<'_>,
) -> Option<vk::Semaphore> {
    let stream = stream()?;
    // SAFETY: the application's arrays have the numbers of elements that `info` states, as Vulkan requires.
    let (swapchains, images, waits) = unsafe {
        (
            array(info.p_swapchains, info.swapchain_count),
            array(info.p_image_indices, info.swapchain_count),
            array(info.p_wait_semaphores, info.wait_semaphore_count),
        )
    };
    let (swapchain, index) = largest(device, swapchains, images)?;
    // SAFETY: the application passes a valid chain of structures.
    let readable = unsafe { readable(device, queue, info, &swapchain) };
    let request = || {
        let key = key(&device.instance, swapchain.surface);
        stream.request_read(key, swapchain.size, || x_window(&swapchain))
    };
    let (pixels, family) = match readable {
        Ok(how) => how,
        Err(_) if swapchain.reported.load(Ordering::Relaxed) => return None,
        Err(why) => {
            // The request starts the session, which receives the report.
            request();
            report_once(stream, &swapchain, why);
            return None;
        }
    };
    let (image, done) = swapchain.image(index)?;
    if device.is_busy() {
        let key = key(&device.instance, swapchain.surface);
        stream.skip(key, swapchain.size, || x_window(&swapchain));
        return None;
    }
    let to = request()?.frames;
    let ring = device.ring()?;
    if swapchain.window == Window::Wayland {
        report_once(
            stream,
            &swapchain,
            "keyboard and mouse input is unavailable: the game's window is a Wayland window",
        );
    }
    let copy = Copy {
        queue,
        family,
        parts: &[CopyRegion::presented(image, swapchain.size)],
        size: swapchain.size,
        pixels,
        after: waits,
        done: Some(done),
        drawn: RenderInfo::default(),
        to,
    };
    // SAFETY: the application presents the image with this queue, so this layer may use both. The application may use
    // them again after the presentation, which waits for the copy.
    match unsafe { ring.copy(&copy) } {
        Ok(true) => Some(done),
        Ok(false) => None,
        Err(why) => {
            let why = format!("cannot read images back: Vulkan error {}", why.as_raw());
            report_once(stream, &swapchain, &why);
            None
        }
    }
}

/// The pixel format and the queue family of the copy, or why the copy is impossible.
///
/// # Safety
/// The same as for [`read_back`].
unsafe fn readable<'a>(
    device: &Device,
    queue: vk::Queue,
    info: &vk::PresentInfoKHR<'_>,
    swapchain: &'a Swapchain,
) -> Result<(Pixels, u32), &'a str> {
    let pixels = swapchain.pixels.as_ref().map_err(String::as_str)?;
    // SAFETY: the application passes a valid chain of structures.
    let apart = unsafe {
        chained(
            info.p_next,
            vk::StructureType::DEVICE_GROUP_PRESENT_INFO_KHR,
        )
    };
    if device.group || apart.is_some() {
        return Err("images of device groups are not streamed");
    }
    let family = device.copying_family(queue);
    let family = family.ok_or("images are not streamed: the presenting queue cannot copy")?;
    Ok((*pixels, family))
}

/// Stops streaming a surface that is about to be destroyed.
pub(super) fn forget_surface(instance: &Arc<Instance>, surface: vk::SurfaceKHR) {
    if let Some(stream) = crate::stream::started_stream() {
        stream.remove(key(instance, surface));
    }
}

/// The largest image presented in one call.
fn largest(
    device: &Device,
    swapchains: &[vk::SwapchainKHR],
    images: &[u32],
) -> Option<(Arc<Swapchain>, u32)> {
    let all = swapchains.iter().zip(images);
    let known = all.filter_map(|(handle, index)| Some((device.swapchain(*handle)?, *index)));
    known.max_by_key(|(swapchain, _)| swapchain.size.pixels())
}

/// The key is based on the surface, because the surface remains when the application replaces its swapchain (after a
/// resize, for example).
fn key(instance: &Arc<Instance>, surface: vk::SurfaceKHR) -> Key {
    Key(Arc::as_ptr(instance) as usize, surface.as_raw())
}

/// The X window that receives input.
fn x_window(swapchain: &Swapchain) -> Option<XWindow> {
    match &swapchain.window {
        Window::X11(window) => Some(window.clone()),
        Window::Wayland | Window::Other => None,
    }
}

/// Reports a problem once for each swapchain, as soon as the launcher is connected.
fn report_once(stream: &Stream, swapchain: &Swapchain, why: &str) {
    if !swapchain.reported.load(Ordering::Relaxed) && stream.report(why) {
        swapchain.reported.store(true, Ordering::Relaxed);
    }
}

/// # Safety
/// `first` must point to `count` elements, or `count` must be 0.
unsafe fn array<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees that `first` points to `count` elements.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}
