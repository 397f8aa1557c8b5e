//! Sessions of a user.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openuvr_proto::control::identity::PublicKey;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Holder, KeyHash};
use serde::{Deserialize, Serialize};
use tracing::{error, info};
use utoipa::ToSchema;

use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::play::{role, running, visible};
use crate::http::refusal::{Problem, Refusal};
use crate::http::view::{PastView, SessionView};
use crate::launch::SessionId;

/// Maximum number of entries in the history.
const HISTORY: u32 = 100;

/// Maximum length of a key's text in characters. The text of a 32-byte key has 43 characters.
const MAX_KEY: usize = 64;

#[derive(Deserialize, ToSchema)]
pub(crate) struct StartRequest {
    /// The application's name.
    application: String,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct ShareRequest {
    /// Whether all users may watch the session.
    shared: bool,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct TicketRequest {
    /// Whether the client only observes. Clients of users other than the owner can only observe.
    #[serde(default)]
    watch: bool,
    /// Public key of the client in base64url. The ticket is then valid for this client only. A ticket without a key is
    /// valid for the first client that presents it.
    #[serde(default)]
    key: Option<String>,
}

/// Grants one native client access to one session, once. Browsers play at `/play/{id}/` without a ticket.
#[derive(Serialize, ToSchema)]
pub(crate) struct TicketView {
    /// Link that opens the native client; null if the session does not accept native clients.
    native: Option<String>,
    /// The ticket without the link.
    ticket: String,
    /// Expiry, in seconds since 1970.
    not_after: u64,
}

/// The user's own sessions and the sessions that other users share, newest first.
#[utoipa::path(
    get, path = "/api/sessions", security(("cookie" = [])),
    responses((status = 200, body = [SessionView]), (status = 401, body = Problem)),
)]
pub(crate) async fn sessions(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Json<Vec<SessionView>> {
    let applications = app.catalogue.current();
    let states = app.sessions.of(&caller.user);
    let views = states.iter();
    Json(
        views
            .map(|of| SessionView::of(of, &applications, &caller.user))
            .collect(),
    )
}

/// A session.
#[utoipa::path(
    get, path = "/api/sessions/{id}", security(("cookie" = [])), params(("id" = String, Path)),
    responses(
        (status = 200, body = SessionView),
        (status = 401, body = Problem),
        (status = 404, description = "the session is unknown, or this user may not see it", body = Problem),
    ),
)]
pub(crate) async fn session(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<SessionView>, Refusal> {
    let state = visible(&app, &caller.user, &id)?;
    let applications = app.catalogue.current();
    Ok(Json(SessionView::of(&state, &applications, &caller.user)))
}

/// Starts an application as the session with this id. The caller chooses the id, a random UUID.
///
/// The request is idempotent: if a response is lost, the caller repeats the request with the same id.
#[utoipa::path(
    put, path = "/api/sessions/{id}", request_body = StartRequest, security(("cookie" = [], "csrf" = [])),
    params(("id" = String, Path)),
    responses(
        (status = 202, body = SessionView),
        (status = 401, body = Problem),
        (status = 403, body = Problem),
        (status = 404, description = "no such application", body = Problem),
        (status = 409, description = "session limit reached", body = Problem),
        (status = 410, description = "the session with this id has ended, or did not start", body = Problem),
        (status = 422, description = "the id is not a UUID, or the application cannot be started", body = Problem),
        (status = 503, description = "no capacity, or the engine does not respond", body = Problem),
    ),
)]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    given: Result<Json<StartRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<SessionView>), Refusal> {
    let Json(StartRequest { application }) = given?;
    let id: SessionId = (id.parse()).map_err(|_| {
        Refusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "the session's id is not a UUID",
        )
    })?;
    app.sessions.start(id, &caller.user, &application).await?;
    let state = visible(&app, &caller.user, &id.to_string())?;
    let applications = app.catalogue.current();
    let view = SessionView::of(&state, &applications, &caller.user);
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// Ends a session. Users can end their own sessions; operators can end any session. A session that has already ended is
/// removed from the list.
#[utoipa::path(
    delete, path = "/api/sessions/{id}", security(("cookie" = [], "csrf" = [])), params(("id" = String, Path)),
    responses(
        (status = 202), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 503, body = Problem),
    ),
)]
pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    let state = visible(&app, &caller.user, &id)?;
    let own = state.observed.user == caller.user.name;
    if !own && !caller.user.operator {
        let why = "this session belongs to another user: you may only watch it";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    info!(session = %state.observed.session, by = caller.user.name, "stopped");
    app.sessions.stop(state.observed.session).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Sets whether all users may watch the caller's session.
#[utoipa::path(
    put, path = "/api/sessions/{id}/shared", request_body = ShareRequest, security(("cookie" = [], "csrf" = [])),
    params(("id" = String, Path)),
    responses(
        (status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem),
    ),
)]
pub(crate) async fn share(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    given: Result<Json<ShareRequest>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(ShareRequest { shared }) = given?;
    let state = visible(&app, &caller.user, &id)?;
    if state.observed.user != caller.user.name {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "only the owner can share a session",
        ));
    }
    app.sessions.share(state.observed.session, shared).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Creates a ticket for one client. Owners get the role of a player unless `watch` is set. All other users get the role
