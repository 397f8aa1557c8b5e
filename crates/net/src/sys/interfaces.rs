//! The interfaces of this machine (getifaddrs(3)).

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::ether::Mac;

/// The interfaces for raw Ethernet that match a bound address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InterfaceMatch {
    /// All interfaces, because the address is unspecified.
    All,
    /// The interface with the address, by its index.
    One(u32),
    /// No interface, because the address is a loopback address and has no neighbours.
    Loopback,
    /// No interface has the address, although it can be bound.
    NotFound,
}

/// The loopback device's index in every network namespace (`LOOPBACK_IFINDEX`, net/flow.h).
pub(crate) const LOOPBACK: u32 = 1;

/// The interface of an address. An unknown address is `NotFound`, never `All`. Several interfaces, such as an interface
/// and its VLANs, may have the same link-local address. Therefore, the scope ID of such an address states the
/// interface.
pub(crate) fn interface_of(address: SocketAddr) -> io::Result<InterfaceMatch> {
    let own = address.ip().to_canonical();
    if own.is_unspecified() {
        return Ok(InterfaceMatch::All);
    }
    if own.is_loopback() {
        return Ok(InterfaceMatch::Loopback);
    }
    let scope = match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let mut found = InterfaceMatch::NotFound;
    each(|name, of| {
        if matches!(of, InterfaceAddress::Ip { ip, .. } if ip == own) {
            found = match index(name) {
                0 => InterfaceMatch::NotFound,
                other if scope != 0 && other != scope => return,
                LOOPBACK => InterfaceMatch::Loopback,
                index => InterfaceMatch::One(index),
            };
        }
    })?;
    Ok(found)
}

/// The IP addresses of the interfaces that are up, without loopback addresses.
pub(crate) fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut all = Vec::new();
    each(|_, of| match of {
        InterfaceAddress::Ip { ip, up: true } if !ip.is_loopback() => all.push(ip),
        _ => {}
    })?;
    Ok(all)
}

/// The Ethernet addresses of the interfaces that are up, without the loopback device.
pub(crate) fn stations() -> io::Result<Vec<(String, Mac)>> {
    let mut all = Vec::new();
    each(|name, of| {
        if let InterfaceAddress::Ethernet(mac) = of {
            all.push((name.to_string_lossy().into_owned(), mac));
        }
    })?;
    Ok(all)
}

/// The Ethernet address of an interface; zeros for the loopback device.
#[cfg(feature = "xdp")]
pub(crate) fn mac_of(interface: u32) -> io::Result<Mac> {
    let mut found = Mac::default();
    each(|name, of| {
        if let InterfaceAddress::Ethernet(mac) = of
            && index(name) == interface
        {
            found = mac;
        }
    })?;
    Ok(found)
}

/// The index of the interface of this name; 0 if there is none.
pub(crate) fn index_of(name: &str) -> u32 {
    CString::new(name).map_or(0, |name| index(&name))
}

fn index(name: &CStr) -> u32 {
    // SAFETY: `name` ends with a zero.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

enum InterfaceAddress {
    Ip { ip: IpAddr, up: bool },
    Ethernet(Mac),
}

fn each(mut see: impl FnMut(&CStr, InterfaceAddress)) -> io::Result<()> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is a local variable, to which the call writes a list. The list is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut next = first;
    // SAFETY: every entry of the list is valid until it is freed, its name ends with a zero, and its address has the
    // structure that its family implies.
    unsafe {
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            if entry.ifa_addr.is_null() {
                continue;
            }
            let up = entry.ifa_flags & libc::IFF_UP as u32 != 0;
            let of = match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let name: libc::sockaddr_in = entry.ifa_addr.cast::<libc::sockaddr_in>().read();
                    let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()).into();
                    InterfaceAddress::Ip { ip, up }
                }
                libc::AF_INET6 => {
                    let name = entry.ifa_addr.cast::<libc::sockaddr_in6>().read();
                    let ip = Ipv6Addr::from(name.sin6_addr.s6_addr).into();
                    InterfaceAddress::Ip { ip, up }
                }
                libc::AF_PACKET => {
                    let name = entry.ifa_addr.cast::<libc::sockaddr_ll>().read();
                    if name.sll_hatype != libc::ARPHRD_ETHER || !up {
                        continue;
                    }
                    let [a, b, c, d, e, f, ..] = name.sll_addr;
                    InterfaceAddress::Ethernet(Mac([a, b, c, d, e, f]))
                }
                _ => continue,
            };
            see(CStr::from_ptr(entry.ifa_name), of);
        }
        libc::freeifaddrs(first);
    }
    Ok(())
}
