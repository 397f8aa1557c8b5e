//! Reads request bodies completely before the handler runs, with a timeout. Without the timeout, a slow sender could
//! hold a connection indefinitely.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::refusal::Refusal;

/// Maximum length of a body in bytes. The longest body is that of a log-in.
const MAX_LENGTH: usize = 16 * 1024;

/// Timeout for a body: the time in which a modem of 14 kbit/s transfers the longest body.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the body and passes the request on.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let refused = match timeout(TIMEOUT, to_bytes(body, MAX_LENGTH)).await {
        Ok(Ok(body)) => return next.run(Request::from_parts(parts, Body::from(body))).await,
        // A broken connection causes the same error, but then the response is discarded.
        Ok(Err(_)) => Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "request body too long"),
        Err(_) => Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout: incomplete request body",
        ),
    };
    let mut response = refused.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
