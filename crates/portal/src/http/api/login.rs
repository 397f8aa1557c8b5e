//! Log-in, log-out and password changes.

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

/// Lifetime of the log-in cookie in seconds: the maximum lifetime of a log-in.
const COOKIE_LIFETIME: u32 = 90 * 24 * 3600;

#[derive(Deserialize, ToSchema)]
pub(crate) struct LogIn {
    /// The account's name.
    name: String,
    /// The account's password.
    password: String,
}

#[derive(Deserialize, ToSchema)]
pub(crate) struct NewPassword {
    /// The current password.
    old: String,
    /// The new password: at least eight characters.
    new: String,
}

/// Log-in methods other than name and password.
#[derive(Serialize, ToSchema)]
pub(crate) struct LoginMethods {
    /// Name of the OpenID Connect provider; null if none is configured.
    provider: Option<String>,
}

/// The page at the provider where the browser continues.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProviderRedirect {
    /// URL of the page.
    pub(super) url: String,
}

/// The logged-in user.
#[derive(Serialize, ToSchema)]
pub(crate) struct Me {
    name: String,
    /// Whether the user may see and stop the sessions of all users.
    operator: bool,
    /// Whether the account has a password, which the user can change.
    password: bool,
    /// Value of the header `x-openuvr-csrf`. All requests that require a log-in must carry this header, except GET and
    /// HEAD requests.
    csrf: String,
}

impl Me {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The log-in methods other than name and password.
#[utoipa::path(get, path = "/api/login", responses((status = 200, body = LoginMethods)))]
pub(crate) async fn ways(State(app): State<Arc<App>>) -> Json<LoginMethods> {
    let provider = app.provider.as_ref().map(|of| of.section().title.clone());
    Json(LoginMethods { provider })
}

/// Logs in and sets the cookie.
///
/// For a wrong password and for a missing account, the response is the same.
#[utoipa::path(
    post, path = "/api/login", request_body = LogIn,
    responses(
        (status = 200, body = Me),
        (status = 401, description = "wrong name or password", body = Problem),
        (status = 429, description = "too many wrong passwords; see `Retry-After`", body = Problem),
        (status = 503, description = "too many concurrent log-ins, or the database does not respond", body = Problem),
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
    let source = AttemptSource {
        name: name.chars().take(MAX_NAME).collect(),
        network: from.into(),
        device: app.devices.read(device.as_deref(), &name),
    };
    // The check runs in its own task, so that a started attempt is counted even if the browser disconnects.
    let checked = tokio::spawn(check(Arc::clone(&app), source, name, password));
    let failed = |why: JoinError| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string());
    let user = checked.await.map_err(failed)?.inspect_err(|why| {
        info!(%from, "log-in refused: {}", why.why());
    })?;
    let (cookies, me) = enter(&app, user, None, device.as_deref()).await?;
    info!(user = me.name, %from, "logged in");
    Ok((AppendHeaders(cookies), Json(me)).into_response())
}

/// Returns the account if the password is correct.
async fn check(
    app: Arc<App>,
    source: AttemptSource,
    name: String,
    password: String,
) -> Result<User, Refusal> {
    let attempt = app.attempts.start(source).await;
    let attempt = attempt.map_err(|why| too_many(&app, why))?;
    let user = app.store.user(&name).await?;
    let hash = user.as_ref().map(|user| user.password.clone());
    let right = app.passwords.verify(password, hash).await;
    attempt.end(right);
    user.filter(|_| right).ok_or_else(|| {
        app.counts.login_wrong();
        Refusal::new(StatusCode::UNAUTHORIZED, "wrong name or password")
    })
}

/// The response if the portal refuses a log-in attempt for now.
fn too_many(app: &App, why: AttemptRefused) -> Refusal {
    app.counts.login_limited();
    match why {
        AttemptRefused::TooManyWrong(wait) => {
            let minutes = wait.as_secs().div_ceil(60);
            let why = format!("too many wrong passwords: wait {minutes} minutes");
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(wait.as_secs() + 1)
        }
        AttemptRefused::Busy => {
            let why = "too many log-ins at the same time: try again in a few seconds";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).wait(5)
        }
    }
}

/// Creates a log-in of this account. Returns the log-in cookie, the device cookie, and the response for the page.
/// `until` is the log-in's end in seconds since 1970. `device` is the browser's device cookie from earlier log-ins.
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
        set_cookie(
            cookie_name(app.secure),
            &secret,
            COOKIE_LIFETIME,
            app.secure,
        )?,
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

/// The name of the device cookie. A browser keeps this cookie after a log-out.
pub(super) fn device_name(secure: bool) -> &'static str {
    match secure {
        true => "__Host-openuvr-device",
        false => "openuvr-device",
    }
}

/// Logs out. After a log-in through a provider that has a log-out page, the response contains the URL of the log-out
/// page. The portal's page opens this URL, because the next person at the browser would otherwise still be logged in at
/// the provider.
#[utoipa::path(
    post, path = "/api/logout", security(("cookie" = [], "csrf" = [])),
    responses(
        (status = 200, description = "logged out here, but not at the provider", body = ProviderRedirect),
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

/// The logged-in user.
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

/// Changes the password and ends all log-ins of the account.
#[utoipa::path(
    put, path = "/api/password", request_body = NewPassword, security(("cookie" = [], "csrf" = [])),
    responses(
        (status = 204),
        (status = 401, body = Problem),
        (status = 403, description = "wrong old password", body = Problem),
        (status = 422, description = "the new password is too short or too long", body = Problem),
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
    let source = AttemptSource {
        name: name.clone(),
        network: from.into(),
        // A logged-in browser counts as a known device.
        device: Some(caller.token),
    };
    let attempt = app.attempts.start(source).await;
    let attempt = attempt.map_err(|why| too_many(&app, why))?;
    let right = app.passwords.verify(old, Some(caller.user.password)).await;
    attempt.end(right);
    if !right {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "wrong old password"));
    }
    let failed =
        |why: PasswordError| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string());
    let hash = app.passwords.hash(new).await.map_err(failed)?;
    app.store.set_password(&name, &hash).await?;
    info!(user = name, "changed the password");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) type Cookie = (header::HeaderName, HeaderValue);

/// The header that sets a cookie for `kept` seconds; a `kept` of 0 removes the cookie.
pub(super) fn set_cookie(
    name: &str,
    value: &str,
    kept: u32,
    secure: bool,
) -> Result<Cookie, Refusal> {
    let secure = if secure { "; Secure" } else { "" };
    // `SameSite` is Lax, because the browser must send the cookie after links from other sites and after redirects from
    // a provider. A GET request changes nothing, except for the callback of the browser's own OpenID Connect log-in.
    let text = format!("{name}={value}; Path=/; Max-Age={kept}; HttpOnly; SameSite=Lax{secure}");
    let value = HeaderValue::from_str(&text)
        .map_err(|why| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()))?;
    Ok((header::SET_COOKIE, value))
}
