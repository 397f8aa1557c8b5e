//! Whether people can log in and start sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::warn;

use super::app::App;

/// How long what the database has said holds: anybody may ask, and each look is a write.
const HOLDS: Duration = Duration::from_secs(1);

/// How long a look may take before the database counts as one that does not answer. A guess; who asks has often a
/// limit of its own.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the last look at the database has said.
#[derive(Default)]
pub(crate) struct Health {
    last: Arc<Mutex<Option<Seen>>>,
}

struct Seen {
    at: Instant,
    /// Why not.
    trouble: Option<String>,
}

/// 200 while people can log in and start sessions; 503 with what is wrong otherwise.
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    let mut wrong = Vec::new();
    wrong.extend(database_trouble(&app).await);
    if app.sessions.engine_trouble().is_some() {
        wrong.push("the engine does not answer".to_owned());
    }
    match wrong.as_slice() {
        [] => (StatusCode::OK, "ok\n").into_response(),
        wrong => (StatusCode::SERVICE_UNAVAILABLE, wrong.join("\n") + "\n").into_response(),
    }
}

/// Why the database takes nothing; none: it does. One look is under way at a time.
pub(super) async fn database_trouble(app: &App) -> Option<String> {
    let late = || "the database does not answer".to_owned();
    let last = Arc::clone(&app.health.last).lock_owned();
    let Ok(mut last) = timeout(PATIENCE, last).await else {
        return Some(late());
    };
    if let Some(seen) = last.as_ref().filter(|seen| seen.at.elapsed() < HOLDS) {
        return seen.trouble.clone();
    }
    let store = app.store.clone();
    // Goes on if it is late, and holds the lock until then.
    let look = tokio::spawn(async move {
        let trouble = store.check().await.err().map(|why| {
            warn!("{why}");
            why.for_all().to_owned()
        });
        *last = Some(Seen {
            at: Instant::now(),
            trouble: trouble.clone(),
        });
        trouble
    });
    match timeout(PATIENCE, look).await {
        Ok(Ok(trouble)) => trouble,
        Ok(Err(_)) | Err(_) => Some(late()),
    }
}
