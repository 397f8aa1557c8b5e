//! The shown surfaces, from the lowest to the topmost: windows with their subsurfaces and popups.

use smithay::desktop::PopupManager;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::utils::{Logical, Point, Size};
use smithay::wayland::compositor::{
    SurfaceAttributes, TraversalAction, with_states, with_surface_tree_upward,
};

use crate::content;
use crate::paint::{Element, Mapping, Rectangle};
use crate::windows::{Windows, geometry};

/// A surface on the display, and the window to which it belongs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ShownSurface {
    pub(crate) surface: WlSurface,
    /// The root surface of its window.
    pub(crate) window: WlSurface,
    /// The upper left corner of the surface.
    pub(crate) at: Point<i32, Logical>,
    pub(crate) size: Size<i32, Logical>,
}

/// The elements to draw.
pub(crate) type Scene = Vec<Element<ShownSurface>>;

/// The scene of these windows on a display of size `all`, with `scale` pixels per unit.
pub(crate) fn of(windows: &Windows, all: Size<i32, Logical>, scale: f64) -> Scene {
    let mut scene = Scene::new();
    for index in windows.order() {
        let window = &windows.all[index];
        let Some(root) = window.surface() else {
            continue;
        };
        let at = windows.position(index, all);
        add_tree(&mut scene, root, root, at - window.geometry().loc, scale);
        // `popups_for_surface` returns a nested popup before its parent.
        let popups: Vec<_> = PopupManager::popups_for_surface(root).collect();
        for (popup, offset) in popups.into_iter().rev() {
            let surface = popup.wl_surface();
            let corner = at + offset - geometry(surface).loc;
            add_tree(&mut scene, root, surface, corner, scale);
        }
    }
    for window in &windows.overrides {
        if let Some(root) = &window.surface {
            add_tree(&mut scene, root, root, window.place.loc, scale);
        }
    }
    scene
}

fn add_tree(
    scene: &mut Scene,
    window: &WlSurface,
    root: &WlSurface,
    at: Point<i32, Logical>,
    scale: f64,
) {
    with_surface_tree_upward(
        root,
        at,
        |_, states, at| {
            let content = content::of(states).borrow();
            if content.is_shown() {
                TraversalAction::DoChildren(*at + content.offset)
            } else {
                TraversalAction::SkipChildren
            }
        },
        |surface, states, at| {
            let content = content::of(states).borrow();
            if !content.is_shown() {
                return;
            }
            let at = *at + content.offset;
            scene.push(Element {
                surface: ShownSurface {
                    surface: surface.clone(),
                    window: window.clone(),
                    at,
                    size: content.logical,
                },
                mapping: Mapping {
                    place: place(at, content.logical, scale),
                    crop: content.crop,
                    orientation: content.orientation,
                },
                opaque: content.opaque,
            });
        },
        |_, _, _| true,
    );
}

/// Converts a rectangle to pixels. Its edges are rounded, so adjacent rectangles have no gap between them.
fn place(at: Point<i32, Logical>, size: Size<i32, Logical>, scale: f64) -> Rectangle {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`as` saturates, and such positions are beyond any display"
    )]
    let edge = |at: i32, length: i32| ((f64::from(at) + f64::from(length)) * scale).round() as i32;
    let (x, y) = (edge(at.x, 0), edge(at.y, 0));
    let length = |from: i32, to: i32| u32::try_from(to.saturating_sub(from)).unwrap_or(0);
    Rectangle {
        x,
        y,
        width: length(x, edge(at.x, size.w)),
        height: length(y, edge(at.y, size.h)),
    }
}

/// The topmost surface that takes input at a position.
pub(crate) fn under(scene: &Scene, position: Point<f64, Logical>) -> Option<&ShownSurface> {
    scene
        .iter()
        .rev()
        .map(|element| &element.surface)
        .find(|shown| {
            let at = position - shown.at.to_f64();
            let inside = at.x >= 0.0
                && at.y >= 0.0
                && at.x < f64::from(shown.size.w)
                && at.y < f64::from(shown.size.h);
            inside
                && with_states(&shown.surface, |states| {
                    let mut attributes = states.cached_state.get::<SurfaceAttributes>();
                    let region = attributes.current().input_region.as_ref();
                    region.is_none_or(|region| region.contains(at.to_i32_floor()))
                })
        })
}
