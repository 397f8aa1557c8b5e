//! Reads and validates the layers of a frame (OpenXR 1.0, section 10.6).

use std::sync::Arc;

use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::debug::with_message;
use crate::extensions::Extension;
use crate::ffi::{Outcome, array, chained, input};
use crate::graphics::Image;
use crate::handles;
use crate::logic::composition::{Blend, Eye, ImageRect, Shape, Surface, is_valid_fov};
use crate::logic::head::HeadState;
use crate::logic::pose::Pose;
use crate::session::{Player, Session, Space};
use crate::swapchain::Swapchain;

const INVALID: xr::Result = xr::Result::ERROR_VALIDATION_FAILURE;

/// The layers that have been read so far: for each eye, from back to front.
pub(super) struct Layers<'a> {
    session: &'a Arc<Session>,
    head: HeadState,
    /// The frame's display time.
    at: Instant,
    pub(super) eyes: Vec<Vec<Surface<Image>>>,
}

impl Layers<'_> {
    pub(super) fn new(
        session: &Arc<Session>,
        views: usize,
        (head, at): (HeadState, Instant),
    ) -> Layers<'_> {
        Layers {
            session,
            head,
            at,
            eyes: (0..views).map(|_| Vec::new()).collect(),
        }
    }

    /// Adds a layer in front of the others.
    ///
    /// # Errors
    /// Returns the error code that the specification defines for the invalid parameter.
    ///
    /// # Safety
    /// `layer` must be null or come from the application.
    pub(super) unsafe fn read(
        &mut self,
        layer: *const xr::CompositionLayerBaseHeader,
    ) -> Outcome<()> {
        if layer.is_null() {
            return Err(xr::Result::ERROR_LAYER_INVALID);
        }
        // SAFETY: the application passes valid pointers; every layer starts with its structure type.
        unsafe {
            match layer.cast::<xr::StructureType>().read() {
                xr::CompositionLayerProjection::TYPE => self.projection(input(layer.cast())?),
                xr::CompositionLayerQuad::TYPE => self.quad(input(layer.cast())?),
                _ => Err(xr::Result::ERROR_LAYER_INVALID),
            }
        }
    }

    /// # Safety
    /// The layer's views must come from the application.
    unsafe fn projection(&mut self, layer: &xr::CompositionLayerProjection) -> Outcome<()> {
        // SAFETY: the application passes valid pointers.
        let views = unsafe { array(layer.views, layer.view_count, 2)? };
        if views.len() != self.eyes.len() {
            return Err(with_message(
                INVALID,
                c"a projection layer must have one view for each view of the session",
            ));
        }
        let (base, blend) = (self.base(layer.space)?, blend(layer.layer_flags));
        for (index, view) in views.iter().enumerate() {
            // SAFETY: the application passes valid pointers.
            let view = unsafe { input::<xr::CompositionLayerProjectionView>(view)? };
            if !is_valid_fov(view.fov) {
                return Err(with_message(
                    INVALID,
                    c"a projection layer's field of view is invalid",
                ));
            }
            let eye = Eye {
                pose: base.of(Pose::read(&view.pose)?),
                fov: view.fov,
            };
            let (image, rect) = self.image(&view.sub_image, Aspect::Colour)?;
            if self.has_depth() {
                // SAFETY: the application passes valid pointers.
                unsafe { self.depth(view)? };
            }
            self.eyes[index].push(Surface {
                image,
                rect,
                blend,
                shape: Shape::View(eye),
            });
        }
        Ok(())
    }

    fn has_depth(&self) -> bool {
        let instance = &self.session.instance;
        instance.extensions.has(Extension::CompositionLayerDepth)
    }

    /// Validates the depth information of a view, if there is any. The composition does not use it yet.
    ///
    /// # Safety
    /// The view's `next` chain must come from the application.
    unsafe fn depth(&self, view: &xr::CompositionLayerProjectionView) -> Outcome<()> {
        // SAFETY: the application passes valid pointers.
        let info = unsafe {
            match chained::<xr::CompositionLayerDepthInfoKHR>(view.next) {
                None => return Ok(()),
                Some(info) => input(info)?,
            }
        };
        self.image(&info.sub_image, Aspect::Depth)?;
        // The near and far planes may be infinite and in either order, but not NaN.
        let range = 0.0..=1.0;
        let is_valid = range.contains(&info.min_depth)
            && range.contains(&info.max_depth)
            && info.min_depth <= info.max_depth
            && info.near_z >= 0.0
            && info.far_z >= 0.0
            && info.near_z != info.far_z;
        match is_valid {
            true => Ok(()),
            false => Err(with_message(
                INVALID,
                c"a layer's depth range, near plane or far plane is invalid",
            )),
        }
    }

    fn quad(&mut self, layer: &xr::CompositionLayerQuad) -> Outcome<()> {
        let eyes = match layer.eye_visibility {
            xr::EyeVisibility::BOTH => 0..2,
            xr::EyeVisibility::LEFT => 0..1,
            xr::EyeVisibility::RIGHT => 1..2,
            _ => {
                return Err(with_message(
                    INVALID,
                    c"a quad layer's eye visibility is invalid",
                ));
            }
        };
        let (base, blend) = (self.base(layer.space)?, blend(layer.layer_flags));
        let size = [layer.size.width, layer.size.height];
        if !size.iter().all(|side| side.is_finite()) {
            return Err(with_message(INVALID, c"a quad layer's size is not finite"));
        }
        let pose = base.of(Pose::read(&layer.pose)?);
        let (image, rect) = self.image(&layer.sub_image, Aspect::Colour)?;
        for (eye, surfaces) in self.eyes.iter_mut().enumerate() {
            if eyes.contains(&eye) {
                surfaces.push(Surface {
                    image: image.clone(),
                    rect,
                    blend,
                    shape: Shape::Quad(pose, size),
                });
            }
        }
        Ok(())
    }

    /// The pose of a layer's space, relative to the player's space.
    fn base(&self, space: xr::Space) -> Outcome<Pose> {
        let space = handles::get::<Space>(space)?;
        let base = space.space.in_local(&Player {
            session: self.session,
            head: self.head,
            at: self.at,
        });
        // A space without a pose (such as the space of an inactive controller) is treated as the origin, so that its
        // layers stay visible.
        Ok(base.map_or(Pose::IDENTITY, |base| base.pose))
    }

    fn image(&self, of: &xr::SwapchainSubImage, aspect: Aspect) -> Outcome<(Image, ImageRect)> {
        let swapchain = handles::get::<Swapchain>(of.swapchain)?;
        let swapchain_images = &swapchain.images;
        let fits = swapchain_images.is_colour() == (aspect == Aspect::Colour);
        if !Arc::ptr_eq(&swapchain.session, self.session) {
            return Err(with_message(
                INVALID,
                c"a layer's swapchain belongs to another session",
            ));
        }
        if !fits {
            return Err(with_message(
                INVALID,
                c"a layer's swapchain has a depth format instead of a colour format, or the reverse",
            ));
        }
        if of.image_array_index >= swapchain_images.layers() {
            return Err(with_message(
                INVALID,
                c"a layer's image array index is out of range",
            ));
        }
        let rect = image_rect(of.image_rect, swapchain_images.size())?;
        let index = lock(&swapchain.queue).latest_released()?;
        let image = Image {
            layer: of.image_array_index,
            index,
            swapchain_images: swapchain_images.clone(),
        };
        Ok((image, rect))
    }
}

