//! `./dev test-wlcs`: the Wayland conformance suite wlcs on the display. Known failures are listed with their reasons
//! in `failures.txt`.
#![allow(clippy::unwrap_used)] // A test may panic.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The time limit of the suite in seconds (measured: 50 s).
const LIMIT: &str = "600";

/// Lines `# REASON`, each followed by the names of tests.
const FAILURES: &str = include_str!("failures.txt");

/// The known failures with their reasons.
fn known() -> BTreeMap<&'static str, &'static str> {
    let mut reason = "";
    let mut known = BTreeMap::new();
    for line in FAILURES.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(text) => reason = text,
            None => assert_eq!(known.insert(line, reason), None, "{line} is listed twice"),
        }
    }
    known
}

/// The test's name in a line of the suite's output with this result, such as `[ FAILED ] Suite.test, where ...`. `None`
/// for lines of the final summary, such as `[ FAILED ] 3 tests failed:`.
fn named<'a>(line: &'a str, result: &str) -> Option<&'a str> {
    let (found, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let name = rest.split([' ', ',']).next()?;
    (found.trim() == result && name.contains('.')).then_some(name)
}

#[test]
fn only_known_tests_of_the_suite_fail() {
    let own = std::env::current_exe().unwrap();
    let library = own.ancestors().nth(2).unwrap().join("examples/libwlcs.so");
    assert!(library.is_file(), "no library: ./dev test-wlcs builds it");
    // Debian keeps the suite out of the path.
    let suite = "/usr/lib/x86_64-linux-gnu/wlcs/wlcs";
    // If the display stops answering, the suite hangs.
    let ran = Command::new("timeout")
        .args([LIMIT, suite])
        .arg(&library)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    let of = |result| -> BTreeSet<&str> {
        text.lines()
            .filter_map(|line| named(line, result))
            .collect()
    };
    let (passed, failed) = (of("OK"), of("FAILED"));
    let known = known();
    println!(
        "wlcs: {} passed, {} skipped, {} failed",
        passed.len(),
        of("SKIPPED").len(),
        failed.len()
    );
    let complete = text
        .lines()
        .any(|line| line.starts_with("[==========]") && line.contains(" run."));
    assert!(complete, "the suite did not end: {}\n{text}", ran.status);
    assert!(!passed.is_empty(), "{text}");
    let new: Vec<_> = failed
        .iter()
        .filter(|name| !known.contains_key(*name))
        .collect();
    assert!(new.is_empty(), "new failures: {new:#?}\n{text}");
    let fixed: Vec<_> = known.keys().filter(|name| passed.contains(*name)).collect();
    assert!(
        fixed.is_empty(),
        "these pass now: remove them from failures.txt: {fixed:#?}"
    );
}
