//! The `openuvr` program.

#[expect(dead_code, reason = "the subcommands are not wired yet")]
mod config;
#[expect(dead_code, reason = "the subcommands are not wired yet")]
mod record;
mod wrap;

fn main() {}
