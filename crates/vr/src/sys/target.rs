//! The render target of an eye: a swapchain of the runtime.

use std::sync::Arc;

use ash::vk;
use ash::vk::Handle as _;
use openuvr_proto::units::Size;
use openxr as xr;

use super::gpu::Gpu;
use super::image::{Image, view};
use super::pipeline::{DEPTH, Pass};
use crate::error::VrError;

/// Supported colour formats. Shader colours are linear, and the device converts them.
const COLOURS: [vk::Format; 2] = [vk::Format::R8G8B8A8_SRGB, vk::Format::B8G8R8A8_SRGB];

/// The format that the runtime prefers among [`COLOURS`].
pub(super) fn colours(session: &xr::Session<xr::Vulkan>) -> Result<vk::Format, VrError> {
    let formats = session.enumerate_swapchain_formats();
    let formats = formats.map_err(VrError::openxr("list the swapchain formats"))?;
    let known = |format: &u32| {
        let format = i32::try_from(*format).ok().map(vk::Format::from_raw);
        format.filter(|format| COLOURS.contains(format))
    };
    let found = formats.iter().find_map(known);
    found.ok_or_else(|| VrError("the OpenXR runtime supports no 8-bit sRGB format".into()))
}

/// A swapchain, and the framebuffers of its images.
pub(crate) struct Target {
    size: Size,
    swapchain: xr::Swapchain<xr::Vulkan>,
    framebuffers: Vec<vk::Framebuffer>,
    views: Vec<vk::ImageView>,
    _depth: Image,
    gpu: Arc<Gpu>,
}

impl Target {
    /// A target of this size.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        session: &xr::Session<xr::Vulkan>,
        pass: &Pass,
        size: Size,
    ) -> Result<Target, VrError> {
        let swapchain = session.create_swapchain(&xr::SwapchainCreateInfo {
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT,
            format: pass.colours.as_raw().cast_unsigned(),
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
        let mut made = Target {
            size,
            swapchain,
            framebuffers: Vec::new(),
            views: Vec::new(),
            _depth: Image::depth(gpu, DEPTH, size)?,
            gpu: Arc::clone(gpu),
        };
        for image in images {
            let image = vk::Image::from_raw(image);
            // SAFETY: the image belongs to the swapchain, has the requested format, and is on this device.
            unsafe {
                let seen = view(gpu, image, pass.colours, vk::ImageAspectFlags::COLOR)?;
                made.views.push(seen);
                let attachments = [seen, made._depth.view];
                let info = vk::FramebufferCreateInfo::default()
                    .render_pass(pass.handle)
                    .attachments(&attachments)
                    .width(size.width)
                    .height(size.height)
                    .layers(1);
                let framebuffer = gpu.functions.create_framebuffer(&info, None);
                let framebuffer = framebuffer.map_err(VrError::vulkan("create a framebuffer"))?;
                made.framebuffers.push(framebuffer);
            }
        }
        Ok(made)
    }

    /// The size of an image, in pixels.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Acquires the next image, and waits until it may be drawn to.
    pub(super) fn acquire(&mut self) -> Result<vk::Framebuffer, VrError> {
        let at = self.swapchain.acquire_image();
        let at = at.map_err(VrError::openxr("acquire a swapchain image"))? as usize;
        self.swapchain
            .wait_image(xr::Duration::INFINITE)
            .map_err(VrError::openxr("wait for a swapchain image"))?;
        let framebuffer = self.framebuffers.get(at).copied();
        framebuffer
            .ok_or_else(|| VrError("the OpenXR runtime returned an invalid image index".into()))
    }

    /// Releases the image. Its draw commands must have been submitted.
    pub(super) fn release(&mut self) -> Result<(), VrError> {
        self.swapchain
            .release_image()
            .map_err(VrError::openxr("release a swapchain image"))
    }

    /// The last released image, for a composition layer.
    pub(crate) fn picture(&self) -> xr::SwapchainSubImage<'_, xr::Vulkan> {
        let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
        xr::SwapchainSubImage::new()
            .swapchain(&self.swapchain)
            .image_array_index(0)
            .image_rect(xr::Rect2Di {
                offset: xr::Offset2Di { x: 0, y: 0 },
                extent: xr::Extent2Di {
                    width: side(self.size.width),
                    height: side(self.size.height),
                },
            })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.gpu.wait_idle();
        // SAFETY: the device exists and is idle.
        unsafe {
            for framebuffer in self.framebuffers.drain(..) {
                self.gpu.functions.destroy_framebuffer(framebuffer, None);
            }
            for view in self.views.drain(..) {
                self.gpu.functions.destroy_image_view(view, None);
            }
        }
    }
}
