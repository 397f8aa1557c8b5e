//! A frame's layers in each eye, and the position of the eyes in the streamed picture.

use openuvr_proto::units::Size;

use super::composition::{Eye, Surface};

/// The layers of one eye, with images in the caller's representation.
pub(crate) struct Seen<I> {
    pub(crate) eye: Eye,
    /// From back to front.
    pub(crate) surfaces: Vec<Surface<I>>,
}

/// A frame: one or two eyes, side by side.
pub(crate) struct Scene<I> {
    /// Resolution of one eye.
    pub(crate) size: Size,
    pub(crate) eyes: Vec<Seen<I>>,
}

impl<I> Scene<I> {
    /// The left edge of an eye's picture.
    pub(crate) fn left_of(&self, eye: usize) -> u32 {
        u32::try_from(eye).unwrap_or_default() * self.size.width
    }

    /// Size of the whole picture.
    pub(crate) fn whole(&self) -> Size {
        Size::new(self.left_of(self.eyes.len()), self.size.height)
    }

    /// Converts the images; `None` if one cannot be converted.
    pub(crate) fn map<J>(self, other: impl Fn(I) -> Option<J>) -> Option<Scene<J>> {
        let surface = |surface: Surface<I>| {
            Some(Surface {
                image: other(surface.image)?,
                part: surface.part,
                blend: surface.blend,
                shape: surface.shape,
            })
        };
        let seen = |seen: Seen<I>| {
            let surfaces: Option<Vec<_>> = seen.surfaces.into_iter().map(&surface).collect();
            Some(Seen {
                eye: seen.eye,
                surfaces: surfaces?,
            })
        };
        let eyes: Option<Vec<_>> = self.eyes.into_iter().map(seen).collect();
        Some(Scene {
            size: self.size,
            eyes: eyes?,
        })
    }
}
