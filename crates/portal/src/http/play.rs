//! Playing in the browser, on the portal's origin. `/play/SESSION/` is the page, and `/play/SESSION/signalling` is its
//! WebSocket, which the portal forwards to the session byte for byte. Media flows directly between browser and session.
//!
//! A session is not trusted, because the user who started it may control its output. Therefore, the page is the
//! portal's own copy, and data from the session reaches the browser only as messages of this WebSocket. The portal does
//! not parse the messages. Sessions that are being played continue if the portal ends.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, ORIGIN,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use openuvr_proto::control::negotiate::Role;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, copy, split};
use tokio::time::{self, MissedTickBehavior};
use tracing::{debug, info, warn};

use super::app::App;
use super::caller::{Caller, ClientAddress, same_origin};
use super::refusal::Refusal;
use super::server::Peer;
use crate::launch::{Endpoint, Phase, SessionId};
use crate::sessions::{SessionState, Visitor, page_options};
use crate::store::User;

/// Maximum number of bytes in each direction of a connection: a hundred session descriptions. A browser's session
/// description has 10 kB.
const MAX_BYTES: u64 = 1 << 20;

/// Interval at which the browser's access is verified: whether its log-in is valid, and whether the user may still see
/// the session. A guess.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The GUID that is hashed together with a WebSocket's key (RFC 6455, section 1.3).
const WEBSOCKET: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The page. Hosts serve the same page themselves (`crates/gateway/src/pages.rs`).
const PAGE: &str = include_str!("../../../gateway/page/dist/index.html");

/// The other files of the page: name, type, content.
const FILES: [(&str, &str, &[u8]); 5] = [
    (
        "page.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../../gateway/page/dist/page.js"),
    ),
    (
        "page.css",
        "text/css; charset=utf-8",
        include_bytes!("../../../gateway/page/dist/page.css"),
    ),
    (
        "manifest.webmanifest",
        "application/manifest+json",
        include_bytes!("../../../gateway/page/dist/manifest.webmanifest"),
    ),
    (
        "icon.svg",
        "image/svg+xml",
        include_bytes!("../../../gateway/page/dist/icon.svg"),
    ),
    (
        "icon.png",
        "image/png",
        include_bytes!("../../../gateway/page/dist/icon.png"),
    ),
];

/// Opening tag of the page, without and with the attribute that marks the page as served by a portal.
const PLAIN: &str = "<html lang=\"en\">";
const MARKED: &str = "<html lang=\"en\" data-portal>";

/// Like the policy of a host (`crates/gateway/src/pages.rs`), but no text may become markup or script: the portal's
/// origin displays messages of an untrusted session.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
     media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
     form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// `/play/SESSION`: redirects to `/play/SESSION/`, because the page's relative URLs need the final slash.
pub(super) async fn folder(Path(id): Path<String>) -> Response {
    match id.parse::<SessionId>() {
        Ok(id) => (
            StatusCode::PERMANENT_REDIRECT,
            [(LOCATION, format!("/play/{id}/"))],
        )
            .into_response(),
        Err(_) => Refusal::nothing("session").into_response(),
    }
}

/// `/play/SESSION/`: the page.
pub(super) async fn page(Path(id): Path<String>) -> Response {
    let marked = PAGE.replacen(PLAIN, MARKED, 1);
    file(&id, Some(("text/html; charset=utf-8", marked.into())))
}

/// A file of the page.
pub(super) async fn part(Path((id, name)): Path<(String, String)>) -> Response {
    let found = FILES.iter().find(|(of, ..)| *of == name);
    file(
        &id,
        found.map(|(_, kind, content)| (*kind, Body::from(*content))),
    )
}

