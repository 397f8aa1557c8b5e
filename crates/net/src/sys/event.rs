//! An event counter that ends a [`wait`] of another thread (eventfd(2), ppoll(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A flag that one thread raises and another waits for together with a socket.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    pub(crate) fn new() -> io::Result<Event> {
        // SAFETY: the call takes no pointers, and its result is checked before use.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and has no other owner.
        Ok(Event(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Raises the flag. This fails only if the counter would overflow. The flag is then already raised.
    pub(crate) fn raise(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` has 8 bytes, and `self` keeps the descriptor open.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Lowers the flag. Returns whether it was raised.
    fn lower(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: `count` has 8 bytes, and `self` keeps the descriptor open.
        let n = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        n == 8
    }
}

/// Waits until one of `sockets` (at most three) is readable or `event` is raised, for `timeout` at most. Lowers `event`, and
/// returns whether it was raised. Returns early on a signal, so the caller must retry.
pub(crate) fn wait(
    sockets: &[BorrowedFd<'_>],
    event: &Event,
    timeout: Option<Duration>,
) -> io::Result<bool> {
    // ppoll ignores negative descriptors.
    let mut fds = [libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    }; 4];
    fds[0].fd = event.0.as_raw_fd();
    for (entry, socket) in fds[1..].iter_mut().zip(sockets) {
        entry.fd = socket.as_raw_fd();
    }
    let span = timeout.map(|t| libc::timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let span = span
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref::<libc::timespec>);
    // SAFETY: `fds` holds four entries with open descriptors or none; `span` is null or points to a
    // timespec that lives until the end of this function.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), 4, span, std::ptr::null()) };
    if n < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(false);
    }
    Ok(fds[0].revents != 0 && event.lower())
}
