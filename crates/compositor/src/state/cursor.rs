//! The pointer's image and position, as they are sent to the player.

use std::sync::Arc;

use openuvr_media::cursor::CursorShape;
use smithay::input::pointer::{CursorIcon, CursorImageStatus, CursorImageSurfaceData};
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::IsAlive as _;
use smithay::wayland::compositor::with_states;
use smithay::wayland::pointer_constraints::{PointerConstraint, with_pointer_constraint};

use crate::content::{self, Source};
use crate::icons::Icons;
use crate::paint::{Pixels as _, sys::with_pixels};
use crate::state::State;

/// The maximum side of an image, as in [`CursorShape`].
const MAX_SIDE: u32 = 256;

/// The cursor that the application under the pointer has set.
pub(crate) struct CursorState {
    image: CursorImageStatus,
    icons: Icons,
    /// Whether the image has changed since it was sent.
    changed: bool,
}

impl Default for CursorState {
    fn default() -> CursorState {
        CursorState {
            image: CursorImageStatus::Named(CursorIcon::Default),
            icons: Icons::default(),
            changed: true,
        }
    }
}

impl CursorState {
    pub(crate) fn set(&mut self, image: CursorImageStatus) {
        self.image = image;
        self.changed = true;
    }

    fn is_hidden(&self) -> bool {
        match &self.image {
            CursorImageStatus::Hidden => true,
            CursorImageStatus::Named(_) => false,
            CursorImageStatus::Surface(surface) => {
                surface.alive()
                    && with_states(surface, |states| !content::of(states).borrow().is_shown())
            }
        }
    }
}

impl State {
    /// Sends the cursor's image and position, if the image has changed.
    pub(crate) fn send_cursor(&mut self) {
        if !std::mem::take(&mut self.cursor.changed) {
            return;
        }
        let shape = match &self.cursor.image {
            CursorImageStatus::Hidden => None,
            CursorImageStatus::Named(icon) => Some(self.cursor.icons.shape(*icon, self.scale)),
            CursorImageStatus::Surface(surface) if surface.alive() => shape_of(surface),
            CursorImageStatus::Surface(_) => {
                Some(self.cursor.icons.shape(CursorIcon::Default, self.scale))
            }
        };
        if let Some(shape) = shape {
            self.ends.cursor.change(|now| now.shape = shape);
        }
        self.cursor_moved();
    }

    /// Handles the commit of a surface, which may be the cursor's surface.
    pub(crate) fn cursor_committed(&mut self, surface: &WlSurface) {
        if matches!(&self.cursor.image, CursorImageStatus::Surface(cursor) if cursor == surface) {
            self.cursor.changed = true;
        }
    }

    /// Sends the pointer's position.
    pub(crate) fn cursor_moved(&mut self) {
        let at = self.pointer.current_location();
        let size = self.pictures.size();
        let part = |at: f64, length: u32| {
            let part = at * self.scale / f64::from(length.max(1));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the value is clamped to a u16"
            )]
            let part = (part.clamp(0.0, 1.0) * 65_535.0).round() as u16;
            part
        };
        let at = (part(at.x, size.width), part(at.y, size.height));
        let hidden = self.cursor.is_hidden();
        self.ends.cursor.change(|now| {
            now.at = (!hidden && !now.locked).then_some(at);
        });
    }

    /// Whether the surface under the pointer has locked the pointer.
    pub(crate) fn pointer_is_locked(&self) -> bool {
        self.pointer.current_focus().is_some_and(|surface| {
            with_pointer_constraint(&surface, &self.pointer, |constraint| {
                constraint.is_some_and(|constraint| {
                    constraint.is_active() && matches!(&*constraint, PointerConstraint::Locked(_))
                })
            })
        })
    }

    /// Informs the player's client whether the pointer is locked. While it is locked, the player's mouse can move
    /// without limit.
    pub(crate) fn pointer_lock_changed(&mut self) {
        let locked = self.pointer_is_locked();
        self.ends.cursor.change(|now| now.locked = locked);
        self.cursor_moved();
    }
}

/// The image of a surface; `None` if it has none.
fn shape_of(surface: &WlSurface) -> Option<Arc<CursorShape>> {
    with_states(surface, |states| {
        let content = content::of(states).borrow();
        let hot = states
            .data_map
            .get::<CursorImageSurfaceData>()
            .and_then(|data| data.lock().ok().map(|data| data.hotspot))
            .unwrap_or_default();
        let Source::Client(buffer) = &content.source else {
            return None;
        };
        with_pixels(buffer, |pixels| {
            let (width, height) = pixels.size();
            let (width, height) = (width.min(MAX_SIDE), height.min(MAX_SIDE));
            let scale = f64::from(pixels.size().0) / f64::from(content.logical.w.max(1));
            let side = |side: u32| u16::try_from(side).unwrap_or(0);
            let spot = |at: i32, length: u32| {
                let at = (f64::from(at) * scale).clamp(0.0, f64::from(length.max(1) - 1));
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "within the image, whose sides are at most 256"
                )]
                let at = at as u16;
                at
            };
            let argb = (0..height)
                .flat_map(|y| (0..width).map(move |x| (x, y)))
                .map(|(x, y)| pixels.pixel(x, y))
                .collect();
            Arc::new(CursorShape {
                width: side(width),
                height: side(height),
                hot_x: spot(hot.x, width),
                hot_y: spot(hot.y, height),
                argb,
            })
        })
        .ok()
        .flatten()
    })
}
