//! The discovery of hosts on the network. Answers are limited in number and length, and sanitised for display; they are
//! not trusted.

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use mdns_sd::{IfKind, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent};
use openuvr_clock as clock;
use openuvr_net::address::own_addresses;
use openuvr_proto::printable::printable;
use openuvr_runtime::trust_store::HostStore;

use super::{SERVICE, txt};

/// The wait for answers. A lost query is repeated after a second, and a host may delay its answer at random by up to
/// 120 ms, because other hosts may answer, too (RFC 6762, sections 5.2 and 6).
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

/// The maximum number of hosts (guess: more than in one large room). Known hosts take precedence.
const MAX_HOSTS: usize = 64;

/// The maximum number of addresses per host (guess: Ethernet, Wi-Fi and a tunnel, each with several).
const MAX_ADDRESSES: usize = 8;

/// The maximum length of a displayed name in characters, equal to the maximum length of a label in octets (RFC 1035,
/// section 2.3.4).
const LONGEST_NAME: usize = 63;

/// A discovered host, as described by an unauthenticated answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DiscoveredHost {
    /// Its name, sanitised for display.
    pub(super) name: String,
    /// The claimed fingerprint of its key.
    pub(super) fingerprint: String,
    /// Whether it claims that pairing is open.
    pub(super) pairs: bool,
    /// Its addresses, best first; at least one.
    pub(super) addresses: Vec<Address>,
    /// The address under which a host with this fingerprint is stored.
    pub(super) known_as: Option<String>,
}

/// An address, with its interface if it is link-local.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Address {
    pub(super) address: SocketAddr,
    interface: Option<String>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(name) => write!(f, "[{}%{name}]:{}", self.address.ip(), self.address.port()),
            None => self.address.fmt(f),
        }
    }
}

/// The maximum number of query rounds. Another round follows if an answer was incomplete: the TXT record with the
/// fingerprint is separate, and may be lost, or delayed while a host changes its records.
const ROUNDS: u32 = 3;

/// The hosts discovered at `interface`, or at all interfaces if `interface` is `None`. Known hosts come first. Blocks
/// for [`ANSWER_TIMEOUT`] per query round.
///
/// # Errors
/// Returns one line if there is no network or multicast DNS is unavailable.
pub(super) fn search(
    known: &HostStore,
    interface: Option<&str>,
) -> Result<Vec<DiscoveredHost>, String> {
    let own =
        own_addresses().map_err(|why| format!("can't list this machine's addresses: {why}"))?;
    if own.is_empty() {
        return Err("no network: no active interface has an address".into());
    }
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let complete = query(known, interface, &mut found);
        if complete.map_err(|why| format!("can't search for hosts through mDNS: {why}"))? {
            break;
        }
    }
    found.sort_by_key(|host| (host.known_as.is_none(), host.name.clone()));
    Ok(found)
}

/// Sends one query and adds the answers to `found`. Returns whether all answers were complete.
fn query(
    known: &HostStore,
    interface: Option<&str>,
    found: &mut Vec<DiscoveredHost>,
) -> Result<bool, mdns_sd::Error> {
    // Each query uses a new daemon, because a daemon's known answers suppress answers of other machines (RFC 6762,
    // 7.1).
    let daemon = ServiceDaemon::new()?;
    // The loopback interface is not used: hosts on this machine also answer on the other interfaces.
    match interface {
        Some(name) => {
            daemon.disable_interface(IfKind::All)?;
            daemon.enable_interface(IfKind::Name(name.to_owned()))?;
        }
        None => daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?,
    }
    let events = daemon.browse(SERVICE)?;
    let mut incomplete = HashSet::new();
    let until = clock::now() + ANSWER_TIMEOUT;
    while let Ok(event) = events.recv_timeout(until.since(clock::now())) {
        if let ServiceEvent::ServiceResolved(service) = event {
            if let Some(host) = parse_answer(&service, known) {
                merge(found, host);
                incomplete.remove(&service.fullname);
            } else if incomplete.len() < MAX_HOSTS {
                incomplete.insert(service.fullname.clone());
            }
        }
        if clock::now() >= until {
            break;
        }
    }
    // The daemon has no announcements to withdraw.
    let _ = daemon.shutdown();
    Ok(incomplete.is_empty())
}

