//! Log-in with an OpenID Connect provider.
//!
//! An account is identified only by issuer and subject. A name or e-mail address from the provider never selects an
//! existing account: at many providers, users can choose both, and could then take over accounts of other users. The
//! operator links an existing account (`openuvr portal user link`).

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::Deserialize;
use tracing::{info, warn};
use utoipa::IntoParams;

use super::login::{self, Cookie, ProviderRedirect};
use crate::accounts::Secret;
use crate::http::app::App;
use crate::http::caller::{ClientAddress, cookie, same_origin};
use crate::http::refusal::{Problem, Refusal};
use crate::oidc::{Identity, OidcError, Provider};
use crate::store::{StoreError, User, now};

/// Lifetime in seconds of the cookie that binds a started log-in to a browser: the maximum time that a user may take to
/// log in at the provider.
const COOKIE_LIFETIME: u32 = 600;

/// Maximum length of a state in bytes. The states that the portal creates have 22 bytes.
const MAX_STATE: usize = 64;

/// Query of the redirect from the provider.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProviderResponse {
    /// The authorization code.
    code: Option<String>,
    /// The state that the portal sent.
    state: Option<String>,
    /// The issuer (RFC 9207).
    iss: Option<String>,
    /// Why the response contains no code (RFC 6749, section 4.1.2.1).
    error: Option<String>,
}

/// Why a log-in failed. The page has a message for each value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoginFailure {
    /// The log-in was not started in this browser, has expired, or has already been completed.
    State,
    /// The user or the provider denied the log-in.
    Denied,
    /// The provider does not respond.
    Provider,
    /// The code or the token is invalid, or the response is from another issuer.
    Token,
    /// The user is not in any group with access.
    Group,
    /// The user has no account, and the configuration does not allow creating one.
    Account,
    /// The user's name is in use, or is not valid for an account.
    Name,
    /// The database does not respond.
    Database,
}

impl LoginFailure {
    fn word(self) -> &'static str {
        match self {
            LoginFailure::State => "state",
            LoginFailure::Denied => "denied",
            LoginFailure::Provider => "provider",
            LoginFailure::Token => "token",
            LoginFailure::Group => "group",
            LoginFailure::Account => "account",
            LoginFailure::Name => "name",
            LoginFailure::Database => "database",
        }
    }
}

impl std::convert::From<StoreError> for LoginFailure {
    fn from(why: StoreError) -> LoginFailure {
        match why {
            StoreError::Exists(_) | StoreError::Name(_) => {
                warn!("cannot create an account: {why}");
                LoginFailure::Name
            }
            why => {
                warn!("{why}");
                LoginFailure::Database
            }
        }
    }
}

impl std::convert::From<OidcError> for LoginFailure {
    fn from(why: OidcError) -> LoginFailure {
        warn!("log-in with the provider failed: {why}");
        match why {
            OidcError::Provider(_) => LoginFailure::Provider,
            OidcError::Code(_) | OidcError::Token(_) => LoginFailure::Token,
        }
    }
}

/// Starts a log-in with the provider. Sets a cookie that binds the log-in to this browser, and returns the URL to open.
#[utoipa::path(
    post, path = "/api/oidc/login", operation_id = "begin",
    responses(
        (status = 200, body = ProviderRedirect),
        (status = 403, description = "the request comes from another site", body = Problem),
        (status = 404, description = "no log-in provider is configured", body = Problem),
        (status = 429, description = "too many log-ins; see `Retry-After`", body = Problem),
        (status = 503, description = "the provider does not respond", body = Problem),
    ),
)]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    ClientAddress(from): ClientAddress,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    same_origin(&headers)?;
    let provider = app.provider.as_ref();
    let provider = provider.ok_or_else(|| Refusal::nothing("provider"))?;
    if let Err(wait) = app.attempts.start_by_provider(from.into()) {
        warn!(%from, "too many log-ins with the provider");
        app.counts.login_limited();
        let why = format!(
            "too many attempts: wait {} minutes",
            wait.as_secs().div_ceil(60)
        );
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(wait.as_secs() + 1));
    }
    let busy = |why: String| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).wait(10);
    let title = &provider.section().title;
    let started = provider.start().await.map_err(|why| {
        warn!("log-in with the provider failed: {why}");
        busy(format!(
            "{title} does not respond: try again later, or log in with name and password"
        ))
    })?;
    let browser = Secret::random().text();
    let hash = Secret::kept(&browser);
    if !app.store.add_attempt(&started.attempt, &hash).await? {
        let why = "too many log-ins at the same time: try again in a few minutes";
        return Err(busy(why.to_owned()));
    }
    let cookie = login::set_cookie(
        cookie_name(app.secure),
        &browser,
        COOKIE_LIFETIME,
        app.secure,
    )?;
    Ok((
        AppendHeaders([cookie]),
        Json(ProviderRedirect { url: started.url }),
    )
        .into_response())
}

