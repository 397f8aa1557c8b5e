//! `openuvr doctor` on machines with and without its dependencies.

mod support;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use openuvr_proto::units::Size;
use openuvr_xserver::sway::Sway;
use serde_json::Value;
use support::{Display, Folder, Host, Program, install, openuvr, skip};
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

/// The JSON report, and whether the role can run. Checks that the exit status matches the report.
fn run_doctor(command: &mut Command) -> (Value, bool) {
    let out = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    let report: Value = serde_json::from_str(&text)
        .unwrap_or_else(|why| panic!("no JSON ({why}): {text}\n{errors}"));
    let can_run = out.status.success();
    assert_eq!(report["can_run"], can_run);
    assert!(can_run || out.status.code() == Some(1), "{}", out.status);
    (report, can_run)
}

/// The finding with this name, which must occur once.
fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let findings = report["findings"].as_array().expect("a list");
    let mut named = findings.iter().filter(|finding| finding["name"] == name);
    let found = named
        .next()
        .unwrap_or_else(|| panic!("no {name} in {report}"));
    assert!(named.next().is_none(), "{name} twice");
    found
}

fn level<'a>(report: &'a Value, name: &str) -> &'a str {
    finding(report, name)["level"].as_str().expect("a word")
}

/// Any free port, because 4710 may be in use on this machine.
const FREE: [&str; 2] = ["--port", "0"];

#[test]
fn with_a_display_both_roles_can_run() {
    let Some(display) = Display::start("640x360") else {
        return;
    };
    let args = ["doctor", "--json", "--display", &display.name];
    let (report, can_run) = run_doctor(openuvr(&args).args(FREE));
    assert!(can_run, "{report}");
    for name in [
        "UDP GSO and GRO",
        "display",
        "capture",
        "x264",
        "auto",
        "avcodec",
        "hevc",
    ] {
        assert_eq!(level(&report, name), "ok", "{report}");
    }
    let capture = finding(&report, "capture")["what"].as_str().expect("text");
    assert!(capture.contains("640x360"), "{capture}");
    // Each finding that is not ok has a remedy.
    for finding in report["findings"].as_array().expect("a list") {
        assert_eq!(
            finding["level"] == "ok",
            finding.get("do").is_none(),
            "{finding}"
        );
    }

    let text = openuvr(&args[..1])
        .args(["--role", "host", "--display", &display.name])
        .args(FREE)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("This machine can be a host; "), "{text}");
    assert!(!text.contains("Decoders"), "{text}");
}

#[test]
fn the_hook_library_is_checked() {
    let args = ["doctor", "--json", "--role", "host"];
    let (report, _) = run_doctor(openuvr(&args).args(FREE));
    assert_eq!(level(&report, "hook library"), "ok", "{report}");
    // The copy of the program has no hook library next to it.
    let folder = Folder::new();
    let alone = folder.path().join("openuvr");
    install(Path::new(env!("CARGO_BIN_EXE_openuvr")), &alone, 0o755);
    let (report, _) = run_doctor(Command::new(alone).args(args).args(FREE));
    assert_eq!(
        level(&report, "hook library"),
        "could be better",
        "{report}"
    );
    let remedy = &finding(&report, "hook library")["do"];
    assert!(remedy.to_string().contains("openuvr-guest"), "{report}");
}

#[test]
fn without_a_display_a_host_can_run_but_no_client() {
    for (role, level_expected) in [("host", "could be better"), ("client", "missing")] {
        let (report, can_run) =
            run_doctor(openuvr(&["doctor", "--json", "--role", role]).args(FREE));
        assert_eq!(can_run, role == "host", "{report}");
        assert_eq!(report["role"], role);
        assert_eq!(level(&report, "display"), level_expected);
    }
}

#[test]
fn missing_privileges_are_optional_and_have_a_remedy() {
    let Some(display) = Display::start("640x360") else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        skip("dropping privileges needs root");
        return;
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set", "-all", "--inh-caps", "-all", "prlimit"])
        .args(["--rtprio=0", "--memlock=65536"])
        .args([env!("CARGO_BIN_EXE_openuvr"), "doctor", "--json"])
        .args(["--display", &display.name])
        .args(FREE);
    let (report, can_run) = run_doctor(&mut command);
    assert!(can_run, "{report}");
    // Each remedy is a step of `openuvr setup`.
    for (name, step) in [
        ("real-time threads", "scheduling"),
        ("locked memory", "scheduling"),
        ("CAP_NET_RAW", "raw-ethernet"),
    ] {
        assert_eq!(level(&report, name), "could be better", "{report}");
        let remedy = finding(&report, name)["do"].as_str().expect("text");
        let words = format!(" setup --only {step}");
        assert!(
            remedy.starts_with("sudo ") && remedy.contains(&words),
            "{remedy}"
        );
        let command = openuvr(&["setup", "--dry-run", "--user", "root", "--only", step]).output();
        let out = command.expect("it runs");
        assert_ne!(
            out.status.code(),
            Some(2),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let memory = finding(&report, "locked memory")["what"]
        .as_str()
        .expect("text");
    assert!(memory.contains("64 KiB"), "{memory}");
}

#[test]
fn a_host_without_an_encoder_cannot_run() {
    let Some(display) = Display::start("640x360") else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        skip("hiding a library needs root");
        return;
    }
    // In the command's own mount namespace, each library is an empty file.
    let hide = "for f in $(find /usr/lib /lib -name 'libx264.so*' -o -name 'libopenh264.so*' \
                -o -name 'libturbojpeg.so*' -o -name 'libavcodec.so*'); do \
                mount --bind /dev/null \"$f\" || exit 77; done; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", hide, "sh"])
        .args([env!("CARGO_BIN_EXE_openuvr"), "doctor", "--json"])
        .args(["--role", "host", "--display", &display.name])
        .args(FREE);
    let out = command.output().expect("unshare runs");
    if out.stdout.is_empty() {
        skip(&format!(
            "mount namespace: {}",
            String::from_utf8_lossy(&out.stderr)
        ));
        return;
    }
    let (report, can_run) = run_doctor(&mut command);
    assert!(!can_run, "{report}");
    assert_eq!(level(&report, "x264"), "missing");
    let remedy = finding(&report, "x264")["do"].as_str().expect("text");
    assert!(remedy.contains("apt install libx264"), "{remedy}");
    assert_eq!(level(&report, "raw"), "ok");
}

