//! Two machines, emulated with network namespaces and a cable between them.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Display, skip};

/// The network namespaces of a host, a client and possibly further machines, with their links; removed when dropped.
pub(crate) struct Machines {
    pub(crate) host: String,
    pub(crate) client: String,
    /// The machine between host and client, if there is one.
    pub(crate) between: Option<String>,
    /// The third machine on the same network, if there is one.
    pub(crate) third: Option<String>,
}

/// The host's address on the cable. Each test has its own network namespaces, so tests can run in parallel.
pub(crate) const HOST: &str = "10.77.0.1";
const CLIENT: &str = "10.77.0.2";
/// Address of the third machine.
pub(crate) const THIRD: &str = "10.77.0.3";

impl Machines {
    /// Sets up two machines with an IP address each. Prints a message and returns `None` if the privilege or a tool is
    /// missing.
    pub(crate) fn with_ip() -> Option<Machines> {
        Machines::without_ip()?.with_addresses()
    }

    /// Sets up host and client, and a machine between them. The interfaces of the machine between are `to-client` and
    /// `to-host`.
    pub(crate) fn with_one_between() -> Option<Machines> {
        let machines = Machines::unconnected(true, false)?;
        let b = machines.between.as_deref()?;
        for (end, machine) in [("to-client", &machines.client), ("to-host", &machines.host)] {
            ip(&format!(
                "-n {b} link add {end} type veth peer name cable netns {machine}"
            ))?;
            ip(&format!("-n {b} link set dev {end} up"))?;
        }
        machines.with_links_up()?.with_addresses()
    }

    /// Sets up three machines on one bridge.
    pub(crate) fn on_a_bridge() -> Option<Machines> {
        Machines::bridged()?.with_links_up()?.with_addresses()
    }

    /// Like [`Machines::on_a_bridge`], but with link-local IPv6 addresses only.
    pub(crate) fn on_a_bridge_with_link_local() -> Option<Machines> {
        let machines = Machines::bridged()?;
        for machine in machines.ends() {
            // No address is generated, because the test would have to wait for it.
            ip(&format!("-n {machine} link set cable addrgenmode none"))?;
            let on = "echo 0 > /proc/sys/net/ipv6/conf/cable/disable_ipv6";
            run("ip", &["netns", "exec", machine, "sh", "-c", on])?;
        }
        let machines = machines.with_links_up()?;
        for (n, machine) in (1..).zip(machines.ends()) {
            ip(&format!(
                "-n {machine} address add fe80::{n}/64 dev cable nodad"
            ))?;
        }
        Some(machines)
    }

    fn bridged() -> Option<Machines> {
        let machines = Machines::unconnected(true, true)?;
        let b = machines.between.as_deref()?;
        // Snooping is off, because there is no multicast querier.
        ip(&format!(
            "-n {b} link add bridge type bridge mcast_snooping 0"
        ))?;
        ip(&format!("-n {b} link set bridge up"))?;
        for (n, machine) in machines.ends().enumerate() {
            ip(&format!(
                "-n {b} link add end{n} type veth peer name cable netns {machine}"
            ))?;
            ip(&format!("-n {b} link set end{n} master bridge up"))?;
        }
        Some(machines)
    }

    fn with_addresses(self) -> Option<Machines> {
        for (machine, address) in self.ends().zip([HOST, CLIENT, THIRD]) {
            ip(&format!("-n {machine} address add {address}/24 dev cable"))?;
        }
        Some(self)
    }

    fn with_links_up(self) -> Option<Machines> {
        for machine in self.ends() {
            ip(&format!("-n {machine} link set cable up"))?;
        }
        Some(self)
    }

    /// The machines that run programs.
    fn ends(&self) -> impl Iterator<Item = &String> {
        [&self.host, &self.client].into_iter().chain(&self.third)
    }

    /// Sets up two machines with a cable, but without IP addresses. IPv6 is off, because otherwise the system would
    /// generate addresses.
    pub(crate) fn without_ip() -> Option<Machines> {
        let machines = Machines::unconnected(false, false)?;
        let (h, c) = (&machines.host, &machines.client);
        ip(&format!(
            "-n {h} link add cable type veth peer name cable netns {c}"
        ))?;
        machines.with_links_up()
    }

    /// Sets up two machines without any network.
    pub(crate) fn without_links() -> Option<Machines> {
        Machines::unconnected(false, false)
    }

    /// Creates empty namespaces.
    fn unconnected(one_between: bool, third: bool) -> Option<Machines> {
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
            between: one_between.then(|| format!("ouvr-b{id}-{count}")),
            third: third.then(|| format!("ouvr-t{id}-{count}")),
        };
        for machine in machines.names() {
            ip(&format!("netns add {machine}"))?;
            let off = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            run("ip", &["netns", "exec", machine, "sh", "-c", off])?;
        }
        Some(machines)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        self.ends().chain(&self.between)
    }

    /// The host's Ethernet address.
    pub(crate) fn host_mac(&self) -> String {
        let args = ["-n", &self.host, "-br", "link", "show", "cable"];
        let out = Command::new("ip").args(args).output().expect("ip runs");
        let line = String::from_utf8(out.stdout).expect("text");
        let mac = line.split_whitespace().nth(2).expect("an address");
        mac.to_owned()
    }

    /// Drops the packets that arrive at this machine and match a classic BPF program. Each program is written as `tc`
    /// expects it, and returns 2 (`TC_ACT_SHOT`) to drop a packet. Without programs, nothing is dropped.
    pub(crate) fn drop_at(&self, machine: &str, programs: &[&str]) -> Option<()> {
        let tc = |args: &[&str]| run("tc", &[&["-n", machine], args].concat());
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

/// Runs a tool of iproute2; prints a message and returns `None` if it fails.
fn run(program: &str, args: &[&str]) -> Option<()> {
    match Command::new(program).args(args).output() {
        Ok(out) if out.status.success() => Some(()),
        Ok(out) => {
            let error = String::from_utf8_lossy(&out.stderr);
            skip(&format!("cannot run: {program} {args:?}: {error}"));
            None
        }
        Err(error) => {
            skip(&format!("{program} (iproute2) failed to start: {error}"));
            None
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in self.names() {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// `openuvr` with these arguments, in a namespace, with this home directory.
pub(crate) fn on(
    machine: &str,
    before: &[&str],
    home: &Path,
    display: Option<&Display>,
    args: &[&str],
) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", machine])
        .args(before)
        .arg(env!("CARGO_BIN_EXE_openuvr"))
        .args(args)
        .env("HOME", home)
        .env("PULSE_SERVER", super::NO_SOUND)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("WAYLAND_DISPLAY")
        .env_remove("DISPLAY");
    if let Some(display) = display {
        command.env("DISPLAY", &display.name);
    }
    command
}
