//! `openuvr-portal`: see the library.

fn main() {}
