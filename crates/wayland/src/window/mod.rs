//! The client's window on a Wayland compositor: its surfaces, and the state that presenter and input source share.
//!
//! The window is a black surface. The picture, the text and the host's pointer are subsurfaces over it. Each subsurface
//! has its own buffer with its own size, and the compositor scales, places and composes the buffers. The subsurfaces
//! therefore change independently. The subsurfaces take no input: all events belong to the window.
//!
//! The media thread and the input thread send requests over one connection. A surface's state is changed and committed
//! under the scene's lock, which is held for a few requests at a time, never for a round trip. The input source reads
//! the events. Events of buffers and of presentation times go to queues that the presenter reads ([`reports`]).
//!
//! Spec: Wayland 1.21 (`wl_subsurface`), `xdg-shell`, `viewporter`, `fractional-scale-v1`.

pub(crate) mod image;
pub(crate) mod reports;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::units::Size;
use rustix::event::PollFlags;
use wayland_client::Connection;
use wayland_client::protocol::wl_buffer::WlBuffer;
use wayland_client::protocol::wl_pointer::WlPointer;
use wayland_client::protocol::wl_shm::WlShm;
use wayland_client::protocol::wl_subsurface::WlSubsurface;
use wayland_client::protocol::wl_surface::WlSurface;
use wayland_cursor::CursorTheme;
use wayland_protocols::wp::cursor_shape::v1::client::wp_cursor_shape_device_v1::{
    Shape, WpCursorShapeDeviceV1,
};
use wayland_protocols::wp::presentation_time::client::wp_presentation::WpPresentation;
use wayland_protocols::wp::viewporter::client::wp_viewport::WpViewport;
use wayland_protocols::xdg::shell::client::xdg_surface::XdgSurface;
use wayland_protocols::xdg::shell::client::xdg_toplevel::XdgToplevel;

use self::image::Image;
use self::reports::Reports;
use crate::display;
use openuvr_media::cursor::{Cursor, CursorShape};
use openuvr_media::waker::Waker;
use openuvr_media::window::WindowError;
use openuvr_media::window::panel::Panel;
use openuvr_media::window::placement::{Overlay, Placement, Rect, within};

/// A scale of 1 in the unit of `fractional-scale-v1`.
pub(crate) const SCALE_ONE: u32 = 120;

/// A surface over the window.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) surface: WlSurface,
    pub(crate) subsurface: WlSubsurface,
    pub(crate) viewport: WpViewport,
}

/// The objects of the window.
#[derive(Debug)]
pub(crate) struct Surfaces {
    pub(crate) shm: WlShm,
    pub(crate) window: WlSurface,
    pub(crate) window_viewport: WpViewport,
    pub(crate) xdg_surface: XdgSurface,
    pub(crate) toplevel: XdgToplevel,
    pub(crate) picture: Layer,
    pub(crate) panel: Layer,
    pub(crate) pointer: Layer,
    /// The image of the local pointer over the window.
    pub(crate) cursor: WlSurface,
    pub(crate) cursor_viewport: WpViewport,
    pub(crate) presentation: Option<WpPresentation>,
}

/// The window, which both threads share.
#[derive(Debug)]
pub(crate) struct SharedSurface {
    pub(crate) conn: Connection,
    /// The display's name, for messages.
    pub(crate) display: String,
    pub(crate) surfaces: Surfaces,
    /// Reports of the compositor to the presenter.
    pub(crate) reports: Arc<Reports>,
    /// Wakes the input source, which then compares the scene with its own state.
    pub(crate) waker: Waker,
    scene: Mutex<Scene>,
}

/// The mutable state.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Whether the user is an observer. For an observer, the host's pointer is always drawn over the picture.
    pub(crate) observer: bool,
    /// The window's size in the compositor's logical pixels.
    pub(crate) logical: Size,
    /// Pixels per logical pixel, in 120ths.
    pub(crate) scale: u32,
    /// The size in pixels that the window gets whenever the compositor lets the program choose the size.
    pub(crate) wanted: Size,
    /// The window's maximum size in logical pixels, if it is known.
    pub(crate) room: Option<Size>,
    /// Whether the window's size follows the size of the picture.
    pub(crate) following: bool,
    /// Whether the compositor lets the program choose the size, because the window is not maximised, tiled or full
    /// screen.
    pub(crate) free: bool,
    pub(crate) picture: Option<Size>,
    /// The host's pointer.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) panel: Option<Panel>,
    /// Whether the local pointer is over the window.
    pub(crate) pointer_inside: bool,
    /// Whether the pointer is locked for relative motion.
    pub(crate) grabbed: bool,
    /// Whether the host's application requests relative motion. `relative_changed` is whether `relative` or `observer`
    /// has changed since the input source last checked.
    pub(crate) relative: bool,
    pub(crate) relative_changed: bool,
    /// The local pointer, and the serial of its entry; `None` while it is not over the window.
    pub(crate) pointer: Option<LocalPointer>,
    images: Images,
}

