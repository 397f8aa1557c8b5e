//! The host's updates for a browser, other than frames. They are passed from the subscriber's thread to the gateway's
//! thread. Only the newest update of each kind is kept, so that no queue grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openuvr_proto::control::clipboard::{ClipboardDirections, ClipboardText};
use openuvr_proto::control::negotiate::{ObserverReason, Role};
use openuvr_proto::controller::Haptic;
use openuvr_proto::input::pad::{MAX_PADS, Rumble};
use openuvr_proto::send::update::{CursorShape, Update};
use openuvr_proto::wire::control::GoodbyeReason;

/// The pending updates.
#[derive(Default)]
pub(crate) struct Updates(Mutex<PendingUpdates>);

#[derive(Default)]
pub(crate) struct PendingUpdates {
    pub(crate) role: Option<(Role, Option<ObserverReason>)>,
    pub(crate) shown: Option<bool>,
    pub(crate) relative: Option<bool>,
    pub(crate) shape: Option<Arc<CursorShape>>,
    /// Pointer position. The inner `None` means that the pointer is outside the picture.
    pub(crate) moved: Option<Option<(u16, u16)>>,
    /// The newest control event as text.
    pub(crate) decision: Option<String>,
    pub(crate) ways: Option<ClipboardDirections>,
    pub(crate) clipboard: Option<ClipboardText>,
    /// The rumble of each pad, with its duration in milliseconds.
    pub(crate) rumbles: [Option<(Rumble, u16)>; MAX_PADS as usize],
    /// The haptic effect for each hand.
    pub(crate) haptics: [Option<Haptic>; 2],
    pub(crate) ended: Option<GoodbyeReason>,
}

impl PendingUpdates {
    /// Discards updates that concern only the player.
    fn forget_players(&mut self) {
        self.clipboard = None;
        self.rumbles = Default::default();
        self.haptics = [None; 2];
    }
}

impl Updates {
    pub(crate) fn put(&self, update: Update) {
        let mut waiting = self.lock();
        match update {
            Update::Role {
                role,
                observer_reason,
            } => {
                if role != Role::Player {
                    waiting.forget_players();
                }
                waiting.role = Some((role, observer_reason));
            }
            Update::SourceShown(shown) => waiting.shown = Some(shown),
            Update::RelativeMouse(wanted) => waiting.relative = Some(wanted),
            Update::CursorShape(shape) => waiting.shape = Some(shape),
            Update::CursorMoved(at) => waiting.moved = Some(at),
            Update::ControlEvent(decision) => waiting.decision = Some(decision.to_string()),
            Update::ClipboardDirections(ways) => waiting.ways = Some(ways),
            Update::Clipboard(text) => waiting.clipboard = Some(text),
            Update::Rumble {
                pad,
                rumble,
                millis,
            } => waiting.rumbles[pad.index()] = Some((rumble, millis)),
            Update::Haptic(haptic) => waiting.haptics[haptic.hand.index()] = Some(haptic),
            Update::Ended(reason) => {
                waiting.forget_players();
                waiting.ended = Some(reason);
            }
        }
    }

    pub(crate) fn take(&self) -> PendingUpdates {
        std::mem::take(&mut *self.lock())
    }

    /// Why the host ended the subscription, if it has. The update remains pending.
    pub(crate) fn ended(&self) -> Option<GoodbyeReason> {
        self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, PendingUpdates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the host ended the session, as a message for the user.
pub(crate) fn ended(reason: GoodbyeReason) -> &'static str {
    match reason {
        GoodbyeReason::Quit => "the host has stopped",
        GoodbyeReason::SourceEnded => "the application at the host has ended",
        GoodbyeReason::TakenOver => {
            "another client took over, and the host's limit of observers is reached"
        }
        GoodbyeReason::Forbidden => "the host forbids this device",
        GoodbyeReason::Failed => "the host failed: see its messages",
    }
}
