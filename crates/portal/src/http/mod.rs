//! What the portal answers by HTTP: the page, the REST interface that it uses and nothing else, metrics.

mod api;
mod app;
mod caller;
mod carried;
mod counts;
mod events;
mod headers;
mod metrics;
mod pages;
mod play;
mod refusal;
mod router;
mod server;
mod view;

pub(crate) use self::app::App;
pub(crate) use self::router::router;
pub(crate) use self::server::Server;
