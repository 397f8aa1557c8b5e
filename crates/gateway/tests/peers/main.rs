//! Emulated browsers, which allow full control of each step. Both ends use `str0m` and real sockets, and the host is
//! real.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod caller;
mod gcc;
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
mod vp9;
