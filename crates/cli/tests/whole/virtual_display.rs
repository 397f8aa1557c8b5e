//! A host with its own virtual display. The application starts on this display, and application and display end
//! together.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use openuvr_xserver::fixture::has_xvfb;
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};
use rustix::thread::{Uid, set_thread_uid};

use crate::support::stalls::measured_without_stalls;
use crate::support::{Folder, PIN, Program, eventually, install, openuvr};

const OWN: [&str; 6] = [
    "--virtual",
    "640x360",
    "--realtime",
    "off",
    "--bind",
    "127.0.0.1:0",
];

/// A command that runs `openuvr host` with a virtual display. The arguments after `--` are the application.
fn host(folder: &Folder, args: &[&str]) -> Command {
    let dir = folder.join("host");
    let mut command = openuvr(&[&["host", "--config-dir", &dir], &OWN[..], args].concat());
    // The environment names displays of another session, which must not be used.
    command
        .env("WAYLAND_DISPLAY", "wayland-7")
        .env("DISPLAY", ":4096");
    command
}

/// The display in a line such as `streaming 640x360 of display :99 on …`.
fn display_of(line: &str) -> String {
    let mut words = line.split_whitespace();
    let name = words.find(|word| word.starts_with(':'));
    name.unwrap_or_else(|| panic!("no display in {line:?}"))
        .trim_end_matches(':')
        .to_owned()
}

/// Whether a program with the cookies of this file can connect to the display.
fn can_connect(display: &str, authority: &str) -> bool {
    let mut command = Command::new("xdpyinfo");
    command.env("DISPLAY", display).env("XAUTHORITY", authority);
    command
        .output()
        .expect("xdpyinfo is installed")
        .status
        .success()
}

fn socket(display: &str) -> String {
    format!("/tmp/.X11-unix/X{}", &display[1..])
}

fn is_gone(pid: &str) -> bool {
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    test_kill_process(pid.expect("a process id")).is_err()
}

#[test]
fn the_host_ends_with_its_application() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let (report, go) = (folder.join("report"), folder.join("go"));
    // The script prints its environment, starts the scene, and ends on request.
    let script = folder.join("app");
    let scene = env!("CARGO_BIN_EXE_openuvr");
    let text = format!(
        "#!/bin/sh\necho \"$DISPLAY ${{WAYLAND_DISPLAY-none}} $1\" >{report}.new\nmv {report}.new {report}\n\
         {scene} scene --size 640x360 --fps 20 &\nuntil test -e {go}; do sleep 0.05; done\nkill $!\nexit 7\n"
    );
    std::fs::write(&script, text).expect("written");
    let args = [&PIN[..], &["--", "sh", &script, "a word"]].concat();
    let mut host = Program::start("host", host(&folder, &args));
    let line = host.line("openuvr host: streaming 640x360");
    let display = display_of(&line);
    let message = eventually("the application's report", || {
        std::fs::read_to_string(&report).ok()
    });
    assert_eq!(message.trim(), format!("{display} none a word"));
    assert!(Path::new(&socket(&display)).exists());

    let address = format!("127.0.0.1:{}", crate::support::port_of(&line));
    let csv = folder.join("client.csv");
    let more = [&PIN[..], &["--present", "null", "--csv", &csv]].concat();
    let client = crate::support::client(&folder, "client", &address, &more);
    client.line("player at");
    eventually("frames", || {
        let rows = std::fs::read_to_string(&csv).unwrap_or_default();
        (rows.matches(",complete,").count() > 10).then_some(())
    });
    std::fs::write(&go, "").expect("written");
    let (status, text) = host.wait();
    assert_eq!(status.code(), Some(7), "{text}");
    assert!(text.contains("sh has ended: exit status: 7"), "{text}");
    assert!(!Path::new(&socket(&display)).exists(), "{text}");
    client.line("session ended: the application has ended");
}

