//! Virtual Ethernet cables in the network namespace of one thread, with packet sockets on their ends. Tests use them to
//! examine frames as the kernel delivers them.

#![allow(clippy::print_stderr, reason = "the test harness captures the output")]

pub(crate) mod sys;

use std::process::Command;

pub use sys::{open, send_segmented};

/// Runs `test` in a thread with its own network namespace. Each pair of names is a cable between two interfaces in this
/// namespace. Prints a message and returns `None` if the privilege for a new network namespace is missing. In CI, a
/// missing privilege is a failure.
///
/// # Panics
/// Panics if `ip` fails, or if the test panics.
pub fn with_cables<T: Send>(cables: &[(&str, &str)], test: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Err(error) = sys::new_network() {
                eprintln!("skipped: no network namespace (needs CAP_SYS_ADMIN): {error}");
                assert!(
                    std::env::var("CI").as_deref() != Ok("true"),
                    "skipped in CI"
                );
                return None;
            }
            // Without IPv6, only the test sends frames on the cables.
            run("for n in all default; do echo 1 > /proc/sys/net/ipv6/conf/$n/disable_ipv6; done");
            for (one, other) in cables {
                run(&format!(
                    "ip link add {one} type veth peer name {other}
                     ip link set dev {one} up
                     ip link set dev {other} up"
                ));
            }
            Some(test())
        });
        thread.join().expect("the test")
    })
}

/// Runs shell commands in the calling thread's namespace.
///
/// # Panics
/// Panics if one of them fails.
pub fn run(commands: &str) {
    let status = Command::new("sh").args(["-ec", commands]).status();
    assert!(status.expect("sh").success(), "{commands}");
}
