//! UDP socket calls that the standard library lacks: options before bind, GSO and GRO, and many datagrams in one call. Linux
//! only.

// Lengths of C structures of a few bytes, converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation)]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::message::{Control, Name, SendControl, address_in, iovec, parse_control};
use openuvr_clock::WallTime;

/// Maximum datagrams of one [`send_many`] or [`receive_many`], and maximum segments of one GSO [`send`]: `UDP_MAX_SEGMENTS`
/// of Linux before 6.9 (128 since).
pub(crate) const MAX_BATCH: usize = 64;

/// Receive buffer of every transport, in bytes. With the system's default (208 KiB, about 90 packets by its
/// own accounting), 48 of 59 key frames of 140 kB were lost on a loss-free link; with 4 MiB, none.
pub(crate) const RECEIVE_BUFFER: u32 = 4 << 20;

/// Send buffer in bytes: enough for several key frames, because the datagrams that do not fit are lost.
pub(crate) const SEND_BUFFER: u32 = 2 << 20;

/// One received message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) from: Option<SocketAddr>,
    /// The local destination address, if packet info is enabled.
    pub(crate) to: Option<IpAddr>,
    /// Bytes in its slot.
    pub(crate) len: usize,
    /// The size of each coalesced datagram (GRO), except the last.
    pub(crate) segment: Option<usize>,
    /// Arrival time, if [timestamps](stamp_arrivals) are enabled.
    pub(crate) stamp: Option<WallTime>,
    /// The traffic class of the IP header, if its reading is enabled.
    pub(crate) traffic_class: Option<u8>,
    /// Whether the datagram did not fit into its slot.
    pub(crate) truncated: bool,
}

/// A bound UDP socket; dual-stack if its address is `::`.
pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: the call takes no pointers, and its result is checked before use.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and has no other owner.
    let socket = UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) });
    if let SocketAddr::V6(v6) = address {
        let only = i32::from(!v6.ip().is_unspecified());
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
    }
    let name = Name::new(address);
    // SAFETY: `name` holds a valid address of the given length.
    if unsafe { libc::bind(fd, name.as_ptr(), name.len) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Sets an integer option.
pub(crate) fn set(socket: impl AsFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is readable for the length given.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(&value).cast(),
            LEN_OF_INT,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an integer option.
pub(crate) fn read(socket: impl AsFd, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut len = LEN_OF_INT;
    // SAFETY: `value` has `len` bytes, and the kernel writes at most `len` bytes.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &raw mut len,
        )
    };
    if rc == 0 {
        Ok(value)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Enables kernel timestamps of received packets (socket(7), `SO_TIMESTAMPNS`). If that fails, logs a warning that
/// begins with `link`, because the receiver's wake-up latency then looks like link delay.
pub(crate) fn stamp_arrivals(socket: impl AsFd, link: &str) {
    if let Err(error) = set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1) {
        tracing::warn!("{link}: cannot enable receive timestamps: {error}");
    }
}

/// Requests a send buffer of `bytes` bytes, beyond the system's limit if the process is privileged.
pub(crate) fn enlarge_send_buffer(socket: impl AsFd, bytes: u32) {
    enlarge(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes);
}

/// Requests a receive buffer like [`enlarge_send_buffer`]. Logs a warning that begins with `link` if the kernel granted
/// less.
pub(crate) fn enlarge_receive_buffer(socket: impl AsFd, link: &str, bytes: u32) {
    let got = enlarge(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes);
    if i64::from(got) < i64::from(bytes) {
        tracing::warn!(
            "{link}: receive buffer is {got} bytes instead of {bytes}: bursts may be lost; raise \
             the limit with `sudo sysctl -w net.core.rmem_max={bytes}`"
        );
    }
}

/// Requests a buffer of `bytes` bytes. Returns the granted size.
fn enlarge(socket: impl AsFd, force: i32, plain: i32, bytes: u32) -> i32 {
    let want = i32::try_from(bytes).unwrap_or(i32::MAX / 2);
    if set(&socket, libc::SOL_SOCKET, force, want).is_err() {
        // Never fails, because the kernel clamps the value.
        let _ = set(&socket, libc::SOL_SOCKET, plain, want);
    }
    // The kernel doubles the requested size for its own accounting (socket(7)).
    read(&socket, libc::SOL_SOCKET, plain).map_or(0, |got| got / 2)
}

/// Sends `bytes` in one call, as one datagram. With GSO, sends them as datagrams of `data.segment` bytes each, at most
/// [`MAX_BATCH`] datagrams and 65 507 bytes.
pub(crate) fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    data: SendControl,
    bytes: &[u8],
) -> io::Result<()> {
    let mut name = Name::new(to);
    let mut part = iovec(bytes);
    let mut control = Control::new();
    // SAFETY: all-zero is a valid msghdr.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.as_mut_ptr();
    header.msg_namelen = name.len;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    control.fill(&mut header, to, data);
    // SAFETY: `header` points to `name`, `part`, `bytes` and `control`, which all outlive the call.
    let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, SEND_FLAGS) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends up to [`MAX_BATCH`] of the contiguous datagrams in `bytes`, and returns how many the kernel accepted, which is at
