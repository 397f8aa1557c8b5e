//! Emulated browsers with full control of each step: `str0m` at both ends, real sockets, and a real host.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

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