/// Adds a host, or updates its entry. An answer with the same name but another key or port counts as another host, so a
/// stranger cannot replace a known host.
fn merge(found: &mut Vec<DiscoveredHost>, host: DiscoveredHost) {
    let same = |other: &&mut DiscoveredHost| {
        let port = |host: &DiscoveredHost| host.addresses.first().map(|a| a.address.port());
        other.name == host.name
            && other.fingerprint == host.fingerprint
            && port(other) == port(&host)
    };
    if let Some(other) = found.iter_mut().find(same) {
        // An answer on one interface does not withdraw the addresses on another interface.
        let mut addresses = host.addresses;
        addresses.append(&mut other.addresses);
        other.addresses = sorted(addresses);
        other.pairs = host.pairs;
        return;
    }
    if found.len() >= MAX_HOSTS {
        let stranger = found.iter().position(|other| other.known_as.is_none());
        match stranger {
            Some(at) if host.known_as.is_some() => _ = found.remove(at),
            _ => return,
        }
    }
    found.push(host);
}

/// Parses an answer; `None` if it has no usable address, no port or no fingerprint.
fn parse_answer(service: &ResolvedService, known: &HostStore) -> Option<DiscoveredHost> {
    let name = service.fullname.strip_suffix(SERVICE)?;
    let name = printable(name.strip_suffix('.').unwrap_or(name));
    let name: String = name.trim().chars().take(LONGEST_NAME).collect();
    let addresses = service.addresses.iter().filter_map(|ip| {
        let (ip, interface) = match ip {
            ScopedIp::V4(v4) => (IpAddr::from(*v4.addr()), None),
            ScopedIp::V6(v6) => (IpAddr::from(*v6.addr()), Some(v6.scope_id())),
            _ => return None,
        };
        let (index, interface) = interface.map_or((0, ""), |id| (id.index, &id.name));
        usable_address(ip, service.port, index, interface)
    });
    let addresses = sorted(addresses.collect());
    if addresses.is_empty() || service.port == 0 {
        return None;
    }
    let value = |key| service.get_property_val_str(key).unwrap_or_default();
    let fingerprint = Some(value(txt::KEY)).filter(|text| is_fingerprint(text));
    let fingerprint = fingerprint?.to_owned();
    Some(DiscoveredHost {
        known_as: known.address_of(&fingerprint).map(str::to_owned),
        pairs: value(txt::PAIRING) == txt::OPEN,
        name,
        fingerprint,
        addresses,
    })
}

/// An address at which other machines reach the host; `None` for any other address.
fn usable_address(ip: IpAddr, port: u16, index: u32, interface: &str) -> Option<Address> {
    let ip = ip.to_canonical();
    let unusable = ip.is_loopback() || ip.is_unspecified() || ip.is_multicast();
    let unusable = unusable || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    // A link-local address is valid only with an interface (RFC 4007, section 6).
    let local = |v6: Ipv6Addr| v6.is_unicast_link_local();
    let (address, interface) = match ip {
        _ if unusable => return None,
        IpAddr::V6(v6) if local(v6) && (index == 0 || interface.is_empty()) => return None,
        IpAddr::V6(v6) if local(v6) => (
            SocketAddrV6::new(v6, port, 0, index).into(),
            Some(printable(interface)),
        ),
        ip => (SocketAddr::new(ip, port), None),
    };
    Some(Address { address, interface })
}

