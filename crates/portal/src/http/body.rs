//! Bodies of requests: read as a whole before anything is done with them, in a time that has an end. Without one a
//! byte now and then holds a connection for as long as its sender likes.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::refusal::Refusal;

/// The longest body, in bytes: a log-in is the longest.
const MAX_LENGTH: usize = 16 * 1024;

/// How long a body may take to arrive: the longest one by a modem of 14 kbit/s.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the body, and hands the request on.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let refused = match timeout(TIMEOUT, to_bytes(body, MAX_LENGTH)).await {
        Ok(Ok(body)) => return next.run(Request::from_parts(parts, Body::from(body))).await,
        // Or the connection broke; then nobody reads this.
        Ok(Err(_)) => Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request's body is too long",
        ),
        Err(_) => Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request's body did not arrive in time",
        ),
    };
    let mut response = refused.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
