//! Pending log-ins: each waits until the limits allow it, and reports its result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::limiter::{Admission, AttemptResult, AttemptSource, CounterKey, Limiter};
use crate::network::Network;

/// How long an attempt waits for other attempts (a guess: users do not wait longer than this).
const TIMEOUT: Duration = Duration::from_secs(20);

/// The limits for log-ins.
#[derive(Default)]
pub(crate) struct LoginAttempts {
    limiter: Mutex<Limiter>,
    ended: Notify,
}

/// Why an attempt is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttemptRefused {
    /// Too many wrong passwords. They are forgotten after this time.
    TooManyWrong(Duration),
    /// Too many pending attempts.
    Busy,
}

/// A started attempt. If it is dropped without a result, it does not count.
pub(crate) struct LoginAttempt {
    attempts: Arc<LoginAttempts>,
    source: AttemptSource,
    counted: Vec<CounterKey>,
    ended: AttemptResult,
}

impl LoginAttempts {
    /// Starts an attempt as soon as the limits allow it.
    pub(crate) async fn start(
        self: &Arc<LoginAttempts>,
        source: AttemptSource,
    ) -> Result<LoginAttempt, AttemptRefused> {
        let until = tokio::time::Instant::now() + TIMEOUT;
        loop {
            // The wait is registered before the check, so that no notification is missed.
            let ended = self.ended.notified();
            let admission = self.lock().start(&source, Instant::now());
            match admission {
                Admission::Admitted(counted) => {
                    return Ok(LoginAttempt {
                        attempts: Arc::clone(self),
                        source,
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

    /// Starts a log-in through the provider, or returns the time to wait.
    pub(crate) fn start_by_provider(&self, from: Network) -> Result<(), Duration> {
        self.lock().start_by_provider(from, Instant::now())
    }

    /// Ends a log-in through the provider successfully.
    pub(crate) fn succeeded_by_provider(&self, from: Network) {
        self.lock().succeeded_by_provider(from);
    }

    fn lock(&self) -> MutexGuard<'_, Limiter> {
        // After a panic, counters may be wrong by one.
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginAttempt {
    /// Reports the result.
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
        limiter.end(&self.source, &self.counted, self.ended, now);
        drop(limiter);
        self.attempts.ended.notify_waiters();
    }
}