/// A headless Wayland session with an Xwayland.
struct WaylandSession {
    _weston: Program,
    /// The display of its Xwayland.
    display: String,
    folder: Folder,
}

fn wayland_session() -> Option<WaylandSession> {
    let Ok(version) = Command::new("weston").arg("--version").output() else {
        skip("weston is not installed: apt-get install weston");
        return None;
    };
    // In Weston 10, the option takes the module's file name. The versions in later Debian releases take its short name.
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let backend = match version.starts_with("weston 10.") {
        true => "--backend=headless-backend.so",
        false => "--backend=headless",
    };
    let folder = Folder::new();
    let mut command = Command::new("weston");
    command
        .args([backend, "--xwayland", "--no-config"])
        .args(["--socket=wayland-of-a-test", "--idle-time=0"])
        .env("XDG_RUNTIME_DIR", folder.path())
        .env("HOME", folder.path());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))
        .expect("a child process");
    let weston = Program::start("weston", command);
    let line = weston.line("xserver listening on display ");
    let (_, display) = line.split_once("on display ").expect("the display name");
    let display = display.trim().to_owned();
    // Xwayland starts with its first client; the compositor becomes its window manager a moment later.
    let (conn, screen) = x11rb::connect(Some(&display)).expect("it starts");
    let root = conn.setup().roots[screen].root;
    let check = conn.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK");
    let check = check.expect("sent").reply().expect("an atom").atom;
    support::eventually("the session manages its windows", || {
        let any = AtomEnum::ANY;
        let property = conn.get_property(false, root, check, any, 0, 1);
        let property = property.expect("sent").reply().expect("the root is there");
        (property.value_len == 1).then_some(())
    });
    Some(WaylandSession {
        _weston: weston,
        display,
        folder,
    })
}

#[test]
fn the_xwayland_of_a_wayland_session_is_recognised() {
    let Some(session) = wayland_session() else {
        return;
    };
    let args = [
        "doctor",
        "--json",
        "--role",
        "host",
        "--display",
        &session.display,
    ];
    let (report, _) = run_doctor(openuvr(&args).args(FREE));
    let capture = finding(&report, "capture");
    assert_eq!(capture["level"], "could be better", "{report}");
    let remedy = capture["do"].as_str().expect("what to do");
    assert!(
        remedy.contains("--window") && remedy.contains("--virtual"),
        "{remedy}"
    );

    let host = Host::start(&["--display", &session.display]);
    let printed = host.program.line("is the Xwayland of a Wayland session");
    assert!(printed.contains("--window TITLE"), "{printed}");
    // The next line shows that the host continues.
    host.program.line("openuvr host: streaming");
}

#[test]
fn a_wayland_session_suffices_for_a_host_that_can_capture_it() {
    let Some(sway) = Sway::start(Size::new(640, 360)) else {
        return;
    };
    let socket = sway.socket();
    let socket = socket.to_str().expect("temporary names are text");
    let host = ["doctor", "--json", "--role", "host", "--wayland-display"];
    let (report, can_run) = run_doctor(openuvr(&[&host[..], &[socket]].concat()).args(FREE));
    assert!(can_run, "{report}");
    let names = ["display", "capture", "input", "clipboard"].map(|name| format!("Wayland {name}"));
    for name in names {
        assert_eq!(level(&report, &name), "ok", "{report}");
    }

    // Weston lets no program capture its screen.
    let Some(session) = wayland_session() else {
        return;
    };
    let folder = session.folder.path().to_owned();
    let socket = folder.join("wayland-of-a-test");
    let socket = socket.to_str().expect("temporary names are text");
    let (report, can_run) = run_doctor(openuvr(&[&host[..], &[socket]].concat()).args(FREE));
    assert!(!can_run, "{report}");
    let capture = finding(&report, "Wayland capture");
    assert_eq!(capture["level"], "missing", "{report}");
    assert!(capture["do"].to_string().contains("--virtual"), "{capture}");
    for name in ["Wayland input", "Wayland clipboard"] {
        assert_eq!(level(&report, name), "could be better", "{report}");
    }
}
