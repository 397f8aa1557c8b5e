//! Packet sockets (packet(7)): Ethernet frames without IP, many in one call.

// Lengths of C structures of a few bytes, converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::message::{Control, iovec, parse_control};
use super::socket::{MAX_BATCH, set};
use crate::ether::{ETHER_TYPE, MAGIC, Mac, PREFIX, Station};
use openuvr_clock::WallTime;

/// A socket for frames of [`ETHER_TYPE`] to this port and this machine, on one interface or on all
/// (index 0).
pub(crate) fn open(interface: u32, port: u16) -> io::Result<OwnedFd> {
    // With protocol 0, the socket receives no frames. The protocol is set only after the filter is attached.
    // SAFETY: the call takes no pointers, and its result is checked before use.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    attach(&socket, &filter(port))?;
    // Kernels before 4.20 lack this option, and the filter drops outgoing frames by their packet type.
    let _ = set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
    let name = name_of(interface, Mac::default());
    // SAFETY: `name` is a sockaddr_ll, and has the given length.
    let rc = unsafe { libc::bind(fd, (&raw const name).cast(), LEN_OF_NAME) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Accepts unicast frames to this machine with [`MAGIC`] and `port`: a program in classic BPF (linux/filter.h). It sees
/// only the payload, and its loads use network byte order.
fn filter(port: u16) -> [libc::sock_filter; 8] {
    const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// `SKF_AD_OFF + SKF_AD_PKTTYPE`.
    const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
    let step = |code, k, otherwise| libc::sock_filter {
        code,
        jt: 0,
        jf: otherwise,
        k,
    };
    [
        step(LOAD_HALF, 0, 0),
        step(JUMP_IF_EQUAL, u16::from_be_bytes(MAGIC).into(), 5),
        step(LOAD_HALF, 4, 0),
        step(JUMP_IF_EQUAL, port.swap_bytes().into(), 3),
        step(LOAD_WORD, PACKET_TYPE, 0),
        step(JUMP_IF_EQUAL, libc::PACKET_HOST.into(), 1),
        step(RETURN, u32::from(u16::MAX), 0),
        step(RETURN, 0, 0),
    ]
}

fn attach(socket: &OwnedFd, filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        // The kernel only reads the filter.
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: `program` contains the address and the length of `filter`, which outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as u32,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sends up to [`MAX_BATCH`] of the contiguous datagrams in `bytes`, each with its prefix in its own frame. Returns how many
/// the kernel accepted, which is at least one.
pub(crate) fn send_many(
    socket: BorrowedFd<'_>,
    to: Station,
    prefix: impl Fn(usize) -> [u8; PREFIX],
    bytes: &[u8],
    segment: usize,
) -> io::Result<usize> {
    let mut name = name_of(to.interface, to.mac);
    let mut prefixes = [[0; PREFIX]; MAX_BATCH];
    // SAFETY: all-zero is valid for plain C structures.
    let mut parts: [[libc::iovec; 2]; MAX_BATCH] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; MAX_BATCH] = unsafe { zeroed() };
    let mut count = 0;
    for (i, datagram) in bytes.chunks(segment).take(MAX_BATCH).enumerate() {
        prefixes[i] = prefix(datagram.len());
        parts[i] = [iovec(&prefixes[i]), iovec(datagram)];
        let header = &mut headers[i].msg_hdr;
        header.msg_name = (&raw mut name).cast();
        header.msg_namelen = LEN_OF_NAME;
        header.msg_iov = (&raw mut parts[i]).cast();
        header.msg_iovlen = 2;
        count += 1;
    }
    // SAFETY: the first `count` headers point to `name`, `parts`, `prefixes` and `bytes`, which
    // outlive the call; sendmmsg only reads them.
    let n = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// One received frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    /// The local interface, and the sender's address. The sender's port is in the payload.
    pub(crate) interface: u32,
    pub(crate) mac: Mac,
    /// Bytes in the frame's slot.
    pub(crate) len: usize,
    /// Arrival time, if the socket has timestamps.
    pub(crate) stamp: Option<WallTime>,
}

/// Receives the pending frames without waiting: payload `i` goes into `bytes[i * slot..][..slot]`, truncated to the slot.
/// Returns how many of `frames` were filled.
pub(crate) fn receive_many(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    slot: usize,
    frames: &mut [Frame; MAX_BATCH],
) -> io::Result<usize> {
    // SAFETY: all-zero is valid for plain C structures.
    let mut names: [libc::sockaddr_ll; MAX_BATCH] = unsafe { zeroed() };
    let mut controls = [const { Control::new() }; MAX_BATCH];
    // SAFETY: as above.
    let mut parts: [libc::iovec; MAX_BATCH] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; MAX_BATCH] = unsafe { zeroed() };
    let mut count = 0;
    for (i, room) in bytes.chunks_exact_mut(slot).take(MAX_BATCH).enumerate() {
        parts[i] = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let header = &mut headers[i].msg_hdr;
        header.msg_name = (&raw mut names[i]).cast();
        header.msg_namelen = LEN_OF_NAME;
        header.msg_iov = &raw mut parts[i];
        header.msg_iovlen = 1;
        header.msg_control = controls[i].as_mut_ptr();
        header.msg_controllen = Control::LEN as _;
        count += 1;
    }
    // SAFETY: the first `count` headers point to their own name, control buffer and slot, which are
    // writable for the lengths given and outlive the call.
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
        let (interface, mac) = sender(&names[i]);
        // SAFETY: the kernel has filled this header, and its control buffer is in `controls`.
        let control = unsafe { parse_control(&headers[i].msg_hdr) };
        frames[i] = Frame {
            interface,
            mac,
            len: headers[i].msg_len as usize,
            stamp: control.stamp,
        };
    }
    Ok(n)
}

/// The interface of a received frame, and its sender.
pub(super) fn sender(name: &libc::sockaddr_ll) -> (u32, Mac) {
    let [a, b, c, d, e, f, ..] = name.sll_addr;
    let interface = u32::try_from(name.sll_ifindex).unwrap_or(0);
    (interface, Mac([a, b, c, d, e, f]))
}

pub(super) fn name_of(interface: u32, mac: Mac) -> libc::sockaddr_ll {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&mac.0);
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ETHER_TYPE.to_be(),
        sll_ifindex: i32::try_from(interface).unwrap_or(0),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: address,
    }
}

pub(super) const LEN_OF_NAME: u32 = size_of::<libc::sockaddr_ll>() as u32;
