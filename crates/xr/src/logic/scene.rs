//! The layers of a frame for each eye, and the position of each eye in the streamed picture.

use openuvr_proto::units::Size;

use super::composition::{Eye, Surface};

/// The layers of one eye, with images in the caller's representation.
pub(crate) struct EyeScene<I> {
    pub(crate) eye: Eye,
    /// The layers, from back to front.
    pub(crate) surfaces: Vec<Surface<I>>,
}

/// A frame: one or two eyes, side by side.
pub(crate) struct Scene<I> {
    /// Resolution of one eye.
    pub(crate) size: Size,
    pub(crate) eyes: Vec<EyeScene<I>>,
}

impl<I> Scene<I> {
    /// The left edge of an eye's picture.
    pub(crate) fn left_of(&self, eye: usize) -> u32 {
        u32::try_from(eye).unwrap_or_default() * self.size.width
    }

    /// Size of the whole picture.
    pub(crate) fn total_size(&self) -> Size {
        Size::new(self.left_of(self.eyes.len()), self.size.height)
    }

    /// Converts the images; `None` if one cannot be converted.
    pub(crate) fn map<J>(self, other: impl Fn(I) -> Option<J>) -> Option<Scene<J>> {
        let surface = |surface: Surface<I>| {
            Some(Surface {
                image: other(surface.image)?,
                rect: surface.rect,
                blend: surface.blend,
                shape: surface.shape,
            })
        };
        let eye_scene = |scene: EyeScene<I>| {
            let surfaces: Option<Vec<_>> = scene.surfaces.into_iter().map(&surface).collect();
            Some(EyeScene {
                eye: scene.eye,
                surfaces: surfaces?,
            })
        };
        let eyes: Option<Vec<_>> = self.eyes.into_iter().map(eye_scene).collect();
        Some(Scene {
            size: self.size,
            eyes: eyes?,
        })
    }
}
