//! Input through the whole program: simulated input at the client's display, an application on the host's display, and
//! the program between them as a user starts it.

mod app;
mod clipboard;
mod covered;
mod devices;
mod keys;
mod killed;
mod minimised;
mod mouse;
mod rig;
mod roles;
mod sensors;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
mod toolkits;
mod wayland;
mod window;
mod xtest;
