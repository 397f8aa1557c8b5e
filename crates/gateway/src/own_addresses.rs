//! The addresses of this machine.

use std::net::IpAddr;

/// The addresses of this machine that usually do not change: IPv4 addresses except for link-local and loopback
/// addresses, and unique local IPv6 addresses (RFC 4193).
pub(crate) fn own_addresses() -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let addresses = all.into_iter().map(|interface| interface.ip());
    let lasts = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    };
    addresses.filter(lasts).collect()
}
