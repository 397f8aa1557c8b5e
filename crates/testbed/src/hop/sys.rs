//! Receives a datagram with its traffic class, which neither the standard library nor rustix supports.
#![allow(unsafe_code)]
// Small values, such as the lengths of C structures, are converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation)]

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd as _;

/// A received datagram.
pub(super) struct Received {
    pub(super) len: usize,
    pub(super) from: SocketAddr,
    /// The octet of DSCP and ECN; `None` if the socket does not report it.
    pub(super) class: Option<u8>,
}

/// Receives a datagram into `buffer`.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    // SAFETY: both structures consist of integers and pointers, for which zeros are valid.
    let (mut name, mut message): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (zeroed(), zeroed()) };
    // Room for the control messages, aligned for their headers.
    let mut control = [0_u64; 8];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points to `name`, `part`, `buffer` and `control`, which are writable for the given sizes and
    // outlive the call.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    let from = address(&name).ok_or(io::ErrorKind::AddrNotAvailable)?;
    let class = traffic_class(&message);
    Ok(Received { len, from, class })
}

/// The traffic class among the control messages of a header that recvmsg has filled.
fn traffic_class(message: &libc::msghdr) -> Option<u8> {
    // SAFETY: recvmsg has filled the header, and its control buffer, which belongs to the caller, is alive.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or an aligned header within the control buffer.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        // SAFETY: the header is within the control buffer, and so are its data.
        let data = unsafe { libc::CMSG_DATA(header) };
        match (level, kind) {
            // SAFETY: the kernel sends one byte with IP_TOS (ip(7)).
            (libc::IPPROTO_IP, libc::IP_TOS) => return Some(unsafe { data.read() }),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // SAFETY: the kernel sends an int with IPV6_TCLASS (RFC 3542, section 6.5), of any alignment.
                let class = unsafe { data.cast::<i32>().read_unaligned() };
                return u8::try_from(class).ok();
            }
            _ => {}
        }
        // SAFETY: as for CMSG_FIRSTHDR; `header` came from these functions.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let name_pointer: *const libc::sockaddr_storage = name;
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family implies a sockaddr_in, and the storage is aligned for it.
            let name = unsafe { name_pointer.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family implies a sockaddr_in6, and the storage is aligned for it.
            let name = unsafe { name_pointer.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, name.sin6_flowinfo, name.sin6_scope_id).into())
        }
        _ => None,
    }
}
