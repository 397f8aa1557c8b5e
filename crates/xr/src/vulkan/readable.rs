//! Views of swapchain images for the composition shader.

use std::sync::PoisonError;

use ash::vk;

use super::device::Device;
use super::memory::{Owned, Readable};
use super::scene::Image;

/// Parameters of a view of one layer of an image.
pub(super) fn view_info(
    image: vk::Image,
    format: vk::Format,
    layer: u32,
) -> vk::ImageViewCreateInfo<'static> {
    vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(format)
        .subresource_range(first_mip(layer))
}

fn first_mip(layer: u32) -> vk::ImageSubresourceRange {
    vk::ImageSubresourceRange {
        aspect_mask: vk::ImageAspectFlags::COLOR,
        base_mip_level: 0,
        level_count: 1,
        base_array_layer: layer,
        layer_count: 1,
    }
}

/// The shader's view of an image. The first call for an image creates it.
///
/// # Safety
/// The device is alive.
pub(super) unsafe fn readable(of: &Device, image: &Image) -> Result<Readable, vk::Result> {
    let swapchain_images = &image.swapchain_images;
    let key = (image.index, image.layer);
    let mut known = swapchain_images
        .views
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some((_, readable)) = known.iter().find(|(of, _)| *of == key) {
        return Ok(*readable);
    }
    let (format, size) = (swapchain_images.format(), swapchain_images.size());
    // SAFETY: the caller guarantees that the device is alive.
    let made = unsafe {
        if swapchain_images.samples() == vk::SampleCountFlags::TYPE_1 {
            let view = view_info(image.image(), format, image.layer);
            Readable {
                view: of.functions.create_image_view(&view, None)?,
                resolved: None,
            }
        } else {
            let info = vk::ImageCreateInfo::default()
                .image_type(vk::ImageType::TYPE_2D)
                .format(format)
                .extent(vk::Extent3D {
                    width: size.width,
                    height: size.height,
                    depth: 1,
                })
                .mip_levels(1)
                .array_layers(1)
                .samples(vk::SampleCountFlags::TYPE_1)
                .usage(vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED);
            let own = Owned::new(&of.functions, &of.memory, &info)?;
            let view = of
                .functions
                .create_image_view(&view_info(own.image, format, 0), None);
            Readable {
                view: view.inspect_err(|_| own.destroy(&of.functions))?,
                resolved: Some(own),
            }
        }
    };
    known.push((key, made));
    Ok(made)
}

/// Records the barriers that make an image readable by the shader (`to_shader`), or that return it to the application.
///
/// # Safety
/// The device is alive, and the commands are in the recording state.
pub(super) unsafe fn make_readable(
    device: &ash::Device,
    commands: vk::CommandBuffer,
    image: &Image,
    readable: &Readable,
    to_shader: bool,
) {
    let drawn = vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL;
    let read = vk::ImageLayout::SHADER_READ_ONLY_OPTIMAL;
    let (from, to) = (
        vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
        vk::ImageLayout::TRANSFER_DST_OPTIMAL,
    );
    let all = vk::PipelineStageFlags::ALL_COMMANDS;
    let none = vk::DependencyFlags::empty();
    let barrier = |which, layer, from, to| {
        // A frame has few barriers, so each of them is a full barrier.
        let any = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier = vk::ImageMemoryBarrier::default()
            .src_access_mask(any)
            .dst_access_mask(any)
            .old_layout(from)
            .new_layout(to)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(which)
            .subresource_range(first_mip(layer));
        // SAFETY: the caller guarantees that the device is alive and that the commands are in the recording state.
        unsafe { device.cmd_pipeline_barrier(commands, all, all, none, &[], &[], &[barrier]) };
    };
    let (theirs, layer) = (image.image(), image.layer);
    match (&readable.resolved, to_shader) {
        (None, true) => barrier(theirs, layer, drawn, read),
        (None, false) => barrier(theirs, layer, read, drawn),
        (Some(_), false) => {}
        (Some(own), true) => {
            barrier(theirs, layer, drawn, from);
            barrier(own.image, 0, vk::ImageLayout::UNDEFINED, to);
            let size = image.swapchain_images.size();
            let subresource = |layer| vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: 0,
                base_array_layer: layer,
                layer_count: 1,
            };
            let region = vk::ImageResolve {
                src_subresource: subresource(layer),
                dst_subresource: subresource(0),
                extent: vk::Extent3D {
                    width: size.width,
                    height: size.height,
                    depth: 1,
                },
                ..vk::ImageResolve::default()
            };
            // SAFETY: the caller guarantees that the device is alive and that the commands are in the recording state.
            unsafe { device.cmd_resolve_image(commands, theirs, from, own.image, to, &[region]) };
            barrier(theirs, layer, from, drawn);
            barrier(own.image, 0, to, read);
        }
    }
}
