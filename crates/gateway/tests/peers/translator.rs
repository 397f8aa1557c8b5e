//! Machines behind address translators, emulated on one machine with network namespaces. One of the namespaces forwards
//! datagrams between the others with the kernel's NAT.
//!
//! ```text
//!  host 10.0.0.2 ──┐ 203.0.113.7         203.0.113.9 ┌── browser 192.168.7.2
//!                  └──────── translators ────────────┘
//!                                 └── 198.51.100.2, the STUN server
//! ```

use std::fs::File;
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fd::AsFd as _;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::support::skip::{has_program, skip};

/// Public address of the host.
pub(crate) const PUBLIC: &str = "203.0.113.7";
/// Private address of the host.
pub(crate) const HOST: &str = "10.0.0.2";
/// Private address of the browser.
pub(crate) const BROWSER: &str = "192.168.7.2";
/// Address of a STUN server.
pub(crate) const SERVER: &str = "198.51.100.2";

/// The endpoints with their addresses. The translator has the address `.1` in each network.
const ENDS: [(&str, &str); 3] = [("host", HOST), ("browser", BROWSER), ("server", SERVER)];

/// Port forwarding to the host.
pub(crate) enum Inward {
    /// All ports, as for a cloud machine.
    All,
    /// One port, with a different number outside, as in a home router.
    Port { outside: u16, inside: u16 },
}

/// The emulated networks. They are removed on drop.
pub(crate) struct Network(String);

impl Network {
    /// Returns `None`, with a message, if the privilege or the tools are missing.
    pub(crate) fn new() -> Option<Network> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = Network(format!("ouvr-a{}-{count}", std::process::id()));
        let middle = network.name("translators");
        run(&format!("ip netns add {middle}"))?;
        for (end, address) in ENDS {
            let name = network.name(end);
            let (net, _) = address.rsplit_once('.')?;
            run(&format!("ip netns add {name}"))?;
            run(&format!(
                "ip -n {middle} link add {end} type veth peer name cable netns {name}"
            ))?;
            run(&format!("ip -n {middle} address add {net}.1/24 dev {end}"))?;
            run(&format!("ip -n {middle} link set {end} up"))?;
            run(&format!("ip -n {name} address add {address}/24 dev cable"))?;
            run(&format!("ip -n {name} link set cable up"))?;
            run(&format!("ip -n {name} link set lo up"))?;
            run(&format!("ip -n {name} route add default via {net}.1"))?;
        }
        let on = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        command(&["ip", "netns", "exec", &middle, "sh", "-c", on])?;
        // Private addresses are not routed between host and browser.
        network.rule("-t raw -A PREROUTING -i browser -d 10.0.0.0/24 -j DROP")?;
        network.rule("-t raw -A PREROUTING -i host -d 192.168.7.0/24 -j DROP")?;
        network.rule(&format!(
            "-t nat -A POSTROUTING -s {HOST} -j SNAT --to-source {PUBLIC}"
        ))?;
        network.rule("-t nat -A POSTROUTING -s 192.168.7.0/24 -j SNAT --to-source 203.0.113.9")?;
        Some(network)
    }

    /// Adds forwarding from now on.
    pub(crate) fn let_in(&self, inward: &Inward) {
        match inward {
            Inward::All => {
                let all =
                    format!("-t nat -A PREROUTING -d {PUBLIC} -j DNAT --to-destination {HOST}");
                self.rule(&all).unwrap();
            }
            Inward::Port { outside, inside } => {
                for protocol in ["tcp", "udp"] {
                    self.rule(&format!(
                        "-t nat -A PREROUTING -d {PUBLIC} -p {protocol} --dport {outside} \
                         -j DNAT --to-destination {HOST}:{inside}"
                    ))
                    .unwrap();
                }
            }
        }
    }

    fn rule(&self, words: &str) -> Option<()> {
        let middle = self.name("translators");
        run(&format!("ip netns exec {middle} iptables -w {words}"))
    }

    fn name(&self, end: &str) -> String {
        format!("{}-{end}", self.0)
    }

    /// Runs a function in this endpoint's namespace. Sockets and threads of the function stay in it.
    pub(crate) fn on<T>(&self, end: &str, what: impl FnOnce() -> T) -> T {
        let enter = |path: &str| {
            let there = File::open(path).unwrap();
            move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        };
        let here = File::open("/proc/thread-self/ns/net").unwrap();
        enter(&format!("/run/netns/{}", self.name(end)));
        let done = what();
        move_into_link_name_space(here.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        done
    }

    /// Starts coturn as a STUN server only; `None`, with a message, if it is not installed.
    pub(crate) fn stun_server(&self) -> Option<StunServer> {
        let name = self.name("server");
        let mut words = vec!["ip", "netns", "exec", &name, "turnserver", "-n"];
        words.extend(["--stun-only", "--no-cli", "--no-tls", "--no-dtls"]);
        words.extend(["--listening-ip", SERVER, "--pidfile", "/dev/null"]);
        words.extend(["--log-file", "stdout"]);
        if !has_program("turnserver", "coturn") {
            return None;
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Some(StunServer(command.spawn().unwrap()))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for end in ["translators", "host", "browser", "server"] {
            let _ = Command::new("ip")
                .args(["netns", "del", &self.name(end)])
                .output();
        }
    }
}

/// A server that ends with the test.
pub(crate) struct StunServer(Child);

impl Drop for StunServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn run(line: &str) -> Option<()> {
    command(&line.split_whitespace().collect::<Vec<_>>())
}

/// Runs a command. Returns `None`, with a message, if it fails.
fn command(words: &[&str]) -> Option<()> {
    match Command::new(words[0]).args(&words[1..]).output() {
        Ok(out) if out.status.success() => Some(()),
        Ok(out) => {
            let error = String::from_utf8_lossy(&out.stderr);
            skip(&format!(
                "{words:?} failed: {error}; it needs root, and apt-get install iproute2 iptables"
            ));
            None
        }
        Err(error) => {
            skip(&format!(
                "cannot start {}: {error}: apt-get install iproute2",
                words[0]
            ));
            None
        }
    }
}
