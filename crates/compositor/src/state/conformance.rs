//! Clients and windows of a conformance suite.

use std::os::unix::net::UnixStream;

use smithay::reexports::wayland_server::{Client, Resource as _};

use crate::conformance::WindowMove;
use crate::state::{ClientState, State};

impl State {
    /// Accepts a client that the suite identifies by this number.
    pub(crate) fn accept_numbered(&mut self, stream: UnixStream, number: i32) {
        if let Err(why) = self.insert(stream, ClientState::numbered(number)) {
            tracing::warn!("an application can't connect to its display: {why}");
        }
    }

    /// Moves a window, if it exists.
    pub(crate) fn move_window(&mut self, wanted: &WindowMove) {
        let number = |client: Client| client.get_data::<ClientState>()?.number;
        let window = self.windows.all.iter_mut().find(|window| {
            window.surface().is_some_and(|surface| {
                surface.id().protocol_id() == wanted.surface
                    && surface.client().and_then(number) == Some(wanted.client)
            })
        });
        if let Some(window) = window {
            window.moved = Some(wanted.at.into());
            window.floats = true;
        }
        self.dirty = true;
        // An error means that the suite does not wait.
        let _ = wanted.done.send(());
    }
}
