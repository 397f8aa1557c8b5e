//! Lifecycle of a session: its states and transitions (OpenXR 1.0, section 9.3).
//!
//! ```text
//! Idle ─► Ready ─ begin ─► Synchronized ◄─► Visible ◄─► Focused
//!  ▲                            │ exit requested
//!  └────── end ── Stopping ◄────┘        then Idle ─► Exiting
//! ```
//! A session is visible if a client is connected, and focused if a client has the player role. Without clients, the
//! application need not render.

use openxr_sys as xr;

use crate::ffi::Outcome;

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
    None,
    /// Observers only.
    Observers,
    /// A player.
    Player,
}

/// A session's state and the conditions of its transitions.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    state: State,
    running: bool,
    exit_requested: bool,
    synchronized: bool,
    audience: Audience,
    /// State changes that have not been reported to the application yet.
    changes: Vec<State>,
}

impl Lifecycle {
    /// A new session, ready to begin.
    pub(crate) fn new() -> Lifecycle {
        Lifecycle {
            state: State::Ready,
            running: false,
            exit_requested: false,
            synchronized: false,
            audience: Audience::None,
            changes: vec![State::Idle, State::Ready],
        }
    }

    /// Takes the state changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<State> {
        std::mem::take(&mut self.changes)
    }

    /// Whether the session has been begun and not ended.
    pub(crate) fn is_running(&self) -> bool {
        self.running
    }

    /// Whether a client displays the session's pictures.
    pub(crate) fn is_visible(&self) -> bool {
        matches!(self.state, State::Visible | State::Focused)
    }

    /// Whether the session gets the input of a player.
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

    /// Marks the session as synchronised. Called when a frame has ended, or when a headless session begins.
    pub(crate) fn synchronize(&mut self) {
        self.synchronized = self.running;
        self.advance();
    }

    pub(crate) fn set_audience(&mut self, audience: Audience) {
        self.audience = audience;
        self.advance();
    }

    /// `xrRequestExitSession`.
    pub(crate) fn request_exit(&mut self) -> Outcome<()> {
        if !self.running {
            return Err(xr::Result::ERROR_SESSION_NOT_RUNNING);
        }
        self.exit_requested = true;
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
        self.changes.push(state);
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
            _ if self.exit_requested => State::Stopping,
            Audience::None => State::Synchronized,
            Audience::Observers => State::Visible,
            Audience::Player => State::Focused,
        };
        match self.state {
            State::Ready => {
                (self.synchronized || self.exit_requested).then_some(State::Synchronized)
            }
            State::Synchronized if self.exit_requested => Some(State::Stopping),
            State::Synchronized => (wanted > State::Synchronized).then_some(State::Visible),
            State::Visible if self.exit_requested || wanted < State::Visible => {
                Some(State::Synchronized)
            }
            State::Visible => (wanted > State::Visible).then_some(State::Focused),
            State::Focused => {
                (self.exit_requested || wanted < State::Focused).then_some(State::Visible)
            }
            State::Idle | State::Stopping | State::Exiting => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State::*;
    use super::*;

    fn begun() -> Lifecycle {
        let mut lifecycle = Lifecycle::new();
        assert_eq!(lifecycle.take_changes(), [Idle, Ready]);
        lifecycle.begin().unwrap();
        lifecycle
    }

    #[test]
    fn states_follow_the_specified_order() {
        let mut lifecycle = begun();
        lifecycle.set_audience(Audience::Player);
        assert_eq!(lifecycle.take_changes(), [], "not synchronized yet");
        lifecycle.synchronize();
        assert_eq!(lifecycle.take_changes(), [Synchronized, Visible, Focused]);
        lifecycle.synchronize();
        assert_eq!(lifecycle.take_changes(), []);
        lifecycle.request_exit().unwrap();
        assert_eq!(lifecycle.take_changes(), [Visible, Synchronized, Stopping]);
        lifecycle.set_audience(Audience::None);
        assert_eq!(lifecycle.take_changes(), []);
        lifecycle.end().unwrap();
        assert_eq!(lifecycle.take_changes(), [Idle, Exiting]);
        assert!(!lifecycle.is_running());
    }

    #[test]
    fn the_audience_controls_visibility_and_focus() {
        let mut lifecycle = begun();
        lifecycle.synchronize();
        assert_eq!(lifecycle.take_changes(), [Synchronized]);
        assert!(!lifecycle.is_visible());
        lifecycle.set_audience(Audience::Observers);
        assert_eq!(lifecycle.take_changes(), [Visible]);
        lifecycle.set_audience(Audience::Player);
        assert_eq!(lifecycle.take_changes(), [Focused]);
        assert!(lifecycle.is_visible() && lifecycle.is_focused());
        lifecycle.set_audience(Audience::None);
        assert_eq!(lifecycle.take_changes(), [Visible, Synchronized]);
        lifecycle.set_audience(Audience::Player);
        assert_eq!(lifecycle.take_changes(), [Visible, Focused]);
    }

    #[test]
    fn calls_out_of_order_are_rejected() {
        let mut lifecycle = Lifecycle::new();
        let not_running = Err(xr::Result::ERROR_SESSION_NOT_RUNNING);
        assert_eq!(lifecycle.end(), not_running);
        assert_eq!(lifecycle.request_exit(), not_running);
        lifecycle.begin().unwrap();
        assert_eq!(lifecycle.begin(), Err(xr::Result::ERROR_SESSION_RUNNING));
        assert_eq!(lifecycle.end(), Err(xr::Result::ERROR_SESSION_NOT_STOPPING));
        lifecycle.request_exit().unwrap();
        assert_eq!(
            lifecycle.take_changes(),
            [Idle, Ready, Synchronized, Stopping]
        );
        lifecycle.end().unwrap();
        assert_eq!(lifecycle.begin(), Err(xr::Result::ERROR_SESSION_NOT_READY));
    }
}
