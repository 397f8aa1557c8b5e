//! Input through the whole program: a hand at the client's display, an application at the
//! host's, and between them the program as a user starts it.

mod app;
mod devices;
mod hand;
mod keys;
mod mouse;
mod rig;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod window;