/// of an observer.
#[utoipa::path(
    post, path = "/api/sessions/{id}/ticket", request_body = TicketRequest, security(("cookie" = [], "csrf" = [])),
    params(("id" = String, Path)),
    responses(
        (status = 200, body = TicketView),
        (status = 401, body = Problem),
        (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "not running yet", body = Problem),
        (status = 410, description = "ended", body = Problem),
        (status = 422, description = "invalid key", body = Problem),
    ),
)]
pub(crate) async fn ticket(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
    given: Result<Json<TicketRequest>, JsonRejection>,
) -> Result<Json<TicketView>, Refusal> {
    let Json(TicketRequest { watch, key }) = given?;
    let holder = match key.as_deref().map(holder) {
        None => Holder::FirstUse,
        Some(Some(holder)) => holder,
        Some(None) => {
            let why = "the client's key is not 32 bytes in base64url";
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why));
        }
    };
    let state = visible(&app, &caller.user, &id)?;
    let endpoint = running(&state)?;
    let role = match watch {
        true => Role::Observer,
        false => role(&state, &caller.user),
    };
    let session = state.observed.session;
    let (ticket, not_after) = app.tickets.ticket(session, role, holder).map_err(|why| {
        error!(%session, "cannot create a ticket: {why}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "cannot create a ticket")
    })?;
    info!(%session, user = caller.user.name, ?role, "created a ticket");
    Ok(Json(TicketView {
        native: (endpoint.native.zip(endpoint.key.as_ref()))
            .map(|(at, key)| format!("openuvr://{at}/?key={key}&ticket={ticket}")),
        ticket,
        not_after,
    }))
}

/// The holder of this client key; `None` if the key is invalid.
fn holder(text: &str) -> Option<Holder> {
    let bytes = (text.len() <= MAX_KEY).then(|| URL_SAFE_NO_PAD.decode(text).ok());
    let key = PublicKey(bytes??.try_into().ok()?);
    (!key.is_weak()).then(|| Holder::Key(KeyHash::of(&key)))
}

/// The last lines of a session's log.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogView {
    /// The newest lines that the session's programs have written to standard error, at most 16 KiB. Empty if the engine
    /// keeps no log.
    text: String,
}

/// The last lines of a session's log, also after the session has ended. Users can read the logs of their own sessions;
/// operators can read any log.
#[utoipa::path(
    get, path = "/api/sessions/{id}/log", security(("cookie" = [])), params(("id" = String, Path)),
    responses(
        (status = 200, body = LogView),
        (status = 401, body = Problem),
        (status = 404, description = "the session is unknown, or this user may not see it", body = Problem),
        (status = 503, description = "the engine does not respond", body = Problem),
    ),
)]
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<LogView>, Refusal> {
    let session = id.parse().map_err(|_| Refusal::nothing("session"))?;
    let text = app.sessions.log(session, &caller.user).await?;
    let text = text.ok_or_else(|| Refusal::nothing("session"))?;
    Ok(Json(LogView { text }))
}

/// The user's past sessions.
#[utoipa::path(
    get, path = "/api/history", security(("cookie" = [])),
    responses((status = 200, body = [PastView]), (status = 401, body = Problem)),
)]
pub(crate) async fn history(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Json<Vec<PastView>>, Refusal> {
    let applications = app.catalogue.current();
    let past = app.store.history(&caller.user.name, HISTORY).await?;
    let views = past.into_iter();
    Ok(Json(
        views.map(|of| PastView::of(of, &applications)).collect(),
    ))
}
