//! The graphics API of a session, Vulkan or OpenGL, behind one interface.

use std::sync::Arc;

use openuvr_media::capture::Drawn;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use crate::border::{Outcome, output};
use crate::logic::images::Images;
use crate::logic::scene::Scene;
use crate::stream::Wanted;
use crate::{gl, vulkan};

/// The graphics device of a session.
pub(crate) enum Graphics {
    Vulkan(Box<vulkan::graphics::Graphics>),
    OpenGl(Box<gl::graphics::Graphics>),
}

/// The images of a swapchain.
#[derive(Clone)]
pub(crate) enum Pictures {
    Vulkan(Arc<vulkan::images::Pictures>),
    OpenGl(Arc<gl::images::Pictures>),
}

/// A swapchain image that a layer refers to.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) pictures: Pictures,
    /// Index of the image, and array layer in it.
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
    /// The error code that the specification defines for an invalid or unsupported parameter.
    pub(crate) fn make(&self, info: &xr::SwapchainCreateInfo) -> Outcome<(Pictures, Images)> {
        let (pictures, wish) = match self {
            Graphics::Vulkan(vulkan) => {
                let wish = vulkan::images::Wish::read(info)?;
                let made = vulkan.make(&wish)?;
                (Pictures::Vulkan(Arc::new(made)), wish.all)
            }
            Graphics::OpenGl(gl) => {
                let wish = gl::images::Wish::read(info)?;
                let made = gl.make(&wish)?;
                (Pictures::OpenGl(Arc::new(made)), wish.all)
            }
        };
        Ok((pictures, Images::new(wish.count(), wish.is_static)))
    }

    /// The application is about to acquire one of these images.
    ///
    /// # Errors
    /// The device is lost.
    pub(crate) fn acquired(&self, pictures: &Pictures) -> Outcome<()> {
        match (self, pictures) {
            (Graphics::Vulkan(vulkan), Pictures::Vulkan(pictures)) => vulkan.acquired(pictures),
            _ => Ok(()),
        }
    }

    /// Releases images that are not used any more.
    pub(crate) fn forget(&self, pictures: &Pictures) {
        match (self, pictures) {
            (Graphics::Vulkan(vulkan), Pictures::Vulkan(pictures)) => vulkan.forget(pictures),
            (Graphics::OpenGl(gl), Pictures::OpenGl(pictures)) => gl.forget(pictures),
            // Images always belong to the graphics API of their session.
            _ => {}
        }
    }

    /// Submits the picture of a frame. The picture is dropped if no buffer is free.
    ///
    /// # Errors
    /// One line with the reason.
    pub(crate) fn show(&self, scene: Scene<Image>, to: Wanted, drawn: Drawn) -> Result<(), String> {
        let size = scene.whole();
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

    /// Frees the session's resources except swapchain images. No frame is submitted afterwards.
    pub(crate) fn close(&self) {
        match self {
            Graphics::Vulkan(vulkan) => vulkan.close(),
            Graphics::OpenGl(gl) => gl.close(),
        }
    }
}

impl Image {
    fn vulkan(self) -> Option<vulkan::scene::Image> {
        match self.pictures {
            Pictures::Vulkan(pictures) => Some(vulkan::scene::Image {
                pictures,
                index: self.index,
                layer: self.layer,
            }),
            Pictures::OpenGl(_) => None,
        }
    }

    fn gl(self) -> Option<gl::images::Image> {
        match self.pictures {
            Pictures::OpenGl(pictures) => Some(gl::images::Image {
                pictures,
                index: self.index,
                layer: self.layer,
            }),
            Pictures::Vulkan(_) => None,
        }
    }
}

impl Pictures {
    pub(crate) fn size(&self) -> Size {
        match self {
            Pictures::Vulkan(pictures) => pictures.size(),
            Pictures::OpenGl(pictures) => pictures.size(),
        }
    }

    /// Number of array layers of each image.
    pub(crate) fn layers(&self) -> u32 {
        match self {
            Pictures::Vulkan(pictures) => pictures.layers(),
            Pictures::OpenGl(pictures) => pictures.layers(),
        }
    }

    /// Whether the images have colour, rather than depth.
    pub(crate) fn is_colour(&self) -> bool {
        match self {
            Pictures::Vulkan(pictures) => pictures.is_colour(),
            Pictures::OpenGl(pictures) => pictures.is_colour(),
        }
    }

    /// Number of images.
    pub(crate) fn count(&self) -> usize {
        match self {
            Pictures::Vulkan(pictures) => pictures.handles().len(),
            Pictures::OpenGl(pictures) => pictures.names().len(),
        }
    }

    /// Writes an image's handle to the `index`th structure of the array `out`.
    ///
    /// # Errors
    /// `XR_ERROR_VALIDATION_FAILURE`: the structure has another type.
    ///
    /// # Safety
    /// `out` is an array of the application with more than `index` elements.
    pub(crate) unsafe fn put(
        &self,
        index: usize,
        out: *mut xr::SwapchainImageBaseHeader,
    ) -> Outcome<()> {
        // SAFETY: the caller's duty; the type is checked.
        unsafe {
            match self {
                Pictures::Vulkan(pictures) => {
                    let to = output(out.cast::<xr::SwapchainImageVulkanKHR>().add(index))?;
                    to.image = pictures.handles()[index];
                }
                Pictures::OpenGl(pictures) => {
                    let to = output(out.cast::<xr::SwapchainImageOpenGLKHR>().add(index))?;
                    to.image = pictures.names()[index];
                }
            }
        }
        Ok(())
    }
}