#[derive(Clone, Debug)]
pub(crate) struct LocalPointer {
    pub(crate) pointer: WlPointer,
    pub(crate) shapes: Option<WpCursorShapeDeviceV1>,
    /// Serial of `wl_pointer.enter`.
    pub(crate) serial: u32,
}

/// The images that the window shows over the picture, and the cursor.
#[derive(Default)]
struct Images {
    panel: Option<Image>,
    shape: Option<(Arc<CursorShape>, Image)>,
    /// The position of the host's pointer, if it is drawn over the picture.
    overlay: Option<Overlay>,
    /// The cursor theme with an observer's arrow, if the compositor does not support cursor shapes by name.
    theme: Option<CursorTheme>,
}

impl std::fmt::Debug for Images {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Images").finish_non_exhaustive()
    }
}

impl Scene {
    /// A window of `wanted` pixels without a picture.
    pub(crate) fn new(wanted: Size, following: bool, observer: bool) -> Scene {
        Scene {
            observer,
            logical: wanted,
            scale: SCALE_ONE,
            wanted,
            room: None,
            following,
            free: true,
            picture: None,
            cursor: None,
            panel: None,
            pointer_inside: false,
            grabbed: false,
            relative: false,
            relative_changed: false,
            pointer: None,
            images: Images::default(),
        }
    }

    /// The window's size in pixels.
    pub(crate) fn window(&self) -> Size {
        let side = |logical: u32| (logical.saturating_mul(self.scale) + SCALE_ONE / 2) / SCALE_ONE;
        Size::new(side(self.logical.width), side(self.logical.height))
    }

    /// The picture's placement in pixels; `None` before the first picture.
    pub(crate) fn placement(&self) -> Option<Placement> {
        Some(Placement::fit(self.window(), self.picture?))
    }

    /// The logical size of a window of `wanted` pixels. It is limited to the available space while the window follows
    /// the picture.
    pub(crate) fn own_size(&self) -> Size {
        let side = |pixels: u32| (pixels * SCALE_ONE).div_ceil(self.scale).max(1);
        let size = Size::new(side(self.wanted.width), side(self.wanted.height));
        match self.room {
            Some(room) if self.following => within(size, room),
            _ => size,
        }
    }

    /// The position at which the host's pointer is drawn over the picture; `None` if the window's cursor shows the
    /// pointer, if the pointer is hidden, or before the first picture.
    fn overlay(&self) -> Option<Overlay> {
        if !(self.observer || self.grabbed || !self.pointer_inside) {
            return None;
        }
        self.placement()?.overlay(self.cursor.as_ref()?)
    }

    /// Converts a rectangle from pixels to logical pixels. The result is at least one logical pixel wide and high.
    fn to_logical(&self, pixels: Rect) -> Rect {
        let scale = i64::from(self.scale);
        let at = |pixel: i32| {
            let scaled = (i64::from(pixel) * i64::from(SCALE_ONE) + scale / 2).div_euclid(scale);
            i32::try_from(scaled).unwrap_or(0)
        };
        let (x, y) = (at(pixels.x), at(pixels.y));
        Rect {
            x,
            y,
            width: (at(pixels.x + pixels.width) - x).max(1),
            height: (at(pixels.y + pixels.height) - y).max(1),
        }
    }
}

impl Layer {
    /// Places the layer on the window. The position is applied with the window's next commit.
    fn place(&self, area: Rect) {
        self.viewport.set_destination(area.width, area.height);
        self.subsurface.set_position(area.x, area.y);
    }

    /// Removes the layer's image. The next commit of the `window` below it redraws the window.
    fn hide(&self, window: &WlSurface) {
        self.surface.attach(None, 0, 0);
        self.surface.commit();
        // Under load, sway 1.7 leaves every second removed image on the screen until the pixels below change.
        window.damage_buffer(0, 0, i32::MAX, i32::MAX);
    }
}

