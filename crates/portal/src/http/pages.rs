//! The page, which is embedded in the program. `page/dist` is built from `page/src` with Vite. It is checked in, so
//! that building the portal does not require Node.

use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::refusal::Refusal;

/// Path, content type, content.
const FILES: [(&str, &str, &str); 4] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../../page/dist/index.html"),
    ),
    (
        "/page.js",
        "text/javascript; charset=utf-8",
        include_str!("../../page/dist/page.js"),
    ),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("../../page/dist/page.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../../page/dist/icon.svg"),
    ),
];

/// Serves the file of the page at the requested path. It handles all paths without a route.
pub(super) async fn page(method: Method, uri: Uri) -> Response {
    let found = FILES.iter().find(|(path, ..)| *path == uri.path());
    match found {
        Some((_, kind, content)) if matches!(method, Method::GET | Method::HEAD) => {
            let headers = [
                (header::CONTENT_TYPE, *kind),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (StatusCode::OK, headers, *content).into_response()
        }
        Some(_) => {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed").into_response()
        }
        None => Refusal::nothing("page").into_response(),
    }
}
