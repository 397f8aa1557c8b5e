//! The HTTP server: the page, its REST interface, and metrics.

mod api;
mod app;
mod body;
mod caller;
mod carried_connections;
mod connection_pool;
mod counts;
mod events;
mod headers;
mod health;
mod metrics;
mod pages;
mod play;
mod refusal;
mod router;
mod server;
mod streams;
mod view;

pub(crate) use self::app::App;
pub(crate) use self::router::router;
pub(crate) use self::server::Server;
