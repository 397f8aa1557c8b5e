//! Two network namespaces with a cable between them, so that one machine appears as two. Host and client can use every
//! type of link over the cable.
//!
//! The cable is a pair of virtual Ethernet devices. It has no serialisation delay. It carries the packets of
//! segmentation offload without segmenting them, so measurements over it overstate the benefit of offload.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};

/// The host's address.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

/// The namespaces and the cable. They are removed when dropped.
#[derive(Debug)]
pub struct Cable {
    host: String,
    client: String,
}

impl Cable {
    /// Creates namespaces and cable.
    ///
    /// # Errors
    /// Returns an error if this process is not root, or if `ip` (iproute2) is not installed.
    pub fn lay() -> Result<Cable> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        ensure!(
            rustix::process::geteuid().is_root(),
            "network namespaces need root"
        );
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("openuvr-{end}{}-{number}", std::process::id());
        let cable = Cable {
            host: name("h"),
            client: name("c"),
        };
        let Cable { host, client } = &cable;
        ip(&format!("netns add {host}"))?;
        ip(&format!("netns add {client}"))?;
        ip(&format!(
            "-n {host} link add cable type veth peer name cable netns {client}"
        ))?;
        for (end, address) in [(host, HOST), (client, CLIENT)] {
            ip(&format!("-n {end} address add {address}/24 dev cable"))?;
            ip(&format!("-n {end} link set lo up"))?;
            ip(&format!("-n {end} link set cable up"))?;
        }
        Ok(cable)
    }

    /// The program of `command`, with its arguments but no other settings, as a command that runs in the host's
    /// namespace.
    pub fn at_host(&self, command: &Command) -> Command {
        at(&self.host, command)
    }

    /// The program of `command`, with its arguments but no other settings, as a command that runs in the client's
    /// namespace.
    pub fn at_client(&self, command: &Command) -> Command {
        at(&self.client, command)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in [&self.host, &self.client] {
            let _ = ip(&format!("netns del {end}"));
        }
    }
}

fn at(end: &str, command: &Command) -> Command {
    let mut there = Command::new("ip");
    there
        .args(["netns", "exec", end])
        .arg(command.get_program())
        .args(command.get_args());
    there
}

fn ip(line: &str) -> Result<()> {
    let out = Command::new("ip").args(line.split_whitespace()).output();
    let out = out.context("network namespaces need ip: apt install iproute2")?;
    let why = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "ip {line}: {}", why.trim());
    Ok(())
}
