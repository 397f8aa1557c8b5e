//! The X server of the display. It is started when the first X11 application connects. After the server has ended, the
//! next application that connects starts it again, up to a limit.

use std::collections::{BTreeMap, HashMap};

use smithay::reexports::calloop::generic::Generic;
use smithay::reexports::calloop::{Interest, Mode, PostAction, RegistrationToken};
use smithay::reexports::wayland_server::Client;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;

use crate::state::{ClientState, State};
use crate::xwayland::RunningServer;
use crate::xwayland::wire::{Placement, SurfaceName, WindowId};

/// A running X server, and the state of its windows that [`crate::windows`] does not contain.
pub(crate) struct X11 {
    pub(crate) running: RunningServer,
    /// The server as a client of the Wayland display.
    pub(crate) client: Client,
    /// Windows whose surfaces are not known yet.
    pub(crate) unpaired: Vec<(WindowId, SurfaceName)>,
    /// Surfaces by their serial numbers in xwayland_shell.
    pub(crate) serials: HashMap<u64, WlSurface>,
    /// The positions that have been sent to the window manager.
    pub(crate) placed: BTreeMap<WindowId, Placement>,
    focus: Option<Option<WindowId>>,
}

/// The event sources that wait for an X11 application to connect.
#[derive(Default)]
pub(crate) struct Listening {
    tokens: Vec<RegistrationToken>,
    /// The last reported reason why no server was started. Its repetitions are not reported.
    reported: Option<String>,
}

impl State {
    /// Waits for an X11 application to connect, to start the server then.
    pub(crate) fn await_x11(&mut self) {
        for token in std::mem::take(&mut self.x11_listening.tokens) {
            self.events.remove(token);
        }
        let Some(display) = &self.x11_display else {
            return;
        };
        let sockets = match display.listening() {
            Ok(sockets) => sockets,
            Err(why) => return tracing::warn!("X11 applications can't open the display: {why}"),
        };
        for socket in sockets {
            // Edge-triggered: if no descriptor is left, a connection can't be accepted, and a level-triggered source
            // would wake the loop again and again.
            let source = Generic::new(socket, Interest::READ, Mode::Edge);
            let inserted = self
                .events
                .insert_source(source, |_, _, state| Ok(state.serve_x11()));
            match inserted {
                Ok(token) => self.x11_listening.tokens.push(token),
                Err(why) => tracing::warn!("X11 applications can't open the display: {why}"),
            }
        }
    }

    /// Starts the server for an application that has connected. If the start fails, this closes the connections,
    /// because the applications would hang otherwise, and waits for the next application.
    fn serve_x11(&mut self) -> PostAction {
        if self.x11.is_some() {
            return PostAction::Remove;
        }
        let Err(why) = self.start_x11() else {
            return PostAction::Remove;
        };
        if let Some(display) = &self.x11_display {
            display.refuse();
        }
        if self.x11_listening.reported.as_ref() != Some(&why) {
            tracing::warn!("X11 applications can't open the display: {why}");
            self.x11_listening.reported = Some(why);
        }
        PostAction::Continue
    }

    fn start_x11(&mut self) -> Result<(), String> {
        let Some(display) = &mut self.x11_display else {
            return Ok(());
        };
        let started = display.start()?;
        let failed = |why: &dyn std::fmt::Display| {
            format!("can't connect Xwayland: {why}; start the application again")
        };
        let client = self.insert(started.wayland, ClientState::of_xwayland());
        let client = client.map_err(|why| failed(&why))?;
        let source = Generic::new(started.ready, Interest::READ, Mode::Level);
        let inserted = self.events.insert_source(source, |_, ready, state| {
            let mut part = [0; 16];
            let count = rustix::io::read(ready, &mut part).unwrap_or(0);
            let part = part.get(..count).unwrap_or_default();
            if count > 0 && !part.contains(&b'\n') {
                // The server writes the number and the line end separately, and would fail if the reader were closed in
                // between. Reading continues until the line end.
                return Ok(PostAction::Continue);
            }
            match count {
                0 => state.end_x11("Xwayland ended during its start"),
                _ => state.x11_ready(),
            }
            Ok(PostAction::Remove)
        });
        inserted.map_err(|why| failed(&why))?;
        self.x11 = Some(X11 {
            running: started.running,
            client,
            unpaired: Vec::new(),
            serials: HashMap::new(),
            placed: BTreeMap::new(),
            focus: None,
        });
        Ok(())
    }

    /// Handles the server's start.
    fn x11_ready(&mut self) {
        let (Some(display), Some(x11)) = (&self.x11_display, &mut self.x11) else {
            return;
        };
        if let Err(why) = display.manage(&mut x11.running) {
            return self.end_x11(&why);
        }
        self.tell_x11_of_copied();
        self.arrange();
    }

    /// Handles the end of the server, or a server that cannot be managed: its windows are removed, and the next
    /// application starts another server.
    pub(crate) fn end_x11(&mut self, why: &str) {
        let Some(mut x11) = self.x11.take() else {
            return;
        };
        let status = x11.running.status();
        let status = status.map_or_else(String::new, |status| format!(" ({status})"));
        tracing::warn!("X11 applications have lost their display: {why}{status}");
        drop(x11);
        self.windows.all.retain(|window| window.x11().is_none());
        self.windows.overrides.clear();
        // Data that was copied in an X11 application is lost.
        self.x11_copied(Vec::new());
        self.count_windows();
        self.arrange();
        self.await_x11();
    }

    /// Sends changed positions to the window manager.
    pub(crate) fn place_x11(&mut self) {
        let Some(x11) = &mut self.x11 else {
            return;
        };
        let places: BTreeMap<_, _> = self.windows.x11_places().collect();
        x11.placed.retain(|id, _| places.contains_key(id));
        let mut changed = places;
        changed.retain(|id, place| x11.placed.insert(*id, *place) != Some(*place));
        if !changed.is_empty() {
            x11.running
                .board
                .request(|requests| requests.places.append(&mut changed));
        }
    }

    /// Informs the window manager which X11 window has the keyboard focus.
    pub(crate) fn focus_x11(&mut self, focus: Option<&WlSurface>) {
        let focus = focus.and_then(|surface| self.windows.x11_with(surface));
        let Some(x11) = &mut self.x11 else {
            return;
        };
        if x11.focus.replace(focus) != Some(focus) {
            x11.running
                .board
                .request(|requests| requests.focus = Some(focus));
        }
    }
}
