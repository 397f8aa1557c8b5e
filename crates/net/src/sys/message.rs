//! Structures for sendmsg(2) and recvmsg(2): socket addresses, I/O vectors and control messages.

// Lengths of C structures of a few bytes, converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation)]

use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use openuvr_clock::WallTime;

/// Optional control data of a send: source address, segment size and traffic class.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendControl {
    /// The source address, IPv4 mapped.
    pub(crate) from: Option<Ipv6Addr>,
    /// The GSO segment size in bytes.
    pub(crate) segment: Option<u16>,
    /// The traffic class, if it differs from that of the socket.
    pub(crate) traffic_class: Option<u8>,
}

/// A buffer for the control messages that the links use (two of a byte, u16 or int, 24 bytes each; an in6_pktinfo, 40
/// bytes; a timespec, 32 bytes), aligned for a cmsghdr.
#[repr(C, align(8))]
pub(super) struct Control([u8; 120]);

impl Control {
    pub(super) const fn new() -> Control {
        Control([0; 120])
    }

    pub(super) const LEN: usize = size_of::<Control>();

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// Encodes `data` for a datagram to `to` and points `header` to the result. `header` must not outlive the result.
    pub(super) fn fill(&mut self, header: &mut libc::msghdr, to: SocketAddr, data: SendControl) {
        let mut used = 0;
        if let Some(segment) = data.segment {
            used = self.put(used, libc::SOL_UDP, libc::UDP_SEGMENT, segment);
        }
        if let Some(class) = data.traffic_class {
            let class = i32::from(class);
            used = match to {
                SocketAddr::V6(to) if to.ip().to_ipv4_mapped().is_none() => {
                    self.put(used, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)
                }
                // The kernel sends to an IPv4-mapped address over IPv4.
                _ => self.put(used, libc::IPPROTO_IP, libc::IP_TOS, class),
            };
        }
        match (data.from, to) {
            (Some(from), SocketAddr::V4(_)) => {
                let ip = from
                    .to_ipv4_mapped()
                    .map_or(0, |ip| u32::from_ne_bytes(ip.octets()));
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: ip },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                used = self.put(used, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            (Some(from), SocketAddr::V6(to)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: from.octets(),
                    },
                    ipi6_ifindex: to.scope_id(),
                };
                used = self.put(used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
            (None, _) => {}
        }
        header.msg_control = if used == 0 {
            std::ptr::null_mut()
        } else {
            self.as_mut_ptr()
        };
        header.msg_controllen = used as _;
    }

    /// Appends a control message after the first `used` bytes. Returns the new length.
    fn put<T: Copy>(&mut self, used: usize, level: i32, kind: i32, value: T) -> usize {
        // SAFETY: CMSG_SPACE and CMSG_LEN only do arithmetic.
        let (space, len) = unsafe {
            let size = size_of::<T>() as u32;
            (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size))
        };
        assert!(used + space <= Control::LEN);
        // SAFETY: `used` is a sum of CMSG_SPACEs, so the address is aligned for a cmsghdr, and the
        // assertion above ensures space for the header and a `T`.
        unsafe {
            let cmsg: *mut libc::cmsghdr = self.0.as_mut_ptr().add(used).cast();
            (*cmsg).cmsg_level = level;
            (*cmsg).cmsg_type = kind;
            (*cmsg).cmsg_len = len as _;
            libc::CMSG_DATA(cmsg).cast::<T>().write_unaligned(value);
        }
        used + space
    }
}

/// The control data of a received datagram.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReceivedControl {
    /// The size of each coalesced datagram (GRO), except the last.
    pub(super) segment: Option<usize>,
    /// The local destination address.
    pub(super) to: Option<IpAddr>,
    /// Arrival time.
    pub(super) stamp: Option<WallTime>,
    /// The traffic class of the IP header.
    pub(super) traffic_class: Option<u8>,
}

/// Parses the control messages of a header that recvmsg or recvmmsg has filled.
///
/// # Safety
/// `msg_control` and `msg_controllen` of the header must be as the kernel left them, and the buffer
/// alive.
pub(super) unsafe fn parse_control(header: &libc::msghdr) -> ReceivedControl {
    let mut control = ReceivedControl::default();
    // SAFETY: the caller ensures that the control messages are valid, as this function requires. The data behind a
    // header is an int for UDP_GRO and IPV6_TCLASS, a byte for IP_TOS, a timespec for SCM_TIMESTAMPNS (socket(7)), and
    // the structure named below for each of the two PKTINFOs (ip(7), ipv6(7)).
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(header);
        while !cmsg.is_null() {
            let data = libc::CMSG_DATA(cmsg);
            match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<i32>().read_unaligned();
                    control.segment = usize::try_from(size).ok().filter(|size| *size > 0);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at = data.cast::<libc::timespec>().read_unaligned();
                    control.stamp = Some(WallTime::new(at.tv_sec, at.tv_nsec));
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    control.traffic_class = Some(data.read());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = data.cast::<i32>().read_unaligned();
                    control.traffic_class = u8::try_from(class).ok();
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    let ip = info.ipi_spec_dst.s_addr.to_ne_bytes();
                    control.to = Some(IpAddr::from(ip));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    // A multicast group cannot be a source address.
                    let ip = IpAddr::from(info.ipi6_addr.s6_addr);
                    control.to = (!ip.is_multicast()).then_some(ip);
                }
                _ => {}
            }
            cmsg = libc::CMSG_NXTHDR(header, cmsg);
        }
    }
    control
}

pub(super) fn iovec(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        // Send calls take a mutable pointer but do not write through it.
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// A socket address in the kernel's format.
pub(super) struct Name {
    storage: libc::sockaddr_storage,
    pub(super) len: u32,
}

impl Name {
    pub(super) fn new(address: SocketAddr) -> Name {
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
        let target = &raw mut storage;
        let len = match address {
            SocketAddr::V4(v4) => {
                let name = libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is large enough and aligned for every address family.
                unsafe { target.cast::<libc::sockaddr_in>().write(name) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let name = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: sockaddr_storage is large enough and aligned for every address family.
                unsafe { target.cast::<libc::sockaddr_in6>().write(name) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Name {
            storage,
            len: len as u32,
        }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        (&raw mut self.storage).cast()
    }
}

pub(super) fn address_in(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let source = std::ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family implies a sockaddr_in; any bits are valid for it.
            let name = unsafe { source.cast::<libc::sockaddr_in>().read() };
            let ip = name.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family implies a sockaddr_in6; any bits are valid for it.
            let name = unsafe { source.cast::<libc::sockaddr_in6>().read() };
            let ip = name.sin6_addr.s6_addr.into();
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}
