//! The program `openuvr-portal`, all but its `main`: where people log in, pick an application and get a session
//! of it, on this machine or on those of an engine.
//!
//! `openuvr portal` becomes this program, with the same words (`docs/adr/0016-portal.md`). It is a library only so
//! that its launchers can be tested by one suite.
#![forbid(unsafe_code)]

pub mod launch;
