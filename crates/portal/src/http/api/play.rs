//! What the page needs that plays a session.

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
    /// The application, for people.
    title: String,
    /// The person may only watch.
    watches: bool,
    /// Servers that the browser asks for ways to the session. What lets it use them is good for a day.
    ice_servers: Vec<IceServer>,
}

/// What the page needs that plays a session.
#[utoipa::path(
    get, path = "/api/sessions/{id}/play", security(("cookie" = [])), params(("id" = String, Path)),
    responses(
        (status = 200, body = PlayView),
        (status = 401, body = Problem),
        (status = 404, description = "or it is another's", body = Problem),
        (status = 409, description = "it does not run yet", body = Problem),
        (status = 410, description = "it is over", body = Problem),
    ),
)]
pub(crate) async fn play(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<PlayView>, Refusal> {
    let seen = visible(&app, &caller.user, &id)?;
    running(&seen)?;
    let of = &seen.observed;
    let applications = app.catalogue.current();
    let named = applications.named(&of.application);
    Ok(Json(PlayView {
        title: named.map_or_else(|| of.application.clone(), |named| named.title.clone()),
        watches: role(&seen, &caller.user) == Role::Observer,
        ice_servers: app.turn.servers(&of.session.to_string()),
    }))
}
