//! Controls Chromium through its debugging protocol, for tests and benchmarks of the pages.
//!
//! [`DevTools`] is a client of the protocol, and returns failures as errors. [`Browser`] is a browser for a test, and a
//! failure ends the test.
#![forbid(unsafe_code)]

mod browser;
mod protocol;

pub use browser::Browser;
pub use protocol::{DevTools, Tab, command, command_with, program, version};
