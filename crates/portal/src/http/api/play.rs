//! Data for the page that plays a session.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use openuvr_proto::control::negotiate::Role;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::play::{role, running, visible};
use crate::http::refusal::{Problem, Refusal};
use crate::turn::IceServer;

/// A session that can be played at `/play/{id}/`.
#[derive(Serialize, ToSchema)]
pub(crate) struct PlayView {
    /// Display name of the application.
    title: String,
    /// Whether the user may only watch.
    watches: bool,
    /// ICE servers for the browser. Their credentials are valid for a day.
    ice_servers: Vec<IceServer>,
}

/// The data for the page that plays a session.
#[utoipa::path(
    get, path = "/api/sessions/{id}/play", security(("cookie" = [])), params(("id" = String, Path)),
    responses(
        (status = 200, body = PlayView),
        (status = 401, body = Problem),
        (status = 404, description = "the session is unknown, or this user may not see it", body = Problem),
        (status = 409, description = "not running yet", body = Problem),
        (status = 410, description = "ended", body = Problem),
    ),
)]
pub(crate) async fn play(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<PlayView>, Refusal> {
    let state = visible(&app, &caller.user, &id)?;
    running(&state)?;
    let of = &state.observed;
    let applications = app.catalogue.current();
    let named = applications.named(&of.application);
    Ok(Json(PlayView {
        title: named.map_or_else(|| of.application.clone(), |named| named.title.clone()),
        watches: role(&state, &caller.user) == Role::Observer,
        ice_servers: app.turn.servers(&of.session.to_string()),
    }))
}
