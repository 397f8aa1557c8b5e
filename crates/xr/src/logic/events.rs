//! Event queue of `xrPollEvent`.

use std::collections::VecDeque;

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::lifecycle::State;

/// Maximum number of queued events. If the application does not poll, the queue drops the oldest.
const MAX_EVENTS: usize = 128;

/// An event for the application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Event {
    /// A session has changed its state.
    State(xr::Session, State, Instant),
    /// The interaction profile has changed.
    Profile(xr::Session),
    /// The display refresh rate has changed: old and new rate in Hz.
    Refresh(xr::Session, f32, f32),
    /// The number of dropped events.
    Lost(u32),
}

impl Event {
    fn session(&self) -> Option<xr::Session> {
        match self {
            Event::State(session, ..) | Event::Profile(session) | Event::Refresh(session, ..) => {
                Some(*session)
            }
            Event::Lost(_) => None,
        }
    }
}

/// The queue of an instance.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    lost: u32,
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.queue.len() >= MAX_EVENTS {
            self.queue.pop_front();
            self.lost = self.lost.saturating_add(1);
        }
        self.queue.push_back(event);
    }

    /// The oldest event, preceded by the number of dropped events.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.lost) {
            0 => self.queue.pop_front(),
            lost => Some(Event::Lost(lost)),
        }
    }

    /// Removes the events of a destroyed session.
    pub(crate) fn remove_session(&mut self, session: xr::Session) {
        self.queue.retain(|event| event.session() != Some(session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_drops_and_reports_the_oldest() {
        let mut events = Events::default();
        let [one, other] = [1, 2].map(<xr::Session as xr::Handle>::from_raw);
        let ready = |session| Event::State(session, State::Ready, Instant(7));
        for _ in 0..MAX_EVENTS + 2 {
            events.push(ready(one));
        }
        events.push(ready(other));
        assert_eq!(events.pop(), Some(Event::Lost(3)));
        assert_eq!(events.pop(), Some(ready(one)));
        events.remove_session(one);
        assert_eq!(events.pop(), Some(ready(other)));
        assert_eq!(events.pop(), None);
    }
}
