//! The compositor's global objects: those that the window requires, and those that it uses if they exist.

use std::ops::RangeInclusive;

use wayland_client::globals::{BindError, GlobalList, GlobalListContents, registry_queue_init};
use wayland_client::protocol::wl_compositor::WlCompositor;
use wayland_client::protocol::wl_output::WlOutput;
use wayland_client::protocol::wl_region::WlRegion;
use wayland_client::protocol::wl_registry::{self, WlRegistry};
use wayland_client::protocol::wl_seat::WlSeat;
use wayland_client::protocol::wl_shm::WlShm;
use wayland_client::protocol::wl_subcompositor::WlSubcompositor;
use wayland_client::protocol::wl_subsurface::WlSubsurface;
use wayland_client::{
    Connection, Dispatch, EventQueue, Proxy, QueueHandle, delegate_noop,
};
use wayland_protocols::wp::cursor_shape::v1::client::wp_cursor_shape_device_v1::WpCursorShapeDeviceV1;
use wayland_protocols::wp::cursor_shape::v1::client::wp_cursor_shape_manager_v1::WpCursorShapeManagerV1;
use wayland_protocols::wp::fractional_scale::v1::client::wp_fractional_scale_manager_v1::WpFractionalScaleManagerV1;
use wayland_protocols::wp::keyboard_shortcuts_inhibit::zv1::client::zwp_keyboard_shortcuts_inhibit_manager_v1::ZwpKeyboardShortcutsInhibitManagerV1;
use wayland_protocols::wp::pointer_constraints::zv1::client::zwp_pointer_constraints_v1::ZwpPointerConstraintsV1;
use wayland_protocols::wp::presentation_time::client::wp_presentation::{self, WpPresentation};
use wayland_protocols::wp::relative_pointer::zv1::client::zwp_relative_pointer_manager_v1::ZwpRelativePointerManagerV1;
use wayland_protocols::wp::tearing_control::v1::client::wp_tearing_control_manager_v1::WpTearingControlManagerV1;
use wayland_protocols::wp::tearing_control::v1::client::wp_tearing_control_v1::WpTearingControlV1;
use wayland_protocols::wp::viewporter::client::wp_viewport::WpViewport;
use wayland_protocols::wp::viewporter::client::wp_viewporter::WpViewporter;
use wayland_protocols::xdg::decoration::zv1::client::zxdg_decoration_manager_v1::ZxdgDecorationManagerV1;
use wayland_protocols::xdg::shell::client::xdg_wm_base::{self, XdgWmBase};

use super::State;
use crate::window::{Layer, Surfaces};
use openuvr_media::window::WindowError;

/// The bound objects.
pub(super) struct Globals {
    compositor: WlCompositor,
    subcompositor: WlSubcompositor,
    shm: WlShm,
    pub(super) shell: XdgWmBase,
    viewporter: WpViewporter,
    /// The seat; `None` for a display without input.
    pub(super) seat: Option<WlSeat>,
    pub(super) decorations: Option<ZxdgDecorationManagerV1>,
    pub(super) scales: Option<WpFractionalScaleManagerV1>,
    presentation: Option<WpPresentation>,
    pub(super) relative: Option<ZwpRelativePointerManagerV1>,
    pub(super) constraints: Option<ZwpPointerConstraintsV1>,
    pub(super) inhibitors: Option<ZwpKeyboardShortcutsInhibitManagerV1>,
    pub(super) shapes: Option<WpCursorShapeManagerV1>,
    pub(super) tearing: Option<WpTearingControlManagerV1>,
}

impl Globals {
    /// Binds the global objects that the window uses.
    ///
    /// # Errors
    /// [`WindowError`] if the compositor is gone or lacks a required object.
    pub(super) fn bind(
        conn: &Connection,
        display: &str,
    ) -> Result<(Globals, EventQueue<State>), WindowError> {
        let (list, queue) =
            registry_queue_init::<State>(conn).map_err(|cause| super::gone(display, &cause))?;
        let handle = queue.handle();
        let all = Bind {
            list: &list,
            handle: &handle,
            display,
        };
        // The upper limits are the highest versions whose events are handled here.
        let globals = Globals {
            compositor: all.required(4..=6)?,
            subcompositor: all.required(1..=1)?,
            shm: all.required(1..=1)?,
            shell: all.required(1..=6)?,
            viewporter: all.required(1..=1)?,
            // Version 5 has frames of pointer events, version 8 the high-resolution wheel.
            seat: all.optional(5..=9),
            decorations: all.optional(1..=1),
            scales: all.optional(1..=1),
            presentation: all.optional(1..=1),
            relative: all.optional(1..=1),
            constraints: all.optional(1..=1),
            inhibitors: all.optional(1..=1),
            shapes: all.optional(1..=1),
            tearing: all.optional(1..=1),
        };
        list.contents().with_list(|globals| {
            for global in globals {
                if global.interface == WlOutput::interface().name && global.version >= 2 {
                    bind_output(list.registry(), &handle, global.name, global.version);
                }
            }
        });
        Ok((globals, queue))
    }

