//! All routes. The same lines generate the OpenAPI description of the REST interface, which is served at
//! `/api/openapi.json`.

use std::sync::Arc;

use axum::routing::get;
use axum::{Json, Router, middleware};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api::{applications, login, oidc, operator, play as api_play, sessions};
use super::app::App;
use super::caller::{CSRF, cookie_name};
use super::{body, events, headers, metrics, pages, play};

pub(crate) fn router(app: Arc<App>) -> Router {
    let (router, api) = routes();
    let description = Arc::new(describe(api, app.secure));
    router
        .route(
            "/api/openapi.json",
            get(move || async move { Json(OpenApi::clone(&description)) }),
        )
        .route("/play/{id}", get(play::folder))
        .route("/play/{id}/", get(play::page))
        .route("/play/{id}/signalling", get(play::signalling))
        .route("/play/{id}/{name}", get(play::part))
        .route("/healthz", get(metrics::health))
        .route("/metrics", get(metrics::metrics))
        .fallback(pages::page)
        .layer(middleware::from_fn(body::whole))
        .layer(middleware::map_response(headers::add))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            metrics::count,
        ))
        .with_state(app)
}

fn routes() -> (Router<Arc<App>>, OpenApi) {
    OpenApiRouter::new()
        .routes(routes!(login::ways, login::log_in))
        .routes(routes!(oidc::start))
        .routes(routes!(oidc::callback))
        .routes(routes!(login::log_out))
        .routes(routes!(login::me))
        .routes(routes!(login::change_password))
        .routes(routes!(applications::applications))
        .routes(routes!(applications::picture))
        .routes(routes!(sessions::sessions))
        .routes(routes!(sessions::session, sessions::start, sessions::stop))
        .routes(routes!(sessions::share))
        .routes(routes!(sessions::ticket))
        .routes(routes!(sessions::log))
        .routes(routes!(api_play::play))
        .routes(routes!(sessions::history))
        .routes(routes!(events::events))
        .routes(routes!(operator::sessions))
        .routes(routes!(operator::servers))
        .routes(routes!(operator::users, operator::add_user))
        .routes(routes!(operator::set_user))
        .routes(routes!(operator::drain))
        .split_for_parts()
}

fn describe(api: OpenApi, secure: bool) -> OpenApi {
    let info = InfoBuilder::new()
        .title("OpenUVR portal")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "The interface of the portal's page. A log-in sets a cookie. Each later request except GET and HEAD \
            carries the log-in's `csrf` value in the header `x-openuvr-csrf`.",
        ))
        .build();
    let cookie = ApiKey::Cookie(ApiKeyValue::new(cookie_name(secure)));
    let csrf = ApiKey::Header(ApiKeyValue::new(CSRF));
    let mut described = OpenApiBuilder::from(api).info(info).build();
    let components = described.components.get_or_insert_default();
    for (name, key) in [("cookie", cookie), ("csrf", csrf)] {
        components.add_security_scheme(name, SecurityScheme::ApiKey(key));
    }
    described
}
