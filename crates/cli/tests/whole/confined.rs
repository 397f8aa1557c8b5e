//! `openuvr session --sandbox` and `--application-user`: isolation of the application, its saves, and its end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use openuvr_proto::control::negotiate::Role;
use openuvr_runtime::client::link::key_of;
use openuvr_xserver::fixture::has_xvfb;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::portal::Portal;
use crate::support::{Folder, NO_SOUND, Program, client, eventually, openuvr, skip};

/// Whether this machine supports the sandbox.
fn has_sandbox() -> bool {
    let tried = Command::new("bwrap")
        .args(["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/"])
        .args(["--proc", "/proc", "true"])
        .output();
    let has = tried.is_ok_and(|tried| tried.status.success());
    if !has {
        skip(
            "bubblewrap is not installed (apt-get install bubblewrap), or cannot create a sandbox here",
        );
    }
    has && has_xvfb()
}

/// Starts a session with a shell script as its application. In the script, SCENE stands for the built-in scene, and
/// KEYS for the host's key folder.
fn start(portal: &Portal, args: &[&str], script: &str) -> Program {
    let scene = format!(
        "{} scene --size=320x200 --fps=10",
        env!("CARGO_BIN_EXE_openuvr")
    );
    let name = portal.session.to_string().replace('-', "");
    let keys = std::env::temp_dir().join(format!("ouvr-{name}/keys"));
    let script = script.replace("SCENE", &scene);
    let script = script.replace("KEYS", keys.to_str().expect("UTF-8"));
    let key = format!("--ticket-key={}", portal.key());
    let id = format!("--id={}", portal.session);
    let own = ["session", &key, &id, "--size=320x200", "--lease=600"];
    let more = ["--set=realtime=off", "--set=sound=off"];
    let mut command = openuvr(&[&own[..], &more, args, &["--", "sh", "-c", &script]].concat());
    command.env("PULSE_SERVER", NO_SOUND);
    Program::start("session", command)
}

#[test]
fn a_sandboxed_application_reaches_its_wayland_display() {
    if !has_sandbox() {
        return;
    }
    let (portal, folder) = (Portal::new(), Folder::new());
    let saves = folder.join("saves");
    // A program without a display would fail at once. `timeout` ends this program after a second.
    let script = "timeout 1 weston-simple-shm 2>$HOME/messages; echo $? >$HOME/status
echo ${DISPLAY-none} >$HOME/display
xdpyinfo 2>&1 | head -n 1 >$HOME/x11";
    let wayland = ["--virtual-with", "wayland", "--sandbox", "--save", &saves];
    let session = start(&portal, &wayland, script);
    let end = session.line("\"code\":");
    let status = read(&saves, "status");
    if status == "127" {
        return skip("weston-simple-shm is not installed: apt-get install weston");
    }
    assert_eq!(status, "124", "{end} {}", read(&saves, "messages"));
    match read(&saves, "display").as_str() {
        "none" => skip("Xwayland is not installed: apt-get install xwayland"),
        display => {
            let expected = format!("name of display:    {display}");
            assert_eq!(read(&saves, "x11"), expected);
        }
    }
}

/// Script that probes its environment, and writes each result to a file in its home.
const LOOKS: &str = "cat KEYS/* >$HOME/keys 2>/dev/null
ls -d KEYS >$HOME/folder 2>/dev/null
ls /proc | grep '^[0-9]' | wc -l >$HOME/processes
ls /tmp/.X11-unix | wc -l >$HOME/displays
touch /usr/openuvr-was-here 2>/dev/null && echo yes >$HOME/wrote
id -u >$HOME/uid
echo $TMPDIR >$HOME/tmp
echo kept >$HOME/saved
";