/// The URL to which the provider redirects the browser. Logs in and redirects the browser to the page. On failure, the
/// reason follows `#login=` in the page's URL.
#[utoipa::path(
    get, path = "/api/oidc/callback", params(ProviderResponse),
    responses((status = 303, description = "redirect to the page"), (status = 404, body = Problem)),
)]
pub(crate) async fn callback(
    State(app): State<Arc<App>>,
    ClientAddress(from): ClientAddress,
    headers: HeaderMap,
    returned: Result<Query<ProviderResponse>, QueryRejection>,
) -> Result<Response, Refusal> {
    let provider = app.provider.as_ref();
    let provider = provider.ok_or_else(|| Refusal::nothing("provider"))?;
    let gone = login::set_cookie(cookie_name(app.secure), "", 0, app.secure)?;
    let ended = match returned {
        Ok(Query(returned)) => end(&app, provider, &headers, returned).await,
        Err(_) => Err(LoginFailure::State),
    };
    let user = match ended {
        Ok(user) => user,
        Err(why) => {
            app.counts.login_by_provider_refused();
            return Ok(to_page(&format!("/#login={}", why.word()), [gone]));
        }
    };
    let hours = i64::from(provider.section().hours);
    let device = cookie(&headers, login::device_name(app.secure));
    match login::enter(&app, user, Some(now() + hours * 3600), device).await {
        Ok(([login, device], me)) => {
            app.attempts.succeeded_by_provider(from.into());
            info!(user = me.name(), %from, "logged in with the provider");
            Ok(to_page("/", [gone, login, device]))
        }
        Err(_) => {
            let to = format!("/#login={}", LoginFailure::Database.word());
            Ok(to_page(&to, [gone]))
        }
    }
}

/// The account of the user that the provider has authenticated.
async fn end(
    app: &App,
    provider: &Provider,
    headers: &HeaderMap,
    returned: ProviderResponse,
) -> Result<User, LoginFailure> {
    let state = returned.state.filter(|of| of.len() <= MAX_STATE);
    let state = state.ok_or(LoginFailure::State)?;
    let browser = cookie(headers, cookie_name(app.secure)).ok_or(LoginFailure::State)?;
    let hash = Secret::kept(browser);
    let attempt = app.store.take_attempt(&state, &hash).await?;
    let attempt = attempt.ok_or(LoginFailure::State)?;
    let issuer = &provider.section().issuer;
    if returned.iss.is_some_and(|from| from != *issuer) {
        warn!("the response does not come from the provider");
        return Err(LoginFailure::Token);
    }
    if returned.error.is_some() {
        return Err(LoginFailure::Denied);
    }
    let code = returned.code.ok_or(LoginFailure::Denied)?;
    let identity = provider.finish(code, attempt).await?;
    if !identity.allowed {
        return Err(LoginFailure::Group);
    }
    account(app, provider, identity).await
}

async fn account(app: &App, provider: &Provider, identity: Identity) -> Result<User, LoginFailure> {
    if let Some(mut user) = app.store.user_of(&identity.subject).await? {
        if let Some(operator) = identity.operator.filter(|is| *is != user.operator) {
            info!(user = user.name, operator, "role changed by the provider");
            app.store.set_operator(&user.name, operator).await?;
            user.operator = operator;
        }
        return Ok(user);
    }
    if !provider.section().create {
        // The log contains the subject, because the operator needs it to create the account.
        info!(subject = identity.subject, "no account for this subject");
        return Err(LoginFailure::Account);
    }
    let user = User {
        name: identity.name.ok_or(LoginFailure::Name)?,
        password: String::new(),
        operator: identity.operator.unwrap_or(false),
        sessions: None,
    };
    app.store.add_user(&user, Some(&identity.subject)).await?;
    info!(
        user = user.name,
        "created an account for a user of the provider"
    );
    Ok(user)
}

fn cookie_name(secure: bool) -> &'static str {
    match secure {
        true => "__Host-openuvr-oidc",
        false => "openuvr-oidc",
    }
}

fn to_page<const N: usize>(to: &str, cookies: [Cookie; N]) -> Response {
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    let location = [(header::LOCATION, to)];
    (StatusCode::SEE_OTHER, location, AppendHeaders(cookies)).into_response()
}
