//! Logging in and out.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::accounts::{self, Secret};
use crate::http::app::App;
use crate::http::caller::{Caller, From, cookie_name, same_origin};
use crate::http::refusal::{Problem, Refusal};
use crate::store::MAX_NAME;

/// How long a browser keeps the cookie, in seconds: as long as a log-in lives at most.
const KEPT: u32 = 90 * 24 * 3600;

#[derive(Deserialize, ToSchema)]
pub(crate) struct LogIn {
    /// The account.
    name: String,
    /// Its password.
    password: String,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct NewPassword {
    /// The one until now.
    old: String,
    /// The one from now on: eight characters or more.
    new: String,
}

/// Who has logged in.
#[derive(Serialize, ToSchema)]
pub(crate) struct Me {
    name: String,
    /// Whether it may see and stop everybody's sessions.
    operator: bool,
    /// What requests but GET carry in the header `x-openuvr-csrf`.
    csrf: String,
}

/// Logs in, and sets the cookie.
///
/// A wrong password and an account that does not exist are answered alike, and so are tries beyond the limit.
#[utoipa::path(
    post, path = "/api/login", request_body = LogIn,
    responses(
        (status = 200, body = Me),
        (status = 401, description = "name or password is wrong", body = Problem),
        (status = 429, description = "too many wrong ones; `Retry-After` says for how long", body = Problem),
    ),
)]
pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    From(from): From,
    headers: HeaderMap,
    given: Result<Json<LogIn>, JsonRejection>,
) -> Result<Response, Refusal> {
    same_origin(&headers)?;
    let Json(LogIn { name, password }) = given?;
    let short: String = name.chars().take(MAX_NAME).collect();
    let limiter = || app.limiter.lock().unwrap_or_else(PoisonError::into_inner);
    let allowed = limiter().attempt(&short, from, Instant::now());
    if let Err(wait) = allowed {
        warn!(%from, "too many wrong passwords");
        app.counts.login_limited();
        let why = format!(
            "too many wrong passwords: wait {} minutes",
            wait.as_secs().div_ceil(60)
        );
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(wait.as_secs() + 1));
    }
    let user = app.store.user(&name).await?;
    let hash = user.as_ref().map(|user| user.password.clone());
    let right = app.passwords.verify(password, hash).await;
    let Some(user) = user.filter(|_| right) else {
        warn!(%from, "a wrong password");
        app.counts.login_wrong();
        return Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "name or password is wrong",
        ));
    };
    limiter().succeeded(&short, from);
    let (secret, csrf) = (Secret::random().text(), Secret::random().text());
    app.store
        .add_login(&Secret::kept(&secret), &user.name, &csrf)
        .await?;
    info!(user = user.name, %from, "logged in");
    let me = Me {
        name: user.name,
        operator: user.operator,
        csrf,
    };
    Ok((set_cookie(&secret, KEPT, app.secure)?, Json(me)).into_response())
}

/// Logs out.
#[utoipa::path(
    post, path = "/api/logout", security(("cookie" = [])),
    responses((status = 204), (status = 401, body = Problem)),
)]
pub(crate) async fn log_out(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Response, Refusal> {
    app.store.remove_login(&caller.token).await?;
    Ok((set_cookie("", 0, app.secure)?, StatusCode::NO_CONTENT).into_response())
}

/// Who has logged in.
#[utoipa::path(
    get, path = "/api/me", security(("cookie" = [])),
    responses((status = 200, body = Me), (status = 401, body = Problem)),
)]
pub(crate) async fn me(caller: Caller) -> Json<Me> {
    Json(Me {
        name: caller.user.name,
        operator: caller.user.operator,
        csrf: caller.csrf,
    })
}

/// Changes the password, and ends all log-ins of the account.
#[utoipa::path(
    put, path = "/api/password", request_body = NewPassword, security(("cookie" = [])),
    responses(
        (status = 204),
        (status = 401, body = Problem),
        (status = 403, description = "the old password is wrong", body = Problem),
        (status = 422, description = "the new one is too short", body = Problem),
        (status = 429, body = Problem),
    ),
)]
pub(crate) async fn change_password(
    State(app): State<Arc<App>>,
    From(from): From,
    caller: Caller,
    given: Result<Json<NewPassword>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(NewPassword { old, new }) = given?;
    let name = caller.user.name;
    let limiter = || app.limiter.lock().unwrap_or_else(PoisonError::into_inner);
    let allowed = limiter().attempt(&name, from, Instant::now());
    if let Err(wait) = allowed {
        let why = "too many wrong passwords";
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(wait.as_secs() + 1));
    }
    if !app.passwords.verify(old, Some(caller.user.password)).await {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "the old password is wrong",
        ));
    }
    limiter().succeeded(&name, from);
    let hashed = tokio::task::spawn_blocking(move || accounts::hash(&new)).await;
    let failed = |why: String| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why);
    let hash = hashed
        .map_err(|why| failed(why.to_string()))?
        .map_err(|why| failed(why.to_string()))?;
    app.store.set_password(&name, &hash).await?;
    info!(user = name, "changed the password");
    Ok(StatusCode::NO_CONTENT)
}

fn set_cookie(
    value: &str,
    kept: u32,
    secure: bool,
) -> Result<AppendHeaders<[(header::HeaderName, HeaderValue); 1]>, Refusal> {
    let name = cookie_name(secure);
    let secure = if secure { "; Secure" } else { "" };
    // Lax, since a link to the portal from elsewhere is no reason to log in anew; GET changes nothing.
    let text = format!("{name}={value}; Path=/; Max-Age={kept}; HttpOnly; SameSite=Lax{secure}");
    let value = HeaderValue::from_str(&text)
        .map_err(|why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()))?;
    Ok(AppendHeaders([(header::SET_COOKIE, value)]))
}
