//! A network of its own for one test: its loopback device can be slow or narrow without harm to
//! tests that run beside it.

use std::process::Command;

/// A part of a setup: waits until a cable from `here` to `there` carries. An end loses what it is to
/// send until the kernel has noticed, in the background, that somebody is at the other one. It does so
/// with a lock that the last command waits for.
pub(crate) const UNTIL_UP: &str = "for end in here there; do
        tries=0
        until ip link show $end | grep -q 'state UP'; do
            tries=$((tries + 1))
            [ $tries -lt 1000 ]
            sleep 0.01
        done
    done
    ip link set lo up";

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
