//! The grab: the pointer is locked and reports relative motion, and the desktop's shortcuts go to the host.
//!
//! The compositor locks the pointer while the pointer is over the window and the window has the focus. It reports each
//! lock. The grab is active from this report on.

use openuvr_proto::input::event::InputEvent;
use wayland_client::{Connection, Dispatch, QueueHandle, delegate_noop};
use wayland_protocols::wp::keyboard_shortcuts_inhibit::zv1::client::zwp_keyboard_shortcuts_inhibitor_v1::ZwpKeyboardShortcutsInhibitorV1;
use wayland_protocols::wp::pointer_constraints::zv1::client::zwp_locked_pointer_v1::{
    self, ZwpLockedPointerV1,
};
use wayland_protocols::wp::pointer_constraints::zv1::client::zwp_pointer_constraints_v1::Lifetime;
use wayland_protocols::wp::relative_pointer::zv1::client::zwp_relative_pointer_v1::{
    self, ZwpRelativePointerV1,
};

use super::State;
use openuvr_media::input_source::SourceEvent;

/// The grab's state.
pub(super) struct Grab {
    /// Whether to grab as soon as the window has a pointer.
    at_start: bool,
    /// The requested lock, and the object that reports the motion of the pointer.
    lock: Option<(ZwpLockedPointerV1, ZwpRelativePointerV1)>,
    /// Whether the compositor has locked the pointer.
    active: bool,
    inhibitor: Option<ZwpKeyboardShortcutsInhibitorV1>,
    /// Whether the host's application, not the user, requested the grab.
    pub(super) for_host: bool,
    /// Whether the user has released the pointer since the application's request last changed.
    pub(super) declined: bool,
    /// Motion of less than a pixel, which has not been sent yet.
    rest: (f64, f64),
}

impl Grab {
    pub(super) fn new(at_start: bool) -> Grab {
        Grab {
            at_start,
            lock: None,
            active: false,
            inhibitor: None,
            for_host: false,
            declined: false,
            rest: (0.0, 0.0),
        }
    }

    /// Whether the pointer is locked.
    pub(super) fn is_active(&self) -> bool {
        self.active
    }

    /// Whether the lock is requested.
    pub(super) fn is_requested(&self) -> bool {
        self.lock.is_some()
    }
}

impl State {
    /// Grabs as soon as there is a window and a pointer, if the user wants this from the start.
    pub(super) fn grab_at_start(&mut self) {
        let ready = self.window.is_configured() && self.pointer.proxy.is_some();
        if ready && std::mem::take(&mut self.grab.at_start) && !self.grab.is_requested() {
            self.take_pointer();
        }
    }

    /// Requests that the compositor lock the pointer.
    pub(super) fn take_pointer(&mut self) {
        let (Some(constraints), Some(relative)) =
            (&self.globals.constraints, &self.globals.relative)
        else {
            tracing::warn!("the compositor can't lock the pointer: the pointer stays free");
            return;
        };
        let Some(pointer) = &self.pointer.proxy else {
            tracing::warn!("there is no pointer to lock");
            return;
        };
        let window = &self.stage.surfaces.window;
        let lifetime = Lifetime::Persistent;
        let lock = constraints.lock_pointer(window, pointer, None, lifetime, &self.queue, ());
        let motion = relative.get_relative_pointer(pointer, &self.queue, ());
        self.grab.lock = Some((lock, motion));
        self.grab.rest = (0.0, 0.0);
        self.inhibit_shortcuts();
    }

    /// Releases the pointer and the desktop's shortcuts.
    pub(super) fn release(&mut self) {
        let Some((lock, motion)) = self.grab.lock.take() else {
            return;
        };
        lock.destroy();
        motion.destroy();
        self.active_changed(false);
        self.inhibit_shortcuts();
    }

    /// Grabs the pointer if the host's application requests it, the user plays in this window, and the user has not
    /// released the pointer manually since the request. When the request ends, releases a pointer that was grabbed
    /// because of it.
    pub(super) fn follow_request(&mut self) {
        let wanted = {
            let scene = self.stage.scene();
            scene.relative && !scene.observer
        };
        if self.grab.is_requested() {
            if !wanted && self.grab.for_host {
                self.release();
            }
            return;
        }
        let playing = self.keyboard.has_focus() && self.pointer.proxy.is_some();
        if wanted && !self.grab.declined && playing {
            self.grab.for_host = true;
            self.take_pointer();
        }
    }

    /// Captures the desktop's shortcuts while the pointer is grabbed, or while the window is full screen.
    pub(super) fn inhibit_shortcuts(&mut self) {
        let wanted = self.grab.is_requested() || self.window.full_screen;
        let offered = self.globals.inhibitors.as_ref();
        match (
            &self.grab.inhibitor,
            offered.zip(self.globals.seat.as_ref()),
        ) {
            (None, Some((inhibitors, seat))) if wanted => {
                let window = &self.stage.surfaces.window;
                let inhibitor = inhibitors.inhibit_shortcuts(window, seat, &self.queue, ());
                self.grab.inhibitor = Some(inhibitor);
            }
            (Some(inhibitor), _) if !wanted => {
                inhibitor.destroy();
                self.grab.inhibitor = None;
            }
            _ => {}
        }
    }

    fn active_changed(&mut self, active: bool) {
        if std::mem::replace(&mut self.grab.active, active) == active {
            return;
        }
        self.ready.push_back(SourceEvent::Grabbed(active));
        self.change(|scene| scene.grabbed = active);
    }
}

/// Removes the whole pixels from `rest`, and returns them.
fn whole(rest: &mut f64) -> i16 {
    let pixels = rest.trunc().clamp(f64::from(i16::MIN), f64::from(i16::MAX));
    *rest -= pixels;
    // The clamp ensures the range.
    #[allow(clippy::cast_possible_truncation)]
    let pixels = pixels as i16;
    pixels
}

impl Dispatch<ZwpLockedPointerV1, ()> for State {
    fn event(
        state: &mut State,
        lock: &ZwpLockedPointerV1,
        event: zwp_locked_pointer_v1::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        let current = state.grab.lock.as_ref();
        if !current.is_some_and(|(current, _)| current == lock) {
            // This event is for an older lock, which has been destroyed.
            return;
        }
        match event {
            zwp_locked_pointer_v1::Event::Locked => state.active_changed(true),
            zwp_locked_pointer_v1::Event::Unlocked => state.active_changed(false),
            _ => {}
        }
    }
}

impl Dispatch<ZwpRelativePointerV1, ()> for State {
    fn event(
        state: &mut State,
        _: &ZwpRelativePointerV1,
        event: zwp_relative_pointer_v1::Event,
        (): &(),
        _: &Connection,
        _: &QueueHandle<State>,
    ) {
        if let zwp_relative_pointer_v1::Event::RelativeMotion {
            dx_unaccel,
            dy_unaccel,
            ..
        } = event
            && state.grab.is_active()
        {
            let rest = &mut state.grab.rest;
            rest.0 += dx_unaccel;
            rest.1 += dy_unaccel;
            let (dx, dy) = (whole(&mut rest.0), whole(&mut rest.1));
            if (dx, dy) != (0, 0) {
                state.send(InputEvent::PointerRelative { dx, dy });
            }
        }
    }
}

delegate_noop!(State: ignore ZwpKeyboardShortcutsInhibitorV1);
