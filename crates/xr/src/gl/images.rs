//! Parameters and textures of OpenGL swapchains.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use openuvr_proto::units::Size;
use openxr_sys as xr;

use crate::ffi::Outcome;
use crate::logic::swapchain_info;

/// Supported colour formats, in order of preference. The first format is the streamed format, so its images can be
/// copied unchanged. The formats without sRGB contain linear colours.
pub(super) const COLOURS: [u32; 5] = [
    glow::SRGB8_ALPHA8,
    glow::RGBA16F,
    glow::RGB10_A2,
    glow::RGBA8,
    // Panda3D uses this format. Most drivers allocate an unused alpha channel for it.
    glow::SRGB8,
];

/// Supported depth formats. The application can render to them, but no layer shows them.
pub(super) const DEPTHS: [u32; 4] = [
    glow::DEPTH_COMPONENT32F,
    glow::DEPTH_COMPONENT16,
    glow::DEPTH24_STENCIL8,
    glow::DEPTH32F_STENCIL8,
];

/// Parameters of an OpenGL swapchain.
#[derive(Clone, Copy)]
pub(crate) struct ImageInfo {
    pub(crate) common: swapchain_info::SwapchainInfo,
    pub(super) format: u32,
}

impl ImageInfo {
    /// Reads and validates the parameters.
    ///
    /// # Errors
    /// Returns the error code that the specification defines for the parameter.
    pub(crate) fn read(info: &xr::SwapchainCreateInfo) -> Outcome<ImageInfo> {
        let format = u32::try_from(info.format).ok();
        let format = format.filter(|f| COLOURS.contains(f) || DEPTHS.contains(f));
        let format = format.ok_or(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED)?;
        Ok(ImageInfo {
            common: swapchain_info::SwapchainInfo::read(info)?,
            format,
        })
    }

    /// The texture target.
    pub(super) fn target(&self) -> u32 {
        match (self.common.samples, self.common.layers) {
            (1, 1) => glow::TEXTURE_2D,
            (1, _) => glow::TEXTURE_2D_ARRAY,
            (_, 1) => glow::TEXTURE_2D_MULTISAMPLE,
            _ => glow::TEXTURE_2D_MULTISAMPLE_ARRAY,
        }
    }
}

/// The textures of a swapchain.
pub(crate) struct SwapchainImages {
    pub(super) info: ImageInfo,
    pub(super) textures: Vec<glow::Texture>,
    /// The resolved textures of multisampled images, by image index and layer. They are created at first use.
    pub(super) resolved: Mutex<Vec<((u32, u32), glow::Texture)>>,
    destroyed: AtomicBool,
}

impl SwapchainImages {
    pub(super) fn new(info: ImageInfo, textures: Vec<glow::Texture>) -> SwapchainImages {
        SwapchainImages {
            info,
            textures,
            resolved: Mutex::default(),
            destroyed: AtomicBool::new(false),
        }
    }

    pub(super) fn mark_destroyed(&self) {
        self.destroyed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Relaxed)
    }

    /// The OpenGL names of the textures, for the application.
    pub(crate) fn names(&self) -> Vec<u32> {
        self.textures
            .iter()
            .map(|texture| texture.0.get())
            .collect()
    }

    pub(crate) fn size(&self) -> Size {
        self.info.common.size
    }

    pub(crate) fn layers(&self) -> u32 {
        self.info.common.layers
    }

    pub(crate) fn is_colour(&self) -> bool {
        COLOURS.contains(&self.info.format)
    }
}

/// A swapchain image to which a layer refers.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) swapchain_images: Arc<SwapchainImages>,
    /// The index of the image, and the array layer in this image.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

impl Image {
    pub(super) fn texture(&self) -> glow::Texture {
        self.swapchain_images.textures[self.index as usize]
    }

    pub(super) fn is_multisampled(&self) -> bool {
        self.swapchain_images.info.common.samples > 1
    }

    /// Whether the image has the streamed format.
    pub(super) fn is_plain(&self) -> bool {
        self.swapchain_images.info.format == glow::SRGB8_ALPHA8
    }
}
