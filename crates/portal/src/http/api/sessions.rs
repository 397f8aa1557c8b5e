//! A person's sessions.

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

/// How much of the history is told.
const HISTORY: u32 = 100;

/// Characters of a key's text at most: one of 32 bytes has 43.
const MAX_KEY: usize = 64;

#[derive(Deserialize, ToSchema)]
pub(crate) struct StartRequest {
    /// The application's name.
    application: String,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct ShareRequest {
    /// Whether everybody who may log in may watch it.
    shared: bool,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct TicketRequest {
    /// To watch only. Who does not own the session always does.
    #[serde(default)]
    watch: bool,
    /// The public key of the client that is to come, in base64url: the ticket is for it alone. Without one it is for
    /// whoever shows it first.
    #[serde(default)]
    key: Option<String>,
}

/// What lets one native client into one session, once. Browsers need none: they play at `/play/{id}/`.
#[derive(Serialize, ToSchema)]
pub(crate) struct TicketView {
    /// What opens the native client; none where the session answers no native clients.
    native: Option<String>,
    /// The ticket alone.
    ticket: String,
    /// Until when it must be shown, in seconds since 1970.
    not_after: u64,
}

/// The person's sessions, and those that others share; newest first.
#[utoipa::path(
    get, path = "/api/sessions", security(("cookie" = [])),
    responses((status = 200, body = [SessionView]), (status = 401, body = Problem)),
)]
pub(crate) async fn sessions(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Json<Vec<SessionView>> {
    let applications = app.catalogue.current();
    let seen = app.sessions.of(&caller.user);
    let views = seen.iter();
    Json(
        views
            .map(|of| SessionView::of(of, &applications, &caller.user))
            .collect(),
    )
}

/// One session.
#[utoipa::path(
    get, path = "/api/sessions/{id}", security(("cookie" = [])), params(("id" = String, Path)),
    responses(
        (status = 200, body = SessionView),
        (status = 401, body = Problem),
        (status = 404, description = "or it is another's", body = Problem),
    ),
)]
pub(crate) async fn session(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<SessionView>, Refusal> {
    let seen = visible(&app, &caller.user, &id)?;
    let applications = app.catalogue.current();
    Ok(Json(SessionView::of(&seen, &applications, &caller.user)))
}

/// Starts an application as the session of this id, a UUID that the caller makes at random.
///
/// Asking twice with the same id starts nothing twice: who got no answer asks again.
#[utoipa::path(
    put, path = "/api/sessions/{id}", request_body = StartRequest, security(("cookie" = [], "csrf" = [])),
    params(("id" = String, Path)),
    responses(
        (status = 202, body = SessionView),
        (status = 401, body = Problem),
        (status = 403, body = Problem),
        (status = 404, description = "no such application", body = Problem),
        (status = 409, description = "the person has as many sessions as allowed", body = Problem),
        (status = 410, description = "the session of this id is over, or never began", body = Problem),
        (status = 422, description = "the id is no UUID, or the application can't be started", body = Problem),
        (status = 503, description = "no room, or the engine does not answer", body = Problem),
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
            "the session's id is no UUID",
        )
    })?;
    app.sessions.start(id, &caller.user, &application).await?;
    let seen = visible(&app, &caller.user, &id.to_string())?;
    let applications = app.catalogue.current();
    let view = SessionView::of(&seen, &applications, &caller.user);
    Ok((StatusCode::ACCEPTED, Json(view)))
}

/// Ends a session: one's own, or as an operator anybody's. Of one that has ended it takes the last trace away.
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
    let seen = visible(&app, &caller.user, &id)?;
    let own = seen.observed.user == caller.user.name;
    if !own && !caller.user.operator {
        let why = "it is another's: you may watch it";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    info!(session = %seen.observed.session, by = caller.user.name, "stopped");
    app.sessions.stop(seen.observed.session).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Lets everybody who may log in watch one's session, or no more.
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
    let seen = visible(&app, &caller.user, &id)?;
    if seen.observed.user != caller.user.name {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "only its owner shares it",
        ));
    }
    app.sessions.share(seen.observed.session, shared).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What lets one client into the session: as the player, if it is one's own, or else as one who watches.
#[utoipa::path(
    post, path = "/api/sessions/{id}/ticket", request_body = TicketRequest, security(("cookie" = [], "csrf" = [])),
    params(("id" = String, Path)),
    responses(
        (status = 200, body = TicketView),
        (status = 401, body = Problem),
        (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "it does not run yet", body = Problem),
        (status = 410, description = "it is over", body = Problem),
        (status = 422, description = "the key is none", body = Problem),
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
        None => Holder::FirstToCome,
        Some(Some(holder)) => holder,
        Some(None) => {
            let why = "the client's key is no key of 32 bytes in base64url";
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why));
        }
    };
    let seen = visible(&app, &caller.user, &id)?;
    let endpoint = running(&seen)?;
    let role = match watch {
        true => Role::Observer,
        false => role(&seen, &caller.user),
    };
    let session = seen.observed.session;
    let (ticket, not_after) = app.tickets.ticket(session, role, holder).map_err(|why| {
        error!(%session, "no ticket: {why}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no ticket could be made")
    })?;
    info!(%session, user = caller.user.name, ?role, "gave a ticket");
    Ok(Json(TicketView {
        native: (endpoint.native.zip(endpoint.key.as_ref()))
            .map(|(at, key)| format!("openuvr://{at}/?key={key}&ticket={ticket}")),
        ticket,
        not_after,
    }))
}

/// The client with this key.
fn holder(text: &str) -> Option<Holder> {
    let bytes = (text.len() <= MAX_KEY).then(|| URL_SAFE_NO_PAD.decode(text).ok());
    let key = PublicKey(bytes??.try_into().ok()?);
    (!key.is_weak()).then(|| Holder::Key(KeyHash::of(&key)))
}

/// The end of a session's log.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogView {
    /// Lines that its programs wrote to standard error, the newest last; at most 16 KiB. Empty where its engine keeps
    /// no log.
    text: String,
}

/// The last lines that a session's programs wrote: of one's own session, or as an operator of any. Also after its end.
#[utoipa::path(
    get, path = "/api/sessions/{id}/log", security(("cookie" = [])), params(("id" = String, Path)),
    responses(
        (status = 200, body = LogView),
        (status = 401, body = Problem),
        (status = 404, description = "or it is another's", body = Problem),
        (status = 503, description = "the engine does not answer", body = Problem),
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

/// What the person has played.
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