#[test]
fn a_launchers_children_are_streamed_until_their_end() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let pids = folder.join("pids");
    let scene = env!("CARGO_BIN_EXE_openuvr");
    // Like a daemon, the game leaves its parent, its process group and its session.
    let script = format!(
        "setsid sh -c 'echo $PPID $$ >{pids}.new; mv {pids}.new {pids}; exec {scene} scene --size 640x360 --fps 20' &
         until test -e {pids}; do sleep 0.05; done"
    );
    let args = [&PIN[..], &["--", "sh", "-c", &script]].concat();
    let mut host = Program::start("host", host(&folder, &args));
    let line = host.line("openuvr host: streaming 640x360");
    let pids = eventually("the launcher's word", || {
        std::fs::read_to_string(&pids).ok()
    });
    let (launcher, game) = pids.trim().split_once(' ').expect("two numbers");
    eventually("the launcher's end", || is_gone(launcher).then_some(()));
    let address = format!("127.0.0.1:{}", crate::support::port_of(&line));
    let csv = folder.join("client.csv");
    let more = [&PIN[..], &["--present", "null", "--csv", &csv]].concat();
    let client = crate::support::client(&folder, "client", &address, &more);
    client.line("player at");
    eventually("frames", || {
        let rows = std::fs::read_to_string(&csv).unwrap_or_default();
        (rows.matches(",complete,").count() > 10).then_some(())
    });
    let game = game.parse().ok().and_then(Pid::from_raw).expect("a number");
    kill_process(game, Signal::TERM).expect("it runs");
    let (status, text) = host.wait();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.contains("sh has ended: exit status: 0"), "{text}");
    client.line("session ended: the application has ended");
}

#[test]
fn the_end_of_the_streamed_window_keeps_the_exit_code() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let pid = folder.join("pid");
    let scene = env!("CARGO_BIN_EXE_openuvr");
    let script = format!(
        "echo $$ >{pid}.new; mv {pid}.new {pid}; exec {scene} scene --size 640x360 --fps 20"
    );
    let args = ["--window", "OpenUVR scene", "--", "sh", "-c", &script];
    let mut host = Program::start("host", host(&folder, &args));
    host.line("openuvr host: streaming");
    let pid = std::fs::read_to_string(&pid).expect("the application's number");
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a number"), Signal::KILL).expect("it runs");
    let (status, text) = host.wait();
    assert_eq!(status.code(), Some(128 + 9), "{text}");
    assert!(text.contains("sh has ended: signal: 9"), "{text}");
}

#[test]
fn helpers_that_end_do_not_stay_as_zombies() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let ended = folder.join("ended");
    let script = format!(
        "for i in 1 2 3 4 5; do (sleep 0 &); (setsid sleep 0 &); done; sleep 0.2; touch {ended}; sleep 1000"
    );
    let mut host = Program::start("host", host(&folder, &["--", "sh", "-c", &script]));
    host.line("openuvr host: streaming 640x360");
    eventually("the helpers", || Path::new(&ended).exists().then_some(()));
    let zombies = || {
        let of_host = format!("Z {} ", host.id());
        let all = std::fs::read_dir("/proc")
            .expect("proc is mounted")
            .flatten();
        let stats = all.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter(|stat| stat.contains(&of_host)).count()
    };
    eventually("their end", || (zombies() == 0).then_some(()));
    host.stop();
}

#[test]
fn ctrl_c_ends_the_application_and_the_display() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let pids = folder.join("pids");
    // The application ignores SIGTERM and has a child.
    let script = format!(
        "trap '' TERM INT; sleep 1000 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; while :; do wait; \
         sleep 0.1; done"
    );
    let mut host = Program::start("host", host(&folder, &["--", "sh", "-c", &script]));
    let line = host.line("openuvr host: streaming 640x360");
    let pids = eventually("the application", || std::fs::read_to_string(&pids).ok());
    let requested = Instant::now();
    let text = host.stop();
    let took = requested.elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?} is too short");
    assert!(text.contains("sh did not end in 3 s: killed"), "{text}");
    assert!(!text.contains("has ended"), "{text}");
    assert!(!Path::new(&socket(&display_of(&line))).exists(), "{text}");
    for pid in pids.split_whitespace() {
        eventually("its end", || is_gone(pid).then_some(()));
    }
}

#[test]
fn an_application_in_a_shell_has_time_to_end() {
    if !has_xvfb() {
        return;
    }
    // In a stall, the application may need longer than the host waits.
    let stalled = Duration::from_millis(100);
    measured_without_stalls(3, stalled, end_application_in_a_shell);
}