/// The content that an image must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aspect {
    Colour,
    Depth,
}

/// Validates a rectangle in an image of size `of`.
fn image_rect(rect: xr::Rect2Di, of: Size) -> Outcome<ImageRect> {
    let number = |value: i32| u32::try_from(value).ok();
    let inside = || {
        let (x, y) = (number(rect.offset.x)?, number(rect.offset.y)?);
        let size = Size::new(number(rect.extent.width)?, number(rect.extent.height)?);
        let (right, below) = (x.checked_add(size.width)?, y.checked_add(size.height)?);
        let fits = size.width > 0 && size.height > 0 && right <= of.width && below <= of.height;
        fits.then_some(ImageRect { x, y, size })
    };
    inside().ok_or(xr::Result::ERROR_SWAPCHAIN_RECT_INVALID)
}

fn blend(flags: xr::CompositionLayerFlags) -> Blend {
    let alpha = flags.contains(xr::CompositionLayerFlags::BLEND_TEXTURE_SOURCE_ALPHA);
    Blend {
        alpha,
        unpremultiplied: alpha && flags.contains(xr::CompositionLayerFlags::UNPREMULTIPLIED_ALPHA),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rect_must_be_inside_its_image() {
        let rect = |x, y, width, height| {
            let rect = xr::Rect2Di {
                offset: xr::Offset2Di { x, y },
                extent: xr::Extent2Di { width, height },
            };
            image_rect(rect, Size::new(64, 32))
        };
        assert!(rect(0, 0, 64, 32).is_ok() && rect(63, 31, 1, 1).is_ok());
        let outside = [
            (-1, 0, 4, 4),
            (0, 0, 65, 4),
            (60, 0, 5, 4),
            (0, 0, 0, 4),
            (0, 0, 4, -4),
            (i32::MAX, 0, i32::MAX, 1),
        ];
        for (x, y, width, height) in outside {
            let result = rect(x, y, width, height);
            assert_eq!(result, Err(xr::Result::ERROR_SWAPCHAIN_RECT_INVALID));
        }
    }
}