impl SharedSurface {
    pub(crate) fn new(
        conn: Connection,
        display: String,
        surfaces: Surfaces,
        waker: Waker,
        scene: Scene,
    ) -> SharedSurface {
        SharedSurface {
            conn,
            display,
            surfaces,
            reports: Arc::default(),
            waker,
            scene: Mutex::new(scene),
        }
    }

    pub(crate) fn scene(&self) -> MutexGuard<'_, Scene> {
        // Every change of the scene is a plain assignment, so a panic leaves it valid.
        self.scene.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error for a broken connection, in one line.
    pub(crate) fn gone(&self, cause: &dyn std::fmt::Display) -> WindowError {
        gone(&self.display, cause)
    }

    /// Sends the pending requests. If the compositor is stalled, the input source sends the requests that do not fit
    /// into the socket.
    ///
    /// # Errors
    /// [`WindowError`] if the compositor is gone.
    pub(crate) fn flush(&self) -> Result<(), WindowError> {
        if self.send()?.contains(PollFlags::OUT) {
            self.waker.wake();
        }
        Ok(())
    }

    /// Sends the pending requests, and returns the events of the socket to wait for.
    ///
    /// # Errors
    /// [`WindowError`] if the compositor is gone.
    pub(crate) fn send(&self) -> Result<PollFlags, WindowError> {
        display::flush(&self.conn).map_err(|cause| self.gone(&cause))
    }

    /// Arranges all surfaces for the window's current size and scale, and commits them.
    pub(crate) fn arrange(&self, scene: &mut Scene) {
        let Size { width, height } = scene.logical;
        let side = |pixels: u32| i32::try_from(pixels.max(1)).unwrap_or(i32::MAX);
        let surfaces = &self.surfaces;
        let (width, height) = (side(width), side(height));
        surfaces
            .xdg_surface
            .set_window_geometry(0, 0, width, height);
        surfaces.window_viewport.set_destination(width, height);
        self.place_picture(scene);
        surfaces.picture.surface.commit();
        self.draw_panel(scene);
        self.draw_pointer(scene);
        surfaces.window.commit();
    }

    /// Places the picture. Commits of the picture and the window must follow.
    pub(crate) fn place_picture(&self, scene: &Scene) {
        let Some(placement) = scene.placement() else {
            return;
        };
        let area = scene.to_logical(placement.area);
        self.surfaces.picture.place(area);
    }

    /// Shows or removes the text.
    pub(crate) fn draw_panel(&self, scene: &mut Scene) {
        let layer = &self.surfaces.panel;
        let wanted = scene.panel.as_ref().zip(scene.placement());
        let drawn = wanted.and_then(|(panel, placement)| {
            Some((panel, placement.panel((panel.width, panel.height))?))
        });
        let image = drawn.and_then(|(panel, area)| {
            let size = (panel.width, panel.height);
            let image = Image::new(&self.surfaces.shm, size, &panel.argb)?;
            image.attach(&layer.surface);
            layer
                .viewport
                .set_source(0.0, 0.0, f64::from(area.width), f64::from(area.height));
            layer.place(scene.to_logical(area));
            layer.surface.commit();
            Some(image)
        });
        if image.is_none() && scene.images.panel.is_some() {
            layer.hide(&self.surfaces.window);
        }
        scene.images.panel = image;
    }

    /// Draws the host's pointer over the picture, or removes it from there.
    pub(crate) fn draw_pointer(&self, scene: &mut Scene) {
        let layer = &self.surfaces.pointer;
        let overlay = scene.overlay();
        let before = std::mem::replace(&mut scene.images.overlay, overlay);
        let Some(overlay) = overlay else {
            if before.is_some() {
                layer.hide(&self.surfaces.window);
            }
            return;
        };
        let shape = scene
            .cursor
            .as_ref()
            .map(|cursor| Arc::clone(&cursor.shape));
        let area = scene.to_logical(overlay.area);
        let Some(image) = shape.and_then(|shape| self.shape_image(scene, &shape)) else {
            return;
        };
        image.attach(&layer.surface);
        layer.viewport.set_source(
            f64::from(overlay.from.0),
            f64::from(overlay.from.1),
            f64::from(overlay.area.width),
            f64::from(overlay.area.height),
        );
        layer.place(area);
        layer.surface.commit();
    }

