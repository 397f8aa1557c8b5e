//! Uploads pictures from memory to a swapchain of the runtime.

use std::sync::Arc;

use ash::vk;
use ash::vk::Handle as _;
use openuvr_proto::units::Size;
use openxr as xr;

use super::buffer::Buffer;
use super::gpu::Gpu;
use crate::error::VrError;

/// Supported formats. `false` means the byte order of packed BGRX; `true` means that red and blue are swapped.
const COLOURS: [(vk::Format, bool); 2] = [
    (vk::Format::B8G8R8A8_SRGB, false),
    (vk::Format::R8G8B8A8_SRGB, true),
];

/// The timeout of one wait for the device, in ns; the wait is then repeated.
const WAIT: u64 = 1_000_000_000;

/// A swapchain for pictures of one size. It is used only on the thread that runs the session's frames.
pub(crate) struct Upload {
    size: Size,
    swapchain: xr::Swapchain<xr::Vulkan>,
    images: Vec<vk::Image>,
    /// Whether red and blue must be swapped.
    swapped: bool,
    swap_buffer: Vec<u8>,
    staging: Buffer,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    done: vk::Fence,
    busy: bool,
    gpu: Arc<Gpu>,
}

impl Upload {
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        session: &xr::Session<xr::Vulkan>,
        size: Size,
    ) -> Result<Upload, VrError> {
        let formats = session.enumerate_swapchain_formats();
        let formats = formats.map_err(VrError::openxr("list the swapchain formats"))?;
        let offered = |format: &vk::Format| formats.contains(&format.as_raw().cast_unsigned());
        let found = COLOURS.into_iter().find(|(format, _)| offered(format));
        let (format, swapped) = found
            .ok_or_else(|| VrError("the OpenXR runtime supports no 8-bit sRGB format".into()))?;
        let swapchain = session.create_swapchain(&xr::SwapchainCreateInfo {
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT
                | xr::SwapchainUsageFlags::TRANSFER_DST,
            format: format.as_raw().cast_unsigned(),
            sample_count: 1,
            width: size.width,
            height: size.height,
            face_count: 1,
            array_size: 1,
            mip_count: 1,
        });
        let swapchain = swapchain.map_err(VrError::openxr("create a swapchain"))?;
        let images = swapchain.enumerate_images();
        let images = images.map_err(VrError::openxr("list the swapchain images"))?;
        let bytes = size.pixels() * 4;
        let mut made = Upload {
            size,
            swapchain,
            images: images.into_iter().map(vk::Image::from_raw).collect(),
            swapped,
            swap_buffer: Vec::new(),
            staging: Buffer::new(gpu, vk::BufferUsageFlags::TRANSFER_SRC, bytes)?,
            pool: vk::CommandPool::null(),
            commands: vk::CommandBuffer::null(),
            done: vk::Fence::null(),
            busy: false,
            gpu: Arc::clone(gpu),
        };
        let pool = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(gpu.family);
        let device = &gpu.functions;
        // SAFETY: the device exists as long as `gpu`. After an error, the remaining handles are null, which `drop`
        // ignores.
        unsafe {
            made.pool = device
                .create_command_pool(&pool, None)
                .map_err(VrError::vulkan("create a command pool"))?;
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(made.pool)
                .command_buffer_count(1);
            made.commands = device
                .allocate_command_buffers(&info)
                .map_err(VrError::vulkan("allocate command buffers"))?[0];
            made.done = device
                .create_fence(&vk::FenceCreateInfo::default(), None)
                .map_err(VrError::vulkan("create a fence"))?;
        }
        Ok(made)
    }

    /// The size of its pictures, in pixels.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Uploads a picture in packed BGRX to the next image. Layers show this image from now on.
    pub(crate) fn show(&mut self, bgrx: &[u8]) -> Result<(), VrError> {
        self.wait_idle()?;
        if self.swapped {
            self.swap_buffer.clear();
            self.swap_buffer.extend_from_slice(bgrx);
            self.swap_buffer
                .chunks_exact_mut(4)
                .for_each(|pixel| pixel.swap(0, 2));
            self.staging.fill(&self.swap_buffer)?;
        } else {
            self.staging.fill(bgrx)?;
        }
        let at = self.swapchain.acquire_image();
        let at = at.map_err(VrError::openxr("acquire a swapchain image"))? as usize;
        self.swapchain
            .wait_image(xr::Duration::INFINITE)
            .map_err(VrError::openxr("wait for a swapchain image"))?;
        let image = self.images.get(at).copied();
        let image = image
            .ok_or_else(|| VrError("the OpenXR runtime returned an invalid image index".into()))?;
        // SAFETY: the image was acquired, and the device has finished the commands.
        unsafe { self.record(image) }.map_err(VrError::vulkan("copy a picture"))?;
        self.busy = true;
        self.swapchain
            .release_image()
            .map_err(VrError::openxr("release a swapchain image"))
    }

    /// # Safety
    /// The image must be acquired, and the device must have finished the commands.
    unsafe fn record(&self, image: vk::Image) -> Result<(), vk::Result> {
        let device = &self.gpu.functions;
        let begin = vk::CommandBufferBeginInfo::default()
            .flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        let range = vk::ImageSubresourceRange {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            base_mip_level: 0,
            level_count: 1,
            base_array_layer: 0,
            layer_count: 1,
        };
        let barrier = |from: (vk::ImageLayout, vk::AccessFlags),
                       to: (vk::ImageLayout, vk::AccessFlags)| {
            [vk::ImageMemoryBarrier::default()
                .image(image)
                .subresource_range(range)
                .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                .old_layout(from.0)
                .src_access_mask(from.1)
                .new_layout(to.0)
                .dst_access_mask(to.1)]
        };
        let copied = (
            vk::ImageLayout::TRANSFER_DST_OPTIMAL,
            vk::AccessFlags::TRANSFER_WRITE,
        );
        // XR_KHR_vulkan_enable2 requires this layout on release.
        let shown = (
            vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL,
            vk::AccessFlags::COLOR_ATTACHMENT_READ,
        );
        let (output, transfer) = (
            vk::PipelineStageFlags::COLOR_ATTACHMENT_OUTPUT,
            vk::PipelineStageFlags::TRANSFER,
        );
        let region = [vk::BufferImageCopy::default()
            .image_subresource(vk::ImageSubresourceLayers {
                aspect_mask: vk::ImageAspectFlags::COLOR,
                mip_level: 0,
                base_array_layer: 0,
                layer_count: 1,
            })
            .image_extent(vk::Extent3D {
                width: self.size.width,
                height: self.size.height,
                depth: 1,
            })];
        let none = vk::DependencyFlags::empty();
        let commands = self.commands;
        // The old content is discarded.
        let before = barrier(
            (vk::ImageLayout::UNDEFINED, vk::AccessFlags::empty()),
            copied,
        );
        let after = barrier(copied, shown);
        let buffers = [commands];
        let submit = [vk::SubmitInfo::default().command_buffers(&buffers)];
        // SAFETY: by the caller's contract. Only this thread uses the queue. OpenXR calls that use the queue are made
        // on this thread, too, and therefore not at this time.
        unsafe {
            device.begin_command_buffer(commands, &begin)?;
            device.cmd_pipeline_barrier(commands, output, transfer, none, &[], &[], &before);
            device.cmd_copy_buffer_to_image(
                commands,
                self.staging.buffer,
                image,
                vk::ImageLayout::TRANSFER_DST_OPTIMAL,
                &region,
            );
            device.cmd_pipeline_barrier(commands, transfer, output, none, &[], &[], &after);
            device.end_command_buffer(commands)?;
            device.queue_submit(self.gpu.queue, &submit, self.done)
        }
    }

    /// Waits until the previous copy has finished.
    fn wait_idle(&mut self) -> Result<(), VrError> {
        let device = &self.gpu.functions;
        while self.busy {
            // SAFETY: the copy was submitted with this fence.
            unsafe {
                match device.wait_for_fences(&[self.done], true, WAIT) {
                    Err(vk::Result::TIMEOUT) => continue,
                    other => other.map_err(VrError::vulkan("wait for a copy"))?,
                }
                device
                    .reset_fences(&[self.done])
                    .map_err(VrError::vulkan("reset a fence"))?;
            }
            self.busy = false;
        }
        Ok(())
    }

    /// The part of the picture that contains the view number `at`. The picture contains `count` views side by side.
    pub(crate) fn part(&self, at: u32, count: u32) -> xr::SwapchainSubImage<'_, xr::Vulkan> {
        let width = self.size.width / count.max(1);
        let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
        xr::SwapchainSubImage::new()
            .swapchain(&self.swapchain)
            .image_array_index(0)
            .image_rect(xr::Rect2Di {
                offset: xr::Offset2Di {
                    x: side(width * at),
                    y: 0,
                },
                extent: xr::Extent2Di {
                    width: side(width),
                    height: side(self.size.height),
                },
            })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.gpu.wait_idle();
        let device = &self.gpu.functions;
        // SAFETY: the device exists and is idle; null is ignored.
        unsafe {
            device.destroy_fence(self.done, None);
            device.destroy_command_pool(self.pool, None);
        }
    }
}
