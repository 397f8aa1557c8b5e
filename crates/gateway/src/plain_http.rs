//! HTTP without TLS at the page's port. It only redirects to the same address with `https://`.

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;

use crate::response::{Response, text};

/// Whether a new client uses HTTP without TLS. Waits for the client's first byte. A TLS record begins with its type, 22
/// for a handshake (RFC 8446 section 5.1), and an HTTP request begins with a letter of its method.
pub(crate) async fn is_spoken(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first).await?;
    Ok(length == 1 && first[0].is_ascii_uppercase())
}

/// Redirects a browser to HTTPS if its request names the host.
pub(crate) fn redirect(request: &Request<Incoming>) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let path = request.uri().path_and_query();
    let path = path.map_or("/", PathAndQuery::as_str);
    let place = host.map(|host| format!("https://{host}{path}"));
    let location = place.as_deref().map(HeaderValue::from_str);
    let (Some(place), Some(Ok(location))) = (&place, location) else {
        let sentence = "this port accepts HTTPS only: open it with https://\n";
        return text(StatusCode::BAD_REQUEST, sentence);
    };
    let sentence = format!("this port accepts HTTPS only: open {place}\n");
    let mut response = text(StatusCode::PERMANENT_REDIRECT, &sentence);
    response.headers_mut().insert(header::LOCATION, location);
    response
}
