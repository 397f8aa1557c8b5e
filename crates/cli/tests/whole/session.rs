//! `openuvr session`: a session starts, is played and controlled, and cleans up after each kind of end.

use std::process::Command;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::{Action, Actions};
use openuvr_proto::units::Size;
use openuvr_runtime::client::link::key_of;
use openuvr_xserver::fixture::has_xvfb;
use rustix::process::Signal;
use serde_json::Value;
use x11rb::protocol::xproto::ConnectionExt as _;

use crate::support::portal::Portal;
use crate::support::{
    Display, Folder, NO_SOUND, Program, ScreenCapture, client, eventually, openuvr,
};

/// Starts a session of the portal with this application, or with the built-in scene if `application` is empty.
fn start(portal: &Portal, args: &[&str], application: &[&str]) -> Program {
    start_with(portal, args, application, |command| command)
}

/// Like [`start`], but runs the command that `by` derives from the usual one.
fn start_with(
    portal: &Portal,
    args: &[&str],
    application: &[&str],
    by: impl FnOnce(Command) -> Command,
) -> Program {
    let key = format!("--ticket-key={}", portal.key());
    let id = format!("--id={}", portal.session);
    let own = ["session", &key, &id, "--size=320x200"];
    // The lease is long, because the first connection takes a while on a busy machine.
    let more = ["--lease=600", "--set=realtime=off", "--set=sound=off"];
    let scene = [
        env!("CARGO_BIN_EXE_openuvr"),
        "scene",
        "--size=320x200",
        "--fps=10",
    ];
    let application = match application {
        [] => &scene[..],
        args => args,
    };
    let all = [&own[..], &more, args, &["--"], application].concat();
    let mut command = openuvr(&all);
    command.env("PULSE_SERVER", NO_SOUND);
    Program::start("session", by(command))
}

/// The addresses of the running session.
fn running(session: &Program) -> Value {
    let line = session.line("\"web\":");
    serde_json::from_str(&line).expect("a line of JSON")
}

/// The reported end. Also checks that no process remains.
fn end(session: &mut Program, portal: &Portal) -> Value {
    let (_, text) = session.wait();
    let line = text.lines().find(|line| line.contains("\"why\":"));
    let line = line.unwrap_or_else(|| panic!("no end reported in {text}"));
    nothing_left(portal);
    serde_json::from_str(line).expect("a line of JSON")
}

/// Processes whose environment names the session.
fn processes(portal: &Portal) -> Vec<u32> {
    let mark = format!("OPENUVR_SESSION={}", portal.session);
    let all = std::fs::read_dir("/proc")
        .expect("proc is mounted")
        .flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let of_it = |pid: &u32| {
        let about = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        about
            .split(|byte| *byte == 0)
            .any(|of| of == mark.as_bytes())
    };
    pids.filter(of_it).collect()
}

fn nothing_left(portal: &Portal) {
    eventually("the end of all its processes", || {
        processes(portal).is_empty().then_some(())
    });
}

/// The page's HTTP answer: status and body.
fn request(at: &Value, method: &str, path: &str, token: &str) -> (String, String) {
    let url = format!("{}{path}", at["web"].as_str().expect("an address"));
    let answer = Command::new("curl")
        .args(["--silent", "--insecure", "--request", method])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--write-out", "\n%{http_code}", &url])
        .output()
        .expect("curl is installed");
    let text = String::from_utf8(answer.stdout).expect("text");
    let (body, status) = text.rsplit_once('\n').expect("a status");
    (status.to_owned(), body.to_owned())
}

