//! What happens when the application presents: whether its picture is read back, and how the
//! presentation then waits for that.
//!
//! The application's call goes on in any case, with everything that hangs on it. Only what it waits
//! for may change: the copy waits for what it waited for, and it waits for the copy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ash::vk::{self, Handle};
use openuvr_media::capture::Drawn;
use openuvr_media::capture::vulkan::{Copy, Part, Pixels};

use super::device::{Device, Swapchain, chained};
use super::instance::{Instance, Window};
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
    let readable = unsafe { readable(device, queue, info, &swapchain) };
    let wanted = || {
        let key = key(&device.instance, swapchain.surface);
        stream.wants(key, swapchain.size, || place(&swapchain))
    };
    let (pixels, family) = match readable {
        Ok(how) => how,
        Err(_) if swapchain.said.load(Ordering::Relaxed) => return None,
        Err(why) => {
            // Asked, or nobody would be there to be told.
            wanted();
            say(stream, &swapchain, why);
            return None;
        }
    };
    let (image, done) = swapchain.image(index)?;
    if device.is_busy() {
        let key = key(&device.instance, swapchain.surface);
        stream.misses(key, swapchain.size, || place(&swapchain));
        return None;
    }
    let to = wanted()?.frames;
    let ring = device.ring()?;
    if swapchain.window == Window::Wayland {
        say(
            stream,
            &swapchain,
            "no input reaches the game: its window is one of Wayland",
        );
    }
    let copy = Copy {
        queue,
        family,
        parts: &[Part::presented(image, swapchain.size)],
        size: swapchain.size,
        pixels,
        after: waits,
        done: Some(done),
        drawn: Drawn::default(),
        to,
    };
    // SAFETY: the application presents the image with this queue, so it may use both; after the
    // presentation, which waits for the copy, it may use them again.
    match unsafe { ring.copy(&copy) } {
        Ok(true) => Some(done),
        Ok(false) => None,
        Err(why) => {
            let why = format!("pictures can't be read back: Vulkan says {}", why.as_raw());
            say(stream, &swapchain, &why);
            None
        }
    }
}

/// How the pixels are read and by which family of queues, or why not.
///
/// # Safety
/// As [`read_back`].
unsafe fn readable<'a>(
    device: &Device,
    queue: vk::Queue,
    info: &vk::PresentInfoKHR<'_>,
    swapchain: &'a Swapchain,
) -> Result<(Pixels, u32), &'a str> {
    let pixels = swapchain.pixels.as_ref().map_err(String::as_str)?;
    // SAFETY: the application's chain.
    let apart = unsafe {
        chained(
            info.p_next,
            vk::StructureType::DEVICE_GROUP_PRESENT_INFO_KHR,
        )
    };
    if device.group || apart.is_some() {
        return Err("pictures that several graphics devices draw together are not streamed");
    }
    let family = device.copying_family(queue);
    let family = family.ok_or("pictures are not streamed: the queue that presents can't copy")?;
    Ok((*pixels, family))
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
    match &swapchain.window {
        Window::X11(place) => Some(place.clone()),
        Window::Wayland | Window::Other => None,
    }
}

/// Says once for each swapchain why it is not streamed, or not as it should be; as soon as somebody
/// can be told.
fn say(stream: &Stream, swapchain: &Swapchain, why: &str) {
    if !swapchain.said.load(Ordering::Relaxed) && stream.say(why) {
        swapchain.said.store(true, Ordering::Relaxed);
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
