//! The model against what was published, against another simulator, and against itself.
#![allow(
    clippy::cast_possible_truncation,
    reason = "packets and nanoseconds of a test are few"
)]

mod acceptance;
mod laws;
mod live;
