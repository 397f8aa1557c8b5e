//! The events that wait for `xrPollEvent`.

use std::collections::VecDeque;

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::life::State;

/// Events that wait at most: an application that never asks loses the oldest.
const MOST: usize = 128;

/// What an application is told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Event {
    /// A session went into a state.
    State(xr::Session, State, Instant),
    /// The player holds something else, or something for the first time.
    Profile(xr::Session),
    /// The player's display shows another number of pictures a second than before.
    Refresh(xr::Session, f32, f32),
    /// So many events were lost.
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
    waiting: VecDeque<Event>,
    lost: u32,
}

impl Events {
    pub(crate) fn push(&mut self, event: Event) {
        if self.waiting.len() >= MOST {
            self.waiting.pop_front();
            self.lost = self.lost.saturating_add(1);
        }
        self.waiting.push_back(event);
    }

    /// The oldest; that some were lost is told first.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.lost) {
            0 => self.waiting.pop_front(),
            lost => Some(Event::Lost(lost)),
        }
    }

    /// A session was destroyed: its handle is told of no more.
    pub(crate) fn forget(&mut self, session: xr::Session) {
        self.waiting
            .retain(|event| event.session() != Some(session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_asks_loses_the_oldest_and_is_told() {
        let mut events = Events::default();
        let [one, other] = [1, 2].map(<xr::Session as xr::Handle>::from_raw);
        let ready = |session| Event::State(session, State::Ready, Instant(7));
        for _ in 0..MOST + 2 {
            events.push(ready(one));
        }
        events.push(ready(other));
        assert_eq!(events.pop(), Some(Event::Lost(3)));
        assert_eq!(events.pop(), Some(ready(one)));
        events.forget(one);
        assert_eq!(events.pop(), Some(ready(other)));
        assert_eq!(events.pop(), None);
    }
}
