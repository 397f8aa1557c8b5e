//! Skips tests that lack a program, a device or a privilege.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::print_stderr, reason = "a skipped test prints why")]

use std::path::Path;

/// Prints why a test is skipped. `why` should name the missing package, device or privilege.
///
/// # Panics
/// Panics with `CI=true`, because CI has all packages, devices and privileges.
pub(crate) fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
}

/// Whether a program is in `PATH`; otherwise the test is skipped, with its package in the message.
///
/// # Panics
/// As [`skip`].
pub(crate) fn has_program(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| is_file(&folder.join(program)));
    if !found {
        skip(&format!(
            "{program} is not installed: apt-get install {package}"
        ));
    }
    found
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file())
}
