//! Session events of a host: MUDs join, leave and change roles.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::sync::Mutex;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::host::Ending;
use openuvr_proto::id::SubscriberId;
use openuvr_runtime::host::Notice;
use openuvr_runtime::lock::lock;

use crate::ffi::{Sized32, give_text};

/// The kind of an `openuvr_event`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_EVENT_KIND {
    /// A MUD named `name` has joined as `session`, with `role`.
    OPENUVR_EVENT_JOINED = 1,
    /// The MUD's role has changed to `role`.
    OPENUVR_EVENT_ROLE = 2,
    /// The MUD has left; `left` is the reason.
    OPENUVR_EVENT_LEFT = 3,
}

/// The role of a MUD.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_ROLE {
    /// Sends input. At most one MUD.
    OPENUVR_ROLE_PLAYER = 1,
    /// Only watches.
    OPENUVR_ROLE_OBSERVER = 2,
}

/// Why a MUD has left.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OPENUVR_LEFT {
    /// It sent a goodbye.
    OPENUVR_LEFT_GOODBYE = 1,
    /// Timeout: no more datagrams arrived.
    OPENUVR_LEFT_SILENT = 2,
    /// The same device started a new session.
    OPENUVR_LEFT_REPLACED = 3,
    /// The host ended the session, for example because access was revoked.
    OPENUVR_LEFT_ENDED = 4,
}

use OPENUVR_EVENT_KIND::*;

/// A session event of a host. Set `size` to `sizeof(struct openuvr_event)`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct openuvr_event {
    /// Bytes of this structure.
    pub size: u32,
    /// An `OPENUVR_EVENT_KIND`: determines which fields are valid.
    pub kind: u32,
    /// The session, as in `openuvr_input`.
    pub session: u32,
    /// An `OPENUVR_ROLE`.
    pub role: u32,
    /// An `OPENUVR_LEFT`.
    pub left: u32,
    /// The maximum picture width that the MUD requests as a player; 0: any. A larger picture is scaled down before it
    /// is encoded; drawing at this size avoids that.
    pub max_width: u32,
    /// The maximum height.
    pub max_height: u32,
    /// Unused.
    pub unused: u32,
    /// The maximum bitrate in bit/s that the MUD requests as a player; 0: the host's limit.
    pub max_bitrate: u64,
    /// The MUD's name, truncated if necessary.
    pub name: [c_char; 64],
}

// SAFETY: the type is `repr(C)` and contains only numbers, for which every bit pattern is valid.
unsafe impl Sized32 for openuvr_event {}

impl Default for openuvr_event {
    fn default() -> openuvr_event {
        openuvr_event {
            size: crate::size_of32::<openuvr_event>(),
            kind: 0,
            session: 0,
            role: 0,
            left: 0,
            max_width: 0,
            max_height: 0,
            unused: 0,
            max_bitrate: 0,
            name: [0; 64],
        }
    }
}

/// The maximum number of pending events. If there are more, the oldest are dropped.
const MAX_PENDING: usize = 256;

/// Pending events for the application, oldest first.
#[derive(Default)]
pub(crate) struct Events(Mutex<State>);

#[derive(Default)]
struct State {
    pending: VecDeque<openuvr_event>,
    /// The last event of each present session.
    sessions: Vec<openuvr_event>,
}

impl Events {
    pub(crate) fn record(&self, notice: &Notice) {
        let mut state = lock(&self.0);
        match notice {
            Notice::Subscribed {
                subscriber,
                role,
                name,
                constraints,
                ..
            } => {
                let most = constraints.size.unwrap_or_default();
                let mut event = openuvr_event {
                    kind: OPENUVR_EVENT_JOINED as u32,
                    session: subscriber.number(),
                    role: of_role(*role),
                    max_width: most.width,
                    max_height: most.height,
                    max_bitrate: constraints.bitrate.unwrap_or_default().0,
                    ..openuvr_event::default()
                };
                // Control characters are removed, because a peer may send any name.
                let name: String = name.chars().filter(|c| !c.is_control()).collect();
                // SAFETY: the field `name` is writable for its length.
                unsafe { give_text(&name, event.name.as_mut_ptr(), event.name.len()) };
                state.sessions.push(event);
                state.add(event);
            }
            Notice::RoleChanged(subscriber, role) => {
                let Some(known) = state.known(*subscriber) else {
                    return;
                };
                (known.kind, known.role) = (OPENUVR_EVENT_ROLE as u32, of_role(*role));
                let event = *known;
                state.add(event);
            }
            Notice::Ended(subscriber, ending) => {
                // A refused client has not joined.
                let Some(known) = state.known(*subscriber) else {
                    return;
                };
                let event = openuvr_event {
                    kind: OPENUVR_EVENT_LEFT as u32,
                    left: of_ending(*ending),
                    ..*known
                };
                state
                    .sessions
                    .retain(|known| known.session != subscriber.number());
                state.add(event);
            }
            _ => {}
        }
    }

