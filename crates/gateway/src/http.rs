//! HTTPS requests: the page, log-in, metrics, and the WebSocket of a connection.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use openuvr_clock as clock;
use openuvr_proto::control::identity::PublicKey;
use openuvr_runtime::connection_limits::Network;
use openuvr_runtime::host::{Admission, AdmissionGrant, AdmitRefused};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::connection::{self, PageOptions};
use crate::login::Login;
use crate::response::{Response, json, text};
use crate::shared::{Endpoints, Shared};
use crate::signalling::MAX_MESSAGE;
use crate::visitor::Visitor;
use crate::{control, figures, metrics, pages};

/// Maximum length of a log-in in bytes.
const MAX_BODY: usize = 4096;

/// Timeout for the body's arrival.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Name of the cookie with a visitor's token, without the port. Cookies apply to all ports of a machine (RFC 6265,
/// section 8.5), and several sessions of a portal may run on one machine. The prefix prevents other machines in the
/// same domain from setting the cookie.
const COOKIE: &str = "__Host-openuvr-";

pub(crate) async fn answer(
    shared: Arc<Shared>,
    endpoints: Endpoints,
    request: Request<Incoming>,
) -> Result<Response, std::convert::Infallible> {
    let asks_upgrade = request.headers().contains_key(header::UPGRADE);
    let path = request.uri().path().to_owned();
    Ok(match (request.method(), path.as_str()) {
        // Unity Render Streaming's client requests the WebSocket at the root.
        (&Method::GET, "/" | "/signalling") if asks_upgrade => {
            upgrade(&shared, endpoints, request).await
        }
        (&Method::GET, "/codecs") => json(StatusCode::OK, &codecs(&shared)),
        (&Method::GET, "/metrics") => show_metrics(&shared, endpoints, &request).await,
        (&Method::POST, "/login/challenge") => challenge(&shared, endpoints, &request),
        (&Method::POST, "/login") => log_in(&shared, endpoints, request).await,
        (method, "/session" | "/session/renew" | "/session/stop") => {
            control::answer(&shared, method, &path, request.headers()).await
        }
        (&Method::GET | &Method::HEAD, path) => pages::page(path),
        _ => text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n"),
    })
}

/// The host's video codecs, by their names in SDP. In a browser without H.264, the page requests this list before the
/// log-in.
fn codecs(shared: &Shared) -> serde_json::Value {
    let codecs = shared.media_options.codecs.iter();
    codecs.map(|codec| codec.encoding_name()).collect()
}

/// The page's origin, if the request comes from this host's page. Pages of other sites must not send requests with the
/// visitor's cookie. The valid origins are `https://` with the name in the request, and the configured origins.
fn own_origin(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    let origin = headers.get(header::ORIGIN)?.to_str().ok()?;
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let own = host.is_some_and(|host| origin.eq_ignore_ascii_case(&format!("https://{host}")));
    let named = || shared.origins.iter().any(|named| named.is(origin));
    (own || named()).then(|| origin.to_ascii_lowercase())
}

fn foreign(shared: &Shared) -> Response {
    shared.counters.foreign_origins.add(1);
    text(
        StatusCode::FORBIDDEN,
        "only this host's own page may send this request; behind a reverse proxy, start the host with \
        --web-origin https://NAME, as shown in the address bar\n",
    )
}

fn challenge(shared: &Shared, endpoints: Endpoints, request: &Request<Incoming>) -> Response {
    if own_origin(shared, request.headers()).is_none() {
        return foreign(shared);
    }
    let network = Network::of(endpoints.remote.ip());
    let made = shared.logins().challenge(clock::now(), network);
    match made {
        Some(challenge) => json(
            StatusCode::OK,
            &serde_json::json!({ "challenge": challenge, "host": shared.name }),
        ),
        None => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "no random numbers available\n",
        ),
    }
}

async fn log_in(
    shared: &Arc<Shared>,
    endpoints: Endpoints,
    request: Request<Incoming>,
) -> Response {
    let Some(origin) = own_origin(shared, request.headers()) else {
        return foreign(shared);
    };
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    let Ok(Ok(body)) = timeout(BODY_TIMEOUT, body).await else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "log-in too long\n");
    };
    let refused = |status, why: &str| json(status, &serde_json::json!({ "refused": why }));
    let place = (Network::of(endpoints.remote.ip()), origin.as_str());
    let is_known = |device: &PublicKey| shared.is_known(device);
    let names_session =
        |ticket: &str| (shared.lease.as_ref()).is_some_and(|lease| lease.is_for(ticket));
    let body = body.to_bytes();
    let checked = (shared.logins()).check(clock::now(), place, &body, is_known, names_session);
    let login = match checked {
        Ok(login) => login,
        Err(why) => return refused(StatusCode::BAD_REQUEST, &why.to_string()),
    };
    let (device, name) = (login.device, login.name.clone());
    let AdmissionGrant {
        title,
        max_role: most,
    } = match admit(shared, endpoints, login).await {
        Ok(admitted) => admitted,
        Err(NotAdmitted::NoAnswer) => {
            let why = NotAdmitted::NoAnswer.to_string();
            return json(
                StatusCode::SERVICE_UNAVAILABLE,
                &serde_json::json!({ "later": why }),
            );
        }
        Err(NotAdmitted::Refused(why)) => {
            shared.counters.refused_logins.add(1);
            return refused(StatusCode::FORBIDDEN, &why.to_string());
        }
    };
    let visitor = Visitor {
        device,
        name,
        title: title.clone(),
        most,
    };
    let Some(token) = shared.logins().token(visitor) else {
        return text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "no random numbers available\n",
        );
    };
    let mut response = json(StatusCode::OK, &serde_json::json!({ "device": title }));
    let port = shared.media_port;
    let cookie = format!("{COOKIE}{port}={token}; Path=/; Secure; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Why a device is not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum NotAdmitted {
    /// The host refused it.
    #[error("{0}")]
    Refused(AdmitRefused),
    /// The host does not answer. Usually, its application has not shown anything yet or has ended.
    #[error("the host does not answer: its application has shown no picture yet, or has ended")]
    NoAnswer,
}

