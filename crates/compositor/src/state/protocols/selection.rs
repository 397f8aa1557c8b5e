//! Copying, pasting and dragging: wl_data_device, zwp_primary_selection.

use std::os::fd::OwnedFd;

use smithay::input::Seat;
use smithay::wayland::selection::data_device::{
    ClientDndGrabHandler, DataDeviceHandler, DataDeviceState, ServerDndGrabHandler,
};
use smithay::wayland::selection::primary_selection::{
    PrimarySelectionHandler, PrimarySelectionState,
};
use smithay::wayland::selection::{SelectionHandler, SelectionSource, SelectionTarget};

use crate::copied::Copied;
use crate::state::State;

impl SelectionHandler for State {
    type SelectionUserData = Copied;

    fn new_selection(
        &mut self,
        target: SelectionTarget,
        source: Option<SelectionSource>,
        _: Seat<State>,
    ) {
        if target == SelectionTarget::Clipboard {
            let types = source.map(|source| source.mime_types());
            let types = types.unwrap_or_default();
            if !types.is_empty() {
                self.copied(types.clone());
            }
            self.offer_to_x11(types);
        }
    }

    fn send_selection(
        &mut self,
        _: SelectionTarget,
        kind: String,
        fd: OwnedFd,
        _: Seat<State>,
        copied: &Copied,
    ) {
        match copied {
            Copied::Text(text) => self.ends.clipboard.paste(text.clone(), fd),
            Copied::ByX11 => self.fetch_from_x11(kind, fd),
        }
    }
}

impl DataDeviceHandler for State {
    fn data_device_state(&self) -> &DataDeviceState {
        &self.globals.data_device
    }
}

impl PrimarySelectionHandler for State {
    fn primary_selection_state(&self) -> &PrimarySelectionState {
        &self.globals.primary
    }
}

impl ClientDndGrabHandler for State {}
impl ServerDndGrabHandler for State {}

smithay::delegate_data_device!(State);
smithay::delegate_primary_selection!(State);
