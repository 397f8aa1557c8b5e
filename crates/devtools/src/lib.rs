//! Controls Chromium through its debugging protocol, for tests and benchmarks of the pages.
//!
//! [`DevTools`] is a client of the protocol that reports failures. [`Browser`] is the browser of a test, which a failure
//! ends.
#![forbid(unsafe_code)]

mod browser;
mod protocol;

pub use browser::Browser;
pub use protocol::{DevTools, Tab, command, command_with, program, version};