/// The distinct addresses in order of reliability: first IPv4, for which most hosts and firewalls are configured, then
/// IPv6, then link-local IPv6 addresses. At most [`MAX_ADDRESSES`].
fn sorted(mut addresses: Vec<Address>) -> Vec<Address> {
    let mut seen = HashSet::new();
    addresses.retain(|address| seen.insert(address.clone()));
    addresses.sort_by_key(|one| (one.interface.is_some(), one.address));
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

/// Whether the text is a fingerprint: four groups of four hexadecimal digits.
fn is_fingerprint(text: &str) -> bool {
    let hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 19
        && text.bytes().enumerate().all(|(at, byte)| match at % 5 {
            4 => byte == b'-',
            _ => hex(byte),
        })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn host(
        name: &str,
        fingerprint: &str,
        known_as: Option<&str>,
    ) -> DiscoveredHost {
        DiscoveredHost {
            name: name.to_owned(),
            fingerprint: fingerprint.to_owned(),
            pairs: false,
            addresses: vec![usable_address("192.0.2.7".parse().unwrap(), 4710, 0, "").unwrap()],
            known_as: known_as.map(str::to_owned),
        }
    }

    #[test]
    fn only_unicast_addresses_are_used() {
        let taken = |text: &str, index, interface| {
            usable_address(text.parse().unwrap(), 4710, index, interface).map(|a| a.to_string())
        };
        for unusable in [
            "127.0.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "224.0.0.251",
            "ff02::fb",
            "255.255.255.255",
            "::ffff:127.0.0.1",
        ] {
            assert_eq!(taken(unusable, 2, "eth0"), None, "{unusable}");
        }
        assert_eq!(taken("192.0.2.7", 2, "eth0").unwrap(), "192.0.2.7:4710");
        assert_eq!(
            taken("2001:db8::1", 2, "eth0").unwrap(),
            "[2001:db8::1]:4710"
        );
        assert_eq!(taken("fe80::1", 2, "eth0").unwrap(), "[fe80::1%eth0]:4710");
        assert_eq!(taken("fe80::1", 0, ""), None);
        let scoped = usable_address("fe80::1".parse().unwrap(), 1, 7, "wlan0").unwrap();
        let SocketAddr::V6(v6) = scoped.address else {
            panic!("{scoped}");
        };
        assert_eq!(v6.scope_id(), 7);
    }

    #[test]
    fn a_name_with_another_key_is_another_host() {
        let mut found = Vec::new();
        let desk = host("desk", "0123-4567-89ab-cdef", Some("desk:4710"));
        merge(&mut found, desk.clone());
        merge(&mut found, host("desk", "ffff-4567-89ab-cdef", None));
        merge(&mut found, desk.clone());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], desk);
    }

    #[test]
    fn a_flood_of_answers_is_bounded_and_drops_strangers() {
        let mut found = Vec::new();
        for n in 0..10 * MAX_HOSTS {
            merge(&mut found, host(&format!("stranger {n}"), "", None));
        }
        assert_eq!(found.len(), MAX_HOSTS);
        merge(&mut found, host("desk", "0123-4567-89ab-cdef", Some("d")));
        assert_eq!(found.len(), MAX_HOSTS);
        assert!(found.iter().any(|host| host.name == "desk"));
        for n in (0..).take(2 * MAX_ADDRESSES) {
            let mut desk = host("desk", "0123-4567-89ab-cdef", Some("d"));
            desk.addresses = vec![usable_address([192, 0, 2, n].into(), 4710, 0, "").unwrap()];
            merge(&mut found, desk);
        }
        let desk = found.iter().find(|host| host.name == "desk").unwrap();
        assert_eq!(desk.addresses.len(), MAX_ADDRESSES);
    }

    #[test]
    fn fingerprints_have_one_form() {
        assert!(is_fingerprint("0123-4567-89ab-cdef"));
        for text in [
            "",
            "0123-4567-89AB-CDEF",
            "0123-4567-89ab-cde",
            "0123456789abcdef012",
            "0123-4567-89ab-cd\u{1b}f",
        ] {
            assert!(!is_fingerprint(text), "{text:?}");
        }
    }
}
