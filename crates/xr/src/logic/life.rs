//! Lifecycle of a session: its states and transitions (OpenXR 1.0, section 9.3).
//!
//! ```text
//! Idle ─► Ready ─ begin ─► Synchronized ◄─► Visible ◄─► Focused
//!  ▲                            │ exit requested
//!  └────── end ── Stopping ◄────┘        then Idle ─► Exiting
//! ```
//! Visible means that a client is connected, focused that one has the player role: without clients the
//! application need not render.

use openxr_sys as xr;

use crate::border::Outcome;

/// Session state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    Idle,
    Ready,
    Synchronized,
    Visible,
    Focused,
    Stopping,
    Exiting,
}

impl State {
    pub(crate) fn raw(self) -> xr::SessionState {
        match self {
            State::Idle => xr::SessionState::IDLE,
            State::Ready => xr::SessionState::READY,
            State::Synchronized => xr::SessionState::SYNCHRONIZED,
            State::Visible => xr::SessionState::VISIBLE,
            State::Focused => xr::SessionState::FOCUSED,
            State::Stopping => xr::SessionState::STOPPING,
            State::Exiting => xr::SessionState::EXITING,
        }
    }
}

/// The kind of clients connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Audience {
    /// No client.
    #[default]
    Nobody,
    /// Observers only.
    Watches,
    /// A player.
    Plays,
}

/// A session's state and the conditions of its transitions.
#[derive(Debug)]
pub(crate) struct Life {
    state: State,
    running: bool,
    exits: bool,
    synchronized: bool,
    audience: Audience,
    /// State changes that were not reported to the application yet.
    news: Vec<State>,
}

impl Life {
    /// A new session, ready to begin.
    pub(crate) fn new() -> Life {
        Life {
            state: State::Ready,
            running: false,
            exits: false,
            synchronized: false,
            audience: Audience::Nobody,
            news: vec![State::Idle, State::Ready],
        }
    }

    /// Takes the state changes since the last call.
    pub(crate) fn news(&mut self) -> Vec<State> {
        std::mem::take(&mut self.news)
    }

    /// Whether it was begun and not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// Whether a client sees its pictures.
    pub(crate) fn is_visible(&self) -> bool {
        matches!(self.state, State::Visible | State::Focused)
    }

    /// Whether it gets the input of a player.
    pub(crate) fn is_focused(&self) -> bool {
        self.state == State::Focused
    }

    /// `xrBeginSession`.
    pub(crate) fn begin(&mut self) -> Outcome<()> {
        if self.running {
            return Err(xr::Result::ERROR_SESSION_RUNNING);
        }
        if self.state != State::Ready {
            return Err(xr::Result::ERROR_SESSION_NOT_READY);
        }
        self.running = true;
        Ok(())
    }

    /// The application is synchronised: its first frame has ended, or the session is headless.
    pub(crate) fn synchronize(&mut self) {
        self.synchronized = self.running;
        self.advance();
    }

    /// Sets the audience.
    pub(crate) fn watched(&mut self, audience: Audience) {
        self.audience = audience;
        self.advance();
    }

    /// `xrRequestExitSession`.
    pub(crate) fn request_exit(&mut self) -> Outcome<()> {
        if !self.running {
            return Err(xr::Result::ERROR_SESSION_NOT_RUNNING);
        }
        self.exits = true;
        self.advance();
        Ok(())
    }

    /// `xrEndSession`.
    pub(crate) fn end(&mut self) -> Outcome<()> {
        if !self.running {
            return Err(xr::Result::ERROR_SESSION_NOT_RUNNING);
        }
        if self.state != State::Stopping {
            return Err(xr::Result::ERROR_SESSION_NOT_STOPPING);
        }
        self.running = false;
        self.synchronized = false;
        self.enter(State::Idle);
        // The runtime stops a session only at the application's request to exit.
        self.enter(State::Exiting);
        Ok(())
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.news.push(state);
    }

    /// Makes all transitions that are due, one by one.
    fn advance(&mut self) {
        while let Some(next) = self.next() {
            self.enter(next);
        }
    }

    fn next(&self) -> Option<State> {
        if !self.running {
            return None;
        }
        let wanted = match self.audience {
            _ if self.exits => State::Stopping,
            Audience::Nobody => State::Synchronized,
            Audience::Watches => State::Visible,
            Audience::Plays => State::Focused,
        };
        match self.state {
            State::Ready => (self.synchronized || self.exits).then_some(State::Synchronized),
            State::Synchronized if self.exits => Some(State::Stopping),
            State::Synchronized => (wanted > State::Synchronized).then_some(State::Visible),
            State::Visible if self.exits || wanted < State::Visible => Some(State::Synchronized),
            State::Visible => (wanted > State::Visible).then_some(State::Focused),
            State::Focused => (self.exits || wanted < State::Focused).then_some(State::Visible),
            State::Idle | State::Stopping | State::Exiting => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State::*;
    use super::*;

    fn begun() -> Life {
        let mut life = Life::new();
        assert_eq!(life.news(), [Idle, Ready]);
        life.begin().unwrap();
        life
    }

    #[test]
    fn states_follow_the_specified_order() {
        let mut life = begun();
        life.watched(Audience::Plays);
        assert_eq!(life.news(), [], "not synchronized yet");
        life.synchronize();
        assert_eq!(life.news(), [Synchronized, Visible, Focused]);
        life.synchronize();
        assert_eq!(life.news(), []);
        life.request_exit().unwrap();
        assert_eq!(life.news(), [Visible, Synchronized, Stopping]);
        life.watched(Audience::Nobody);
        assert_eq!(life.news(), []);
        life.end().unwrap();
        assert_eq!(life.news(), [Idle, Exiting]);
        assert!(!life.is_running());
    }

    #[test]
    fn the_audience_controls_visibility_and_focus() {
        let mut life = begun();
        life.synchronize();
        assert_eq!(life.news(), [Synchronized]);
        assert!(!life.is_visible());
        life.watched(Audience::Watches);
        assert_eq!(life.news(), [Visible]);
        life.watched(Audience::Plays);
        assert_eq!(life.news(), [Focused]);
        assert!(life.is_visible() && life.is_focused());
        life.watched(Audience::Nobody);
        assert_eq!(life.news(), [Visible, Synchronized]);
        life.watched(Audience::Plays);
        assert_eq!(life.news(), [Visible, Focused]);
    }

    #[test]
    fn calls_out_of_order_are_rejected() {
        let mut life = Life::new();
        let not_running = Err(xr::Result::ERROR_SESSION_NOT_RUNNING);
        assert_eq!(life.end(), not_running);
        assert_eq!(life.request_exit(), not_running);
        life.begin().unwrap();
        assert_eq!(life.begin(), Err(xr::Result::ERROR_SESSION_RUNNING));
        assert_eq!(life.end(), Err(xr::Result::ERROR_SESSION_NOT_STOPPING));
        life.request_exit().unwrap();
        assert_eq!(life.news(), [Idle, Ready, Synchronized, Stopping]);
        life.end().unwrap();
        assert_eq!(life.begin(), Err(xr::Result::ERROR_SESSION_NOT_READY));
    }
}