fn read(folder: &str, file: &str) -> String {
    let text = fs::read_to_string(format!("{folder}/{file}"));
    text.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_sandboxed_application_sees_only_its_own_files() {
    if !has_sandbox() {
        return;
    }
    let (portal, folder) = (Portal::new(), Folder::new());
    let saves = folder.join("saves");
    let script = format!(
        "{LOOKS}
trap 'echo in order >$HOME/end; kill $!; exit 0' TERM
sleep 1000 & setsid sleep 1000 &
SCENE & wait"
    );
    let mut session = start(&portal, &["--sandbox", "--save", &saves], &script);
    let at: Value = serde_json::from_str(&session.line("\"web\":")).expect("JSON");
    let host = key_of(at["key"].as_str().expect("a key")).expect("a good one");
    let native = at["native"].as_str().expect("an address");
    let link = portal.link(native, host, &portal.ticket(Role::Player, None));
    let player = client(&folder, "player", &link, &["--present", "null"]);
    player.line("player at");
    eventually("the script has looked", || {
        (read(&saves, "saved") == "kept").then_some(())
    });
    assert_eq!(read(&saves, "keys"), "");
    assert_eq!(read(&saves, "folder"), "");
    assert_eq!(read(&saves, "wrote"), "");
    assert_eq!(read(&saves, "displays"), "1");
    assert_eq!(read(&saves, "tmp"), "/tmp");
    let processes: u32 = read(&saves, "processes").parse().expect("a number");
    assert!(processes < 8, "{processes} processes");
    session.signal(Signal::TERM);
    session.wait();
    // The script has received a request to end, and had time to handle it.
    assert_eq!(read(&saves, "end"), "in order");
    let mark = format!("OPENUVR_SESSION={}", portal.session);
    eventually("the end of all its processes", || {
        let all = fs::read_dir("/proc").expect("proc is mounted").flatten();
        let of_it = all.filter(|entry| {
            let about = fs::read(entry.path().join("environ")).unwrap_or_default();
            about
                .split(|byte| *byte == 0)
                .any(|of| of == mark.as_bytes())
        });
        (of_it.count() == 0).then_some(())
    });
    // The next session finds the saves of the first one.
    let next = Portal::new();
    let again = "cat $HOME/saved >$HOME/again; SCENE";
    let mut session = start(&next, &["--sandbox", "--save", &saves], again);
    session.line("\"web\":");
    eventually("the saves are there", || {
        (read(&saves, "again") == "kept").then_some(())
    });
    session.signal(Signal::TERM);
    session.wait();
}

#[test]
fn an_application_runs_as_another_account() {
    if !rustix::process::geteuid().is_root() {
        skip("only root may start an application as another account");
        return;
    }
    if !has_xvfb() {
        return;
    }
    // Debian's account for games.
    let known = Command::new("id").args(["-u", "games"]).output();
    let uid = String::from_utf8(known.expect("id is there").stdout).expect("text");
    if uid.trim().is_empty() {
        skip("there is no account games");
        return;
    }
    let folder = Folder::new();
    let through = fs::Permissions::from_mode(0o711);
    fs::set_permissions(folder.path(), through).expect("a temporary folder");
    let script = format!("{LOOKS} xdpyinfo >$HOME/display 2>&1; echo $? >$HOME/code; sleep 1000");
    let sandbox: &[&[&str]] = match has_sandbox() {
        true => &[&[], &["--sandbox"]],
        false => &[&[]],
    };
    for (index, args) in sandbox.iter().enumerate() {
        let portal = Portal::new();
        let saves = folder.join(&format!("saves-{index}"));
        let own = [
            "--application-user=games",
            "--save",
            &saves,
            "--first-picture=600",
        ];
        let mut session = start(&portal, &[&own[..], args].concat(), &script);
        session.line("\"web\":");
        eventually("the script has looked", || {
            (!read(&saves, "code").is_empty()).then_some(())
        });
        assert_eq!(read(&saves, "uid"), uid.trim());
        assert_eq!(read(&saves, "keys"), "");
        assert_eq!(read(&saves, "wrote"), "");
        assert_eq!(read(&saves, "code"), "0", "{}", read(&saves, "display"));
        session.signal(Signal::TERM);
        session.wait();
    }
}

/// Attempts to capture another display and to type on it, once with the cookie of its own display and once without a
/// cookie. Libraries first try the abstract socket, which is visible in sandboxes and in containers with the host's
/// network.
const INTRUDES: &str = "export DISPLAY=OTHER
for authority in \"$XAUTHORITY\" /nonexistent; do
XAUTHORITY=$authority xdpyinfo && echo it looks
XAUTHORITY=$authority xdotool key a && echo it types
done >$HOME/intruded 2>$HOME/errors
DISPLAY=OWN xdpyinfo >$HOME/own 2>&1; echo $? >$HOME/code
sleep 1000
";

#[test]
fn a_session_cannot_reach_another_display() {
    if !has_xvfb() {
        return;
    }
    let (victim, folder) = (Portal::new(), Folder::new());
    let through = fs::Permissions::from_mode(0o711);
    fs::set_permissions(folder.path(), through).expect("a temporary folder");
    let mut shown = start(&victim, &[], "SCENE");
    shown.line("\"web\":");
    let name = victim.session.to_string().replace('-', "");
    let file = std::env::temp_dir().join(format!("ouvr-{name}/running.json"));
    let running: Value = serde_json::from_slice(&fs::read(file).expect("it runs")).expect("JSON");
    let display = running["display"].as_str().expect("a display");
    let mut ways: Vec<&[&str]> = vec![&[]];
    if has_sandbox() {
        ways.push(&["--sandbox"]);
    }
    let known = Command::new("id").args(["-u", "games"]).output();
    let account = known.is_ok_and(|known| known.status.success());
    if account && rustix::process::geteuid().is_root() {
        ways.push(&["--application-user=games"]);
        if has_sandbox() {
            ways.push(&["--application-user=games", "--sandbox"]);
        }
    }
    for (index, args) in ways.iter().enumerate() {
        let saves = folder.join(&format!("saves-{index}"));
        let script = INTRUDES.replace("OTHER", display).replace("OWN", "$OWN");
        let script = format!("OWN=$DISPLAY\n{script}");
        let own = ["--save", &saves, "--first-picture=600"];
        let mut session = start(&Portal::new(), &[&own[..], args].concat(), &script);
        session.line("\"web\":");
        eventually("the script has tried", || {
            (!read(&saves, "code").is_empty()).then_some(())
        });
        let errors = read(&saves, "errors");
        assert_eq!(read(&saves, "intruded"), "", "{args:?}: {errors}");
        assert_eq!(
            read(&saves, "code"),
            "0",
            "{args:?}: {}",
            read(&saves, "own")
        );
        session.signal(Signal::TERM);
        session.wait();
    }
    shown.assert_running();
    shown.signal(Signal::TERM);
    shown.wait();
}

#[test]
fn unsupported_confinement_is_reported() {
    let portal = Portal::new();
    for (args, why) in [
        (["--application-user=root", "--"], "root"),
        (["--application-user=no-such-account", "--"], "no account"),
        (
            ["--application-user=games", "--capture=run"],
            "requires --capture screen",
        ),
    ] {
        let args: Vec<&str> = args.into_iter().filter(|word| *word != "--").collect();
        let mut session = start(&portal, &args, "true");
        let (status, printed) = session.wait();
        assert!(!status.success(), "{printed}");
        let only_root = printed.contains("only root");
        assert!(printed.contains(why) || only_root, "{printed}");
    }
}