    /// Creates the window's surfaces.
    pub(super) fn surfaces(&self, handle: &QueueHandle<State>) -> Surfaces {
        let surface = || self.compositor.create_surface(handle, ());
        let window = surface();
        // The surfaces above the window take no input, so all events belong to the window.
        let nowhere = self.compositor.create_region(handle, ());
        let layer = || {
            let surface = surface();
            surface.set_input_region(Some(&nowhere));
            let subsurface = self
                .subcompositor
                .get_subsurface(&surface, &window, handle, ());
            // The commits of a subsurface take effect without a commit of the window.
            subsurface.set_desync();
            let viewport = self.viewporter.get_viewport(&surface, handle, ());
            Layer {
                surface,
                subsurface,
                viewport,
            }
        };
        // Each layer lies over the previous one.
        let (picture, panel, pointer) = (layer(), layer(), layer());
        nowhere.destroy();
        let cursor = surface();
        let xdg_surface = self.shell.get_xdg_surface(&window, handle, ());
        let toplevel = xdg_surface.get_toplevel(handle, ());
        Surfaces {
            shm: self.shm.clone(),
            window_viewport: self.viewporter.get_viewport(&window, handle, ()),
            window,
            xdg_surface,
            toplevel,
            picture,
            panel,
            pointer,
            cursor_viewport: self.viewporter.get_viewport(&cursor, handle, ()),
            cursor,
            presentation: self.presentation.clone(),
        }
    }
}

struct Bind<'a> {
    list: &'a GlobalList,
    handle: &'a QueueHandle<State>,
    display: &'a str,
}

impl Bind<'_> {
    fn required<I>(&self, versions: RangeInclusive<u32>) -> Result<I, WindowError>
    where
        I: Proxy + 'static,
        State: Dispatch<I, ()>,
    {
        let name = I::interface().name;
        let oldest = *versions.start();
        self.list.bind(self.handle, versions, ()).map_err(|cause| {
            let what = match cause {
                BindError::NotPresent => name.to_owned(),
                BindError::UnsupportedVersion => format!("version {oldest} of {name}"),
            };
            WindowError(format!(
                "the compositor of the Wayland display {} lacks {what}: use another presentation, \
                 such as --present x11",
                self.display
            ))
        })
    }

    fn optional<I>(&self, versions: RangeInclusive<u32>) -> Option<I>
    where
        I: Proxy + 'static,
        State: Dispatch<I, ()>,
    {
        self.list.bind(self.handle, versions, ()).ok()
    }
}

/// Binds an output, which is identified by its number in the registry.
fn bind_output(registry: &WlRegistry, handle: &QueueHandle<State>, name: u32, version: u32) {
    let _: WlOutput = registry.bind(name, version.min(4), handle, name);
}

impl Dispatch<WlRegistry, GlobalListContents> for State {
    fn event(
        state: &mut State,
        registry: &WlRegistry,
        event: wl_registry::Event,
        _: &GlobalListContents,
        _: &Connection,
        handle: &QueueHandle<State>,
    ) {
        match event {
            wl_registry::Event::Global {
                name,
                interface,
                version,
            } if interface == WlOutput::interface().name && version >= 2 => {
                bind_output(registry, handle, name, version);
            }
            wl_registry::Event::GlobalRemove { name } => state.output_removed(name),
            _ => {}
        }
    }
}

impl Dispatch<XdgWmBase, ()> for State {
    fn event(
        _: &mut State,
        shell: &XdgWmBase,
        event: xdg_wm_base::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let xdg_wm_base::Event::Ping { serial } = event {
            shell.pong(serial);
        }
    }
}

impl Dispatch<WpPresentation, ()> for State {
    fn event(
        state: &mut State,
        _: &WpPresentation,
        event: wp_presentation::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let wp_presentation::Event::ClockId { clk_id } = event {
            state.stage.reports.clock(clk_id);
        }
    }
}

delegate_noop!(State: WlCompositor);
delegate_noop!(State: WlRegion);
delegate_noop!(State: WlSubcompositor);
delegate_noop!(State: WlSubsurface);
delegate_noop!(State: ignore WlShm);
delegate_noop!(State: WpViewporter);
delegate_noop!(State: WpViewport);
delegate_noop!(State: ZxdgDecorationManagerV1);
delegate_noop!(State: WpFractionalScaleManagerV1);
delegate_noop!(State: ZwpRelativePointerManagerV1);
delegate_noop!(State: ZwpPointerConstraintsV1);
delegate_noop!(State: ZwpKeyboardShortcutsInhibitManagerV1);
delegate_noop!(State: WpCursorShapeManagerV1);
delegate_noop!(State: WpCursorShapeDeviceV1);
delegate_noop!(State: WpTearingControlManagerV1);
delegate_noop!(State: WpTearingControlV1);
