//! Counters of responses.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Numbers of responses by status class, and numbers of failed log-ins.
#[derive(Default)]
pub(crate) struct Counts {
    pub(super) answers: [AtomicU64; 5],
    pub(super) logins_wrong: AtomicU64,
    pub(super) logins_limited: AtomicU64,
    pub(super) logins_by_provider: AtomicU64,
}

impl Counts {
    pub(super) fn login_wrong(&self) {
        self.logins_wrong.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn login_limited(&self) {
        self.logins_limited.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed log-in through the provider.
    pub(super) fn login_by_provider_refused(&self) {
        self.logins_by_provider.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn answered(&self, status: StatusCode) {
        let hundreds = usize::from(status.as_u16() / 100);
        let count = hundreds.checked_sub(1).and_then(|n| self.answers.get(n));
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