/// least one.
pub(crate) fn send_many(
    socket: &UdpSocket,
    to: SocketAddr,
    data: SendControl,
    bytes: &[u8],
    segment: usize,
) -> io::Result<usize> {
    let mut name = Name::new(to);
    let mut control = Control::new();
    // SAFETY: all-zero is valid for plain C structures.
    let mut parts: [libc::iovec; MAX_BATCH] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; MAX_BATCH] = unsafe { zeroed() };
    let mut count = 0;
    for ((datagram, part), header) in bytes.chunks(segment).zip(&mut parts).zip(&mut headers) {
        *part = iovec(datagram);
        header.msg_hdr.msg_name = name.as_mut_ptr();
        header.msg_hdr.msg_namelen = name.len;
        header.msg_hdr.msg_iov = std::ptr::from_mut(part);
        header.msg_hdr.msg_iovlen = 1;
        control.fill(&mut header.msg_hdr, to, data);
        count += 1;
    }
    // SAFETY: the first `count` headers point to `name`, `parts`, `control` and `bytes`, which
    // outlive the call; sendmmsg only reads them.
    let n = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            SEND_FLAGS as _,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Receives the pending messages without waiting: message `i` goes into `bytes[i * slot..][..slot]`. Returns how many of
/// `messages` were filled.
pub(crate) fn receive_many(
    socket: &UdpSocket,
    bytes: &mut [u8],
    slot: usize,
    messages: &mut [Message],
) -> io::Result<usize> {
    // SAFETY: all-zero is valid for plain C structures.
    let mut names: [libc::sockaddr_storage; MAX_BATCH] = unsafe { zeroed() };
    let mut controls = [const { Control::new() }; MAX_BATCH];
    // SAFETY: as above.
    let mut parts: [libc::iovec; MAX_BATCH] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; MAX_BATCH] = unsafe { zeroed() };
    let mut count = 0;
    for (i, room) in bytes
        .chunks_exact_mut(slot)
        .take(messages.len().min(MAX_BATCH))
        .enumerate()
    {
        parts[i] = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let header = &mut headers[i].msg_hdr;
        header.msg_name = (&raw mut names[i]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        header.msg_iov = &raw mut parts[i];
        header.msg_iovlen = 1;
        header.msg_control = controls[i].as_mut_ptr();
        header.msg_controllen = Control::LEN as _;
        count += 1;
    }
    // SAFETY: the first `count` headers point to their own name, control buffer and slot, which
    // are writable for the lengths given and outlive the call.
    let n = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    for i in 0..n {
        // SAFETY: the kernel has filled this header, and its control buffer is in `controls`.
        let control = unsafe { parse_control(&headers[i].msg_hdr) };
        messages[i] = Message {
            from: address_in(&names[i]),
            to: control.to,
            len: headers[i].msg_len as usize,
            segment: control.segment,
            stamp: control.stamp,
            traffic_class: control.traffic_class,
            truncated: headers[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
    }
    Ok(n)
}

const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const LEN_OF_INT: u32 = size_of::<i32>() as u32;
