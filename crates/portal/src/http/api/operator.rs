//! What operators see.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::app::App;
use crate::http::caller::{Caller, Operator};
use crate::http::refusal::{Problem, Refusal};
use crate::http::view::OperatorSessionView;

/// The machines, and what is wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct Load {
    /// The engine.
    launcher: String,
    servers: Vec<ServerView>,
    /// The engine does not answer, and why.
    trouble: Option<String>,
    /// Applications that were left out, and why.
    problems: Vec<String>,
}

/// A machine that sessions run on.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerView {
    name: String,
    /// Why it takes no sessions; none: it does.
    trouble: Option<String>,
    sessions: u32,
    /// Sessions that it has places for.
    places: Option<u32>,
    gpus_used: u32,
    gpus: u32,
    /// Processes that want to run, averaged over a minute.
    load: Option<f64>,
    processors: Option<u32>,
}

/// An account.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserView {
    name: String,
    operator: bool,
    /// Sessions that it may have at a time; none: as the configuration says.
    sessions: Option<u32>,
}

/// Everybody's sessions, newest first, and how it is for those who play and watch.
#[utoipa::path(
    get, path = "/api/operator/sessions", operation_id = "operator_sessions", security(("cookie" = [])),
    responses(
        (status = 200, body = [OperatorSessionView]), (status = 401, body = Problem), (status = 403, body = Problem),
    ),
)]
pub(crate) async fn sessions(
    State(app): State<Arc<App>>,
    _: Operator,
    caller: Caller,
) -> Json<Vec<OperatorSessionView>> {
    let now = Instant::now();
    let applications = app.catalogue.current();
    let seen = app.sessions.all();
    let views = seen.iter();
    Json(
        views
            .map(|of| OperatorSessionView::of(of, &applications, &caller.user, now))
            .collect(),
    )
}

/// The machines that sessions run on, and what is wrong.
#[utoipa::path(
    get, path = "/api/operator/servers", operation_id = "operator_servers", security(("cookie" = [])),
    responses((status = 200, body = Load), (status = 401, body = Problem), (status = 403, body = Problem)),
)]
pub(crate) async fn servers(State(app): State<Arc<App>>, _: Operator) -> Json<Load> {
    let (servers, trouble) = match app.sessions.servers().await {
        Ok(servers) => (servers, app.sessions.engine_trouble()),
        Err(why) => (Vec::new(), Some(why.to_string())),
    };
    let servers = servers.into_iter().map(|of| ServerView {
        name: of.name,
        trouble: of.ready.err(),
        sessions: of.sessions,
        places: of.places,
        gpus_used: of.gpus_used,
        gpus: of.gpus,
        load: of.load,
        processors: of.processors,
    });
    Json(Load {
        launcher: app.sessions.launcher_name().to_owned(),
        servers: servers.collect(),
        trouble,
        problems: app.catalogue.current().problems.clone(),
    })
}

/// The accounts. They are made and taken away by `openuvr portal user`.
#[utoipa::path(
    get, path = "/api/operator/users", operation_id = "operator_users", security(("cookie" = [])),
    responses((status = 200, body = [UserView]), (status = 401, body = Problem), (status = 403, body = Problem)),
)]
pub(crate) async fn users(
    State(app): State<Arc<App>>,
    _: Operator,
) -> Result<Json<Vec<UserView>>, Refusal> {
    let users = app.store.users().await?.into_iter();
    let views = users.map(|user| UserView {
        name: user.name,
        operator: user.operator,
        sessions: user.sessions,
    });
    Ok(Json(views.collect()))
}
