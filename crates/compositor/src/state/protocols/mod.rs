//! The Wayland protocols, one file per subject: what an application may request, and what it receives.

mod compositor;
mod idle;
mod output;
mod pointer;
mod seat;
mod selection;
mod shell;
pub(crate) mod shm;
mod xwayland;

use smithay::reexports::wayland_protocols::xdg::shell::server::xdg_toplevel::WmCapabilities;
use smithay::reexports::wayland_protocols::xwayland::shell::v1::server::xwayland_shell_v1::XwaylandShellV1;
use smithay::reexports::wayland_server::DisplayHandle;
use smithay::reexports::wayland_server::protocol::wl_shm::Format;
use smithay::wayland::compositor::CompositorState;
use smithay::wayland::cursor_shape::CursorShapeManagerState;
use smithay::wayland::fifo::FifoManagerState;
use smithay::wayland::fractional_scale::FractionalScaleManagerState;
use smithay::wayland::idle_inhibit::IdleInhibitManagerState;
use smithay::wayland::output::OutputManagerState;
use smithay::wayland::pointer_constraints::PointerConstraintsState;
use smithay::wayland::presentation::PresentationState;
use smithay::wayland::relative_pointer::RelativePointerManagerState;
use smithay::wayland::selection::data_device::DataDeviceState;
use smithay::wayland::selection::primary_selection::PrimarySelectionState;
use smithay::wayland::shell::xdg::XdgShellState;
use smithay::wayland::shell::xdg::decoration::XdgDecorationState;
use smithay::wayland::shm::ShmState;
use smithay::wayland::single_pixel_buffer::SinglePixelBufferState;
use smithay::wayland::text_input::TextInputManagerState;
use smithay::wayland::viewporter::ViewporterState;
use smithay::wayland::xdg_activation::XdgActivationState;

use crate::state::State;

/// `CLOCK_MONOTONIC` of `time.h`, the clock of presentation times and of `openuvr_clock`.
const MONOTONIC: u32 = 1;

/// The announced protocols.
pub(crate) struct Globals {
    pub(crate) compositor: CompositorState,
    pub(crate) shm: ShmState,
    pub(crate) shell: XdgShellState,
    pub(crate) data_device: DataDeviceState,
    pub(crate) primary: PrimarySelectionState,
    pub(crate) activation: XdgActivationState,
}

impl Globals {
    pub(crate) fn new(handle: &DisplayHandle) -> Globals {
        // The state of these protocols is not needed later.
        XdgDecorationState::new::<State>(handle);
        ViewporterState::new::<State>(handle);
        FractionalScaleManagerState::new::<State>(handle);
        PresentationState::new::<State>(handle, MONOTONIC);
        FifoManagerState::new::<State>(handle);
        SinglePixelBufferState::new::<State>(handle);
        OutputManagerState::new_with_xdg_output::<State>(handle);
        RelativePointerManagerState::new::<State>(handle);
        PointerConstraintsState::new::<State>(handle);
        CursorShapeManagerState::new::<State>(handle);
        TextInputManagerState::new::<State>(handle);
        IdleInhibitManagerState::new::<State>(handle);
        handle.create_global::<State, XwaylandShellV1, ()>(1, ());
        Globals {
            compositor: CompositorState::new_v6::<State>(handle),
            shm: ShmState::new::<State>(handle, [Format::Abgr8888, Format::Xbgr8888]),
            // Nothing can be minimised, and there is no window menu.
            shell: XdgShellState::new_with_capabilities::<State>(
                handle,
                [WmCapabilities::Fullscreen, WmCapabilities::Maximize],
            ),
            data_device: DataDeviceState::new::<State>(handle),
            primary: PrimarySelectionState::new::<State>(handle),
            activation: XdgActivationState::new::<State>(handle),
        }
    }
}
