//! Programs in C that link `libopenuvr`, and real clients of them: real encoder, decoder, sockets and
//! displays. The programs are those of `crates/capi/examples`, compiled here.

#[path = "../support/mod.rs"]
mod support;

mod build;
mod checked;
mod install;
mod listings;
mod misuse;
mod plain;
mod python;
mod session;
