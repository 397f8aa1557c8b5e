//! UDP socket calls that the standard library does not have: options before bind, segmentation
//! offload both ways, many datagrams in one call. Linux only.

// Lengths of C structures of a few bytes, converted to the integer types of the C interfaces.
#![allow(clippy::cast_possible_truncation)]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The most datagrams that [`send_many`] and [`receive_many`] move in one call, and the most
/// segments of one [`send_segmented`]: `UDP_MAX_SEGMENTS` of Linux before 6.9 (128 since).
pub(crate) const MAX_BATCH: usize = 64;

/// One received message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) from: Option<SocketAddr>,
    /// Bytes in its slot.
    pub(crate) len: usize,
    /// The datagrams that the kernel joined are this long each, but the last.
    pub(crate) segment: Option<usize>,
    /// It did not fit into its slot.
    pub(crate) truncated: bool,
}

/// A bound UDP socket. An IPv6 one takes IPv4 as well if its address is `::`.
pub(crate) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: no pointers; the result is checked before use.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and nobody else owns it.
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
pub(crate) fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` is readable for the length given.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
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
pub(crate) fn read(socket: &UdpSocket, level: i32, option: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut len = LEN_OF_INT;
    // SAFETY: `value` is writable for `len` bytes, and the kernel writes no more than that.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
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

/// Sends one datagram.
pub(crate) fn send_one(socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
    let name = Name::new(to);
    // SAFETY: `bytes` and `name` are valid for the lengths given.
    let n = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            SEND_FLAGS,
            name.as_ptr(),
            name.len,
        )
    };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends `bytes` as datagrams of `segment` bytes each in one call: the kernel (or the network
/// card) cuts them. At most [`MAX_BATCH`] segments and 65 507 bytes.
pub(crate) fn send_segmented(
    socket: &UdpSocket,
    to: SocketAddr,
    bytes: &[u8],
    segment: u16,
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
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as _;
    // SAFETY: the control buffer is aligned for a cmsghdr (see Control) and longer than
    // msg_controllen, so CMSG_FIRSTHDR is not null and its data has room for a u16.
    unsafe {
        let cmsg = libc::CMSG_FIRSTHDR(&raw const header);
        (*cmsg).cmsg_level = libc::SOL_UDP;
        (*cmsg).cmsg_type = libc::UDP_SEGMENT;
        (*cmsg).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
        libc::CMSG_DATA(cmsg).cast::<u16>().write_unaligned(segment);
    }
    // SAFETY: `header` points to `name`, `part`, `bytes` and `control`, which all outlive the call.
    let n = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, SEND_FLAGS) };
    if n < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Sends the first [`MAX_BATCH`] (or fewer) datagrams that lie one behind the other in `bytes`,
/// and returns how many the kernel took: at least one.
pub(crate) fn send_many(
    socket: &UdpSocket,
    to: SocketAddr,
    bytes: &[u8],
    segment: usize,
) -> io::Result<usize> {
    let mut name = Name::new(to);
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
        count += 1;
    }
    // SAFETY: the first `count` headers point to `name`, `parts` and `bytes`, which outlive the
    // call; sendmmsg only reads the datagrams.
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

/// Takes what is there without waiting: message `i` into `bytes[i * slot..][..slot]`. Returns how
/// many of `messages` were filled.
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
        header.msg_control = controls[i].0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
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
        messages[i] = Message {
            from: address_in(&names[i]),
            len: headers[i].msg_len as usize,
            segment: joined_segment(&headers[i].msg_hdr),
            truncated: headers[i].msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
    }
    Ok(n)
}

const SEND_FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const LEN_OF_INT: u32 = size_of::<i32>() as u32;

/// Room for the one control message that we send or ask for (a u16 or an int: 24 bytes), aligned
/// for a cmsghdr.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl Control {
    const fn new() -> Control {
        Control([0; 64])
    }
}

/// The length of the joined datagrams, if the kernel joined some.
fn joined_segment(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: after recvmmsg, msg_control and msg_controllen describe valid control messages in a
    // buffer that the caller still holds; an int follows the header of a UDP_GRO message.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(header);
        while !cmsg.is_null() {
            if (*cmsg).cmsg_level == libc::SOL_UDP && (*cmsg).cmsg_type == libc::UDP_GRO {
                let size = libc::CMSG_DATA(cmsg).cast::<i32>().read_unaligned();
                return usize::try_from(size).ok().filter(|size| *size > 0);
            }
            cmsg = libc::CMSG_NXTHDR(header, cmsg);
        }
    }
    None
}

fn iovec(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        // The calls that send take a pointer to mutable bytes but do not write to them.
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// A socket address as the kernel wants it.
struct Name {
    storage: libc::sockaddr_storage,
    len: u32,
}

impl Name {
    fn new(address: SocketAddr) -> Name {
        // SAFETY: all-zero is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
        let place = &raw mut storage;
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
                unsafe { place.cast::<libc::sockaddr_in>().write(name) };
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
                // SAFETY: as above.
                unsafe { place.cast::<libc::sockaddr_in6>().write(name) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        Name {
            storage,
            len: len as u32,
        }
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        (&raw mut self.storage).cast()
    }
}

fn address_in(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = std::ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that a sockaddr_in lies here; any bits are valid for it.
            let name = unsafe { place.cast::<libc::sockaddr_in>().read() };
            let ip = name.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddrV4::new(ip, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that a sockaddr_in6 lies here; any bits are valid for it.
            let name = unsafe { place.cast::<libc::sockaddr_in6>().read() };
            let ip = name.sin6_addr.s6_addr.into();
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}
