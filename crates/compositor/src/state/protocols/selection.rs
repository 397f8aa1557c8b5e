//! Copying, pasting and dragging: wl_data_device, zwp_primary_selection.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use smithay::input::Seat;
use smithay::wayland::selection::data_device::{
    ClientDndGrabHandler, DataDeviceHandler, DataDeviceState, ServerDndGrabHandler,
};
use smithay::wayland::selection::primary_selection::{
    PrimarySelectionHandler, PrimarySelectionState,
};
use smithay::wayland::selection::{SelectionHandler, SelectionSource, SelectionTarget};

use crate::state::State;

impl SelectionHandler for State {
    /// The offered text.
    type SelectionUserData = Arc<str>;

    fn new_selection(
        &mut self,
        target: SelectionTarget,
        source: Option<SelectionSource>,
        _: Seat<State>,
    ) {
        if let (SelectionTarget::Clipboard, Some(source)) = (target, source) {
            self.copied(source.mime_types());
        }
    }

    fn send_selection(
        &mut self,
        _: SelectionTarget,
        _: String,
        fd: OwnedFd,
        _: Seat<State>,
        text: &Arc<str>,
    ) {
        self.ends.clipboard.paste(text.clone(), fd);
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
