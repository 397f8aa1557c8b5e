//! Authentication of a request by its log-in cookie and its origin.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};

use super::app::App;
use super::refusal::Refusal;
use super::server::Peer;
use crate::accounts::Secret;
use crate::store::{Login, User};

/// Header that all requests except GET and HEAD carry in addition to the cookie.
pub(super) const CSRF: &str = "x-openuvr-csrf";

/// A logged-in user.
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) csrf: String,
    /// Hash of the cookie.
    pub(crate) token: String,
    /// Whether the log-in is through a provider.
    pub(crate) provider: bool,
}

/// A user who is an operator.
pub(crate) struct Operator;

pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Refusal> {
        let unknown = || Refusal::new(StatusCode::UNAUTHORIZED, "log in first");
        let secret = cookie(&parts.headers, cookie_name(app.secure)).ok_or_else(unknown)?;
        let token = Secret::kept(secret);
        let login = app.store.login(&token).await?;
        let Login {
            user,
            csrf,
            provider,
        } = login.ok_or_else(unknown)?;
        if parts.method != Method::GET && parts.method != Method::HEAD {
            same_origin(&parts.headers)?;
            let given = parts.headers.get(CSRF).map(|value| value.as_bytes());
            if given != Some(csrf.as_bytes()) {
                let why = format!("the header {CSRF} is missing or outdated: reload the page");
                return Err(Refusal::new(StatusCode::FORBIDDEN, why));
            }
        }
        if let Some(peer) = parts.extensions.get::<Peer>() {
            peer.place.known();
        }
        Ok(Caller {
            user,
            csrf,
            token,
            provider,
        })
    }
}

impl FromRequestParts<Arc<App>> for Operator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Operator, Refusal> {
        let caller = Caller::from_request_parts(parts, app).await?;
        match caller.user.operator {
            true => Ok(Operator),
            false => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "only operators may do this",
            )),
        }
    }
}

impl FromRequestParts<Arc<App>> for ClientAddress {
    type Rejection = Refusal;

    async fn from_request_parts(
        parts: &mut Parts,
        app: &Arc<App>,
    ) -> Result<ClientAddress, Refusal> {
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.at.ip());
        let peer = peer.unwrap_or(IpAddr::from([0; 4]));
        // The proxy itself appends the last entry. Clients can forge the entries before it.
        let entry = parts.headers.get_all("x-forwarded-for").iter().next_back();
        let entry =
            entry.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
        Ok(ClientAddress(match app.behind_proxy {
            true => entry.unwrap_or(peer),
            false => peer,
        }))
    }
}

/// Name of the log-in cookie. The prefix `__Host-` requires HTTPS and binds the cookie to this host (RFC 6265bis,
/// section 4.1.3). Cookies do not distinguish ports, so the pages of sessions on this machine use other cookie names.
pub(super) fn cookie_name(secure: bool) -> &'static str {
    match secure {
        true => "__Host-openuvr-portal",
        false => "openuvr-portal",
    }
}

/// The value of the first cookie with this name.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines.flat_map(|line| line.to_str().unwrap_or_default().split(';'));
    let mut values = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then_some(value)
    });
    values.next()
}

/// Rejects requests from pages of other sites.
pub(super) fn same_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let foreign = || Refusal::new(StatusCode::FORBIDDEN, "the request comes from another site");
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if text("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(foreign());
    }
    let Some(origin) = text("origin") else {
        return Ok(());
    };
    let host = text("host").unwrap_or_default();
    match origin.split_once("://") {
        Some((_, of)) if of == host => Ok(()),
        _ => Err(foreign()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| {
                let name = axum::http::HeaderName::from_static(name);
                (name, value.parse().unwrap())
            })
            .collect()
    }

    #[test]
    fn a_request_of_another_site_is_refused() {
        let from = |pairs: &[_]| same_origin(&headers(pairs)).is_ok();
        assert!(from(&[]), "a non-browser client");
        assert!(from(&[("host", "a:1"), ("origin", "https://a:1")]));
        assert!(!from(&[("host", "a:1"), ("origin", "https://b:1")]));
        assert!(!from(&[("host", "a:1"), ("origin", "null")]));
        assert!(!from(&[("host", "a:1"), ("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn a_cookie_is_found_by_its_name() {
        let found = headers(&[("cookie", "a=b; openuvr-portal=12; __Host-openuvr-portal=34")]);
        assert_eq!(cookie(&found, cookie_name(false)), Some("12"));
        assert_eq!(cookie(&found, cookie_name(true)), Some("34"));
        assert_eq!(
            cookie(&headers(&[("cookie", "openuvrx=1")]), "openuvr"),
            None
        );
    }
}
