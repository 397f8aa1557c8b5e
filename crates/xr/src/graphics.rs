//! What an application draws with, a device of Vulkan or a context of OpenGL, where that makes no difference.

use std::sync::Arc;

use openuvr_media::capture::Drawn;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use crate::border::{Outcome, output};
use crate::logic::images::Images;
use crate::logic::scene::Scene;
use crate::stream::Wanted;
use crate::{gl, vulkan};

/// What a session draws with.
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

/// An image that a layer shows.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) pictures: Pictures,
    /// Which of them, and which layer of it.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

impl Graphics {
    /// The formats that can be drawn in, the best first.
    pub(crate) fn formats(&self) -> Vec<i64> {
        match self {
            Graphics::Vulkan(vulkan) => vulkan.formats(),
            Graphics::OpenGl(gl) => gl.formats(),
        }
    }

    /// The images of a swapchain, and whose turn they are.
    ///
    /// # Errors
    /// What the specification has for what is wrong with the wish, or can't be had.
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

    /// One of these images is about to be the application's.
    ///
    /// # Errors
    /// The device is lost.
    pub(crate) fn acquired(&self, pictures: &Pictures) -> Outcome<()> {
        match (self, pictures) {
            (Graphics::Vulkan(vulkan), Pictures::Vulkan(pictures)) => vulkan.acquired(pictures),
            _ => Ok(()),
        }
    }

    /// These images are used no more.
    pub(crate) fn forget(&self, pictures: &Pictures) {
        match (self, pictures) {
            (Graphics::Vulkan(vulkan), Pictures::Vulkan(pictures)) => vulkan.forget(pictures),
            (Graphics::OpenGl(gl), Pictures::OpenGl(pictures)) => gl.forget(pictures),
            // Images are of what their session draws with.
            _ => {}
        }
    }

    /// Hands over the picture of a frame. With no buffer free it is left out.
    ///
    /// # Errors
    /// One line: why there is none.
    pub(crate) fn show(&self, scene: Scene<Image>, to: Wanted, drawn: Drawn) -> Result<(), String> {
        let size = scene.whole();
        if !size.is_valid() {
            return Err(format!("pictures of {size} are not streamed: too large"));
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

    /// Frees what is ours, but for images of swapchains; nothing is drawn any more.
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

    /// Of each image.
    pub(crate) fn layers(&self) -> u32 {
        match self {
            Pictures::Vulkan(pictures) => pictures.layers(),
            Pictures::OpenGl(pictures) => pictures.layers(),
        }
    }

    /// Whether they can be seen: depths can't.
    pub(crate) fn is_colour(&self) -> bool {
        match self {
            Pictures::Vulkan(pictures) => pictures.is_colour(),
            Pictures::OpenGl(pictures) => pictures.is_colour(),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Pictures::Vulkan(pictures) => pictures.handles().len(),
            Pictures::OpenGl(pictures) => pictures.names().len(),
        }
    }

    /// Tells the application one of them, in the `index`th structure that begins at `out`.
    ///
    /// # Errors
    /// `XR_ERROR_VALIDATION_FAILURE`: the structure is one of something else.
    ///
    /// # Safety
    /// The application's, and there are so many.
    pub(crate) unsafe fn put(
        &self,
        index: usize,
        out: *mut xr::SwapchainImageBaseHeader,
    ) -> Outcome<()> {
        // SAFETY: the caller's duty; the structures' kind is looked at.
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
