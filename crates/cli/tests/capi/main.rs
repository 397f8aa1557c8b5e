//! C programs that link `libopenuvr`, with real clients, encoders, decoders, sockets and displays. The tests compile
//! the programs of `crates/capi/examples`.

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
