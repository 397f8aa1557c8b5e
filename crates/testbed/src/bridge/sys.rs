//! A packet socket bound to one interface, and the interface's receive offload, which neither the
//! standard library nor rustix supports. Linux only (packet(7), netdevice(7)).
#![allow(unsafe_code)]
// Small values, such as the lengths of C structures, are converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::raw_cables::sys::{bind, unbound};

/// <linux/ethtool.h>: read and set generic receive offload.
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Opens a non-blocking packet socket. It receives each frame that arrives at the interface, but none that leaves it.
/// Frames sent to the socket leave through the interface. Each frame is preceded by the header of [`super::offload`].
pub(super) fn open(interface: u32) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    set(&socket, libc::PACKET_VNET_HDR, 1)?;
    set(&socket, libc::PACKET_IGNORE_OUTGOING, 1)?;
    // SAFETY: the structure consists of integers and an array of integers, for which zeros are valid.
    let mut membership: libc::packet_mreq = unsafe { zeroed() };
    membership.mr_ifindex = interface as i32;
    membership.mr_type = libc::PACKET_MR_PROMISC as u16;
    set(&socket, libc::PACKET_ADD_MEMBERSHIP, membership)?;
    bind(&socket, interface)?;
    Ok(socket)
}

/// Whether the interface merges received frames (GRO) before a packet socket sees them.
pub(super) fn is_gro_enabled(socket: &OwnedFd, name: &str) -> io::Result<bool> {
    ethtool(socket, name, ETHTOOL_GGRO, 0).map(|value| value != 0)
}

/// Switches GRO on or off (needs CAP_NET_ADMIN).
pub(super) fn set_gro(socket: &OwnedFd, name: &str, on: bool) -> io::Result<()> {
    ethtool(socket, name, ETHTOOL_SGRO, u32::from(on)).map(drop)
}

fn set<T>(socket: &OwnedFd, option: i32, value: T) -> io::Result<()> {
    // SAFETY: `value` is readable for its size, and the kernel copies it.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const value).cast(),
            size_of::<T>() as u32,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

fn ethtool(socket: &OwnedFd, name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = Value { command, data };
    // SAFETY: the structure consists of integers, arrays and pointers, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request points to a `Value`, which these commands read and write. Both outlive the call.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if rc == 0 {
        Ok(value.data)
    } else {
        Err(io::Error::last_os_error())
    }
}
