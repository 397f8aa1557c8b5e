//! A network of its own for one test: its loopback device can be slow or narrow without harm to
//! tests that run beside it.

use std::process::Command;

/// Runs `test` in a thread that has a fresh network namespace, after the shell command `setup` ran
/// in it. Without the privilege the test named `what` is skipped, which fails in CI.
pub(crate) fn in_new_network(what: &str, setup: &str, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: no pointers; concerns only the calling thread, which ends with the test.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                let error = std::io::Error::last_os_error();
                println!("skipped: {what}: no network namespace (needs CAP_SYS_ADMIN): {error}");
                assert!(
                    std::env::var("CI").as_deref() != Ok("true"),
                    "skipped in CI"
                );
                return;
            }
            // A child of this thread is born into its namespace.
            let status = Command::new("sh").args(["-ec", setup]).status();
            assert!(status.expect("sh").success(), "{setup}");
            test();
        });
    });
}
