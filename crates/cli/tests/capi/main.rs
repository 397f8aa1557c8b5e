//! C programs that link `libopenuvr`, with real clients, encoders, decoders, sockets and displays. The
//! programs are those of `crates/capi/examples`, compiled here.

#[path = "../support/mod.rs"]
mod support;

mod build;
mod install;
mod listings;
mod memory_checks;
mod misuse;
mod plain;
mod python;
mod session;
