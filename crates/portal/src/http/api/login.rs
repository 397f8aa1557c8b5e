//! Logging in and out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::task::JoinError;
use tracing::info;
use utoipa::ToSchema;

use crate::accounts::{AttemptRefused, AttemptSource, DEVICE_LIFE, PasswordError, Secret};
use crate::http::app::App;
use crate::http::caller::{Caller, ClientAddress, cookie, cookie_name, same_origin};
use crate::http::refusal::{Problem, Refusal};
use crate::store::{MAX_NAME, User};

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

/// How people may log in, beside name and password.
#[derive(Serialize, ToSchema)]
pub(crate) struct LoginMethods {
    /// What the button for the provider of OpenID Connect says; none: there is no provider.
    provider: Option<String>,
}

/// Where a log-in goes on.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProviderRedirect {
    /// An address at the provider.
    pub(super) url: String,
}

/// Who has logged in.
#[derive(Serialize, ToSchema)]
pub(crate) struct Me {
    name: String,
    /// Whether it may see and stop everybody's sessions.
    operator: bool,
    /// Whether the account has a password, which it can change.
    password: bool,
    /// What requests but GET carry in the header `x-openuvr-csrf`.
    csrf: String,
}

impl Me {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// How people may log in.
#[utoipa::path(get, path = "/api/login", responses((status = 200, body = LoginMethods)))]
pub(crate) async fn ways(State(app): State<Arc<App>>) -> Json<LoginMethods> {
    let provider = app.provider.as_ref().map(|of| of.section().title.clone());
    Json(LoginMethods { provider })
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
        (status = 503, description = "too many others log in, or the database does not answer", body = Problem),
    ),
)]
pub(crate) async fn log_in(
    State(app): State<Arc<App>>,
    ClientAddress(from): ClientAddress,
    headers: HeaderMap,
    given: Result<Json<LogIn>, JsonRejection>,
) -> Result<Response, Refusal> {
    same_origin(&headers)?;
    let Json(LogIn { name, password }) = given?;
    let device = cookie(&headers, device_name(app.secure)).map(str::to_owned);
    let who = AttemptSource {
        name: name.chars().take(MAX_NAME).collect(),
        network: from.into(),
        device: app.devices.read(device.as_deref(), &name),
    };
    // In a task of its own: an attempt that has begun is counted as it ends, also if the browser has left.
    let checked = tokio::spawn(check(Arc::clone(&app), who, name, password));
    let failed = |why: JoinError| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string());
    let user = checked.await.map_err(failed)?.inspect_err(|why| {
        info!(%from, "a log-in was refused: {}", why.why());
    })?;
    let (cookies, me) = enter(&app, user, None, device.as_deref()).await?;
    info!(user = me.name, %from, "logged in");
    Ok((AppendHeaders(cookies), Json(me)).into_response())
}

/// The account, if the password is right.
async fn check(
    app: Arc<App>,
    who: AttemptSource,
    name: String,
    password: String,
) -> Result<User, Refusal> {
    let begun = app.attempts.start(who).await;
    let begun = begun.map_err(|why| too_many(&app, why))?;
    let user = app.store.user(&name).await?;
    let hash = user.as_ref().map(|user| user.password.clone());
    let right = app.passwords.verify(password, hash).await;
    begun.end(right);
    user.filter(|_| right).ok_or_else(|| {
        app.counts.login_wrong();
        Refusal::new(StatusCode::UNAUTHORIZED, "name or password is wrong")
    })
}

/// Why a log-in may not be tried now.
fn too_many(app: &App, why: AttemptRefused) -> Refusal {
    app.counts.login_limited();
    match why {
        AttemptRefused::TooManyWrong(wait) => {
            let minutes = wait.as_secs().div_ceil(60);
            let why = format!("too many wrong passwords: wait {minutes} minutes");
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(wait.as_secs() + 1)
        }
        AttemptRefused::Busy => {
            let why = "too many people log in at once: try again in some seconds";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).wait(5)
        }
    }
}

