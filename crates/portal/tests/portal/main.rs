//! The portal as a process: its REST interface, recovery after a kill, and refusals. Sessions are processes of the example
//! `bare_session`, without a picture.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod acme;
mod certificate_files;
mod crowd;
mod database;
mod deploy;
mod descriptors;
mod generated;
mod killed;
mod login;
mod logs;
mod oidc;
mod one_origin;
mod operator;
mod page_types;
mod postgres;
mod provider;
mod refused;
mod rights;
mod secrets;
mod sessions;
#[allow(
    dead_code,
    reason = "the tests of the page and of clients use more of it"
)]
mod support;