/// Ends a host with an application that needs half a second to end. Returns an error if the application is killed.
fn end_application_in_a_shell() -> Result<(), String> {
    let folder = Folder::new();
    let (started, saved) = (folder.join("started"), folder.join("saved"));
    // The outer shell ends at once on SIGTERM.
    let script = format!(
        "sh -c 'trap \"sleep 0.5; touch {saved}; exit\" TERM; touch {started}; while :; do sleep 0.1; done'; true"
    );
    let mut host = Program::start("host", host(&folder, &["--", "sh", "-c", &script]));
    host.line("openuvr host: streaming 640x360");
    eventually("the application", || {
        Path::new(&started).exists().then_some(())
    });
    let text = host.stop();
    match Path::new(&saved).exists() && !text.contains("killed") {
        true => Ok(()),
        false => Err(text),
    }
}

#[test]
fn detached_children_are_killed_too() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let pid = folder.join("pid");
    let script = format!(
        "setsid sh -c 'trap \"\" TERM; echo $$ >{pid}.new; mv {pid}.new {pid}; while :; do sleep 0.1; done' & wait"
    );
    let mut host = Program::start("host", host(&folder, &["--", "sh", "-c", &script]));
    host.line("openuvr host: streaming 640x360");
    let pid = eventually("the other session", || std::fs::read_to_string(&pid).ok());
    let text = host.stop();
    let message = "child processes of sh did not end in 2 s: killed";
    assert!(text.contains(message), "{text}");
    eventually("its end", || is_gone(pid.trim()).then_some(()));
}

#[test]
fn an_empty_display_is_for_holders_of_its_cookie() {
    if !has_xvfb() {
        return;
    }
    let folder = Folder::new();
    let mut host = Program::start("host", host(&folder, &[]));
    let line = host.line("is empty; start an application with");
    let display = display_of(&line);
    host.line("streaming 640x360");
    // The printed command assigns the path of the cookie file to `XAUTHORITY`.
    let (_, authority) = line.split_once("XAUTHORITY=").expect("the cookie's file");
    let authority = authority.split(' ').next().expect("a word");
    let mode = std::fs::metadata(authority).expect("the cookie's file");
    let mode = std::os::unix::fs::MetadataExt::mode(&mode);
    assert_eq!(mode & 0o777, 0o600);
    let connects = |authority| can_connect(&display, authority);
    assert!(connects(authority), "with the cookie");
    assert!(!connects("/nonexistent"), "this user without the cookie");
    if geteuid().is_root() {
        let other = std::thread::spawn({
            let (display, authority) = (display.clone(), authority.to_owned());
            move || {
                // The call changes the user of this thread only.
                set_thread_uid(Uid::from_raw(65_534)).expect("root may");
                can_connect(&display, &authority)
            }
        });
        assert!(!other.join().expect("it ran"), "another user has access");
    }
    // If the host is killed, no server remains.
    host.kill();
    eventually("the display is gone", || {
        (!connects(authority)).then_some(())
    });
}

#[test]
fn missing_programs_are_one_error_line() {
    let folder = Folder::new();
    let fails = |mut command: Command, expected: &str| {
        command.env_remove("WAYLAND_DISPLAY");
        let text = Program::start("host", command).fails_in_one_line();
        assert!(text.contains(expected), "{text}");
    };
    let mut nowhere = host(&folder, &[]);
    nowhere.env("PATH", "/nonexistent");
    fails(nowhere, "apt install xvfb");
    // This server fails to start, like a server that lacks memory for the screen or permission for its folder.
    let (draft, broken) = (folder.path().join("draft"), folder.path().join("Xvfb"));
    std::fs::write(&draft, "#!/bin/sh\necho Fatal server error: >&2\nexit 1\n").expect("a file");
    install(&draft, &broken, 0o700);
    let mut command = host(&folder, &[]);
    command.env("PATH", folder.path());
    fails(command, "Xvfb ended before it opened a display of 640x360");
    // A server that hangs.
    std::fs::write(&draft, "#!/bin/sh\nexec /bin/sleep 100\n").expect("a file");
    install(&draft, &broken, 0o700);
    let mut command = host(&folder, &[]);
    command.env("PATH", folder.path());
    fails(command, "Xvfb did not start within 30 s");
    let dir = folder.join("host");
    let shown = ["--display", ":4096", "--", "xterm"];
    let args = [&["host", "--config-dir", &dir][..], &shown].concat();
    fails(openuvr(&args), "use --virtual 1920x1080");
    if has_xvfb() {
        let args = ["--", "/nonexistent/program"];
        fails(host(&folder, &args), "can't start /nonexistent/program");
    }
    let pattern = ["--source", "pattern"];
    fails(host(&folder, &pattern), "--virtual requires --source x11");
}