#[test]
fn a_session_is_played_and_stopped_by_its_portal() {
    if !has_xvfb() {
        return;
    }
    let (portal, folder) = (Portal::new(), Folder::new());
    let saves = folder.join("saves");
    let mut session = start(&portal, &["--save", &saves], &[]);
    let at = running(&session);
    let host = key_of(at["key"].as_str().expect("a key")).expect("a good one");
    let native = at["native"].as_str().expect("an address");
    let ticket = portal.ticket(Role::Player, None);
    let link = portal.link(native, host, &ticket);
    let mut player = client(&folder, "player", &link, &["--present", "null"]);
    player.line("player at");
    let all = portal.token(Actions::ALL);
    eventually("the player is counted", || {
        let (status, body) = request(&at, "GET", "/session", &all);
        assert_eq!(status, "200", "{body}");
        let state: Value = serde_json::from_str(&body).expect("JSON");
        (state["connected"] == 1).then_some(())
    });
    // A second session with the same saves is rejected at once.
    let second = Portal::new();
    let mut refused = start(&second, &["--save", &saves], &[]);
    let why = end(&mut refused, &second);
    assert!(
        why["why"]
            .to_string()
            .contains("save folder in use by another session"),
        "{why}"
    );
    // A token is valid for a minute, and the second session may have taken longer to start.
    let all = portal.token(Actions::ALL);
    // No other token may control the session.
    let less = portal.token(Actions::of(&[Action::Status]));
    assert_eq!(request(&at, "POST", "/session/stop", &less).0, "403");
    let (status, body) = request(&at, "POST", "/session/stop", &second.token(Actions::ALL));
    assert_eq!(status, "401", "{body}");
    assert_eq!(request(&at, "POST", "/session/renew", &all).0, "200");
    assert_eq!(request(&at, "POST", "/session/stop", &all).0, "200");
    let why = end(&mut session, &portal);
    assert_eq!(
        (&why["code"], why["why"].as_str()),
        (&0.into(), Some("the portal stopped the session"))
    );
    player.wait();
    assert!(std::path::Path::new(&saves).is_dir(), "saves stay");
}

#[test]
fn a_single_window_fills_a_sessions_display() {
    if !has_xvfb() {
        return;
    }
    let scene = [env!("CARGO_BIN_EXE_openuvr"), "scene", "--size=160x90"];
    let (full, own) = (Size::new(320, 200), Size::new(160, 90));
    let ways: [(&[&str], Size); 2] = [(&[], full), (&["--place=false"], own)];
    for (args, size) in ways {
        let portal = Portal::new();
        let mut session = start(&portal, args, &scene);
        running(&session);
        let name = portal.session.to_string().replace('-', "");
        let folder = std::env::temp_dir().join(format!("ouvr-{name}"));
        let running = std::fs::read(folder.join("running.json")).expect("it runs");
        let running: Value = serde_json::from_slice(&running).expect("JSON");
        let authority = folder.join("xauthority");
        let authority = authority.to_str().expect("UTF-8");
        let display = running["display"].as_str().expect("a display");
        let capture = ScreenCapture::open(&Display::of_another(display, authority));
        eventually(&format!("a window of {size}"), || {
            let tree = capture.conn.query_tree(capture.root).ok()?.reply().ok()?;
            let mut windows = tree.children.into_iter();
            windows.find(|window| capture.geometry(*window) == Some(size))
        });
        session.signal(Signal::TERM);
        session.wait();
    }
}

#[test]
fn an_unused_session_ends() {
    if !has_xvfb() {
        return;
    }
    let portal = Portal::new();
    // On a slow machine, the lease expires before the session is reported as running.
    let mut session = start(&portal, &["--lease=2"], &[]);
    let why = end(&mut session, &portal);
    assert!(
        why["why"].to_string().contains("the session expired"),
        "{why}"
    );
}

#[test]
fn a_failed_application_is_reported() {
    if !has_xvfb() {
        return;
    }
    let portal = Portal::new();
    let mut session = start(&portal, &[], &["sh", "-c", "sleep 100 & exit 7"]);
    let why = end(&mut session, &portal);
    assert_eq!(why["code"], 7, "{why}");
    assert!(why["why"].to_string().contains("sh has ended"), "{why}");
    let portal = Portal::new();
    let mut session = start(&portal, &[], &["/nonexistent/game"]);
    let why = end(&mut session, &portal);
    assert_eq!(why["code"], 1, "{why}");
    let portal = Portal::new();
    let mut session = start(&portal, &["--first-picture=1"], &["sleep", "100"]);
    let why = end(&mut session, &portal);
    assert!(
        why["why"].to_string().contains("showed no picture"),
        "{why}"
    );
}

