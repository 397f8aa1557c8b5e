//! The IPv4 network between host and clients. It overlaps no other network to which this machine has a route.
//!
//! Spec: RFC 1918 (private networks), proc_net_route (Linux, `net/ipv4/fib_trie.c`).

use std::fmt;
use std::net::Ipv4Addr;

/// A network of 256 addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Subnet(u32);

impl Subnet {
    /// The address of the host.
    #[must_use]
    pub(crate) fn host(self) -> Ipv4Addr {
        Ipv4Addr::from(self.0 + 1)
    }

    /// The first and the last address for clients.
    #[must_use]
    pub(crate) fn clients(self) -> (Ipv4Addr, Ipv4Addr) {
        (Ipv4Addr::from(self.0 + 10), Ipv4Addr::from(self.0 + 250))
    }

    /// The first network, counting upwards from 192.168.71.0/24, that no route of this machine overlaps. Home routers
    /// rarely use these networks (guess). `routes` is the file /proc/net/route.
    #[must_use]
    pub(crate) fn choose(routes: &str) -> Option<Subnet> {
        const MASK: u32 = 0xffff_ff00;
        let used: Vec<(u32, u32)> = routes.lines().filter_map(route).collect();
        let candidates = (71..=254).map(|third| Subnet(0xc0a8_0000 + (third << 8)));
        candidates.into_iter().find(|candidate| {
            let overlaps = |(destination, mask): &(u32, u32)| {
                let common = mask & MASK;
                // The default route covers all addresses, so it does not count.
                *mask != 0 && destination & common == candidate.0 & common
            };
            !used.iter().any(overlaps)
        })
    }
}

/// The host's address with the prefix length, as `ip address` expects it.
impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/24", self.host())
    }
}

/// Destination and mask of a line of /proc/net/route, such as `wlan0 0047A8C0 00000000 0001 0 0 0 00FFFFFF …`. Each is
/// an address in network byte order, printed as a native integer.
fn route(line: &str) -> Option<(u32, u32)> {
    let mut words = line.split_whitespace();
    let mut number = |skipped| {
        let word = words.nth(skipped)?;
        u32::from_str_radix(word, 16).ok().map(u32::from_be)
    };
    Some((number(1)?, number(5)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    fn line(destination: [u8; 4], mask: [u8; 4]) -> String {
        let hex = |bytes| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (destination, mask) = (hex(destination), hex(mask));
        format!("eth0\t{destination}\t00000000\t0001\t0\t0\t0\t{mask}\t0\t0\t0\n")
    }

    #[test]
    fn the_first_unused_network_is_chosen() {
        let none = Subnet::choose(HEAD).unwrap();
        assert_eq!(none.to_string(), "192.168.71.1/24");
        let clients = none.clients();
        assert_eq!(clients.0, Ipv4Addr::new(192, 168, 71, 10));
        let default = line([0; 4], [0; 4]);
        let same = line([192, 168, 71, 0], [255, 255, 255, 0]);
        let inside = line([192, 168, 72, 128], [255, 255, 255, 128]);
        let routes = format!("{HEAD}{default}{same}{inside}");
        let chosen = Subnet::choose(&routes).unwrap();
        assert_eq!(chosen.host(), Ipv4Addr::new(192, 168, 73, 1));
        let all = line([192, 168, 0, 0], [255, 255, 0, 0]);
        assert_eq!(Subnet::choose(&all), None);
        assert!(Subnet::choose("damaged\n\n1 2\n").is_some());
    }
}
