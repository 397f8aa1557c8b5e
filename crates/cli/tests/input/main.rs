//! Input through the whole program: a hand at the client's display, an application at the
//! host's, and between them the program as a user starts it.

mod app;
mod away;
mod clipboard;
mod covered;
mod devices;
mod hand;
mod keys;
mod killed;
mod mouse;
mod rig;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod toolkits;
mod window;
