//! The graphics API of a session, Vulkan or OpenGL, behind one interface.

use std::sync::Arc;

use openuvr_media::capture::RenderInfo;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use crate::ffi::{Outcome, output};
use crate::logic::images::ImageQueue;
use crate::logic::scene::Scene;
use crate::stream::FrameSink;
use crate::{gl, vulkan};

/// The graphics device of a session.
pub(crate) enum Graphics {
    Vulkan(Box<vulkan::graphics::Graphics>),
    OpenGl(Box<gl::graphics::Graphics>),
}

#[derive(Clone)]
pub(crate) enum SwapchainImages {
    Vulkan(Arc<vulkan::images::SwapchainImages>),
    OpenGl(Arc<gl::images::SwapchainImages>),
}

/// A swapchain image to which a layer refers.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) swapchain_images: SwapchainImages,
    /// The index of the image, and the array layer in this image.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

impl Graphics {
    /// The supported swapchain formats, in order of preference.
    pub(crate) fn formats(&self) -> Vec<i64> {
        match self {
            Graphics::Vulkan(vulkan) => vulkan.formats(),
            Graphics::OpenGl(gl) => gl.formats(),
        }
    }

    /// Creates the images of a swapchain, and their acquire/release queue.
    ///
    /// # Errors
    /// Returns the error code that the specification defines for an invalid or unsupported parameter.
    pub(crate) fn make(
        &self,
        info: &xr::SwapchainCreateInfo,
    ) -> Outcome<(SwapchainImages, ImageQueue)> {
        let (swapchain_images, info) = match self {
            Graphics::Vulkan(vulkan) => {
                let info = vulkan::images::ImageInfo::read(info)?;
                let made = vulkan.make(&info)?;
                (SwapchainImages::Vulkan(Arc::new(made)), info.common)
            }
            Graphics::OpenGl(gl) => {
                let info = gl::images::ImageInfo::read(info)?;
                let made = gl.make(&info)?;
                (SwapchainImages::OpenGl(Arc::new(made)), info.common)
            }
        };
        Ok((
            swapchain_images,
            ImageQueue::new(info.count(), info.is_static),
        ))
    }

    /// Makes these images ready for use before the application acquires one of them. With Vulkan, the first call for a
    /// swapchain waits for the device.
    ///
    /// # Errors
    /// Returns an error if the device is lost, or has no memory for a command.
    pub(crate) fn acquired(&self, swapchain_images: &SwapchainImages) -> Outcome<()> {
        match (self, swapchain_images) {
            (Graphics::Vulkan(vulkan), SwapchainImages::Vulkan(swapchain_images)) => {
                vulkan.acquired(swapchain_images)
            }
            _ => Ok(()),
        }
    }

    /// Releases images that are no longer used.
    pub(crate) fn destroy_images(&self, swapchain_images: &SwapchainImages) {
        match (self, swapchain_images) {
            (Graphics::Vulkan(vulkan), SwapchainImages::Vulkan(swapchain_images)) => {
                vulkan.destroy_images(swapchain_images);
            }
            (Graphics::OpenGl(gl), SwapchainImages::OpenGl(swapchain_images)) => {
                gl.destroy_images(swapchain_images);
            }
            // This does not happen: images always belong to the graphics API of their session.
            _ => {}
        }
    }

    /// Submits the picture of a frame. The picture is dropped if no buffer is free.
    ///
    /// # Errors
    /// Returns the reason, as one line of text.
    pub(crate) fn show(
        &self,
        scene: Scene<Image>,
        to: FrameSink,
        drawn: RenderInfo,
    ) -> Result<(), String> {
        let size = scene.total_size();
        if !size.is_valid() {
            return Err(format!("cannot stream pictures of {size}: too large"));
        }
        match self {
            Graphics::Vulkan(vulkan) => match scene.map(Image::vulkan) {
                Some(scene) => vulkan.show(&scene, to, drawn),
                None => Ok(()),
            },
            Graphics::OpenGl(gl) => match scene.map(Image::gl) {
                Some(scene) => gl.show(&scene, to, drawn),
                None => Ok(()),
            },
        }
    }

    /// Frees the session's resources except the images of swapchains. No frame is submitted afterwards.
    pub(crate) fn close(&self) {
        match self {
            Graphics::Vulkan(vulkan) => vulkan.close(),
            Graphics::OpenGl(gl) => gl.close(),
        }
    }
}

impl Image {
    fn vulkan(self) -> Option<vulkan::scene::Image> {
        match self.swapchain_images {
            SwapchainImages::Vulkan(swapchain_images) => Some(vulkan::scene::Image {
                swapchain_images,
                index: self.index,
                layer: self.layer,
            }),
            SwapchainImages::OpenGl(_) => None,
        }
    }

    fn gl(self) -> Option<gl::images::Image> {
        match self.swapchain_images {
            SwapchainImages::OpenGl(swapchain_images) => Some(gl::images::Image {
                swapchain_images,
                index: self.index,
                layer: self.layer,
            }),
            SwapchainImages::Vulkan(_) => None,
        }
    }
}

impl SwapchainImages {
    pub(crate) fn size(&self) -> Size {
        match self {
            SwapchainImages::Vulkan(swapchain_images) => swapchain_images.size(),
            SwapchainImages::OpenGl(swapchain_images) => swapchain_images.size(),
        }
    }

    /// Number of array layers of each image.
    pub(crate) fn layers(&self) -> u32 {
        match self {
            SwapchainImages::Vulkan(swapchain_images) => swapchain_images.layers(),
            SwapchainImages::OpenGl(swapchain_images) => swapchain_images.layers(),
        }
    }

    /// Whether the images contain colour, not depth.
    pub(crate) fn is_colour(&self) -> bool {
        match self {
            SwapchainImages::Vulkan(swapchain_images) => swapchain_images.is_colour(),
            SwapchainImages::OpenGl(swapchain_images) => swapchain_images.is_colour(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        match self {
            SwapchainImages::Vulkan(swapchain_images) => swapchain_images.handles().len(),
            SwapchainImages::OpenGl(swapchain_images) => swapchain_images.names().len(),
        }
    }

    /// Writes the handle of an image to the structure number `index` of the array `out`.
    ///
    /// # Errors
    /// `XR_ERROR_VALIDATION_FAILURE` if the structure does not have the type for this graphics API.
    ///
    /// # Safety
    /// `out` is an array of the application with more than `index` elements.
    pub(crate) unsafe fn put(
        &self,
        index: usize,
        out: *mut xr::SwapchainImageBaseHeader,
    ) -> Outcome<()> {
        // SAFETY: the caller upholds this function's contract, and `output` checks the type of the structure.
        unsafe {
            match self {
                SwapchainImages::Vulkan(swapchain_images) => {
                    let to = output(out.cast::<xr::SwapchainImageVulkanKHR>().add(index))?;
                    to.image = swapchain_images.handles()[index];
                }
                SwapchainImages::OpenGl(swapchain_images) => {
                    let to = output(out.cast::<xr::SwapchainImageOpenGLKHR>().add(index))?;
                    to.image = swapchain_images.names()[index];
                }
            }
        }
        Ok(())
    }
}
