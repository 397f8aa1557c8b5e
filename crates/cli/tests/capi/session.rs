//! A portal session with an application that links the library: `openuvr session --capture api`.

use std::fs;
use std::process::Command;

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::control::ticket::Actions;
use openuvr_runtime::client::link::key_of;
use openuvr_xserver::fixture::has_xvfb;
use serde_json::Value;

use crate::build::{library, program};
use crate::support::portal::Portal;
use crate::support::{Folder, NO_SOUND, Program, client, eventually, openuvr, skip};

/// Starts a session with a shell script as its application. In the script, PLAIN stands for the program `plain`.
fn start(portal: &Portal, folder: &Folder, args: &[&str], script: &str) -> Program {
    let key = format!("--ticket-key={}", portal.key());
    let id = format!("--id={}", portal.session);
    let own = ["session", &key, &id, "--capture=api", "--size=640x368"];
    let more = ["--lease=600", "--set=realtime=off", "--set=sound=off"];
    let plain = program(folder, "examples/plain.c", &[]);
    let script = script.replace("PLAIN", plain.to_str().expect("UTF-8"));
    let mut command = openuvr(&[&own[..], &more, args, &["--", "sh", "-c", &script]].concat());
    command.env("PULSE_SERVER", NO_SOUND);
    command.env("LD_LIBRARY_PATH", library().folder);
    Program::start("session", command)
}

#[test]
fn a_library_application_runs_in_a_portal_session() {
    if !has_xvfb() {
        return;
    }
    let (portal, folder) = (Portal::new(), Folder::new());
    // The session overrides the address and the PIN in the application's settings.
    let script = "sleep 1000 | exec PLAIN 1234 127.0.0.1:1";
    let mut session = start(&portal, &folder, &[], script);
    let at: Value = serde_json::from_str(&session.line("\"web\":")).expect("JSON");
    let host = key_of(at["key"].as_str().expect("a key")).expect("a good one");
    let native = at["native"].as_str().expect("an address");
    assert_ne!(native, "127.0.0.1:1");
    // A ticket of another portal is invalid.
    let other = Portal {
        session: portal.session,
        ..Portal::new()
    };
    let forged = other.link(native, host, &other.ticket(Role::Player, None));
    let mut refused = client(&folder, "eve", &forged, &["--present", "null"]);
    let (status, printed) = refused.wait();
    assert!(
        !status.success() && printed.contains("not signed by the portal"),
        "{printed}"
    );
    // The PIN in the application's configuration is not valid either.
    let pin = ["--present", "null", "--pin", "1234"];
    let mut refused = client(&folder, "pin", native, &pin);
    let (status, printed) = refused.wait();
    assert!(!status.success(), "{printed}");
    let link = portal.link(native, host, &portal.ticket(Role::Player, None));
    let player = client(&folder, "player", &link, &["--present", "null"]);
    player.line("player at");
    player.line("decoding 640x368");
    // The session's page requires a token of the portal.
    let request = |method: &str, path: &str| {
        let url = format!("{}{path}", at["web"].as_str().expect("an address"));
        let token = format!("Authorization: Bearer {}", portal.token(Actions::ALL));
        let args = [
            "--silent",
            "--insecure",
            "--request",
            method,
            "--header",
            &token,
            &url,
        ];
        let answer = Command::new("curl").args(args).output();
        String::from_utf8(answer.expect("curl is installed").stdout).expect("text")
    };
    eventually("the player is counted", || {
        let state: Value = serde_json::from_str(&request("GET", "/session")).expect("JSON");
        (state["connected"] == 1).then_some(())
    });
    request("POST", "/session/stop");
    let (_, printed) = session.wait();
    assert!(
        printed.contains("the portal stopped the session"),
        "{printed}"
    );
}

#[test]
fn a_library_application_streams_from_a_sandbox() {
    let sandbox = Command::new("bwrap")
        .args(["--unshare-user", "--ro-bind", "/", "/", "true"])
        .output();
    if !sandbox.is_ok_and(|tried| tried.status.success()) {
        skip(
            "bubblewrap is not installed (apt-get install bubblewrap), or cannot create a sandbox here",
        );
        return;
    }
    if !has_xvfb() {
        return;
    }
    let (portal, folder) = (Portal::new(), Folder::new());
    let libraries = library().folder;
    let args = ["--sandbox", "--readable"];
    let args = [
        &args[..],
        &[libraries.to_str().expect("UTF-8"), "--readable"],
    ]
    .concat();
    let place = folder.path().to_str().expect("UTF-8").to_owned();
    // The recorder is outside the sandbox. Like a gateway for browsers, it gets its pictures from the library inside.
    let file = folder.path().join("recording.mp4");
    let record = format!("record={}", file.display());
    let args = [&args[..], &[&*place, "--set", &record]].concat();
    let script = "sleep 1000 | exec PLAIN";
    let mut session = start(&portal, &folder, &args, script);
    let at: Value = serde_json::from_str(&session.line("\"web\":")).expect("JSON");
    let host = key_of(at["key"].as_str().expect("a key")).expect("a good one");
    let native = at["native"].as_str().expect("an address");
    let link = portal.link(native, host, &portal.ticket(Role::Player, None));
    let player = client(&folder, "player", &link, &["--present", "null"]);
    player.line("decoding 640x368");
    eventually("pictures are recorded", || {
        let recorded = fs::read(&file).unwrap_or_default();
        let mut fragments = recorded.windows(4).filter(|four| four == b"moof");
        fragments.next().map(drop)
    });
    session.signal(rustix::process::Signal::TERM);
    session.wait();
}

#[test]
fn an_application_without_the_library_is_reported() {
    if !has_xvfb() {
        return;
    }
    let (portal, folder) = (Portal::new(), Folder::new());
    let mut session = start(&portal, &folder, &[], "exit 3");
    let (_, printed) = session.wait();
    assert!(printed.contains("ended without a picture"), "{printed}");
    assert!(printed.contains("not link libopenuvr"), "{printed}");
}
