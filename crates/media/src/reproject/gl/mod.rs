//! Reprojection with OpenGL in the client's window: a shader transforms each eye, the sampler
//! filters, and the overlays (text, the host's pointer) are drawn in the same pass.
//!
//! The shader samples the picture at the window's pixels, so a window of a different size needs no second filter. A
//! swap waits for the display if the driver supports it.

mod sys;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

use super::{AimedRegion, DrawParams, Filter, Reprojector, Source};
use crate::cursor::CursorShape;
use crate::present::{PresentError, Presenter};
use crate::window::panel::Panel;
use crate::window::placement::{Placement, Rect};
use crate::window::scene::{DisplayedPicture, SharedWindow};
use sys::{Canvas, Layer, Patch};

/// Software renderers of Mesa and Google. The software renderer of this crate is faster: it computes only each 16th
/// pixel exactly, whereas a shader computes each pixel. In addition, these renderers copy the picture twice, into a
/// texture and into the window.
const SOFTWARE: [&str; 4] = ["llvmpipe", "softpipe", "swrast", "swiftshader"];

/// The window, drawn with OpenGL.
struct Gl {
    canvas: Canvas,
    stage: Arc<SharedWindow>,
    /// Size of the last displayed picture.
    size: Option<Size>,
    /// The contents of the layers.
    panel: Option<Arc<Panel>>,
    pointer: Option<Arc<CursorShape>>,
}

/// Opens the renderer on a surface's window, if the surface has one.
pub(super) fn open(on: &mut dyn Presenter) -> Result<Box<dyn Reprojector>, String> {
    let window = on.window().ok_or("the surface is not a window")?;
    let stage = window.0;
    let canvas = Canvas::open(&stage.display, stage.window, stage.visual)?;
    Ok(Box::new(Gl {
        canvas,
        stage,
        size: None,
        panel: None,
        pointer: None,
    }))
}

impl Reprojector for Gl {
    fn is_fast(&self) -> bool {
        let renderer = self.canvas.renderer().to_lowercase();
        !SOFTWARE.iter().any(|name| renderer.contains(name))
    }

    fn renderer(&self) -> &str {
        self.canvas.renderer()
    }

    fn load(&mut self, source: &Source<'_>) -> Result<(), PresentError> {
        self.canvas
            .load(Layer::Picture, source.size, source.bytes)
            .map_err(PresentError)
    }

    fn draw(&mut self, _: &mut dyn Presenter, params: &DrawParams<'_>) -> Result<(), PresentError> {
        let stage = Arc::clone(&self.stage);
        // This call precedes the reading of the scene, so that later changes cause a redraw.
        stage.refresh();
        let mut scene = stage.scene();
        let ours = DisplayedPicture {
            segment: None,
            size: params.size,
            generation: 0,
        };
        scene.shown = Some(ours);
        let follows = match self.size.replace(params.size) == Some(params.size) {
            true => None,
            false => {
                (scene.following.as_mut()).and_then(|following| following.picture(params.size))
            }
        };
        let window = scene.window;
        let placement = Placement::fit(window, params.size);
        let text = scene.panel.clone().zip(scene.panel_area());
        let pointer = stage.overlay(&scene);
        let pointer = (scene.cursor.as_ref())
            .map(|cursor| Arc::clone(&cursor.shape))
            .zip(pointer);
        drop(scene);
        if let Some(size) = follows {
            self.canvas.resize(size);
        }
        self.canvas.start(window, params.filter == Filter::Nearest);
        for aimed in params.parts {
            self.canvas.patch(&patch(aimed, params, &placement));
        }
        if let Some((panel, area)) = text {
            let size = Size::new(panel.width.into(), panel.height.into());
            if self
                .panel
                .as_ref()
                .is_none_or(|known| !Arc::ptr_eq(known, &panel))
            {
                self.load_argb(Layer::Text, size, &panel.argb)?;
            }
            self.panel = Some(panel);
            self.canvas.over(Layer::Text, area, (area.x, area.y));
        }
        if let Some((shape, overlay)) = pointer {
            let size = Size::new(shape.width.into(), shape.height.into());
            if self
                .pointer
                .as_ref()
                .is_none_or(|known| !Arc::ptr_eq(known, &shape))
            {
                self.load_argb(Layer::Pointer, size, &shape.argb)?;
            }
            self.pointer = Some(shape);
            let Rect { x, y, .. } = overlay.area;
            let corner = (x - overlay.from.0, y - overlay.from.1);
            self.canvas.over(Layer::Pointer, overlay.area, corner);
        }
        self.canvas.end().map_err(PresentError)
    }

    fn show(&mut self, _: &mut dyn Presenter, _: FrameId) -> Result<(), PresentError> {
        self.canvas.swap().map_err(PresentError)
    }

    fn is_stale(&self) -> bool {
        self.stage.is_stale()
    }
}

impl Gl {
    fn load_argb(&mut self, layer: Layer, size: Size, argb: &[u32]) -> Result<(), PresentError> {
        let bytes: Vec<u8> = argb.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        self.canvas.load(layer, size, &bytes).map_err(PresentError)
    }
}

/// A region's area in the window, and the mapping to the picture.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a shader has single precision"
)]
fn patch(aimed: &AimedRegion, params: &DrawParams<'_>, placement: &Placement) -> Patch {
    let AimedRegion { part, how } = aimed;
    let area = placement.area;
    let whole = [params.size.width, params.size.height].map(|side| f64::from(side.max(1)));
    let per_pixel = [
        whole[0] / f64::from(area.width.max(1)),
        whole[1] / f64::from(area.height.max(1)),
    ];
    let column = |at: u32| f64::from(area.x) + f64::from(at) / per_pixel[0];
    let (left, right) = (column(part.to.start), column(part.to.end));
    // Rounded to the nearest pixel, so that no pixel is left out between two eyes.
    let pixel = |at: f64| at.round() as i32;
    let eye = part.size(params.source.size.height);
    Patch {
        area: Rect {
            x: pixel(left),
            width: pixel(right) - pixel(left),
            ..area
        },
        corner: [left as f32, area.y as f32],
        per_pixel: per_pixel.map(|side| side as f32),
        how: how
            .rows()
            .as_flattened()
            .iter()
            .map(|v| *v as f32)
            .collect(),
        eye: [part.from.start, 0, eye.width, eye.height].map(|side| side as f32),
        // Bit offsets of red, green, blue and the unused byte in a little-endian BGRX word.
        channels: [16, 8, 0, 24].map(|bit| part.mask >> bit & 0xff != 0),
    }
}
