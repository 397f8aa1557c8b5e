//! An application that is killed while a client is connected.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Program, Shot};
use crate::{BOTH, Hello, cube_centroids};

/// The application that `openuvr xr` has started.
fn application(of: &Program) -> Pid {
    let id = of.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.expect("it runs");
    let mut children = children.split_whitespace().filter_map(|id| id.parse().ok());
    let name = |id: i32| std::fs::read_to_string(format!("/proc/{id}/comm"));
    let hello = children.find(|id| name(*id).is_ok_and(|name| name.trim() == "hello_xr"));
    Pid::from_raw(hello.expect("hello_xr runs")).expect("not 0")
}

#[test]
fn a_killed_application_can_be_restarted() {
    let Some(mut hello) = Hello::start(&[]) else {
        return;
    };
    let is_drawn = |shot: &Shot| shot.size == BOTH && cube_centroids(shot).is_some();
    let mut watcher = hello.watch();
    hello.wait_for("both eyes", is_drawn);
    // The application renders without a pause, so it is killed while it renders a frame.
    kill_process(application(&hello.program), Signal::KILL).expect("it is ours");
    let (status, text) = hello.program.wait();
    assert!(!status.success(), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    watcher.line("reconnecting");
    watcher.assert_running();
    watcher.stop();

    // The remains of the killed process do not block the next application.
    let Some(mut next) = Hello::start(&[]) else {
        return;
    };
    let _watcher = next.watch();
    next.wait_for("both eyes", is_drawn);
    next.program.close_stdin();
    let (status, text) = next.program.wait();
    assert!(status.success(), "{text}");
}
