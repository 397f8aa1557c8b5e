//! A host with its own Wayland display. Applications start on it, and are streamed and played.

use std::path::Path;
use std::process::Command;

use crate::support::{Folder, PIN, Program, client, eventually, openuvr, port_of};

const OWN: [&str; 8] = [
    "--virtual",
    "640x360",
    "--virtual-with",
    "wayland",
    "--realtime",
    "off",
    "--bind",
    "127.0.0.1:0",
];

/// A command that runs `openuvr host` with a Wayland display. The arguments after `--` are the application.
fn host(folder: &Folder, args: &[&str]) -> Command {
    let dir = folder.join("host");
    let mut command = openuvr(&[&["host", "--config-dir", &dir], &OWN[..], args].concat());
    // The environment names displays of another session, which must not be used.
    command
        .env("WAYLAND_DISPLAY", "wayland-7")
        .env("DISPLAY", ":4096");
    command
}

/// Whether a program of a package is installed. If not, the test is skipped.
fn has_program(program: &str, package: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        crate::support::skip(&format!(
            "{program} is not installed: apt-get install {package}"
        ));
    }
    found
}

#[test]
fn a_wayland_application_is_streamed_and_ends_with_its_host() {
    if !has_program("weston-simple-shm", "weston") {
        return;
    }
    let folder = Folder::new();
    let (report, go) = (folder.join("report"), folder.join("go"));
    let script = format!(
        "echo \"$WAYLAND_DISPLAY ${{DISPLAY-none}}\" >{report}.new; mv {report}.new {report}
         weston-simple-shm & until test -e {go}; do sleep 0.05; done; kill $!; exit 7"
    );
    let args = [&PIN[..], &["--", "sh", "-c", &script]].concat();
    let mut host = Program::start("host", host(&folder, &args));
    let line = host.line("openuvr host: streaming 640x360 of a Wayland display");
    let words = eventually("the application's report", || {
        std::fs::read_to_string(&report).ok()
    });
    let (socket, display) = words.trim().split_once(' ').expect("two words");
    // The application does not get the X display of the host's environment.
    assert_ne!(display, ":4096");
    assert!(Path::new(socket).exists(), "{socket}");

    let address = format!("127.0.0.1:{}", port_of(&line));
    let csv = folder.join("client.csv");
    let more = [&PIN[..], &["--present", "null", "--csv", &csv]].concat();
    let client = client(&folder, "client", &address, &more);
    client.line("player at");
    eventually("frames", || {
        let rows = std::fs::read_to_string(&csv).unwrap_or_default();
        (rows.matches(",complete,").count() > 10).then_some(())
    });
    std::fs::write(&go, "").expect("written");
    let (status, text) = host.wait();
    assert_eq!(status.code(), Some(7), "{text}");
    assert!(text.contains("sh has ended: exit status: 7"), "{text}");
    assert!(!Path::new(socket).exists(), "{text}");
    client.line("session ended: the application has ended");
}

#[test]
fn an_empty_wayland_display_names_its_socket() {
    let folder = Folder::new();
    let host = Program::start("host", host(&folder, &[]));
    let line = host.line("the virtual display of 640x360 is empty");
    let (_, socket) = line.split_once("WAYLAND_DISPLAY=").expect("the socket");
    let socket = Path::new(socket.split(' ').next().expect("a word"));
    host.line("streaming 640x360 of a Wayland display");
    let folder = std::fs::metadata(socket.parent().expect("a folder")).expect("it exists");
    let mode = std::os::unix::fs::MetadataExt::mode(&folder);
    assert_eq!(mode & 0o777, 0o700);
    std::os::unix::net::UnixStream::connect(socket).expect("it accepts programs");
}
