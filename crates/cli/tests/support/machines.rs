//! Two machines, as near as one machine can come: network namespaces with a cable between them.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Display, skip};

/// Two network namespaces and the cable between them; gone when dropped.
pub(crate) struct Machines {
    pub(crate) host: String,
    pub(crate) client: String,
}

/// Where the host is, from the client's side of the cable. Nobody else is in its namespace, so
/// that tests can run side by side.
pub(crate) const HOST: &str = "10.77.0.1";
const CLIENT: &str = "10.77.0.2";

impl Machines {
    /// With an IP address each; `None`, said aloud, without the privilege or the tools.
    pub(crate) fn with_ip() -> Option<Machines> {
        let machines = Machines::without_ip()?;
        for (machine, address) in [(&machines.host, HOST), (&machines.client, CLIENT)] {
            ip(&format!("-n {machine} address add {address}/24 dev cable"))?;
        }
        Some(machines)
    }

    /// With a cable and nothing else; IPv6 is off, or the system would make addresses up.
    pub(crate) fn without_ip() -> Option<Machines> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let id = std::process::id();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let machines = Machines {
            host: format!("ouvr-h{id}-{count}"),
            client: format!("ouvr-c{id}-{count}"),
        };
        let (h, c) = (machines.host.as_str(), machines.client.as_str());
        ip(&format!("netns add {h}"))?;
        ip(&format!("netns add {c}"))?;
        for machine in [h, c] {
            let off = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            run("ip", &["netns", "exec", machine, "sh", "-c", off])?;
        }
        ip(&format!(
            "-n {h} link add cable type veth peer name cable netns {c}"
        ))?;
        for machine in [h, c] {
            ip(&format!("-n {machine} link set cable up"))?;
        }
        Some(machines)
    }

    /// The host's Ethernet address.
    pub(crate) fn host_mac(&self) -> String {
        let words = ["-n", &self.host, "-br", "link", "show", "cable"];
        let out = Command::new("ip").args(words).output().expect("ip runs");
        let line = String::from_utf8(out.stdout).expect("text");
        let mac = line.split_whitespace().nth(2).expect("an address");
        mac.to_owned()
    }

    /// Drops what arrives at one end and matches one of the classic BPF programs, which return 2
    /// for what is to be dropped (`TC_ACT_SHOT`), as `tc` takes them; without any, nothing.
    pub(crate) fn drop_at(&self, machine: &str, programs: &[&str]) -> Option<()> {
        let tc = |words: &[&str]| run("tc", &[&["-n", machine], words].concat());
        let _ = Command::new("tc")
            .args(["-n", machine, "qdisc", "del", "dev", "cable", "clsact"])
            .output();
        tc(&["qdisc", "add", "dev", "cable", "clsact"])?;
        for (i, program) in programs.iter().enumerate() {
            let priority = (i + 1).to_string();
            let filter = [
                "filter", "add", "dev", "cable", "ingress", "prio", &priority,
            ];
            tc(&[&filter[..], &["bpf", "da", "bytecode", program]].concat())?;
        }
        Some(())
    }
}

fn ip(line: &str) -> Option<()> {
    run("ip", &line.split_whitespace().collect::<Vec<_>>())
}

/// Runs a tool of iproute2; `None`, said aloud, if it fails.
fn run(program: &str, words: &[&str]) -> Option<()> {
    match Command::new(program).args(words).output() {
        Ok(out) if out.status.success() => Some(()),
        Ok(out) => {
            let error = String::from_utf8_lossy(&out.stderr);
            skip(&format!("not possible here: {program} {words:?}: {error}"));
            None
        }
        Err(error) => {
            skip(&format!("{program} (iproute2) does not run: {error}"));
            None
        }
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
pub(crate) fn on(
    machine: &str,
    before: &[&str],
    home: &Path,
    display: Option<&Display>,
    words: &[&str],
) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", machine])
        .args(before)
        .arg(env!("CARGO_BIN_EXE_openuvr"))
        .args(words)
        .env("HOME", home)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("DISPLAY");
    if let Some(display) = display {
        command.env("DISPLAY", &display.name);
    }
    command
}
