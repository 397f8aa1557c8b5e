//! The `openuvr` program.

fn main() {}
