//! Reports changes of a user's sessions as server-sent events (HTML Living Standard, section 9.2).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::app::App;
use super::caller::Caller;
use super::refusal::{Problem, Refusal};
use super::streams::Stream;
use super::view::SessionView;
use crate::store::User;

/// Interval at which the log-in is verified.
const LOG_IN_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Changes within this time are sent together: with thousands of sessions, there are changes all the time.
const DEBOUNCE: Duration = Duration::from_millis(50);

struct Watcher {
    app: Arc<App>,
    user: User,
    token: String,
    changes: watch::Receiver<u64>,
    last_sent: Option<String>,
    check: Instant,
    /// Counts towards the limit of open streams until it is dropped.
    _stream: Stream,
}

/// Streams the user's sessions and the sessions that other users share. Each event is named `sessions` and contains the
/// list that `GET /api/sessions` returns. The first event is sent at once, and another one after each change.
#[utoipa::path(
    get, path = "/api/events", security(("cookie" = [])),
    responses(
        (status = 200, description = "events named `sessions`", body = String, content_type = "text/event-stream"),
        (status = 401, body = Problem),
        (status = 429, description = "too many streams of this log-in", body = Problem),
    ),
)]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Sse<impl futures_util::Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let stream = app.streams.open(&caller.token);
    let stream = stream.ok_or_else(|| {
        let why = "too many open pages: close another page of the portal";
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(10)
    })?;
    let watcher = Watcher {
        changes: app.sessions.changes(),
        app,
        user: caller.user,
        token: caller.token,
        last_sent: None,
        check: Instant::now() + LOG_IN_CHECK_INTERVAL,
        _stream: stream,
    };
    Ok(Sse::new(stream::unfold(watcher, next)).keep_alive(KeepAlive::default()))
}

/// The next event; `None` if the log-in has ended or the portal shuts down.
async fn next(mut watcher: Watcher) -> Option<(Result<Event, Infallible>, Watcher)> {
    loop {
        let list = watcher.list();
        if watcher.last_sent.as_ref() != Some(&list) {
            let event = Event::default().event("sessions").data(&list);
            watcher.last_sent = Some(list);
            return Some((Ok(event), watcher));
        }
        match timeout_at(watcher.check, watcher.changes.changed()).await {
            Ok(Ok(())) => tokio::time::sleep(DEBOUNCE).await,
            Ok(Err(_)) => return None,
            Err(_) => {
                watcher.check = Instant::now() + LOG_IN_CHECK_INTERVAL;
                // A database failure does not end the stream.
                if let Ok(None) = watcher.app.store.login(&watcher.token).await {
                    return None;
                }
            }
        }
        watcher.changes.mark_unchanged();
    }
}

impl Watcher {
    fn list(&self) -> String {
        let applications = self.app.catalogue.current();
        let states = self.app.sessions.of(&self.user);
        let views = states.iter();
        let views: Vec<SessionView> = views
            .map(|of| SessionView::of(of, &applications, &self.user))
            .collect();
        serde_json::to_string(&views).unwrap_or_default()
    }
}