/// Requests admission from the host.
pub(crate) async fn admit(
    shared: &Shared,
    endpoints: Endpoints,
    login: Login,
) -> Result<AdmissionGrant, NotAdmitted> {
    let (answer, answered) = oneshot::channel::<Result<AdmissionGrant, AdmitRefused>>();
    let admission = Admission {
        key: login.device,
        name: login.name,
        pin: login.pin,
        ticket: login.ticket,
        from: endpoints.remote,
    };
    let answer = Box::new(move |admitted| {
        let _ = answer.send(admitted);
    });
    shared.host.admit(admission, answer);
    match answered.await {
        Ok(admitted) => admitted.map_err(NotAdmitted::Refused),
        Err(_) => Err(NotAdmitted::NoAnswer),
    }
}

/// The visitor that sent a request, identified by its cookie.
pub(crate) fn visitor(shared: &Shared, headers: &HeaderMap) -> Option<Visitor> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|all| all.split(';'));
    pairs.find_map(|pair| {
        let (name, token) = pair.trim().split_once('=')?;
        let port: u16 = name.strip_prefix(COOKIE)?.parse().ok()?;
        (port == shared.media_port)
            .then(|| shared.logins().visitor(token))
            .flatten()
    })
}

async fn show_metrics(
    shared: &Shared,
    endpoints: Endpoints,
    request: &Request<Incoming>,
) -> Response {
    let local = endpoints.remote.ip().is_loopback() && !endpoints.through_proxy;
    if !local && visitor(shared, request.headers()).is_none() {
        return text(
            StatusCode::FORBIDDEN,
            "metrics are available only on this machine and to logged-in devices\n",
        );
    }
    let figures = figures::query(shared).await;
    text(StatusCode::OK, &metrics::text(shared, figures.as_deref()))
}

async fn upgrade(
    shared: &Arc<Shared>,
    endpoints: Endpoints,
    request: Request<Incoming>,
) -> Response {
    if own_origin(shared, request.headers()).is_none() {
        return foreign(shared);
    }
    let Some(visitor) = visitor(shared, request.headers()) else {
        return text(StatusCode::UNAUTHORIZED, "log in first\n");
    };
    // The device may have been forbidden since it logged in.
    let again = Login {
        device: visitor.device,
        name: visitor.name,
        pin: None,
        ticket: None,
    };
    enter(shared, endpoints, request, again).await
}

/// Opens a device's WebSocket if the host admits the device.
pub(crate) async fn enter(
    shared: &Arc<Shared>,
    endpoints: Endpoints,
    mut request: Request<Incoming>,
    login: Login,
) -> Response {
    let headers = request.headers();
    let is_websocket = headers
        .get(header::UPGRADE)
        .is_some_and(|kind| kind.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let (Some(key), true) = (
        key.map(|key| derive_accept_key(key.as_bytes())),
        is_websocket,
    ) else {
        return text(
            StatusCode::BAD_REQUEST,
            "this address accepts WebSockets only\n",
        );
    };
    let (device, name) = (login.device, login.name.clone());
    let AdmissionGrant {
        title,
        max_role: most,
    } = match admit(shared, endpoints, login).await {
        Ok(admitted) => admitted,
        Err(why) => {
            let status = match why {
                NotAdmitted::NoAnswer => StatusCode::SERVICE_UNAVAILABLE,
                NotAdmitted::Refused(_) => {
                    shared.logins().forget(&device);
                    StatusCode::UNAUTHORIZED
                }
            };
            return text(status, &why.to_string());
        }
    };
    let visitor = Visitor {
        device,
        name,
        title,
        most,
    };
    let Some(place) = shared.take_device_slot(&visitor.device) else {
        return text(
            StatusCode::SERVICE_UNAVAILABLE,
            "connection limit reached: close another page\n",
        );
    };
    let page_options = PageOptions::from_query(request.uri().query().unwrap_or_default());
    let upgraded = hyper::upgrade::on(&mut request);
    let shared = shared.clone();
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE))
            .max_write_buffer_size(4 * MAX_MESSAGE);
        let io = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        connection::serve(socket, visitor, page_options, endpoints, shared).await;
        drop(place);
    });
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    }
    response
}
