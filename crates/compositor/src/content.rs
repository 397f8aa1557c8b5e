//! The content of a surface: the applied state of its commits, and the parts that have changed since the surface was
//! drawn.

use std::cell::RefCell;

use smithay::reexports::wayland_server::protocol::wl_buffer::WlBuffer;
use smithay::reexports::wayland_server::protocol::wl_output;
use smithay::reexports::wayland_server::protocol::wl_shm::Format;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Buffer, Logical, Point, Rectangle, Size};
use smithay::wayland::compositor::{
    BufferAssignment, Damage, RectangleKind, RegionAttributes, SubsurfaceCachedState,
    SurfaceAttributes, SurfaceData, get_children, with_states,
};
use smithay::wayland::shm::with_buffer_contents;
use smithay::wayland::single_pixel_buffer::get_single_pixel_buffer;
use smithay::wayland::viewporter::{ViewportCachedState, ensure_viewport_valid};

use crate::paint::Orientation;

/// The maximum number of damage rectangles of a surface that are kept separately. If there are more, they are merged
/// into one.
const MAX_RECTANGLES: usize = 16;

/// The location of the pixels.
#[derive(Debug, Default)]
pub(crate) enum Source {
    /// There are no pixels, because the surface is not shown.
    #[default]
    Empty,
    /// In a buffer of the client. The buffer is released when the next one replaces it.
    Client(WlBuffer),
    /// Only in the newest picture: the buffer was released when its pixels were copied there.
    Picture,
    /// In memory of this process: BGRX rows without padding.
    Kept(Vec<u8>),
    /// There are no stored pixels, because each pixel has this value.
    Uniform(u32),
}

/// A rectangle of a buffer in pixels: left, upper, right and lower edge.
pub(crate) type Edges = (f64, f64, f64, f64);

/// The applied state of a surface.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) source: Source,
    /// The buffer's size in pixels.
    pub(crate) size: (u32, u32),
    /// Whether all pixels are opaque.
    pub(crate) opaque: bool,
    pub(crate) orientation: Orientation,
    /// The shown part of the contents as x, y, width and height, in pixels of the upright buffer.
    pub(crate) crop: (f64, f64, f64, f64),
    /// The surface's size.
    pub(crate) logical: Size<i32, Logical>,
    /// The position of a subsurface relative to its parent.
    pub(crate) offset: Point<i32, Logical>,
    /// The new position, from the parent's commit until the position takes effect.
    next_offset: Option<Point<i32, Logical>>,
    /// The changes since the surface was drawn.
    pub(crate) damage: Vec<Edges>,
    alpha: bool,
}

/// The content in a surface's storage.
pub(crate) fn of(states: &SurfaceData) -> &RefCell<Content> {
    states.data_map.get_or_insert(RefCell::<Content>::default)
}

/// Takes over the new positions of a surface's subsurfaces when the surface is committed. smithay 0.7 would apply a
/// position when the subsurface itself is committed.
///
/// Spec: `wl_subsurface.set_position`.
pub(crate) fn place_children(surface: &WlSurface) {
    for child in get_children(surface) {
        with_states(&child, |states| {
            let mut state = states.cached_state.get::<SubsurfaceCachedState>();
            of(states).borrow_mut().next_offset = Some(state.pending().location);
        });
    }
}

impl Content {
    /// Applies a commit's state.
    pub(crate) fn update(&mut self, states: &SurfaceData) {
        self.offset = self.next_offset.take().unwrap_or(self.offset);
        let mut attributes = states.cached_state.get::<SurfaceAttributes>();
        let attributes = attributes.current();
        let damage = std::mem::take(&mut attributes.damage);
        match attributes.buffer.take() {
            Some(BufferAssignment::NewBuffer(buffer)) => self.attach(buffer),
            Some(BufferAssignment::Removed) => {
                self.replace(Source::Empty);
                self.size = (0, 0);
            }
            None => {}
        }
        if matches!(self.source, Source::Empty) {
            self.damage.clear();
            self.logical = Size::default();
            return;
        }
        let (turns, flipped) = turns_of(attributes.buffer_transform);
        self.orientation = Orientation { turns, flipped };
        let scale = attributes.buffer_scale.max(1);
        let (width, height) = match turns % 2 {
            0 => self.size,
            _ => (self.size.1, self.size.0),
        };
        let side = |pixels: u32| i32::try_from(pixels).unwrap_or(i32::MAX) / scale;
        let upright = Size::<i32, Logical>::from((side(width), side(height)));
        let valid = ensure_viewport_valid(states, upright);
        let mut viewport = states.cached_state.get::<ViewportCachedState>();
        let viewport = viewport.current();
        self.logical = viewport.size().filter(|_| valid).unwrap_or(upright);
        let factor = f64::from(scale);
        self.crop = match viewport.src.filter(|_| valid) {
            Some(src) => (
                src.loc.x * factor,
                src.loc.y * factor,
                src.size.w * factor,
                src.size.h * factor,
            ),
            None => (0.0, 0.0, width.into(), height.into()),
        };
        let region = attributes.opaque_region.as_ref();
        self.opaque = !self.alpha || region.is_some_and(|region| covers(region, self.logical));
        for damage in damage {
            self.add(damage);
        }
    }

