//! Surfaces: wl_compositor, wl_subcompositor, wp_viewporter, wp_single_pixel_buffer, wp_fifo,
//! wp_presentation.

use smithay::reexports::wayland_server::protocol::wl_buffer::WlBuffer;
use smithay::reexports::wayland_server::protocol::wl_surface::WlSurface;
use smithay::reexports::wayland_server::{Client, Resource as _};
use smithay::utils::Transform;
use smithay::wayland::buffer::BufferHandler;
use smithay::wayland::compositor::{
    CompositorClientState, CompositorHandler, CompositorState, TraversalAction,
    add_pre_commit_hook, get_parent, is_sync_subsurface, send_surface_state, with_states,
    with_surface_tree_upward,
};

use crate::content::{self, Source};
use crate::state::{ClientState, State};

/// The maximum number of surfaces of one client (guess: far more than any toolkit uses).
const MAX_SURFACES: usize = 4096;

impl CompositorHandler for State {
    fn compositor_state(&mut self) -> &mut CompositorState {
        &mut self.globals.compositor
    }

    fn client_compositor_state<'a>(&self, client: &'a Client) -> &'a CompositorClientState {
        static NONE: std::sync::OnceLock<CompositorClientState> = std::sync::OnceLock::new();
        match client.get_data::<ClientState>() {
            Some(data) => &data.compositor,
            // Every client is inserted with this data, so this does not occur.
            None => NONE.get_or_init(CompositorClientState::default),
        }
    }

    fn new_surface(&mut self, surface: &WlSurface) {
        let count = surface.client().and_then(|client| {
            client
                .get_data::<ClientState>()
                .map(ClientState::add_surface)
        });
        if count.is_some_and(|count| count > MAX_SURFACES) {
            surface.post_error(
                // wl_display.error.no_memory
                2u32,
                format!("more than {MAX_SURFACES} surfaces"),
            );
        }
        // `commit` is called when a commit is applied, which is later for a synchronised subsurface.
        add_pre_commit_hook::<State, _>(surface, |_, _, surface| content::place_children(surface));
    }

    fn commit(&mut self, surface: &WlSurface) {
        self.popups.commit(surface);
        if is_sync_subsurface(surface) {
            // The state of a synchronised subsurface is applied together with its parent's state.
            return;
        }
        let mut applied = Vec::new();
        with_surface_tree_upward(
            surface,
            (),
            |_, _, ()| TraversalAction::DoChildren(()),
            |surface, states, ()| {
                content::of(states).borrow_mut().update(states);
                applied.push(surface.clone());
            },
            |_, _, ()| true,
        );
        for surface in &applied {
            self.wait(surface);
            self.cursor_committed(surface);
        }
        let mut root = surface.clone();
        while let Some(parent) = get_parent(&root) {
            root = parent;
        }
        self.shell_committed(&root);
        self.dirty = true;
    }

    fn destroyed(&mut self, surface: &WlSurface) {
        if let Some(data) = surface
            .client()
            .as_ref()
            .and_then(Client::get_data::<ClientState>)
        {
            data.remove_surface();
        }
        with_states(surface, |states| {
            content::of(states).borrow_mut().replace(Source::Empty);
        });
        self.windows.all.retain(|window| {
            window
                .toplevel()
                .is_none_or(|of| of.wl_surface() != surface)
        });
        self.x11_surface_destroyed(surface);
        self.scene
            .iter()
            .any(|element| element.surface.surface == *surface)
            .then(|| self.dirty = true);
    }
}

impl State {
    /// Informs a new surface about its preferred scale.
    pub(super) fn prefer_scale(&self, surface: &WlSurface) {
        with_states(surface, |states| {
            let scale = self.output.current_scale().integer_scale();
            send_surface_state(surface, states, scale, Transform::Normal);
        });
    }
}

impl BufferHandler for State {
    /// Does nothing: the memory of a shown buffer stays mapped, and thus readable, until the buffer is replaced.
    fn buffer_destroyed(&mut self, _: &WlBuffer) {}
}

smithay::delegate_compositor!(State);
smithay::delegate_viewporter!(State);
smithay::delegate_single_pixel_buffer!(State);
smithay::delegate_fifo!(State);
smithay::delegate_presentation!(State);
