//! Packet sockets, network namespaces and segmentation offload (packet(7), network_namespaces(7), udp(7)), which
//! neither the standard library nor rustix supports. Linux only.
#![allow(unsafe_code)]
// Small values, such as the lengths of C structures, are converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `ETH_P_ALL` in network byte order, which means frames of every type.
const EVERY_TYPE: u16 = (libc::ETH_P_ALL as u16).to_be();

/// Opens a non-blocking packet socket that receives each frame that arrives at the interface `name`. Frames that the
/// kernel has merged stay merged.
///
/// # Errors
/// Returns the system's error, for example for a missing privilege (CAP_NET_RAW).
pub fn open(name: &str) -> io::Result<OwnedFd> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: `name` is a C string that outlives the call.
    let interface = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let socket = unbound()?;
    bind(&socket, interface)?;
    Ok(socket)
}

/// A non-blocking packet socket that receives nothing yet.
pub(crate) fn unbound() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0: nothing is received before the socket is bound to its interface.
    // SAFETY: no pointers; the result is checked before use.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds the socket to frames of every type at the interface with this index.
pub(crate) fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    // SAFETY: the structure consists of integers and an array of integers, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = EVERY_TYPE;
    address.sll_ifindex = interface as i32;
    // SAFETY: `address` is readable for the length given.
    let rc = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as u32,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Moves the calling thread to a new network namespace.
pub(super) fn new_network() -> io::Result<()> {
    // SAFETY: no pointers; concerns only the calling thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sends `bytes` in one call. The kernel or the network card segments them into datagrams of `segment` bytes (udp(7),
/// `UDP_SEGMENT`).
///
/// # Errors
/// Returns the system's error.
pub fn send_segmented(
    socket: &std::net::UdpSocket,
    to: &str,
    bytes: &[u8],
    segment: i32,
) -> io::Result<usize> {
    // SAFETY: `segment` is readable for its size.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const segment).cast(),
            size_of::<i32>() as u32,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    socket.send_to(bytes, to)
}