    fn attach(&mut self, buffer: WlBuffer) {
        if let Ok(pixel) = get_single_pixel_buffer(&buffer) {
            let [red, green, blue, alpha] = pixel.rgba8888();
            self.size = (1, 1);
            self.alpha = pixel.has_alpha();
            self.replace(Source::Uniform(u32::from_le_bytes([
                blue, green, red, alpha,
            ])));
            buffer.release();
            return;
        }
        let about = with_buffer_contents(&buffer, |_, _, about| about);
        let about = about.ok().filter(|about| {
            matches!(
                about.format,
                Format::Argb8888 | Format::Xrgb8888 | Format::Abgr8888 | Format::Xbgr8888
            )
        });
        let Some(about) = about else {
            // Clients may use only the advertised formats. A client that violates this must not end the compositor.
            self.replace(Source::Empty);
            buffer.release();
            return;
        };
        let side = |length: i32| u32::try_from(length).unwrap_or(0);
        let size = (side(about.width), side(about.height));
        if size != self.size {
            self.damage.clear();
            self.damage.push((0.0, 0.0, size.0.into(), size.1.into()));
        }
        self.size = size;
        self.alpha = matches!(about.format, Format::Argb8888 | Format::Abgr8888);
        self.replace(Source::Client(buffer));
    }

    /// Replaces the source, and releases a buffer that is no longer needed.
    pub(crate) fn replace(&mut self, source: Source) {
        let before = std::mem::replace(&mut self.source, source);
        if let Source::Client(buffer) = before
            && !matches!(&self.source, Source::Client(now) if *now == buffer)
        {
            buffer.release();
        }
    }

    fn add(&mut self, damage: Damage) {
        let edges = |x: f64, y: f64, width: f64, height: f64, factor: (f64, f64)| {
            (
                x * factor.0,
                y * factor.1,
                (x + width) * factor.0,
                (y + height) * factor.1,
            )
        };
        let edges = match damage {
            Damage::Buffer(at) => {
                let Rectangle::<i32, Buffer> { loc, size } = at;
                let [x, y, width, height] = [loc.x, loc.y, size.w, size.h].map(f64::from);
                edges(x, y, width, height, (1.0, 1.0))
            }
            Damage::Surface(at) => {
                let Rectangle::<i32, Logical> { loc, size } = at;
                let [x, y, width, height] = [loc.x, loc.y, size.w, size.h].map(f64::from);
                let scaled = |crop: f64, logical: i32| crop / f64::from(logical.max(1));
                let factor = (
                    scaled(self.crop.2, self.logical.w),
                    scaled(self.crop.3, self.logical.h),
                );
                let (left, top, right, bottom) = edges(x, y, width, height, factor);
                let (dx, dy) = (self.crop.0, self.crop.1);
                (left + dx, top + dy, right + dx, bottom + dy)
            }
        };
        if self.damage.len() < MAX_RECTANGLES {
            self.damage.push(edges);
            return;
        }
        let joined = self.damage.drain(..).fold(edges, |all, one| {
            (
                all.0.min(one.0),
                all.1.min(one.1),
                all.2.max(one.2),
                all.3.max(one.3),
            )
        });
        self.damage.push(joined);
    }

    /// Whether there is something to show.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.source, Source::Empty) && self.logical.w > 0 && self.logical.h > 0
    }
}

/// Whether a rectangle of a region contains a surface of this size, and no part is subtracted from the region.
fn covers(region: &RegionAttributes, size: Size<i32, Logical>) -> bool {
    let whole = Rectangle::from_size(size);
    let none_removed = region
        .rects
        .iter()
        .all(|(kind, _)| matches!(kind, RectangleKind::Add));
    none_removed && region.rects.iter().any(|(_, at)| at.contains_rect(whole))
}

fn turns_of(transform: wl_output::Transform) -> (u8, bool) {
    match transform {
        wl_output::Transform::_90 => (1, false),
        wl_output::Transform::_180 => (2, false),
        wl_output::Transform::_270 => (3, false),
        wl_output::Transform::Flipped => (0, true),
        wl_output::Transform::Flipped90 => (1, true),
        wl_output::Transform::Flipped180 => (2, true),
        wl_output::Transform::Flipped270 => (3, true),
        _ => (0, false),
    }
}
