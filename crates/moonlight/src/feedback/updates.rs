//! The host's updates for a session's client. Only the newest of each kind is kept, so that a slow client has no queue.

use std::sync::Mutex;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::input::pad::{MAX_PADS, PadId, Rumble};
use openuvr_proto::send::update::Update;
use openuvr_proto::wire::control::GoodbyeReason;
use openuvr_runtime::lock::lock;

/// Pending updates.
#[derive(Debug, Default)]
pub struct Updates(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    role: Option<Role>,
    rumbles: [Option<(Rumble, u16)>; MAX_PADS as usize],
    ended: Option<GoodbyeReason>,
}

impl Updates {
    /// Stores an update and replaces an earlier update of the same kind. Updates for which the protocol has no message,
    /// such as cursor and clipboard, are ignored.
    pub fn put(&self, update: Update) {
        let mut pending = lock(&self.0);
        match update {
            Update::Role { role, .. } => pending.role = Some(role),
            Update::Rumble {
                pad,
                rumble,
                millis,
            } => pending.rumbles[pad.index()] = Some((rumble, millis)),
            Update::Ended(reason) => pending.ended = Some(reason),
            _ => {}
        }
    }

    /// Takes the new role, if it has changed.
    pub fn take_role(&self) -> Option<Role> {
        lock(&self.0).role.take()
    }

    /// Takes the new motor state of a pad whose motors have changed, with its duration in milliseconds.
    pub fn take_rumble(&self) -> Option<(PadId, Rumble, u16)> {
        let mut pending = lock(&self.0);
        PadId::all().find_map(|pad| {
            let (rumble, millis) = pending.rumbles[pad.index()].take()?;
            Some((pad, rumble, millis))
        })
    }

    /// The reason for which the host ended the subscription.
    pub fn ended(&self) -> Option<GoodbyeReason> {
        lock(&self.0).ended
    }
}
