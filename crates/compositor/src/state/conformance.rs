//! Clients and windows of a conformance suite.

use std::os::unix::net::UnixStream;

use smithay::reexports::wayland_server::{Client, Resource as _};

use crate::state::{ClientState, State};

impl State {
    /// Accepts a client that the suite identifies by this number.
    pub(crate) fn accept_numbered(&mut self, stream: UnixStream, number: i32) {
        if let Err(why) = self.insert(stream, ClientState::numbered(number)) {
            tracing::warn!("an application can't connect to its display: {why}");
        }
    }

    /// Moves a window, if it exists. `client` is the number of the client, and `surface` identifies the window's
    /// surface.
    pub(crate) fn move_window(&mut self, client: i32, surface: u32, at: (i32, i32)) {
        let number = |client: Client| client.get_data::<ClientState>()?.number;
        let window = self.windows.all.iter_mut().find(|window| {
            window.surface().is_some_and(|root| {
                root.id().protocol_id() == surface && root.client().and_then(number) == Some(client)
            })
        });
        if let Some(window) = window {
            window.moved = Some(at.into());
            window.floats = true;
        }
        self.dirty = true;
    }
}
