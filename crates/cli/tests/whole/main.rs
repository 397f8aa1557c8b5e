//! The whole program with its real parts: hosts and clients as a person starts them, real
//! displays, encoders, decoders, sockets and links. Counts, order and content are checked, never
//! how long anything took.

#[path = "../support/mod.rs"]
mod support;

mod attack;
mod confined;
mod descriptors;
mod entry_script;
mod fit;
mod hostile;
mod links;
mod loss;
mod messages;
mod microphone;
mod namespaces;
mod nearby;
mod odd;
mod placement;
mod record;
mod refusals;
mod resilience;
mod session;
mod sound;
mod starvation;
mod stream;
mod table;
mod tickets;
mod trust;
mod urgent;
mod virtual_display;
