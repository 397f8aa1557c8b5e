//! What an application may wish for as a swapchain of OpenGL, and the textures that it gets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use openuvr_proto::units::Size;
use openxr_sys as xr;

use crate::border::Outcome;
use crate::logic::wish;

/// Formats that applications may draw in, the best first: colours in sRGB are copied as they are; of all others
/// the colours are linear.
pub(super) const COLOURS: [u32; 5] = [
    glow::SRGB8_ALPHA8,
    glow::RGBA16F,
    glow::RGB10_A2,
    glow::RGBA8,
    // Panda3D's; most drivers give it an alpha that nobody sees.
    glow::SRGB8,
];

/// Formats of depth. They can be drawn into, and no layer shows them.
pub(super) const DEPTHS: [u32; 4] = [
    glow::DEPTH_COMPONENT32F,
    glow::DEPTH_COMPONENT16,
    glow::DEPTH24_STENCIL8,
    glow::DEPTH32F_STENCIL8,
];

/// What an application wishes for, in the words of OpenGL.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) all: wish::Wish,
    pub(super) format: u32,
}

impl Wish {
    /// Reads and checks it.
    ///
    /// # Errors
    /// What the specification has for what is wrong with it.
    pub(crate) fn read(info: &xr::SwapchainCreateInfo) -> Outcome<Wish> {
        let format = u32::try_from(info.format).ok();
        let format = format.filter(|f| COLOURS.contains(f) || DEPTHS.contains(f));
        let format = format.ok_or(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED)?;
        Ok(Wish {
            all: wish::Wish::read(info)?,
            format,
        })
    }

    /// What such a texture is bound as.
    pub(super) fn target(&self) -> u32 {
        match (self.all.samples, self.all.layers) {
            (1, 1) => glow::TEXTURE_2D,
            (1, _) => glow::TEXTURE_2D_ARRAY,
            (_, 1) => glow::TEXTURE_2D_MULTISAMPLE,
            _ => glow::TEXTURE_2D_MULTISAMPLE_ARRAY,
        }
    }
}

/// The textures of a swapchain.
pub(crate) struct Pictures {
    pub(super) wish: Wish,
    pub(super) textures: Vec<glow::Texture>,
    /// What the samples of an image's layer are joined into, made when it is first seen.
    pub(super) joined: Mutex<Vec<((u32, u32), glow::Texture)>>,
    gone: AtomicBool,
}

impl Pictures {
    pub(super) fn new(wish: Wish, textures: Vec<glow::Texture>) -> Pictures {
        Pictures {
            wish,
            textures,
            joined: Mutex::default(),
            gone: AtomicBool::new(false),
        }
    }

    /// They are used no more.
    pub(super) fn goes(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether they are used no more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// As OpenXR hands them out.
    pub(crate) fn names(&self) -> Vec<u32> {
        self.textures
            .iter()
            .map(|texture| texture.0.get())
            .collect()
    }

    pub(crate) fn size(&self) -> Size {
        self.wish.all.size
    }

    pub(crate) fn layers(&self) -> u32 {
        self.wish.all.layers
    }

    pub(crate) fn is_colour(&self) -> bool {
        COLOURS.contains(&self.wish.format)
    }
}

/// An image that a layer shows.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) pictures: Arc<Pictures>,
    /// Which of them, and which layer of it.
    pub(crate) index: u32,
    pub(crate) layer: u32,
}

impl Image {
    pub(super) fn texture(&self) -> glow::Texture {
        self.pictures.textures[self.index as usize]
    }

    pub(super) fn is_multisampled(&self) -> bool {
        self.pictures.wish.all.samples > 1
    }

    /// Whether its bytes are those that are streamed.
    pub(super) fn is_plain(&self) -> bool {
        self.pictures.wish.format == glow::SRGB8_ALPHA8
    }
}
