//! Two machines, as near as one machine can come: each with a network of its own, the client with
//! a clock of its own, and the two commands that the README names.

use std::path::Path;
use std::process::Command;

use crate::support::{Display, Eye, Folder, Program, scene, skip};

/// Two network namespaces and the cable between them; gone when dropped.
struct Machines {
    host: String,
    client: String,
}

/// Where the host is, from the client's side of the cable. Nobody else is in its namespace, so
/// that tests can run side by side.
const HOST: &str = "10.77.0.1";
const CLIENT: &str = "10.77.0.2";

impl Machines {
    /// `None`, said aloud, without the privilege or the tools.
    fn new() -> Option<Machines> {
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let id = std::process::id();
        let machines = Machines {
            host: format!("ouvr-h{id}"),
            client: format!("ouvr-c{id}"),
        };
        let (h, c) = (machines.host.as_str(), machines.client.as_str());
        let lines = [
            format!("netns add {h}"),
            format!("netns add {c}"),
            format!("-n {h} link add cable type veth peer name cable netns {c}"),
            format!("-n {h} address add {HOST}/24 dev cable"),
            format!("-n {c} address add {CLIENT}/24 dev cable"),
            format!("-n {h} link set cable up"),
            format!("-n {c} link set cable up"),
        ];
        for line in lines {
            let out = Command::new("ip").args(line.split_whitespace()).output();
            match out {
                Ok(out) if out.status.success() => {}
                Ok(out) => {
                    let error = String::from_utf8_lossy(&out.stderr);
                    skip(&format!("no network namespaces here: ip {line}: {error}"));
                    return None;
                }
                Err(error) => {
                    skip(&format!("ip (iproute2) does not run: {error}"));
                    return None;
                }
            }
        }
        Some(machines)
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in [&self.host, &self.client] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// `openuvr` with these words, in a namespace, as somebody with this home.
fn on(machine: &str, before: &[&str], home: &Path, display: &Display, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", machine])
        .args(before)
        .arg(env!("CARGO_BIN_EXE_openuvr"))
        .args(words)
        .env("HOME", home)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("WAYLAND_DISPLAY")
        .env("DISPLAY", &display.name);
    command
}

/// A boot of a hundred days ago, as the client's clock tells: figures that mix the clocks of both
/// would be off by that.
const OTHER_CLOCK: [&str; 5] = [
    "unshare",
    "--time",
    "--monotonic=8640000",
    "--fork",
    "--kill-child",
];

#[test]
fn the_two_commands_of_the_readme_connect_two_machines() {
    let (Some(here), Some(there)) = (Display::start("640x360"), Display::start("640x360")) else {
        return;
    };
    let Some(machines) = Machines::new() else {
        return;
    };
    let _scene = scene(&here, "640x360", "20");
    let folder = Folder::new();
    let (host_home, client_home) = (folder.path().join("h"), folder.path().join("c"));
    for home in [&host_home, &client_home] {
        std::fs::create_dir_all(home).unwrap();
    }

    let host = || {
        Program::start(
            "host",
            on(&machines.host, &[], &host_home, &here, &["host"]),
        )
    };
    let client = |more: &[&str]| {
        let words = [&["client", HOST, "--for", "4s"], more].concat();
        let command = on(&machines.client, &OTHER_CLOCK, &client_home, &there, &words);
        Program::start("client", command)
    };

    let mut first = host();
    let line = first.line("with the PIN");
    let pin = line.split_whitespace().last().unwrap();
    let mut paired = client(&["--pin", pin]);
    paired.line("paired with the host");
    first.line("joins as player");
    Eye::open(&there).more_frames(15);
    let (status, text) = paired.ended();
    assert!(status.success(), "{text}");
    first.line("is gone: it said goodbye");
    first.stop();

    // From now on they know each other.
    let mut second = host();
    second.line("streaming");
    let mut known = client(&[]);
    known.line("connected to the host");
    Eye::open(&there).more_frames(15);
    assert!(known.ended().0.success());
    let text = second.stop();
    assert!(
        !text.contains("PIN"),
        "a host that knows a device opens no pairing: {text}"
    );
}
