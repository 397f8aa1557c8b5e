//! The protocol's requests over HTTP and HTTPS, and their answers in XML.

mod answers;
mod request;
mod response;
mod server;
mod tls;

pub use self::request::{InvalidRequest, Request};
pub use self::response::Response;
pub(crate) use self::server::{serve, serve_tls};
pub(crate) use self::tls::config;
