//! A device: its socket, and the file with its description.

use std::ffi::{c_int, c_void};
use std::mem::{offset_of, size_of, zeroed};
use std::ptr;

use openuvr_media::pad::requests::Request;

use crate::folder::{self, InputPath, Name};
use crate::real::{errno, fail, set_errno};

/// Opens a device as `open` would with these flags.
pub(crate) fn connect(device: u32, flags: c_int) -> c_int {
    if flags & libc::O_DIRECTORY != 0 {
        return fail(libc::ENOTDIR);
    }
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | (flags & libc::O_CLOEXEC);
    const { assert!(libc::SOCK_CLOEXEC == libc::O_CLOEXEC) };
    // SAFETY: all arguments are numbers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if fd < 0 {
        return fd;
    }
    let name = Name::socket(device);
    // SAFETY: all fields are plain data, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    #[expect(clippy::cast_possible_truncation, reason = "AF_UNIX is 1")]
    {
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    }
    let last = address.sun_path.len() - 1;
    for (to, byte) in address.sun_path.iter_mut().take(last).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([*byte]);
    }
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_un>()).unwrap_or(0);
    // SAFETY: the address has this length, and outlives the call.
    let connected = unsafe { libc::connect(fd, (&raw const address).cast(), length) };
    if connected != 0 {
        let why = match errno() {
            libc::ENOENT => libc::ENOENT,
            // The socket's backlog is full.
            libc::EAGAIN => libc::EBUSY,
            // The server is gone.
            _ => libc::ENODEV,
        };
        // SAFETY: opened above, with no other owner.
        unsafe { libc::close(fd) };
        return fail(why);
    }
    if flags & libc::O_NONBLOCK == 0 {
        // SAFETY: all arguments are numbers. The call can't fail for a descriptor that is open.
        unsafe { libc::fcntl(fd, libc::F_SETFL, 0) };
    }
    fd
}

/// The device of a descriptor; `None` if this library does not serve the descriptor. Preserves errno.
pub(crate) fn of(fd: c_int) -> Option<u32> {
    let before = errno();
    // SAFETY: all fields are plain data, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::sockaddr_un>()).unwrap_or(0);
    // SAFETY: `address` has space for this length.
    let known = unsafe { libc::getpeername(fd, (&raw mut address).cast(), &raw mut length) } == 0;
    set_errno(before);
    if !known || i32::from(address.sun_family) != libc::AF_UNIX {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let length = length.checked_sub(offset_of!(libc::sockaddr_un, sun_path))?;
    let path = address.sun_path.get(..length.min(address.sun_path.len()))?;
    let sockets = Name::sockets();
    let mut number = [0; 16];
    let (mut used, mut ours) = (0, sockets.bytes().iter());
    for byte in path
        .iter()
        .map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()))
    {
        match ours.next() {
            Some(same) if *same == byte => {}
            Some(_) => return None,
            None if byte == 0 => break,
            None => {
                *number.get_mut(used)? = byte;
                used += 1;
            }
        }
    }
    folder::device(number.get(..used)?)
}

/// Reads a part of a device's description. Returns `false` if the device is missing.
pub(crate) fn read(device: u32, at: usize, bytes: &mut [u8]) -> bool {
    let before = errno();
    let name = Name::of(InputPath::Device(device));
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the name is a string. The raw system call bypasses other interposed libraries.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name.as_ptr(), flags, 0) };
    let Some(fd) = c_int::try_from(fd).ok().filter(|fd| *fd >= 0) else {
        set_errno(before);
        return false;
    };
    let at = libc::off_t::try_from(at).unwrap_or(0);
    // SAFETY: the call writes at most as many bytes as the slice has.
    let got = unsafe { libc::pread(fd, bytes.as_mut_ptr().cast::<c_void>(), bytes.len(), at) };
    // SAFETY: opened above, with no other owner.
    unsafe { libc::close(fd) };
    set_errno(before);
    usize::try_from(got).ok() == Some(bytes.len())
}

/// Sends a request to the device's server. Returns 0, or -1 with errno set, as the interposed call does.
pub(crate) fn notify(fd: c_int, request: Request) -> c_int {
    let bytes = request.to_bytes();
    match send(fd, bytes.as_ptr().cast(), bytes.len()) {
        0.. => 0,
        _ => -1,
    }
}

/// Writes to a device, without SIGPIPE if the peer is gone.
pub(crate) fn send(fd: c_int, bytes: *const c_void, count: usize) -> isize {
    // SAFETY: `bytes` has `count` bytes, as the caller ensures.
    let sent = unsafe { libc::send(fd, bytes, count, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    if sent < 0 && matches!(errno(), libc::EPIPE | libc::ECONNRESET) {
        set_errno(libc::ENODEV);
    }
    sent
}

/// A null output pointer.
pub(crate) const NOWHERE: *mut c_void = ptr::null_mut();
