//! Fuzz targets: plain functions over bytes, in one table, driven by libFuzzer.
//!
//! A target takes any bytes and must return: a panic, an overflow, a hang or unbounded memory is a
//! finding. A new one is a function and a line in [`TARGETS`]; its seeds are the files of
//! `vectors/` whose path contains its name. `fuzz/run` builds this and starts it.
//!
//! What it is not: a test of what the parsers return; that is the unit and property tests' work.
#![no_main]

use std::sync::OnceLock;

use openuvr_proto::seq;

type Target = fn(&[u8]);

/// Name on the command line of `fuzz/run`, and what runs.
#[rustfmt::skip] // one line each: `fuzz/run` reads the names from here
const TARGETS: &[(&str, Target)] = &[
    ("seq", seq_is_antisymmetric),
];

/// Which target runs: libFuzzer owns the command line, so the name comes in the environment.
const CHOICE: &str = "OPENUVR_FUZZ_TARGET";

libfuzzer_sys::fuzz_target!(init: { chosen(); }, |bytes: &[u8]| chosen()(bytes));

fn chosen() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var(CHOICE).unwrap_or_default();
        match TARGETS.iter().find(|(known, _)| *known == name) {
            Some((_, target)) => *target,
            None => {
                eprintln!("{CHOICE}={name}: no such target; there are:");
                TARGETS.iter().for_each(|(known, _)| eprintln!("  {known}"));
                std::process::exit(2);
            }
        }
    })
}

/// Of two serial numbers at most one is newer, and exactly one unless they are the same or half the
/// circle apart.
fn seq_is_antisymmetric(bytes: &[u8]) {
    let Some((a, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let Some((b, _)) = rest.split_first_chunk() else {
        return;
    };
    let (a, b) = (u32::from_le_bytes(*a), u32::from_le_bytes(*b));
    let apart = a.wrapping_sub(b);
    let decided = seq::newer(a, b) != seq::newer(b, a);
    assert_eq!(decided, apart != 0 && apart != 1 << 31, "{a} and {b}");
}
