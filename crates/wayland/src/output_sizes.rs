//! The sizes of a compositor's outputs, both in pixels and in the compositor's units for the positions of windows and
//! pointer.
//!
//! Spec: Wayland 1.21 (`wl_output`), `xdg-output-unstable-v1`.

use openuvr_proto::units::Size;
use wayland_client::globals::{GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_output::{self, Transform, WlOutput};
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::{Connection, Dispatch, Proxy as _, QueueHandle, WEnum, delegate_noop};
use wayland_protocols::xdg::xdg_output::zv1::client::zxdg_output_manager_v1::ZxdgOutputManagerV1;
use wayland_protocols::xdg::xdg_output::zv1::client::zxdg_output_v1::{self, ZxdgOutputV1};

/// The sizes of an output after its rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputSize {
    /// In the output's pixels.
    pub pixels: Size,
    /// In the compositor's units: pixels divided by the scale.
    pub logical: Size,
}

/// The sizes of a compositor's outputs, in the compositor's order; empty if it does not state them. Waits for the
/// compositor's answer.
#[must_use]
pub fn output_sizes(conn: &Connection) -> Vec<OutputSize> {
    listed(conn).unwrap_or_default()
}

/// The announced sizes of an output. `mode` is the size before the rotation.
#[derive(Clone, Copy, Default)]
struct Announced {
    mode: Option<Size>,
    logical: Option<Size>,
    turned: bool,
}

struct Outputs(Vec<Announced>);

fn listed(conn: &Connection) -> Option<Vec<OutputSize>> {
    let (globals, mut queue) = registry_queue_init::<Outputs>(conn).ok()?;
    let handle = queue.handle();
    let manager: ZxdgOutputManagerV1 = globals.bind(&handle, 1..=3, ()).ok()?;
    let mut outputs = Outputs(Vec::new());
    let all = globals.contents().clone_list().into_iter();
    for global in all.filter(|global| global.interface == WlOutput::interface().name) {
        let number = outputs.0.len();
        let output: WlOutput = globals.registry().bind(global.name, 1, &handle, number);
        let _ = manager.get_xdg_output(&output, &handle, number);
        outputs.0.push(Announced::default());
    }
    queue.roundtrip(&mut outputs).ok()?;
    let sizes = outputs.0.iter().filter_map(|known| {
        let pixels = known.mode?;
        Some(OutputSize {
            pixels: match known.turned {
                true => Size::new(pixels.height, pixels.width),
                false => pixels,
            },
            logical: known.logical?,
        })
    });
    Some(sizes.collect())
}

fn size(width: i32, height: i32) -> Option<Size> {
    let size = Size::new(u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    size.is_valid().then_some(size)
}

impl Dispatch<WlOutput, usize> for Outputs {
    fn event(
        outputs: &mut Outputs,
        _: &WlOutput,
        event: wl_output::Event,
        number: &usize,
        _: &Connection,
        _: &QueueHandle<Outputs>,
    ) {
        let Some(known) = outputs.0.get_mut(*number) else {
            return;
        };
        match event {
            wl_output::Event::Mode {
                flags: WEnum::Value(flags),
                width,
                height,
                ..
            } if flags.contains(wl_output::Mode::Current) => known.mode = size(width, height),
            wl_output::Event::Geometry { transform, .. } => {
                use Transform as To;
                known.turned = matches!(
                    transform,
                    WEnum::Value(To::_90 | To::_270 | To::Flipped90 | To::Flipped270)
                );
            }
            _ => {}
        }
    }
}

impl Dispatch<ZxdgOutputV1, usize> for Outputs {
    fn event(
        outputs: &mut Outputs,
        _: &ZxdgOutputV1,
        event: zxdg_output_v1::Event,
        number: &usize,
        _: &Connection,
        _: &QueueHandle<Outputs>,
    ) {
        if let zxdg_output_v1::Event::LogicalSize { width, height } = event
            && let Some(known) = outputs.0.get_mut(*number)
        {
            known.logical = size(width, height);
        }
    }
}

impl Dispatch<WlRegistry, GlobalListContents> for Outputs {
    fn event(
        _: &mut Outputs,
        _: &WlRegistry,
        _: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        _: &QueueHandle<Outputs>,
    ) {
    }
}

delegate_noop!(Outputs: ZxdgOutputManagerV1);
