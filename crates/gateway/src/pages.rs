//! The page, which is embedded in the program. `page/dist` is built from `page/src` with Vite. It is checked in, so
//! that building a host does not require Node.

use bytes::Bytes;
use http_body_util::Full;
use hyper::StatusCode;
use hyper::header::{self, HeaderValue};

use crate::response::{Response, text};

/// Path, content type, content.
const FILES: [(&str, &str, &[u8]); 6] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_bytes!("../page/dist/index.html"),
    ),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../page/dist/page.js"),
    ),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_bytes!("../page/dist/page.css"),
    ),
    (
        "/manifest.webmanifest",
        "application/manifest+json",
        include_bytes!("../page/dist/manifest.webmanifest"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_bytes!("../page/dist/icon.svg"),
    ),
    (
        "/icon.png",
        "image/png",
        include_bytes!("../page/dist/icon.png"),
    ),
];

/// Only same-origin resources, nothing inline, no framing. Cross-origin isolation gives the page a clock resolution of 5 µs
/// instead of 100 µs.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
         media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-cache"),
];

/// The file at `path`.
pub(crate) fn page(path: &str) -> Response {
    let Some((_, kind, content)) = FILES.iter().find(|(of, ..)| *of == path) else {
        return text(StatusCode::NOT_FOUND, "not found\n");
    };
    let mut response = Response::new(Full::new(Bytes::from_static(content)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
