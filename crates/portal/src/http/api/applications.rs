//! The REST interface of applications.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tracing::warn;
use utoipa::ToSchema;

use crate::catalogue::{CaptureMethod, Picture};
use crate::http::app::App;
use crate::http::caller::Caller;
use crate::http::refusal::{Problem, Refusal};

/// An application.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApplicationView {
    /// Identifier in URLs.
    name: String,
    /// Display name.
    title: String,
    description: String,
    /// URL of the application's picture.
    picture: Option<String>,
    capture: CaptureMethod,
    /// Size in pixels, such as `1280x720`.
    size: Option<String>,
    /// Number of GPUs that the application needs.
    gpus: u32,
    /// Whether the application stores saves for each user.
    saves: bool,
}

/// The applications that the user may start.
#[utoipa::path(
    get, path = "/api/applications", security(("cookie" = [])),
    responses((status = 200, body = [ApplicationView]), (status = 401, body = Problem)),
)]
pub(crate) async fn applications(
    State(app): State<Arc<App>>,
    caller: Caller,
) -> Json<Vec<ApplicationView>> {
    let current = app.catalogue.current();
    let own = current.all.iter().filter(|of| of.is_for(&caller.user.name));
    let views = own.map(|of| ApplicationView {
        name: of.name.clone(),
        title: of.title.clone(),
        description: of.description.clone(),
        picture: (of.picture.as_ref()).map(|_| format!("/api/applications/{}/picture", of.name)),
        capture: of.capture,
        size: of.size.clone(),
        gpus: of.gpus,
        saves: of.saves,
    });
    Json(views.collect())
}

/// An application's picture.
#[utoipa::path(
    get, path = "/api/applications/{name}/picture", security(("cookie" = [])),
    params(("name" = String, Path)),
    responses(
        (status = 200, description = "PNG, JPEG or WebP", content_type = "image/*"),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
    ),
)]
pub(crate) async fn picture(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Refusal> {
    let current = app.catalogue.current();
    let found = current.named(&name);
    let found = found.filter(|of| of.is_for(&caller.user.name));
    let found = found.ok_or_else(|| Refusal::nothing("application"))?;
    let path = found.picture.clone();
    let path = path.ok_or_else(|| Refusal::nothing("picture"))?;
    let opened = tokio::task::spawn_blocking(move || {
        Picture::open(&path).inspect_err(|why| warn!("{}: {why}", path.display()))
    });
    let picture = opened.await.ok().and_then(Result::ok);
    let picture = picture.ok_or_else(|| Refusal::nothing("picture"))?;
    let headers = [
        (header::CONTENT_TYPE, picture.kind),
        (header::CACHE_CONTROL, "private, max-age=300"),
    ];
    Ok((StatusCode::OK, headers, picture.bytes).into_response())
}
