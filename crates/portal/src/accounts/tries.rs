//! Log-ins that are under way: each waits until the limits have room for it, and says how it ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::limiter::{Begin, Ended, Limiter, Of, Who};
use crate::network::Network;

/// How long an attempt waits for others; a guess: a browser's person waits no longer, either.
const PATIENCE: Duration = Duration::from_secs(20);

/// The limits of log-ins.
#[derive(Default)]
pub(crate) struct Tries {
    limiter: Mutex<Limiter>,
    ended: Notify,
}

/// Why an attempt does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotNow {
    /// Too many were wrong; they are forgotten after this time.
    TooManyWrong(Duration),
    /// Too many others are under way.
    Busy,
}

/// An attempt that has begun. Dropped without a word, it is none.
pub(crate) struct Try {
    tries: Arc<Tries>,
    who: Who,
    counted: Vec<Of>,
    ended: Ended,
}

impl Tries {
    /// Begins an attempt as soon as there is room for it.
    pub(crate) async fn begin(self: &Arc<Tries>, who: Who) -> Result<Try, NotNow> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            // Before the look, so that no end falls between.
            let ended = self.ended.notified();
            let begun = self.lock().begin(&who, Instant::now());
            match begun {
                Begin::Begun(counted) => {
                    return Ok(Try {
                        tries: Arc::clone(self),
                        who,
                        counted,
                        ended: Ended::Unknown,
                    });
                }
                Begin::Refused(wait) => return Err(NotNow::TooManyWrong(wait)),
                Begin::Later => {}
            }
            let waited = timeout_at(until, ended).await;
            waited.map_err(|_| NotNow::Busy)?;
        }
    }

    /// A log-in by a provider begins, or has to wait for so long.
    pub(crate) fn begin_by_provider(&self, from: Network) -> Result<(), Duration> {
        self.lock().begin_by_provider(from, Instant::now())
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

impl Try {
    /// Says how it ended.
    pub(crate) fn end(mut self, right: bool) {
        self.ended = match right {
            true => Ended::Right,
            false => Ended::Wrong,
        };
    }
}

impl Drop for Try {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut limiter = self.tries.lock();
        limiter.end(&self.who, &self.counted, self.ended, now);
        drop(limiter);
        self.tries.ended.notify_waiters();
    }
}
