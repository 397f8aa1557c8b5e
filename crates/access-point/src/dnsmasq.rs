//! dnsmasq as a DHCP server: its configuration.
//!
//! It serves addresses, but announces neither a router nor a name server. A client therefore keeps its default route
//! and its name servers.
//!
//! Spec: dnsmasq(8), RFC 2132, sections 3.5 and 3.8.

use std::path::Path;

use crate::subnet::Subnet;

/// The configuration file. `leases` is the file in which dnsmasq stores its leases.
#[must_use]
pub(crate) fn configuration(interface: &str, subnet: Subnet, leases: &Path) -> String {
    let (first, last) = subnet.clients();
    let lines = [
        // dnsmasq itself is no name server.
        "port=0".to_owned(),
        "no-resolv".to_owned(),
        "no-hosts".to_owned(),
        format!("interface={interface}"),
        "except-interface=lo".to_owned(),
        // Other DHCP servers can then run on this machine, for example for virtual machines.
        "bind-interfaces".to_owned(),
        format!("dhcp-range={first},{last},255.255.255.0,12h"),
        // Clients learn neither a router (option 3) nor a name server (option 6).
        "dhcp-option=3".to_owned(),
        "dhcp-option=6".to_owned(),
        // After a restart of the access point, a returning client gets an answer at once.
        "dhcp-authoritative".to_owned(),
        format!("dhcp-leasefile={}", leases.display()),
        "log-facility=-".to_owned(),
        // With an empty file name, no PID file is written.
        "pid-file=".to_owned(),
    ];
    lines.join("\n") + "\n"
}

/// Whether a line of the log reports that dnsmasq is serving.
#[must_use]
pub(crate) fn is_started(line: &str) -> bool {
    line.contains("started, version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_addresses_and_no_routes() {
        let subnet = Subnet::choose("").unwrap();
        let text = configuration("wlan0", subnet, Path::new("/run/openuvr/leases"));
        for line in [
            "interface=wlan0",
            "port=0",
            "dhcp-range=192.168.71.10,192.168.71.250,255.255.255.0,12h",
            "dhcp-option=3",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}");
        }
        assert!(is_started("dnsmasq[7]: started, version 2.90 DNS disabled"));
        assert!(!is_started("dnsmasq: failed to create listening socket"));
    }
}
