//! Requests of the portal that carries the signalling of a session's browsers: control of the session, and the
//! WebSocket of a browser that has logged in at the portal. The portal also serves the page and sets the cookie.
//!
//! ```text
//! browser                        portal                                      gateway
//!    | wss /play/SESSION/signalling ► | ── GET /session/signalling ──────────► |
//!    |                                |    bearer token, ticket, device, name  | ── admit ──► host
//!    | ◄──────────────── WebSocket, byte for byte ────────────────────────────► |
//!    | ◄─────────────────────────── media, directly or by TURN ───────────────► |
//! ```
//! The token ([`Action::Connect`]) authenticates the portal, so its `X-Forwarded-For` is trusted. The ticket grants the
//! browser's role. It is bound to one device, which represents the browser's log-in at the portal.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use openuvr_proto::control::identity::{DeviceName, PublicKey};
use openuvr_proto::control::ticket::Action;

use crate::addresses::base;
use crate::control;
use crate::http::enter;
use crate::login::{Login, from_hex};
use crate::response::{Response, text};
use crate::shared::{Endpoints, Shared};

/// Path for a browser's WebSocket.
const SIGNALLING: &str = "/session/signalling";

/// Path for disconnecting a device because its log-in ended or the session is no longer shared with it.
const DISMISS: &str = "/session/dismiss";

/// Headers in addition to the token: the ticket, the device's key in hexadecimal, its name, and the browser's address.
/// `crates/portal/src/sessions/signalling.rs` sends them.
const TICKET: &str = "x-openuvr-ticket";
const DEVICE: &str = "x-openuvr-device";
const NAME: &str = "x-openuvr-name";
const FROM: &str = "x-forwarded-for";

/// Answers a request that arrived through the socket, or over HTTPS if the gateway answers only the portal.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    endpoints: Endpoints,
    request: Request<Incoming>,
) -> Response {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, SIGNALLING) => connect(shared, endpoints, request).await,
        (&Method::POST, DISMISS) => dismiss(shared, request.headers()),
        (method, "/session" | "/session/renew" | "/session/stop") => {
            control::answer(shared, method, &path, request.headers()).await
        }
        _ => text(
            StatusCode::NOT_FOUND,
            "this session belongs to a portal: open it there\n",
        ),
    }
}

async fn connect(
    shared: &Arc<Shared>,
    endpoints: Endpoints,
    request: Request<Incoming>,
) -> Response {
    if let Err(refused) = control::allowed(shared, request.headers(), Action::Connect) {
        return *refused;
    }
    let Some((login, from)) = read_login(request.headers()) else {
        return text(
            StatusCode::BAD_REQUEST,
            "missing or invalid portal headers\n",
        );
    };
    // Over HTTPS, media uses the address at which the portal reached the gateway. The kernel's source address towards
    // the browser would be unsuitable, because the browser's address may be a loopback address of the portal's machine.
    // A portal that uses the Unix socket runs on the gateway's machine, so media uses the kernel's source address.
    let local = match endpoints.local.ip().is_unspecified() {
        true => here(shared, from),
        false => endpoints.local,
    };
    let endpoints = Endpoints::of(SocketAddr::new(from, 0), local);
    enter(shared, endpoints, request, login).await
}

fn dismiss(shared: &Shared, headers: &HeaderMap) -> Response {
    if let Err(refused) = control::allowed(shared, headers, Action::Connect) {
        return *refused;
    }
    let Some(device) = device(headers) else {
        return text(StatusCode::BAD_REQUEST, "missing or invalid device\n");
    };
    // A device without a connection is not an error.
    let _ = shared.dismissed.send(device);
    text(StatusCode::OK, "")
}

fn device(headers: &HeaderMap) -> Option<PublicKey> {
    let digits = headers.get(DEVICE)?.to_str().ok()?;
    from_hex(digits).map(PublicKey)
}

/// The log-in and the browser's address.
fn read_login(headers: &HeaderMap) -> Option<(Login, IpAddr)> {
    let of = |name: &str| headers.get(name)?.to_str().ok();
    let login = Login {
        device: device(headers)?,
        name: DeviceName::new(std::str::from_utf8(headers.get(NAME)?.as_bytes()).ok()?),
        pin: None,
        ticket: Some(of(TICKET)?.to_owned()),
    };
    Some((login, of(FROM)?.parse().ok()?))
}

/// The local media address for the browser at `from`: the kernel's source address towards the browser.
fn here(shared: &Shared, from: IpAddr) -> SocketAddr {
    // `connect` sends no datagram; it only selects the route.
    base(shared.media.main(), SocketAddr::new(from, 9)).unwrap_or_else(|| {
        let bound = shared.media.main().local_addr().map(|at| at.ip());
        let known = bound.ok().filter(|ip| !ip.is_unspecified());
        SocketAddr::new(
            known.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            shared.media_port,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_portal_headers_are_refused() {
        let device = "07".repeat(32);
        let whole = [
            (TICKET, "T"),
            (DEVICE, &device),
            (NAME, "ada"),
            (FROM, "192.0.2.1"),
        ];
        let read = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter();
            let headers = pairs.map(|(name, value)| {
                let name = hyper::header::HeaderName::from_static(name);
                (name, value.parse().unwrap())
            });
            read_login(&headers.collect())
        };
        let (login, from) = read(&whole).unwrap();
        assert_eq!(login.device, PublicKey([7; 32]));
        assert_eq!(
            (login.name.as_str(), login.ticket.as_deref()),
            ("ada", Some("T"))
        );
        assert_eq!(from, IpAddr::from([192, 0, 2, 1]));
        for lacks in 0..whole.len() {
            let mut some = whole.to_vec();
            some.remove(lacks);
            assert!(read(&some).is_none(), "without {}", whole[lacks].0);
        }
        for (name, wrong) in [(DEVICE, "07"), (FROM, "192.0.2.1:80"), (FROM, "me")] {
            let damaged = whole.map(|(of, value)| (of, if of == name { wrong } else { value }));
            assert!(read(&damaged).is_none(), "{name}: {wrong}");
        }
    }
}