    /// Gives the local pointer the shape of the host's pointer, because the compositor moves the local pointer without
    /// latency. An observer keeps the desktop's pointer.
    pub(crate) fn define_cursor(&self, scene: &mut Scene) {
        let Some(local) = scene.pointer.clone() else {
            return;
        };
        if scene.observer {
            self.define_arrow(scene, &local);
            return;
        }
        let visible = scene.cursor.as_ref().filter(|cursor| {
            cursor.at.is_some() && cursor.shape.width > 0 && cursor.shape.height > 0
        });
        let Some(shape) = visible.map(|cursor| Arc::clone(&cursor.shape)) else {
            local.pointer.set_cursor(local.serial, None, 0, 0);
            return;
        };
        let (width, height) = (i32::from(shape.width), i32::from(shape.height));
        let area = scene.to_logical(Rect {
            x: i32::from(shape.hot_x).min(width - 1),
            y: i32::from(shape.hot_y).min(height - 1),
            width,
            height,
        });
        let size = scene.to_logical(Rect {
            width,
            height,
            ..Rect::default()
        });
        let Some(image) = self.shape_image(scene, &shape) else {
            return;
        };
        let (surface, viewport) = (&self.surfaces.cursor, &self.surfaces.cursor_viewport);
        image.attach(surface);
        viewport.set_destination(size.width, size.height);
        surface.commit();
        (local.pointer).set_cursor(local.serial, Some(surface), area.x, area.y);
    }

    /// The desktop's arrow.
    fn define_arrow(&self, scene: &mut Scene, local: &LocalPointer) {
        if let Some(shapes) = &local.shapes {
            shapes.set_shape(local.serial, Shape::Default);
            return;
        }
        if scene.images.theme.is_none() {
            // 24 pixels is the size of the smallest images in X cursor themes.
            let theme = CursorTheme::load(&self.conn, self.surfaces.shm.clone(), 24);
            scene.images.theme = theme.ok();
        }
        let theme = scene.images.theme.as_mut();
        let Some(cursor) = theme.and_then(|theme| theme.get_cursor("default")) else {
            return;
        };
        let arrow = &cursor[0];
        let (width, height) = arrow.dimensions();
        let (x, y) = arrow.hotspot();
        let pixels = |n: u32| i32::try_from(n).unwrap_or(0);
        let (surface, viewport) = (&self.surfaces.cursor, &self.surfaces.cursor_viewport);
        let buffer: &WlBuffer = arrow;
        surface.attach(Some(buffer), 0, 0);
        surface.damage_buffer(0, 0, pixels(width), pixels(height));
        viewport.set_destination(pixels(width), pixels(height));
        surface.commit();
        (local.pointer).set_cursor(local.serial, Some(surface), pixels(x), pixels(y));
    }

    /// The image of the host's pointer, which is created once per shape.
    fn shape_image<'a>(&self, scene: &'a mut Scene, shape: &Arc<CursorShape>) -> Option<&'a Image> {
        let known = scene.images.shape.as_ref();
        if !known.is_some_and(|(known, _)| Arc::ptr_eq(known, shape)) {
            let size = (shape.width, shape.height);
            let image = Image::new(&self.surfaces.shm, size, &shape.argb)?;
            scene.images.shape = Some((Arc::clone(shape), image));
        }
        scene.images.shape.as_ref().map(|(_, image)| image)
    }
}

/// The error for a broken connection, in one line.
pub(crate) fn gone(display: &str, cause: &dyn std::fmt::Display) -> WindowError {
    let cause = cause.to_string().replace('\n', " ");
    WindowError(format!(
        "lost the connection to the compositor of the Wayland display {display}: {cause}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_survive_fractional_scales() {
        let mut scene = Scene::new(Size::new(1280, 720), true, false);
        for scale in [120, 150, 180, 210, 240, 300] {
            scene.scale = scale;
            scene.logical = scene.own_size();
            let window = scene.window();
            let close = |one: u32, other: u32| one >= other && one - other <= scale / SCALE_ONE + 1;
            assert!(
                close(window.width, 1280) && close(window.height, 720),
                "{scale}: {window}"
            );
        }
        scene.scale = SCALE_ONE;
        scene.room = Some(Size::new(640, 640));
        assert_eq!(scene.own_size(), Size::new(640, 360));
    }

    #[test]
    fn neighbours_in_pixels_are_neighbours_in_logical_pixels() {
        let mut scene = Scene::new(Size::new(100, 100), false, false);
        scene.scale = 180;
        let rect = |x, width| {
            scene.to_logical(Rect {
                x,
                y: 0,
                width,
                height: 90,
            })
        };
        let (left, right) = (rect(0, 31), rect(31, 59));
        assert_eq!(left.x + left.width, right.x);
        assert_eq!(right.x + right.width, 60);
        assert_eq!(rect(-4, 3).x, -3);
    }
}
