//! What the portal answers by HTTP: the page, the REST interface that it uses and nothing else, metrics.

mod api;
mod app;
mod caller;
mod counts;
mod events;
mod headers;
mod health;
mod metrics;
mod pages;
mod refusal;
mod router;
mod server;
mod view;

pub(crate) use self::app::App;
pub(crate) use self::router::router;
pub(crate) use self::server::{Server, TlsFiles, check_tls};