/// Makes a log-in of this account: the cookies, of which the first is the log-in's, and what the page is told. `until`
/// ends it, in seconds since 1970; `device` is the browser's cookie from earlier log-ins.
pub(super) async fn enter(
    app: &App,
    user: User,
    until: Option<i64>,
    device: Option<&str>,
) -> Result<([Cookie; 2], Me), Refusal> {
    let (secret, csrf) = (Secret::random().text(), Secret::random().text());
    app.store
        .add_login(&Secret::kept(&secret), &user.name, &csrf, until)
        .await?;
    let device = app.devices.written(device, &user.name);
    let cookies = [
        set_cookie(cookie_name(app.secure), &secret, KEPT, app.secure)?,
        set_cookie(device_name(app.secure), &device, DEVICE_LIFE, app.secure)?,
    ];
    let me = Me {
        operator: user.operator,
        password: !user.password.is_empty(),
        name: user.name,
        csrf,
    };
    Ok((cookies, me))
}

/// The cookie of a browser that logged in before.
pub(super) fn device_name(secure: bool) -> &'static str {
    match secure {
        true => "__Host-openuvr-device",
        false => "openuvr-device",
    }
}

/// Logs out. Who came by a provider that can be logged out of gets its address, since whoever sits there next is
/// still logged in at the provider.
#[utoipa::path(
    post, path = "/api/logout", security(("cookie" = [], "csrf" = [])),
    responses(
        (status = 200, description = "logged out here, and not yet at the provider", body = ProviderRedirect),
        (status = 204, description = "logged out"),
        (status = 401, body = Problem),
    ),
)]
pub(crate) async fn log_out(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Result<Response, Refusal> {
    app.store.remove_login(&caller.token).await?;
    let gone = AppendHeaders([set_cookie(cookie_name(app.secure), "", 0, app.secure)?]);
    let elsewhere = match app.provider.as_ref().filter(|_| caller.provider) {
        Some(provider) => provider.log_out().await,
        None => None,
    };
    Ok(match elsewhere {
        Some(url) => (gone, Json(ProviderRedirect { url })).into_response(),
        None => (gone, StatusCode::NO_CONTENT).into_response(),
    })
}

/// Who has logged in.
#[utoipa::path(
    get, path = "/api/me", security(("cookie" = [])),
    responses((status = 200, body = Me), (status = 401, body = Problem)),
)]
pub(crate) async fn me(caller: Caller) -> Json<Me> {
    Json(Me {
        operator: caller.user.operator,
        password: !caller.user.password.is_empty(),
        name: caller.user.name,
        csrf: caller.csrf,
    })
}

/// Changes the password, and ends all log-ins of the account.
#[utoipa::path(
    put, path = "/api/password", request_body = NewPassword, security(("cookie" = [], "csrf" = [])),
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
    ClientAddress(from): ClientAddress,
    caller: Caller,
    given: Result<Json<NewPassword>, JsonRejection>,
) -> Result<StatusCode, Refusal> {
    let Json(NewPassword { old, new }) = given?;
    let name = caller.user.name;
    let who = AttemptSource {
        name: name.clone(),
        network: from.into(),
        // Whoever has logged in is no stranger.
        device: Some(caller.token),
    };
    let begun = app.attempts.start(who).await;
    let begun = begun.map_err(|why| too_many(&app, why))?;
    let right = app.passwords.verify(old, Some(caller.user.password)).await;
    begun.end(right);
    if !right {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "the old password is wrong",
        ));
    }
    let failed =
        |why: PasswordError| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string());
    let hash = app.passwords.hash(new).await.map_err(failed)?;
    app.store.set_password(&name, &hash).await?;
    info!(user = name, "changed the password");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) type Cookie = (header::HeaderName, HeaderValue);

/// The header that sets a cookie, or with `kept` of 0 takes it away.
pub(super) fn set_cookie(
    name: &str,
    value: &str,
    kept: u32,
    secure: bool,
) -> Result<Cookie, Refusal> {
    let secure = if secure { "; Secure" } else { "" };
    // Lax, since a link to the portal from elsewhere is no reason to log in anew, and a provider sends people back by
    // one; GET changes nothing but what a cookie of this browser vouches for.
    let text = format!("{name}={value}; Path=/; Max-Age={kept}; HttpOnly; SameSite=Lax{secure}");
    let value = HeaderValue::from_str(&text)
        .map_err(|why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()))?;
    Ok((header::SET_COOKIE, value))
}
