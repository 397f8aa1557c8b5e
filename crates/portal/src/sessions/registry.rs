//! The latest known state of each session.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use super::figures::Figures;
use crate::launch::{Observed, Phase, SessionId};

/// The latest known state of a session.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SessionState {
    pub(crate) observed: Observed,
    /// When this portal first observed the session's current phase.
    pub(crate) since: Instant,
    /// Whether all users may watch the session.
    pub(crate) shared: bool,
    /// Whether the portal is ending the session.
    pub(crate) stopping: bool,
    /// The session's subscriber statistics.
    pub(crate) figures: Option<Figures>,
}

#[derive(Default)]
struct Table {
    sessions: BTreeMap<SessionId, SessionState>,
    /// Shared sessions, including those that the engine has not reported yet.
    shared: Vec<SessionId>,
    reasons: BTreeMap<SessionId, String>,
    trouble: Option<String>,
}

/// The table of sessions. Notifies its watchers of changes.
pub(super) struct Registry {
    table: Mutex<Table>,
    changed: watch::Sender<u64>,
}

impl Default for Registry {
    fn default() -> Registry {
        Registry {
            table: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn apply(&self, mut observed: Observed, now: Instant) {
        let mut table = self.lock();
        let session = observed.session;
        let own = table.reasons.get(&session).cloned();
        if let (Phase::Ended { why, .. }, Some(own)) = (&mut observed.phase, own) {
            *why = own;
        }
        let shared = table.shared.contains(&session);
        let before = table.sessions.get(&session);
        if before.is_some_and(|state| state.observed == observed) {
            return;
        }
        let same = |state: &&SessionState| {
            std::mem::discriminant(&state.observed.phase) == std::mem::discriminant(&observed.phase)
        };
        let state = SessionState {
            since: before.filter(same).map_or(now, |state| state.since),
            shared: before.map_or(shared, |state| state.shared),
            stopping: before.is_some_and(|state| state.stopping),
            figures: before.filter(same).and_then(|state| state.figures.clone()),
            observed,
        };
        table.sessions.insert(session, state);
        drop(table);
        self.notify();
    }

    /// Adds a requested or listed session. Does nothing if the registry already contains the session, because its state
    /// there is newer.
    pub(super) fn add(&self, asked: Observed, now: Instant) {
        let mut table = self.lock();
        if table.sessions.contains_key(&asked.session) {
            return;
        }
        let state = SessionState {
            since: now,
            shared: table.shared.contains(&asked.session),
            stopping: false,
            figures: None,
            observed: asked,
        };
        table.sessions.insert(state.observed.session, state);
        drop(table);
        self.notify();
    }

    pub(super) fn forget(&self, session: SessionId) {
        let mut table = self.lock();
        table.sessions.remove(&session);
        table.reasons.remove(&session);
        table.shared.retain(|of| *of != session);
        drop(table);
        self.notify();
    }

    pub(super) fn share(&self, session: SessionId, shared: bool) {
        let mut table = self.lock();
        table.shared.retain(|of| *of != session);
        if shared {
            table.shared.push(session);
        }
        if let Some(state) = table.sessions.get_mut(&session) {
            state.shared = shared;
        }
        drop(table);
        self.notify();
    }

    pub(super) fn stopping(&self, session: SessionId, why: &str) {
        let mut table = self.lock();
        table.reasons.insert(session, why.to_owned());
        if let Some(state) = table.sessions.get_mut(&session) {
            state.stopping = true;
        }
    }

    /// Reverts [`stopping`](Self::stopping), because the engine did not accept the stop.
    pub(super) fn not_stopping(&self, session: SessionId) {
        let mut table = self.lock();
        table.reasons.remove(&session);
        if let Some(state) = table.sessions.get_mut(&session) {
            state.stopping = false;
        }
    }

    /// Sets a session's subscriber statistics. Does not notify watchers: statistics change continuously, and their
    /// readers poll.
    pub(super) fn set_figures(&self, session: SessionId, figures: Option<Figures>) {
        if let Some(state) = self.lock().sessions.get_mut(&session) {
            state.figures = figures;
        }
    }

    pub(super) fn of(&self, session: SessionId) -> Option<SessionState> {
        self.lock().sessions.get(&session).cloned()
    }

    pub(super) fn of_user(&self, user: &str) -> Vec<SessionState> {
        self.select(|state| state.observed.user == user)
    }

    pub(super) fn visible_to(&self, user: &str) -> Vec<SessionState> {
        self.select(|state| state.observed.user == user || state.shared)
    }

    pub(super) fn all(&self) -> Vec<SessionState> {
        self.select(|_| true)
    }

    /// Selects sessions, newest first.
    fn select(&self, which: impl Fn(&SessionState) -> bool) -> Vec<SessionState> {
        let table = self.lock();
        let all = table.sessions.values();
        let mut selected: Vec<SessionState> = all.filter(|state| which(state)).cloned().collect();
        drop(table);
        selected.sort_by_key(|state| Reverse(state.observed.launched));
        selected
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    pub(super) fn set_trouble(&self, trouble: Option<String>) {
        let mut table = self.lock();
        if table.trouble != trouble {
            table.trouble = trouble;
            drop(table);
            self.notify();
        }
    }
}
