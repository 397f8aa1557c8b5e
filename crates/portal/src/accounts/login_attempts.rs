//! Log-ins that are under way: each waits until the limits have room for it, and says how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::limiter::{Admission, AttemptResult, AttemptSource, CounterKey, Limiter};
use crate::network::Network;

/// How long an attempt waits for others; a guess: a browser's person waits no longer, either.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The limits of log-ins.
#[derive(Default)]
pub(crate) struct LoginAttempts {
    limiter: Mutex<Limiter>,
    ended: Notify,
}

/// Why an attempt does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptRefused {
    /// Too many were wrong; they are forgotten after this time.
    TooManyWrong(Duration),
    /// Too many others are under way.
    Busy,
}

/// An attempt that has begun. Dropped without a word, it is none.
pub(crate) struct LoginAttempt {
    attempts: Arc<LoginAttempts>,
    who: AttemptSource,
    counted: Vec<CounterKey>,
    ended: AttemptResult,
}

impl LoginAttempts {
    /// Begins an attempt as soon as there is room for it.
    pub(crate) async fn start(
        self: &Arc<LoginAttempts>,
        who: AttemptSource,
    ) -> Result<LoginAttempt, AttemptRefused> {
        let until = tokio::time::Instant::now() + TIMEOUT;
        loop {
            // Before the look, so that no end falls between.
            let ended = self.ended.notified();
            let begun = self.lock().start(&who, Instant::now());
            match begun {
                Admission::Admitted(counted) => {
                    return Ok(LoginAttempt {
                        attempts: Arc::clone(self),
                        who,
                        counted,
                        ended: AttemptResult::Unknown,
                    });
                }
                Admission::Refused(wait) => return Err(AttemptRefused::TooManyWrong(wait)),
                Admission::Later => {}
            }
            let waited = timeout_at(until, ended).await;
            waited.map_err(|_| AttemptRefused::Busy)?;
        }
    }

    /// A log-in by a provider begins, or has to wait for so long.
    pub(crate) fn start_by_provider(&self, from: Network) -> Result<(), Duration> {
        self.lock().start_by_provider(from, Instant::now())
    }

    /// It came to a good end.
    pub(crate) fn succeeded_by_provider(&self, from: Network) {
        self.lock().succeeded_by_provider(from);
    }

    fn lock(&self) -> MutexGuard<'_, Limiter> {
        // Counts may be off by one after a panic, no more.
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginAttempt {
    /// Says how it ended.
    pub(crate) fn end(mut self, right: bool) {
        self.ended = match right {
            true => AttemptResult::Correct,
            false => AttemptResult::Wrong,
        };
    }
}

impl Drop for LoginAttempt {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut limiter = self.attempts.lock();
        limiter.end(&self.who, &self.counted, self.ended, now);
        drop(limiter);
        self.attempts.ended.notify_waiters();
    }
}