/// The response with a file of the page. The page's files contain nothing about a session, so they require no log-in.
fn file(id: &str, found: Option<(&'static str, Body)>) -> Response {
    let (Some((kind, content)), Ok(_)) = (found, id.parse::<SessionId>()) else {
        return Refusal::nothing("page").into_response();
    };
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    // Cross-origin isolation gives the page a clock resolution of 5 µs instead of 100 µs.
    let isolated = [("cross-origin-embedder-policy", "require-corp")];
    (headers, isolated, content).into_response()
}

/// `/play/SESSION/signalling`: the WebSocket.
pub(super) async fn signalling(
    State(app): State<Arc<App>>,
    caller: Caller,
    ClientAddress(from): ClientAddress,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    mut request: Request,
) -> Result<Response, Refusal> {
    let accept = accept(request.headers())?;
    let state = visible(&app, &caller.user, &id)?;
    let session = state.observed.session;
    let endpoint = running(&state)?.clone();
    let carried_connections = app.carried_connections.take(&caller.token).ok_or_else(|| {
        let why = "too many open windows: close one";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    let visitor = Visitor {
        login: &caller.token,
        name: &caller.user.name,
        from,
        role: role(&state, &caller.user),
        options: page_options(query.as_deref().unwrap_or_default()),
    };
    let to = app.tickets.signalling(session, &endpoint, &visitor).await;
    let to = to.map_err(|why| {
        warn!(%session, user = caller.user.name, "cannot connect a browser to the session: {why}");
        let why = "cannot connect this browser to the session: try again";
        Refusal::new(StatusCode::BAD_GATEWAY, why)
    })?;
    info!(%session, user = caller.user.name, "browser connected");
    // The task holds the slots of this connection. Otherwise, they would be released when hyper hands over the
    // connection as a WebSocket.
    let peer = request.extensions().get::<Peer>().cloned();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _places = (carried_connections, peer);
        let Ok(browser) = upgrade.await else { return };
        let why = tokio::select! {
            ended = carry(browser, to) => {
                debug!(%session, "browser connection ended: {ended}");
                return;
            }
            why = until_unwelcome(&app, &caller.token, session) => why,
        };
        info!(%session, user = caller.user.name, "browser disconnected: {why}");
        let dismissed = app.tickets.dismiss(session, &endpoint, &caller.token);
        if let Err(failed) = dismissed.await {
            warn!(%session, "cannot disconnect a browser, so it may still play: {failed}");
        }
    });
    let headers = [
        (UPGRADE, "websocket".to_owned()),
        (CONNECTION, "Upgrade".to_owned()),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response())
}

/// The `Sec-WebSocket-Accept` value for a WebSocket that the portal's own page opens. The origin must be checked here:
/// browsers do not apply the same-origin policy to WebSockets, but send the page's origin with the request.
fn accept(headers: &HeaderMap) -> Result<String, Refusal> {
    let is_websocket = headers
        .get(UPGRADE)
        .is_some_and(|kind| kind.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let (Some(key), true) = (headers.get(SEC_WEBSOCKET_KEY), is_websocket) else {
        let why = "this address accepts WebSockets only";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
    };
    if !headers.contains_key(ORIGIN) {
        let why = "the WebSocket request has no origin";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    same_origin(headers)?;
    let whole = [key.as_bytes(), WEBSOCKET.as_bytes()].concat();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &whole);
    Ok(BASE64_STANDARD.encode(hash.as_ref()))
}

/// A session that is visible to this user.
pub(super) fn visible(app: &App, user: &User, id: &str) -> Result<SessionState, Refusal> {
    let session = id.parse().ok();
    let state = session.and_then(|session| app.sessions.visible(session, user));
    state.ok_or_else(|| Refusal::nothing("session"))
}

/// The highest role of a user in a session.
pub(super) fn role(state: &SessionState, user: &User) -> Role {
    match state.observed.user == user.name {
        true => Role::Player,
        false => Role::Observer,
    }
}

/// The endpoint of a running session.
///
/// # Errors
/// Returns 409 if the session is not running yet, and 410 if it has ended or is lost.
pub(super) fn running(state: &SessionState) -> Result<&Endpoint, Refusal> {
    let (status, why) = match &state.observed.phase {
        Phase::Running { endpoint } => return Ok(endpoint),
        Phase::Queued { why } => (
            StatusCode::CONFLICT,
            format!("the session is queued: {why}"),
        ),
        Phase::Starting => (StatusCode::CONFLICT, "the session is starting".to_owned()),
        Phase::Ended { why, .. } => (StatusCode::GONE, format!("the session has ended: {why}")),
        Phase::Lost { .. } => (
            StatusCode::GONE,
            "the session is lost: its server does not respond, or its program has disappeared"
                .to_owned(),
        ),
    };
    Err(Refusal::new(status, why))
}

/// Copies in both directions until one side closes or exceeds its limit.
async fn carry(browser: Upgraded, session: Upgraded) -> &'static str {
    let (from_browser, to_browser) = split(TokioIo::new(browser));
    let (from_session, to_session) = split(TokioIo::new(session));
    tokio::select! {
        () = some(from_browser, to_session) => "closed by the browser",
        () = some(from_session, to_browser) => "closed by the session",
    }
}

async fn some(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    // An error is ignored, because it also ends the copying.
    let _ = copy(&mut from.take(MAX_BYTES), &mut to).await;
}

/// Waits until the user has logged out or lost access to the session.
async fn until_unwelcome(app: &App, login: &str, session: SessionId) -> &'static str {
    let mut look = time::interval(POLL_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        // A database failure does not end the connection.
        match app.store.login(login).await {
            Ok(None) => return "the log-in ended",
            Ok(Some(of)) if app.sessions.visible(session, &of.user).is_none() => {
                return "the session is no longer shared";
            }
            Ok(Some(_)) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_marked_as_the_portals() {
        assert!(PAGE.contains(PLAIN));
        // The page must use relative URLs: it is served at /play/SESSION/, and the portal's own page at /.
        for absolute in ["src=\"/", "href=\"/"] {
            assert!(!PAGE.contains(absolute), "{absolute}");
        }
    }

    #[test]
    fn a_websocket_is_answered_by_rfc_6455() {
        let headers = |pairs: &[(&'static str, &str)]| -> HeaderMap {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| {
                    let name = axum::http::HeaderName::from_static(name);
                    (name, value.parse().unwrap())
                })
                .collect()
        };
        let whole = [
            ("host", "a:1"),
            ("origin", "https://a:1"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        // The example in RFC 6455, section 1.3.
        assert_eq!(
            accept(&headers(&whole)).unwrap(),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        for lacks in 0..whole.len() {
            let mut some = whole.to_vec();
            some.remove(lacks);
            assert!(
                accept(&headers(&some)).is_err(),
                "without {}",
                whole[lacks].0
            );
        }
        let foreign = [("origin", "https://b:1")];
        assert!(accept(&headers(&[&whole[..1], &foreign, &whole[2..]].concat())).is_err());
    }
}
