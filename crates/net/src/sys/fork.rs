//! Sockets of this process that a child of its does not get: a port stays bound as long as any process
//! has a descriptor of it, also a child that was forked and has nothing to do with it.
//!
//! `SOCK_CLOEXEC` does this for children that become another program; for those that do not, the
//! descriptor is replaced right after `fork` by one of `/dev/null`, so that its number stays taken and
//! whoever closes it in the child closes nothing of others. Not for `clone` without the C library.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Sockets that one process has open at most (guess: hosts in an application times their links); more
/// are kept by children.
const MANY: usize = 64;

const FREE: i32 = -1;

/// No lock: a child may be forked while another thread holds it.
static KEPT: [AtomicI32; MANY] = [const { AtomicI32::new(FREE) }; MANY];

/// While it lives, children do not get the socket. It is to be dropped before the socket is closed.
#[derive(Debug)]
pub struct NotForked {
    index: Option<usize>,
}

impl NotForked {
    /// From now on; children that were forked before have it.
    #[must_use]
    pub fn new(socket: impl AsFd) -> NotForked {
        static REGISTERED: Once = Once::new();
        // SAFETY: the function is of the right type and does only what a child may do. It is forgotten
        // when the library that it lies in is unloaded. Without room for it, children keep the sockets.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        let fd = socket.as_fd().as_raw_fd();
        let take = |slot: &AtomicI32| {
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            slot.compare_exchange(FREE, fd, order.0, order.1).is_ok()
        };
        NotForked {
            index: KEPT.iter().position(take),
        }
    }
}

impl Drop for NotForked {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            KEPT[index].store(FREE, Ordering::Release);
        }
    }
}

/// Called in a child after `fork`, where only system calls are allowed.
unsafe extern "C" fn in_child() {
    // SAFETY: a constant string.
    let nothing = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for slot in &KEPT {
        let fd = slot.load(Ordering::Relaxed);
        if fd == FREE {
            continue;
        }
        // SAFETY: a descriptor of ours, which nobody uses in the child: its threads are in the parent.
        unsafe {
            if nothing < 0 || libc::dup3(nothing, fd, libc::O_CLOEXEC) < 0 {
                libc::close(fd);
            }
        }
    }
    if nothing >= 0 {
        // SAFETY: opened above.
        unsafe { libc::close(nothing) };
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_forked_child_does_not_keep_the_port() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let kept = NotForked::new(&socket);
        drop(NotForked::new(&other));
        let (mut answer, question) = std::io::pipe().unwrap();
        let fds = [socket.as_raw_fd(), other.as_raw_fd()];
        // SAFETY: the child calls nothing but system calls.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: as above; what is written lies here. Then the child stays until it is killed.
            unsafe {
                let kinds = fds.map(|fd| {
                    let mut kind = 0i32;
                    let mut len = 4;
                    let to = (&raw mut kind).cast();
                    libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, to, &raw mut len);
                    u8::from(kind == libc::SOCK_DGRAM)
                });
                libc::write(question.as_raw_fd(), kinds.as_ptr().cast(), 2);
                loop {
                    libc::pause();
                }
            }
        }
        let mut sockets = [9; 2];
        std::io::Read::read_exact(&mut answer, &mut sockets).unwrap();
        drop(kept);
        drop(socket);
        let bound = UdpSocket::bind(address);
        // SAFETY: our child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(sockets, [0, 1], "it has the other one only");
        assert!(bound.is_ok(), "{bound:?}");
    }
}