#[test]
fn a_session_over_its_disk_or_memory_limit_ends() {
    if !has_xvfb() {
        return;
    }
    let portal = Portal::new();
    let fills = [
        "sh",
        "-c",
        "head -c 9000000 /dev/zero >$HOME/big; sleep 100",
    ];
    let mut session = start(&portal, &["--disk=8M"], &fills);
    let why = end(&mut session, &portal);
    assert!(
        why["why"]
            .to_string()
            .contains("disk limit of 8 MiB exceeded"),
        "{why}"
    );
    let portal = Portal::new();
    let mut session = start(&portal, &["--memory=1M"], &[]);
    let why = end(&mut session, &portal);
    assert!(
        why["why"].to_string().contains("memory limit exceeded"),
        "{why}"
    );
}

#[test]
fn an_application_inherits_no_descriptors() {
    if !has_xvfb() {
        return;
    }
    for method in ["screen", "api"] {
        let (portal, folder) = (Portal::new(), Folder::new());
        let saves = folder.join("saves");
        let lists = "ls -l /proc/self/fd >$HOME/new; mv $HOME/new $HOME/list; exec sleep 1000";
        let args = [
            "--save",
            &saves,
            "--first-picture=600",
            &format!("--capture={method}"),
        ];
        // The session's parent has left descriptor 9 open.
        let mut session = start_with(&portal, &args, &["sh", "-c", lists], |command| {
            let inner = "exec 9</dev/zero; exec \"$0\" \"$@\"";
            let mut outer = Command::new("sh");
            outer.args(["-c", inner]).arg(command.get_program());
            outer.args(command.get_args());
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => outer.env(name, value),
                    None => outer.env_remove(name),
                };
            }
            outer
        });
        let list = eventually("the list", || {
            std::fs::read_to_string(format!("{saves}/list")).ok()
        });
        let descriptors = list.lines().filter_map(|line| line.split_once(" -> "));
        for (number, leads_to) in descriptors {
            let number = number.rsplit(' ').next().expect("a word");
            // `ls` itself has opened the folder `fd`.
            let usual = ["0", "1", "2"].contains(&number) || leads_to.ends_with("/fd");
            assert!(usual, "{method}: {list}");
        }
        assert!(list.contains(" 0 -> "), "{list}");
        session.signal(Signal::TERM);
        session.wait();
    }
}

#[test]
fn no_process_is_orphaned_by_a_kill() {
    if !has_xvfb() {
        return;
    }
    // The application starts a process that leaves its group and its parent.
    let hides = "setsid sh -c 'sleep 1000 & sleep 1000' & exec openuvr-scene";
    let scene = format!(
        "{} scene --size=320x200 --fps=10",
        env!("CARGO_BIN_EXE_openuvr")
    );
    let hides = hides.replace("openuvr-scene", &scene);
    let application = ["sh", "-c", &hides];
    // Two sessions run at the same time. The end of the first does not affect the second.
    let (first, second) = (Portal::new(), Portal::new());
    let mut killed = start(&first, &[], &application);
    let mut other = start(&second, &[], &application);
    running(&killed);
    let at = running(&other);
    killed.signal(Signal::KILL);
    killed.wait();
    nothing_left(&first);
    other.assert_running();
    eventually("the second application", || {
        (processes(&second).len() >= 4).then_some(())
    });
    // This time, the host is killed. It is the only child of the session's process.
    let id = other.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let host: i32 = children
        .expect("it runs")
        .trim()
        .parse()
        .expect("one child");
    let host = rustix::process::Pid::from_raw(host).expect("not 0");
    rustix::process::kill_process(host, Signal::KILL).expect("a child process");
    let why = end(&mut other, &second);
    assert!(
        why["why"]
            .to_string()
            .contains("the host of the session ended"),
        "{why}"
    );
    assert_eq!(request(&at, "GET", "/session", "").0, "000", "no answer");
}
