//! Logging in by a provider of OpenID Connect.
//!
//! An account is found by issuer and subject alone. Neither a name nor a mail address that the provider tells leads
//! to an account that is there: whoever could choose them at the provider would get in as somebody else. Who wants
//! to use an account that is there by the provider asks the operator (`openuvr portal user link`).

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

/// How long a browser keeps what ties a log-in to it, in seconds: as long as a log-in may take.
const KEPT: u32 = 600;

/// Bytes of a state at most; ours have 22.
const MAX_STATE: usize = 64;

/// What a provider sends people back with.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ProviderResponse {
    /// What the portal gets a token for.
    code: Option<String>,
    /// What the portal has given.
    state: Option<String>,
    /// Who sends (RFC 9207).
    iss: Option<String>,
    /// Why there is no code (RFC 6749, section 4.1.2.1).
    error: Option<String>,
}

/// Why somebody who came back is not logged in. The page has a sentence for each word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoginFailure {
    /// Not begun in this browser, too old, or used up.
    State,
    /// The person, or the provider, said no.
    Denied,
    /// The provider does not answer.
    Provider,
    /// What it says can't be trusted.
    Token,
    /// In none of the groups that get in.
    Group,
    /// No account, and none is made.
    Account,
    /// The name is another's, or can't be that of an account.
    Name,
    /// The database does not answer.
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
                warn!("no account is made: {why}");
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
        warn!("no log-in by the provider: {why}");
        match why {
            OidcError::Provider(_) => LoginFailure::Provider,
            OidcError::Code(_) | OidcError::Token(_) => LoginFailure::Token,
        }
    }
}

/// Begins a log-in by the provider: sets a cookie that ties it to this browser, and says where the browser goes.
#[utoipa::path(
    post, path = "/api/oidc/login",
    responses(
        (status = 200, body = ProviderRedirect),
        (status = 403, description = "another site asks", body = Problem),
        (status = 404, description = "there is no provider", body = Problem),
        (status = 429, description = "too many; `Retry-After` says for how long", body = Problem),
        (status = 503, description = "the provider does not answer", body = Problem),
    ),
)]
pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    ClientAddress(from): ClientAddress,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    same_origin(&headers)?;
    let provider = app.provider.as_ref();
    let provider = provider.ok_or_else(|| Refusal::nothing("provider"))?;
    if let Err(wait) = app.attempts.start_by_provider(from.into()) {
        warn!(%from, "too many log-ins by the provider");
        app.counts.login_limited();
        let why = format!(
            "too many tries: wait {} minutes",
            wait.as_secs().div_ceil(60)
        );
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, why).wait(wait.as_secs() + 1));
    }
    let busy = |why: String| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).wait(10);
    let title = &provider.section().title;
    let begun = provider.start().await.map_err(|why| {
        warn!("no log-in by the provider: {why}");
        busy(format!(
            "{title} does not answer: try again later, or log in with name and password"
        ))
    })?;
    let browser = Secret::random().text();
    let hash = Secret::kept(&browser);
    if !app.store.add_attempt(&begun.attempt, &hash).await? {
        let why = "too many people log in at once: try again in some minutes";
        return Err(busy(why.to_owned()));
    }
    let cookie = login::set_cookie(cookie_name(app.secure), &browser, KEPT, app.secure)?;
    Ok((
        AppendHeaders([cookie]),
        Json(ProviderRedirect { url: begun.url }),
    )
        .into_response())
}

/// Where the provider sends people back to: logs them in, and goes to the page. After `#login=` the page is told
/// why somebody is not logged in.
#[utoipa::path(
    get, path = "/api/oidc/callback", params(ProviderResponse),
    responses((status = 303, description = "to the page"), (status = 404, body = Problem)),
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
            info!(user = me.name(), %from, "logged in by the provider");
            Ok(to_page("/", [gone, login, device]))
        }
        Err(_) => {
            let to = format!("/#login={}", LoginFailure::Database.word());
            Ok(to_page(&to, [gone]))
        }
    }
}

/// The account of whoever came back.
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
        warn!("somebody else than the provider sends back");
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
            info!(
                user = user.name,
                operator, "the provider has changed the role"
            );
            app.store.set_operator(&user.name, operator).await?;
            user.operator = operator;
        }
        return Ok(user);
    }
    if !provider.section().create {
        // The operator needs it to make the account.
        info!(subject = identity.subject, "there is no such account");
        return Err(LoginFailure::Account);
    }
    let user = User {
        name: identity.name.ok_or(LoginFailure::Name)?,
        password: String::new(),
        operator: identity.operator.unwrap_or(false),
        sessions: None,
    };
    app.store.add_user(&user, Some(&identity.subject)).await?;
    info!(user = user.name, "made an account of the provider");
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
