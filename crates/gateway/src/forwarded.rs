//! The browser's address, which reverse proxies in front of the page pass in `X-Forwarded-For`. The header is trusted only
//! from configured proxies, because any client can send it.

use std::net::IpAddr;

use openuvr_gateway_settings::ProxyNetwork;

/// The header as nginx, Caddy, HAProxy and Apache write it: the addresses along the path, with the one nearest to this
/// host last.
pub(crate) const FORWARDED_FOR: &str = "x-forwarded-for";

/// Maximum number of entries that are read. Each proxy on the path adds one (a guess: no deployment has more proxies).
const ENTRIES: usize = 16;

/// Whether the address belongs to a configured proxy.
#[must_use]
pub fn is_proxy(proxies: &[ProxyNetwork], address: IpAddr) -> bool {
    let address = address.to_canonical();
    proxies.iter().any(|proxy| proxy.contains(address))
}

/// The address of the browser behind a request from `peer` with these `X-Forwarded-For` values: the nearest address
/// that is not a proxy. The search ends at an invalid entry and after `ENTRIES` entries. If it finds only proxies, the
/// result is the last of them.
pub fn browser<'a>(
    peer: IpAddr,
    forwarded_for: impl DoubleEndedIterator<Item = &'a str>,
    proxies: &[ProxyNetwork],
) -> IpAddr {
    let mut nearest = peer.to_canonical();
    let entries = forwarded_for.rev().flat_map(|value| value.rsplit(','));
    for entry in entries.take(ENTRIES) {
        if !is_proxy(proxies, nearest) {
            break;
        }
        let Some(address) = entry_address(entry.trim()) else {
            break;
        };
        nearest = address.to_canonical();
    }
    nearest
}

/// Parses an entry: an address, or an address with a port, which some proxies add.
fn entry_address(entry: &str) -> Option<IpAddr> {
    if let Ok(address) = entry.parse() {
        return Some(address);
    }
    let with_port: Option<std::net::SocketAddr> = entry.parse().ok();
    with_port.map(|at| at.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(text: &str) -> Vec<ProxyNetwork> {
        text.split(' ').map(|one| one.parse().unwrap()).collect()
    }

    fn browser_of(peer: &str, values: &[&str], of: &str) -> String {
        browser(peer.parse().unwrap(), values.iter().copied(), &proxies(of)).to_string()
    }

    #[test]
    fn a_header_counts_from_named_proxies_alone() {
        let one = "127.0.0.1";
        let header = &["203.0.113.7"][..];
        assert_eq!(browser_of("127.0.0.1", header, one), "203.0.113.7");
        assert_eq!(browser_of("::ffff:127.0.0.1", header, one), "203.0.113.7");
        assert_eq!(browser_of("192.0.2.1", header, one), "192.0.2.1");
        assert_eq!(browser_of("127.0.0.1", &[], one), "127.0.0.1");
        // Entries from the browser precede those that the proxy adds.
        let claimed = &["10.0.0.1, 203.0.113.7"][..];
        assert_eq!(browser_of("127.0.0.1", claimed, one), "203.0.113.7");
        let lines = &["10.0.0.1", "203.0.113.7"][..];
        assert_eq!(browser_of("127.0.0.1", lines, one), "203.0.113.7");
        // Two proxies, one behind the other.
        let chain = &["203.0.113.7, 10.1.2.3"][..];
        assert_eq!(browser_of("127.0.0.1", chain, one), "10.1.2.3");
        let two = "127.0.0.1 10.0.0.0/8";
        assert_eq!(browser_of("127.0.0.1", chain, two), "203.0.113.7");
        // Entries with a port, and invalid entries.
        assert_eq!(
            browser_of("127.0.0.1", &["[2001:db8::7]:99"], one),
            "2001:db8::7"
        );
        assert_eq!(
            browser_of("127.0.0.1", &["203.0.113.7:99"], one),
            "203.0.113.7"
        );
        assert_eq!(browser_of("127.0.0.1", &["unknown"], one), "127.0.0.1");
        assert_eq!(browser_of("127.0.0.1", &[""], one), "127.0.0.1");
        // All are proxies.
        let long = vec!["127.0.0.1"; 1000].join(",");
        assert_eq!(browser_of("127.0.0.1", &[&long], one), "127.0.0.1");
    }
}
