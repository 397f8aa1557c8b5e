//! Browsers of which every step is the test's own: `str0m` at both ends, real sockets, a real host.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

mod caller;
mod hostile;
mod login;
mod media;
mod play;
mod portal;
mod portal_requests;
mod proxy;
mod remote;
mod session;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod translated;
mod translator;
