//! Playing in the browser, at the portal's own address: `/play/SESSION/` is the page, `/play/SESSION/signalling` its
//! WebSocket, which the portal carries to the session byte for byte. Media goes between browser and session.
//!
//! A session is not trusted: the owner of its application may have changed what it says. Hence the page is the portal's
//! own copy, and what a session sends reaches the browser as messages of this WebSocket and nowhere else. A portal that
//! ends does not end what plays. What it is not: it reads no message.

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
use crate::sessions::{SessionState, Visitor, wishes};
use crate::store::User;

/// Bytes each way that one connection may carry: a hundred session descriptions (of a browser they have 10 kB).
const MOST: u64 = 1 << 20;

/// How often it is looked whether a browser may still be there: its log-in, and who the session is shared with. A guess.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// What the key of a WebSocket is hashed with (RFC 6455, section 1.3).
const WEBSOCKET: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The page, which is the one that hosts serve themselves (`crates/gateway/src/pages.rs`).
const PAGE: &str = include_str!("../../../gateway/page/dist/index.html");

/// What it is made of besides: name, type, content.
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

/// What the page knows by that a portal serves it.
const PLAIN: &str = "<html lang=\"en\">";
const MARKED: &str = "<html lang=\"en\" data-portal>";

/// As the page has it of a host (`crates/gateway/src/pages.rs`), and no text may become markup or a program: what a
/// session says is shown on the portal's origin.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
     media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
     form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// `/play/SESSION`: the page's addresses count from a folder.
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

/// `/play/SESSION/`.
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

/// It says nothing of the session, and who asks need not have logged in.
fn file(id: &str, found: Option<(&'static str, Body)>) -> Response {
    let (Some((kind, content)), Ok(_)) = (found, id.parse::<SessionId>()) else {
        return Refusal::nothing("page").into_response();
    };
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
    ];
    // With the isolation that gives the page a clock of 5 µs instead of 100.
    let isolated = [("cross-origin-embedder-policy", "require-corp")];
    (headers, isolated, content).into_response()
}

/// `/play/SESSION/signalling`.
pub(super) async fn signalling(
    State(app): State<Arc<App>>,
    caller: Caller,
    ClientAddress(from): ClientAddress,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    mut request: Request,
) -> Result<Response, Refusal> {
    let accept = accept(request.headers())?;
    let seen = visible(&app, &caller.user, &id)?;
    let session = seen.observed.session;
    let endpoint = running(&seen)?.clone();
    let carried_connections = app.carried_connections.take(&caller.token).ok_or_else(|| {
        let why = "this browser plays in as many windows as it may: close one";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why)
    })?;
    let visitor = Visitor {
        login: &caller.token,
        name: &caller.user.name,
        from,
        role: role(&seen, &caller.user),
        wishes: wishes(query.as_deref().unwrap_or_default()),
    };
    let to = app.tickets.signalling(session, &endpoint, &visitor).await;
    let to = to.map_err(|why| {
        warn!(%session, user = caller.user.name, "a browser is not let in: {why}");
        let why = "the session does not let this browser in: try again";
        Refusal::new(StatusCode::BAD_GATEWAY, why)
    })?;
    info!(%session, user = caller.user.name, "a browser comes");
    // The connection's place among all others; hyper gives up the connection when it is a WebSocket.
    let peer = request.extensions().get::<Peer>().cloned();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _places = (carried_connections, peer);
        let Ok(browser) = upgrade.await else { return };
        let why = tokio::select! {
            ended = carry(browser, to) => {
                debug!(%session, "a browser's connection is over: {ended}");
                return;
            }
            why = until_unwelcome(&app, &caller.token, session) => why,
        };
        info!(%session, user = caller.user.name, "a browser is sent away: {why}");
        let dismissed = app.tickets.dismiss(session, &endpoint, &caller.token);
        if let Err(failed) = dismissed.await {
            warn!(%session, "a browser may still play: {failed}");
        }
    });
    let headers = [
        (UPGRADE, "websocket".to_owned()),
        (CONNECTION, "Upgrade".to_owned()),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response())
}

/// What answers the key of a WebSocket that our own page opens: a browser says of each which page does, and asks
/// nobody whether it may.
fn accept(headers: &HeaderMap) -> Result<String, Refusal> {
    let is_websocket = headers
        .get(UPGRADE)
        .is_some_and(|kind| kind.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let (Some(key), true) = (headers.get(SEC_WEBSOCKET_KEY), is_websocket) else {
        let why = "only a WebSocket is spoken here";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
    };
    if !headers.contains_key(ORIGIN) {
        let why = "a WebSocket has to say which page opens it";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    same_origin(headers)?;
    let whole = [key.as_bytes(), WEBSOCKET.as_bytes()].concat();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &whole);
    Ok(BASE64_STANDARD.encode(hash.as_ref()))
}

/// A session that this person may know of.
pub(super) fn visible(app: &App, user: &User, id: &str) -> Result<SessionState, Refusal> {
    let session = id.parse().ok();
    let seen = session.and_then(|session| app.sessions.visible(session, user));
    seen.ok_or_else(|| Refusal::nothing("session"))
}

/// As what a person comes to a session at most.
pub(super) fn role(seen: &SessionState, user: &User) -> Role {
    match seen.observed.user == user.name {
        true => Role::Player,
        false => Role::Observer,
    }
}

/// Where it runs.
///
/// # Errors
/// 409: it does not yet; 410: it does not any more.
pub(super) fn running(seen: &SessionState) -> Result<&Endpoint, Refusal> {
    let (status, why) = match &seen.observed.phase {
        Phase::Running { endpoint } => return Ok(endpoint),
        Phase::Queued { why } => (
            StatusCode::CONFLICT,
            format!("the session waits for a place: {why}"),
        ),
        Phase::Starting => (StatusCode::CONFLICT, "the session starts".to_owned()),
        Phase::Ended { why, .. } => (StatusCode::GONE, format!("the session has ended: {why}")),
        Phase::Lost { .. } => (
            StatusCode::GONE,
            "the session is lost: its server does not answer".to_owned(),
        ),
    };
    Err(Refusal::new(status, why))
}

/// Copies both ways until one of both has no more, or has said too much.
async fn carry(browser: Upgraded, session: Upgraded) -> &'static str {
    let (from_browser, to_browser) = split(TokioIo::new(browser));
    let (from_session, to_session) = split(TokioIo::new(session));
    tokio::select! {
        () = some(from_browser, to_session) => "the browser went",
        () = some(from_session, to_browser) => "the session ended it",
    }
}

async fn some(from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    // What broke off is over, too.
    let _ = copy(&mut from.take(MOST), &mut to).await;
}

/// Waits until the person has logged out, or may not know of the session any more.
async fn until_unwelcome(app: &App, login: &str, session: SessionId) -> &'static str {
    let mut look = time::interval(POLL_INTERVAL);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        // Nothing follows from a database that does not answer.
        match app.store.login(login).await {
            Ok(None) => return "the log-in is over",
            Ok(Some(of)) if app.sessions.visible(session, &of.user).is_none() => {
                return "the session is not shared any more";
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
        // It is at /play/SESSION/, and the portal's own page at /.
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
        // The example of section 1.3.
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
