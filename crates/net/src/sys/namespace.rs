//! A private network namespace for a test, so that a slow loopback device or a small MTU does not affect concurrent tests.

use std::process::Command;

/// Setup commands that wait for the carrier of the veth pair `here` and `there`. The kernel detects the carrier in the
/// background, under a lock, and drops frames until then. The last command waits for this lock.
pub(crate) const UNTIL_UP: &str = "for end in here there; do
        tries=0
        until ip link show $end | grep -q 'state UP'; do
            tries=$((tries + 1))
            [ $tries -lt 1000 ]
            sleep 0.01
        done
    done
    ip link set lo up";

/// Runs `test` in a thread with a new network namespace, after the shell command `setup`. Without the privilege, skips
/// the test named `what`. In CI, this is a failure.
pub(crate) fn in_new_network(what: &str, setup: &str, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the call takes no pointers, and affects only the calling thread, which ends with the test.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                let error = std::io::Error::last_os_error();
                println!("skipped: {what}: no network namespace (needs CAP_SYS_ADMIN): {error}");
                assert!(
                    std::env::var("CI").as_deref() != Ok("true"),
                    "skipped in CI"
                );
                return;
            }
            // A child inherits the namespace of this thread.
            let status = Command::new("sh").args(["-ec", setup]).status();
            assert!(status.expect("sh").success(), "{setup}");
            test();
        });
    });
}
