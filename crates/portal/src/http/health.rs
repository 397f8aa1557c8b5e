//! A cached check that the database accepts writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::warn;

use crate::store::Store;

/// How long the result of a check is reused. Any client may request a check, and each check writes to the database.
const CACHE_TIME: Duration = Duration::from_secs(1);

/// Timeout of a check; a guess. Monitoring systems often have their own timeout.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The result of the last check.
#[derive(Default)]
pub(crate) struct Health {
    last: Arc<Mutex<Option<LastCheck>>>,
}

struct LastCheck {
    at: Instant,
    /// The problem, if any.
    trouble: Option<String>,
}

impl Health {
    /// Why the database does not accept writes; `None` if it does. Only one check runs at a time.
    pub(super) async fn database_trouble(&self, store: &Store) -> Option<String> {
        let late = || "the database does not respond".to_owned();
        let last = Arc::clone(&self.last).lock_owned();
        let Ok(mut last) = timeout(TIMEOUT, last).await else {
            return Some(late());
        };
        if let Some(seen) = last.as_ref().filter(|seen| seen.at.elapsed() < CACHE_TIME) {
            return seen.trouble.clone();
        }
        let store = store.clone();
        // A check that exceeds the timeout continues, and holds the lock until it ends.
        let look = tokio::spawn(async move {
            let trouble = store.check().await.err().map(|why| {
                warn!("{why}");
                why.for_all().to_owned()
            });
            *last = Some(LastCheck {
                at: Instant::now(),
                trouble: trouble.clone(),
            });
            trouble
        });
        match timeout(TIMEOUT, look).await {
            Ok(Ok(trouble)) => trouble,
            Ok(Err(_)) | Err(_) => Some(late()),
        }
    }
}
