//! A frame, as its layers say: what each eye sees, and where the eyes' pictures lie in the one that is streamed.

use openuvr_proto::units::Size;

use super::composition::{Eye, Surface};

/// What one eye sees, in images of whoever draws.
pub(crate) struct Seen<I> {
    pub(crate) eye: Eye,
    /// From behind to the front.
    pub(crate) surfaces: Vec<Surface<I>>,
}

/// A frame: one or two eyes, side by side.
pub(crate) struct Scene<I> {
    /// Of one eye's picture.
    pub(crate) size: Size,
    pub(crate) eyes: Vec<Seen<I>>,
}

impl<I> Scene<I> {
    /// Where an eye's picture begins.
    pub(crate) fn left_of(&self, eye: usize) -> u32 {
        u32::try_from(eye).unwrap_or_default() * self.size.width
    }

    /// Of all eyes.
    pub(crate) fn whole(&self) -> Size {
        Size::new(self.left_of(self.eyes.len()), self.size.height)
    }

    /// The same in other images; `None` if one of them has none.
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
