//! The `openuvr` program.

#[expect(dead_code, reason = "the command line is not composed yet")]
mod devices;

fn main() {}
