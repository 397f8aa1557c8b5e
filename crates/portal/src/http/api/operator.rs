//! Views and actions of operators.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tracing::info;
use utoipa::ToSchema;

use crate::accounts;
use crate::http::app::App;
use crate::http::caller::{Caller, Operator};
use crate::http::refusal::{Problem, Refusal};
use crate::http::view::OperatorSessionView;
use crate::store::{Account, StoreError, User};

/// The servers and current problems.
#[derive(Serialize, ToSchema)]
pub(crate) struct Load {
    /// The engine.
    launcher: String,
    servers: Vec<ServerView>,
    /// Why the engine does not respond; null if it responds.
    trouble: Option<String>,
    /// The skipped catalogue entries, with reasons, or the reason why the catalogue as a whole cannot be used.
    problems: Vec<String>,
    /// Whether new sessions are refused.
    draining: bool,
}

/// A server that runs sessions.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServerView {
    name: String,
    /// Why the server accepts no sessions; null if it accepts sessions.
    trouble: Option<String>,
    sessions: u32,
    /// Maximum number of concurrent sessions.
    places: Option<u32>,
    gpus_used: u32,
    gpus: u32,
    /// Load average over a minute.
    load: Option<f64>,
    processors: Option<u32>,
}

/// An account.
#[derive(Serialize, ToSchema)]
pub(crate) struct UserView {
    name: String,
    operator: bool,
    /// Maximum number of concurrent sessions; null for the configured default.
    sessions: Option<u32>,
    /// Whether log-in is disabled. The sessions of a disabled account are stopped.
    disabled: bool,
}

/// An account to create.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewUser {
    /// Letters, digits, . _ @ and -
    name: String,
    #[serde(default)]
    operator: bool,
    sessions: Option<u32>,
}

/// A new account with its password, which is shown only once.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeUser {
    name: String,
    password: String,
}

/// Rights of an account.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Rights {
    operator: bool,
    sessions: Option<u32>,
    disabled: bool,
}

/// Whether new sessions are refused.
#[derive(Deserialize, ToSchema)]
pub(crate) struct Drain {
    draining: bool,
}

/// The sessions of all users, newest first, with statistics of their subscribers.
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
    let states = app.sessions.all();
    let views = states.iter();
    Json(
        views
            .map(|of| OperatorSessionView::of(of, &applications, &caller.user, now))
            .collect(),
    )
}

/// The servers that run sessions, and current problems.
#[utoipa::path(
    get, path = "/api/operator/servers", operation_id = "operator_servers", security(("cookie" = [])),
    responses((status = 200, body = Load), (status = 401, body = Problem), (status = 403, body = Problem)),
)]
pub(crate) async fn servers(
    State(app): State<Arc<App>>,
    _: Operator,
) -> Result<Json<Load>, Refusal> {
    let draining = app.store.is_draining().await?;
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
    Ok(Json(Load {
        launcher: app.sessions.launcher_name().to_owned(),
        servers: servers.collect(),
        trouble,
        problems: app.catalogue.current().problems.clone(),
        draining,
    }))
}

/// Sets whether the portal refuses new sessions. Running sessions continue.
#[utoipa::path(
    put, path = "/api/operator/draining", request_body = Drain, security(("cookie" = [], "csrf" = [])),
    responses((status = 204), (status = 401, body = Problem), (status = 403, body = Problem)),
)]
pub(crate) async fn drain(
    State(app): State<Arc<App>>,
    _: Operator,
    caller: Caller,
    given: Result<Json<Drain>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(Drain { draining }) = given?;
    info!(draining, by = caller.user.name, "set the draining mode");
    app.store.drain(draining).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The accounts. `openuvr portal user` can also remove them.
#[utoipa::path(
    get, path = "/api/operator/users", operation_id = "operator_users", security(("cookie" = [])),
    responses((status = 200, body = [UserView]), (status = 401, body = Problem), (status = 403, body = Problem)),
)]
pub(crate) async fn users(
    State(app): State<Arc<App>>,
    _: Operator,
) -> Result<Json<Vec<UserView>>, Refusal> {
    let accounts = app.store.accounts().await?.into_iter();
    let views = accounts.map(|Account { user, disabled }| UserView {
        name: user.name,
        operator: user.operator,
        sessions: user.sessions,
        disabled,
    });
    Ok(Json(views.collect()))
}

/// Creates an account with a generated password.
#[utoipa::path(
    post, path = "/api/operator/users", request_body = NewUser, security(("cookie" = [], "csrf" = [])),
    responses(
        (status = 201, body = MadeUser), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 409, description = "the account exists", body = Problem),
        (status = 422, description = "invalid name", body = Problem),
    ),
)]
pub(crate) async fn add_user(
    State(app): State<Arc<App>>,
    _: Operator,
    caller: Caller,
    given: Result<Json<NewUser>, JsonRejection>,
) -> Result<(StatusCode, Json<MadeUser>), Refusal> {
    let Json(new) = given?;
    let password = accounts::random_password();
    let hashed = password.clone();
    let hashed = tokio::task::spawn_blocking(move || accounts::hash(&hashed)).await;
    let failed = |_| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "cannot hash the password",
        )
    };
    let user = User {
        name: new.name,
        password: hashed.map_err(|_| failed(()))?.map_err(|_| failed(()))?,
        operator: new.operator,
        sessions: new.sessions,
    };
    match app.store.add_user(&user, None).await {
        Ok(()) => {}
        Err(why @ StoreError::Exists(_)) => {
            return Err(Refusal::new(StatusCode::CONFLICT, why.to_string()));
        }
        Err(why @ StoreError::Name(_)) => {
            return Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                why.to_string(),
            ));
        }
        Err(why) => return Err(why.into()),
    }
    info!(
        user = user.name,
        by = caller.user.name,
        "created an account"
    );
    let name = user.name;
    Ok((StatusCode::CREATED, Json(MadeUser { name, password })))
}

/// Changes the rights of an account. Operators cannot revoke their own rights.
#[utoipa::path(
    put, path = "/api/operator/users/{name}", request_body = Rights, security(("cookie" = [], "csrf" = [])),
    params(("name" = String, Path)),
    responses(
        (status = 204), (status = 401, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, body = Problem),
    ),
)]
pub(crate) async fn set_user(
    State(app): State<Arc<App>>,
    _: Operator,
    caller: Caller,
    Path(name): Path<String>,
    given: Result<Json<Rights>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(rights) = given?;
    if name == caller.user.name && (rights.disabled || !rights.operator) {
        let why = "this is your own account: only another operator can change it";
        return Err(Refusal::new(StatusCode::CONFLICT, why));
    }
    let account = Account {
        user: User {
            name,
            password: String::new(),
            operator: rights.operator,
            sessions: rights.sessions,
        },
        disabled: rights.disabled,
    };
    if !app.store.set_account(&account).await? {
        return Err(Refusal::nothing("account"));
    }
    let (user, disabled) = (&account.user.name, account.disabled);
    info!(user, disabled, by = caller.user.name, "changed an account");
    if disabled {
        app.sessions.stop_all_of(user).await;
    }
    Ok(StatusCode::NO_CONTENT)
}