    /// Takes the oldest pending event.
    pub(crate) fn take(&self) -> Option<openuvr_event> {
        lock(&self.0).pending.pop_front()
    }
}

impl State {
    fn known(&mut self, subscriber: SubscriberId) -> Option<&mut openuvr_event> {
        self.sessions
            .iter_mut()
            .find(|known| known.session == subscriber.number())
    }

    fn add(&mut self, event: openuvr_event) {
        if self.pending.len() >= MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(event);
    }
}

fn of_role(role: Role) -> u32 {
    match role {
        Role::Player => OPENUVR_ROLE::OPENUVR_ROLE_PLAYER as u32,
        Role::Observer => OPENUVR_ROLE::OPENUVR_ROLE_OBSERVER as u32,
    }
}

fn of_ending(ending: Ending) -> u32 {
    use OPENUVR_LEFT::*;
    let left = match ending {
        Ending::Goodbye(_) => OPENUVR_LEFT_GOODBYE,
        Ending::Silent => OPENUVR_LEFT_SILENT,
        Ending::Replaced => OPENUVR_LEFT_REPLACED,
        Ending::Refused(_) | Ending::Closed => OPENUVR_LEFT_ENDED,
    };
    left as u32
}

#[cfg(test)]
mod tests {
    use openuvr_proto::control::negotiate::ClientConstraints;
    use openuvr_proto::id::{RenditionId, SessionId};
    use openuvr_proto::units::Size;
    use openuvr_proto::wire::control::GoodbyeReason;

    use super::*;

    fn joins(session: u32, role: Role) -> Notice {
        Notice::Subscribed {
            subscriber: SubscriberId::Session(SessionId(session)),
            role,
            name: "at\x1btic".to_owned(),
            software: String::new(),
            constraints: ClientConstraints {
                bitrate: None,
                size: Some(Size::new(640, 480)),
                fps: None,
                chosen_fps: None,
            },
            rendition: RenditionId(1),
        }
    }

    #[test]
    fn session_events_are_reported_in_order() {
        let events = Events::default();
        events.record(&Notice::Ended(SessionId(9).into(), Ending::Closed));
        assert!(events.take().is_none(), "it had not joined");
        events.record(&joins(1, Role::Player));
        events.record(&Notice::RoleChanged(SessionId(1).into(), Role::Observer));
        let quit = Ending::Goodbye(GoodbyeReason::Quit);
        events.record(&Notice::Ended(SessionId(1).into(), quit));
        let taken = std::iter::from_fn(|| events.take());
        let taken: Vec<_> = taken.map(|e| (e.kind, e.role, e.left)).collect();
        assert_eq!(taken, [(1, 1, 0), (2, 2, 0), (3, 2, 1)]);
        events.record(&joins(2, Role::Observer));
        let event = events.take().expect("it joined");
        assert_eq!((event.max_width, event.max_height), (640, 480));
        let name = event.name;
        let name: Vec<u8> = name.iter().map(|c| c.to_ne_bytes()[0]).collect();
        assert_eq!(&name[..7], b"attic\0\0", "without control characters");
    }

    #[test]
    fn the_oldest_events_are_dropped() {
        let events = Events::default();
        for session in 0..300 {
            events.record(&joins(session, Role::Observer));
        }
        assert_eq!(events.take().map(|e| e.session), Some(44));
    }
}
