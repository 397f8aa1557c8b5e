//! A launched application: its signals, its exit, and its orphans.
//!
//! The file contains one test and runs in its own process, because an application's orphans become children of the
//! launching process.
#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use openuvr_runtime::launch::{Application, ForwardedSignal, LaunchError, Socket, command};
use openuvr_runtime::launch_protocol::LaunchSettings;
use rustix::process::{Pid, Signal, kill_process};

/// Generous, for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const TERM: ForwardedSignal = ForwardedSignal {
    signal: Signal::TERM,
    typed: false,
};

/// Starts a shell with this script. Returns its first output line.
fn start(script: &str) -> Result<(Application, String), LaunchError> {
    let socket = Socket::open(&LaunchSettings::default())?;
    let words = ["sh", "-c", script].map(OsString::from);
    let mut command = command(&words, Path::new("/nonexistent/hook.so"), &socket)?;
    // Discards the loader's message about the missing hook.
    command.stderr(Stdio::null());
    let (read, write) = std::io::pipe().expect("a pipe");
    command.stdout(write);
    let application = Application::start(command)?;
    let mut line = String::new();
    BufReader::new(read)
        .read_line(&mut line)
        .expect("a line of output");
    Ok((application, line.trim().to_owned()))
}

fn end(application: &mut Application) -> ExitStatus {
    let until = Instant::now() + TIMEOUT;
    loop {
        match application.ended() {
            Some(status) => return status,
            None => assert!(Instant::now() < until, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until all orphans have ended. Returns `false` on timeout.
fn is_free_of_orphans(application: &mut Application) -> bool {
    let until = Instant::now() + TIMEOUT;
    while application.has_orphans(&[]) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Zombie children of this process.
fn zombies() -> usize {
    let own = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").expect("it is there").flatten();
    let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let ended = stats.filter(|stat| {
        let words = stat.rsplit_once(") ").map(|(_, words)| words.split(' '));
        words.is_some_and(|mut words| words.next() == Some("Z") && words.next() == Some(&own))
    });
    ended.count()
}

#[test]
fn an_application_gets_signals_and_its_orphans_are_reaped() {
    // The application handles SIGTERM and exits by itself.
    let waits = "trap 'exit 9' TERM; echo $OPENUVR_RUN; while :; do sleep 0.02; done";
    let (mut application, socket) = start(waits).expect("it starts");
    assert!(socket.ends_with("/socket"), "{socket}");
    assert!(application.ended().is_none() && !application.has_orphans(&[]));
    application.forward_signals(&[TERM], None);
    assert_eq!(end(&mut application).code(), Some(9));
    assert!(is_free_of_orphans(&mut application));

    // A launcher has exited while its child continues, so the signal goes to the child.
    let (mut application, pid) =
        start("sleep 1000 >/dev/null & echo $!; exit 3").expect("it starts");
    let pid = Pid::from_raw(pid.parse().expect("a number")).expect("a process");
    assert_eq!(end(&mut application).code(), Some(3));
    assert!(application.has_orphans(&[]), "its child was inherited");
    application.forward_signals(&[TERM], Some(pid));
    assert!(is_free_of_orphans(&mut application));
    assert!(kill_process(pid, Signal::TERM).is_err(), "it was reaped");

    // This launcher forwards no signals, so the second signal goes to the launcher and to the streaming process.
    let launcher = "sleep 1000 >/dev/null & trap : TERM; echo $!; wait; wait; exit 5";
    let (mut application, pid) = start(launcher).expect("it starts");
    let streaming = pid.parse().ok().and_then(Pid::from_raw);
    application.forward_signals(&[TERM], streaming);
    application.forward_signals(&[TERM], streaming);
    assert_eq!(end(&mut application).code(), Some(5));
    assert!(is_free_of_orphans(&mut application));

    // An orphan in its own session, like a daemon, also gets the signal, because the terminal's Ctrl-C does not reach
    // it. (A background command of a shell would ignore the signal.)
    let daemon = "setsid -f sh -c 'trap \"exit 0\" INT; echo $$; while :; do sleep 0.02; done'; sleep 0.2; exit 0";
    let (mut application, pid) = start(daemon).expect("it starts");
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    assert_eq!(end(&mut application).code(), Some(0));
    assert!(application.has_orphans(&[]), "in another process group");
    let typed = ForwardedSignal {
        signal: Signal::INT,
        typed: true,
    };
    application.forward_signals(&[typed], pid);
    assert!(is_free_of_orphans(&mut application));

    // Helpers of the application that end while it runs do not stay zombies. Other children of this process are not
    // reaped.
    let helpers =
        "for i in 1 2 3; do (sleep 0 &); done; echo started; while :; do sleep 0.02; done";
    let (mut application, _) = start(helpers).expect("it starts");
    let mut own = Command::new("true").spawn().expect("it starts");
    let ours = [own.id()];
    let until = Instant::now() + TIMEOUT;
    while application.has_orphans(&ours) || zombies() > ours.len() {
        assert!(Instant::now() < until, "{} zombies", zombies());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(own.wait().expect("it was not reaped").success());
    application.forward_signals(&[TERM], None);
    end(&mut application);

    let words = [OsString::from("/nonexistent/game")];
    let socket = Socket::open(&LaunchSettings::default()).expect("a socket");
    let command = command(&words, Path::new("/x"), &socket).expect("a command");
    let why = Application::start(command).expect_err("there is no such file");
    assert!(
        why.to_string()
            .starts_with("can't start /nonexistent/game: "),
        "{why}"
    );
}
