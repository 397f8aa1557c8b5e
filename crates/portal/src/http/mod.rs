//! What the portal answers by HTTP: the page, the REST interface that it uses and nothing else, metrics.

mod api;
mod caller;
mod events;
mod headers;
mod metrics;
mod pages;
mod server;

pub(crate) use self::api::{App, router};
pub(crate) use self::server::{Server, TlsFiles};
