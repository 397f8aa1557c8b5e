//! Programs in C that link `libopenuvr`, and real clients of them: real encoder, decoder, sockets and
//! displays. The programs are those of `crates/capi/examples`, compiled here.

#![expect(clippy::unwrap_used, reason = "a test ends there")]

#[path = "../support/mod.rs"]
mod support;

mod build;
mod checked;
mod listings;
mod misuse;
mod plain;
