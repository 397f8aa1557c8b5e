//! The compositor's outputs: their scale and size.

use std::collections::BTreeMap;

use openuvr_proto::units::Size;
use wayland_client::protocol::wl_output::{self, Transform, WlOutput};
use wayland_client::{Connection, Dispatch, Proxy as _, QueueHandle, WEnum};

use super::State;
use crate::window::SCALE_ONE;

/// All outputs, by their number in the registry.
#[derive(Default)]
pub(super) struct Outputs {
    all: BTreeMap<u32, Output>,
}

struct Output {
    proxy: WlOutput,
    /// Size of the current mode, in pixels of the panel.
    mode: Option<Size>,
    /// Whether the transform exchanges width and height.
    turned: bool,
    /// Pixels per logical pixel, rounded up.
    scale: u32,
    /// Whether the window is on this output.
    entered: bool,
}

impl Outputs {
    /// The highest scale of the outputs that show the window.
    fn scale(&self) -> Option<u32> {
        let entered = self.all.values().filter(|output| output.entered);
        entered.map(|output| output.scale).max()
    }

    /// The logical size of an output with the window, or of the largest output if the window is on none. `scale` is in
    /// 120ths.
    fn room(&self, scale: u32) -> Option<Size> {
        let shown = self.all.values().find(|output| output.entered);
        let largest = || {
            let pixels = |output: &&Output| output.mode.map_or(0, |mode| mode.pixels());
            self.all.values().max_by_key(pixels)
        };
        let output = shown.or_else(largest)?;
        let mode = output.mode?;
        let side = |pixels: u32| (pixels.saturating_mul(SCALE_ONE) / scale.max(1)).max(1);
        let (width, height) = match output.turned {
            true => (mode.height, mode.width),
            false => (mode.width, mode.height),
        };
        Some(Size::new(side(width), side(height)))
    }
}

impl State {
    pub(super) fn output_removed(&mut self, name: u32) {
        if let Some(output) = self.outputs.all.remove(&name)
            && output.proxy.version() >= 3
        {
            output.proxy.release();
        }
        self.outputs_changed();
    }

    /// Records whether the window is on this output.
    pub(super) fn output_entered(&mut self, proxy: &WlOutput, entered: bool) {
        let mut all = self.outputs.all.values_mut();
        if let Some(output) = all.find(|output| output.proxy == *proxy) {
            output.entered = entered;
        }
        self.outputs_changed();
    }

    fn outputs_changed(&mut self) {
        // A scale that the compositor states for the window is more precise than the scale of an output.
        if !self.window.has_own_scale()
            && let Some(scale) = self.outputs.scale()
        {
            self.scale_changed(scale.saturating_mul(SCALE_ONE));
        }
        let mut scene = self.stage.scene();
        if !self.window.has_bounds() {
            scene.room = self.outputs.room(scene.scale);
        }
    }
}

impl Dispatch<WlOutput, u32> for State {
    fn event(
        state: &mut State,
        proxy: &WlOutput,
        event: wl_output::Event,
        name: &u32,
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let output = state.outputs.all.entry(*name).or_insert_with(|| Output {
            proxy: proxy.clone(),
            mode: None,
            turned: false,
            scale: 1,
            entered: false,
        });
        match event {
            wl_output::Event::Geometry { transform, .. } => {
                output.turned = matches!(
                    transform,
                    WEnum::Value(
                        Transform::_90
                            | Transform::_270
                            | Transform::Flipped90
                            | Transform::Flipped270
                    )
                );
            }
            wl_output::Event::Mode {
                flags: WEnum::Value(flags),
                width,
                height,
                ..
            } if flags.contains(wl_output::Mode::Current) => {
                let side = |pixels: i32| u32::try_from(pixels).unwrap_or(0);
                let size = Size::new(side(width), side(height));
                output.mode = size.is_valid().then_some(size);
            }
            wl_output::Event::Scale { factor } => {
                output.scale = u32::try_from(factor.clamp(1, 16)).unwrap_or(1);
            }
            wl_output::Event::Done => state.outputs_changed(),
            _ => {}
        }
    }
}
