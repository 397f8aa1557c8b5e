//! HTTP responses.

use bytes::Bytes;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};

pub(crate) type Response = hyper::Response<Full<Bytes>>;

pub(crate) fn text(status: StatusCode, content: &str) -> Response {
    let mut response = hyper::Response::new(Full::new(Bytes::copy_from_slice(content.as_bytes())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Response {
    let mut response = text(status, &value.to_string());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
