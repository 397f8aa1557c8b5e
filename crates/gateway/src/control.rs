//! What a portal asks of a session, by HTTPS: how it does, to live longer, to end. It shows a token
//! ([`ControlToken`](openuvr_proto::control::ticket::ControlToken)) as in RFC 6750.
//!
//! Each answer is how the session does then, in JSON: `session` (its UUID), `seconds` (how long it has run),
//! `connected` (players and observers), `lease` (seconds until it ends if nobody is connected and nobody renews it),
//! `stopping`, `streaming`, and `subscribers`, a list with an object for each player, observer and recorder; null
//! where the application does not say. In it: `kind` (`client`, `browser`, `video player`, `recorder`, `other`),
//! `role` (`player`, `observer`), and over the newest five seconds `frames_per_second` (displayed whole),
//! `latency_p50` and `latency_p99` (from capture to the last stage that it reports, in seconds) and `latency_bound` (by
//! how much these may be off); null is what nobody has reported.

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
        _ => return text(StatusCode::METHOD_NOT_ALLOWED, "this can't be done here\n"),
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
                "streaming": shared.host.is_there(),
                "subscribers": figures.as_deref().map(figures::to_json),
            });
            json(StatusCode::OK, &told)
        }
        Err(refused) => *refused,
    }
}

/// Does what the token in the headers asks for; how the session does then, or the answer to who may not.
pub(crate) fn allowed(
    shared: &Shared,
    headers: &HeaderMap,
    action: Action,
) -> Result<Status, Box<Response>> {
    let Some(lease) = &shared.lease else {
        return Err(Box::new(text(
            StatusCode::NOT_FOUND,
            "this host is no session of a portal\n",
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

/// The token behind `Bearer`, in any case (RFC 9110, section 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let is_it = scheme.eq_ignore_ascii_case("bearer");
    is_it.then(|| token.trim())
}
