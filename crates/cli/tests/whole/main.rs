//! The whole program with real components: hosts and clients as a user starts them, displays, encoders, decoders,
//! sockets and links. The tests check counts, order and content, but never durations.

#[path = "../support/mod.rs"]
mod support;

mod arguments;
mod confined;
mod descriptors;
mod entry_script;
mod fit;
mod hostile;
mod links;
mod loss;
mod memory;
mod messages;
mod microphone;
#[cfg(feature = "moonlight")]
mod moonlight;
#[cfg(feature = "moonlight")]
mod moonlight_page;
mod namespaces;
mod nearby;
mod placement;
mod privileges;
mod record;
mod refusals;
mod resilience;
mod service;
mod session;
mod siblings;
mod slices;
mod sound;
mod stream;
mod table;
mod tickets;
mod trust;
mod virtual_display;
mod wayland_display;
