//! Whether the database takes what is written, looked at no more often than it has to be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::warn;

use crate::store::Store;

/// How long what the database has said holds: anybody may ask, and each look is a write.
const HOLDS: Duration = Duration::from_secs(1);

/// How long a look may take before the database counts as one that does not answer. A guess; who asks has often a
/// limit of its own.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What the last look at the database has said.
#[derive(Default)]
pub(crate) struct Health {
    last: Arc<Mutex<Option<LastCheck>>>,
}

struct LastCheck {
    at: Instant,
    /// Why not.
    trouble: Option<String>,
}

impl Health {
    /// Why the database takes nothing; none: it does. One look is under way at a time.
    pub(super) async fn database_trouble(&self, store: &Store) -> Option<String> {
        let late = || "the database does not answer".to_owned();
        let last = Arc::clone(&self.last).lock_owned();
        let Ok(mut last) = timeout(TIMEOUT, last).await else {
            return Some(late());
        };
        if let Some(seen) = last.as_ref().filter(|seen| seen.at.elapsed() < HOLDS) {
            return seen.trouble.clone();
        }
        let store = store.clone();
        // Goes on if it is late, and holds the lock until then.
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
