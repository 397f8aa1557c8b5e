//! The portal's control of a session over HTTPS: status, renewal of the lease, stop. Requests carry a token
//! ([`ControlToken`](openuvr_proto::control::ticket::ControlToken)) as in RFC 6750.
//!
//! Each response is the resulting status in JSON: `session` (UUID), `seconds` (run time), `connected` (number of
//! players and observers), `lease` (seconds until the session ends if no client is connected and the portal does not
//! renew the lease), `stopping`, `streaming`, and `subscribers`. `subscribers` is a list with an object for each
//! player, observer and recorder, or null if the host does not answer. The members of each object are `kind` (`client`,
//! `browser`, `video player`, `recorder`, `other`) and `role` (`player`, `observer`). The following members cover the
//! newest five seconds: `frames_per_second` (complete frames displayed), `latency_p50` and `latency_p99` (seconds from
//! capture to the last stage that the subscriber reports) and `latency_bound` (their maximum error). Unknown values are
//! null.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use openuvr_proto::control::ticket::{Action, TokenRefused, UnixTime};

use crate::figures;
use crate::lease::Status;
use crate::response::{Response, json, text};
use crate::shared::Shared;

/// Answers a request at `/session`, `/session/renew` or `/session/stop`.
pub(crate) async fn answer(
    shared: &Shared,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Response {
    let action = match (method, path) {
        (&Method::GET, "/session") => Action::Status,
        (&Method::POST, "/session/renew") => Action::Renew,
        (&Method::POST, "/session/stop") => Action::Stop,
        _ => return text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"),
    };
    match allowed(shared, headers, action) {
        Ok(status) => {
            let figures = figures::query(shared).await;
            let told = serde_json::json!({
                "session": status.session.to_string(),
                "seconds": status.age.as_secs(),
                "connected": status.connected,
                "lease": status.left.as_secs(),
                "stopping": status.stopped,
                "streaming": shared.host.is_available(),
                "subscribers": figures.as_deref().map(figures::to_json),
            });
            json(StatusCode::OK, &told)
        }
        Err(refused) => *refused,
    }
}

/// Executes `action` if the request's token permits it. Returns the status of the session, or the refusal.
pub(crate) fn allowed(
    shared: &Shared,
    headers: &HeaderMap,
    action: Action,
) -> Result<Status, Box<Response>> {
    let Some(lease) = &shared.lease else {
        return Err(Box::new(text(
            StatusCode::NOT_FOUND,
            "this host does not run a portal session\n",
        )));
    };
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = UnixTime(since_1970.map_or(0, |span| span.as_secs()));
    let token = bearer(headers).unwrap_or_default();
    lease
        .act(Instant::now(), time, token, action)
        .map_err(|why| Box::new(refused(why)))
}

fn refused(why: TokenRefused) -> Response {
    let status = match why {
        TokenRefused::NotAllowed => StatusCode::FORBIDDEN,
        _ => StatusCode::UNAUTHORIZED,
    };
    let mut response = json(status, &serde_json::json!({ "refused": why.to_string() }));
    let challenge = HeaderValue::from_static("Bearer");
    (response.headers_mut()).insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// The bearer token; the scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let is_it = scheme.eq_ignore_ascii_case("bearer");
    is_it.then(|| token.trim())
}
