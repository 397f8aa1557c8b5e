//! Images and image views.

use std::sync::Arc;

use ash::vk;
use openuvr_proto::units::Size;

use super::gpu::Gpu;
use crate::error::VrError;

/// Allocates memory of a type that has all of these properties.
///
/// # Safety
/// The device must be valid.
pub(super) unsafe fn allocate(
    gpu: &Gpu,
    needs: vk::MemoryRequirements,
    properties: vk::MemoryPropertyFlags,
) -> Result<vk::DeviceMemory, VrError> {
    let mut kinds = (0..).zip(gpu.memory.memory_types_as_slice());
    let kind = kinds.find(|(at, kind)| {
        needs.memory_type_bits & (1_u32 << at) != 0 && kind.property_flags.contains(properties)
    });
    let (kind, _) =
        kind.ok_or_else(|| VrError("the Vulkan device has no suitable memory type".into()))?;
    let info = vk::MemoryAllocateInfo::default()
        .allocation_size(needs.size)
        .memory_type_index(kind);
    // SAFETY: by the caller's contract.
    unsafe { gpu.functions.allocate_memory(&info, None) }
        .map_err(VrError::vulkan("allocate memory"))
}

/// A view of a whole image with one layer.
///
/// # Safety
/// The image must belong to the device and have this format.
pub(super) unsafe fn view(
    gpu: &Gpu,
    image: vk::Image,
    format: vk::Format,
    aspect: vk::ImageAspectFlags,
) -> Result<vk::ImageView, VrError> {
    let info = vk::ImageViewCreateInfo::default()
        .image(image)
        .view_type(vk::ImageViewType::TYPE_2D)
        .format(format)
        .subresource_range(vk::ImageSubresourceRange {
            aspect_mask: aspect,
            base_mip_level: 0,
            level_count: 1,
            base_array_layer: 0,
            layer_count: 1,
        });
    // SAFETY: by the caller's contract.
    unsafe { gpu.functions.create_image_view(&info, None) }
        .map_err(VrError::vulkan("create an image view"))
}

/// An image with its memory and view. The device must be idle when the image is dropped.
pub(super) struct Image {
    pub(super) view: vk::ImageView,
    image: vk::Image,
    memory: vk::DeviceMemory,
    gpu: Arc<Gpu>,
}

impl Image {
    pub(super) fn depth(gpu: &Arc<Gpu>, format: vk::Format, size: Size) -> Result<Image, VrError> {
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
            .usage(vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT);
        let mut made = Image {
            view: vk::ImageView::null(),
            image: vk::Image::null(),
            memory: vk::DeviceMemory::null(),
            gpu: Arc::clone(gpu),
        };
        let device = &gpu.functions;
        // SAFETY: the device exists as long as `gpu`. After an error, the remaining handles are null, which `drop`
        // ignores.
        unsafe {
            made.image = device
                .create_image(&info, None)
                .map_err(VrError::vulkan("create an image"))?;
            let needs = device.get_image_memory_requirements(made.image);
            made.memory = allocate(gpu, needs, vk::MemoryPropertyFlags::DEVICE_LOCAL)?;
            device
                .bind_image_memory(made.image, made.memory, 0)
                .map_err(VrError::vulkan("bind image memory"))?;
            made.view = view(gpu, made.image, format, vk::ImageAspectFlags::DEPTH)?;
        }
        Ok(made)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let device = &self.gpu.functions;
        // SAFETY: the device exists and no longer uses these objects; null is ignored.
        unsafe {
            device.destroy_image_view(self.view, None);
            device.destroy_image(self.image, None);
            device.free_memory(self.memory, None);
        }
    }
}
