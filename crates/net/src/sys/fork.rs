//! Close-on-fork for sockets. A port stays bound as long as any process, including an unrelated forked child, has a
//! descriptor of the socket.
//!
//! `SOCK_CLOEXEC` covers children that call exec. For other children, the descriptor is replaced right after `fork` by one
//! of `/dev/null`. Its number stays in use, so that a later close in the child cannot close an unrelated file. A raw `clone`
//! system call is not covered.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Maximum registered sockets of a process (guess: hosts in an application times their links). Further sockets are not
/// registered, and children inherit them.
const MANY: usize = 64;

const FREE: i32 = -1;

/// The registered descriptors. They are atomics instead of values under a mutex, because a child may be forked while
/// another thread holds the mutex.
static KEPT: [AtomicI32; MANY] = [const { AtomicI32::new(FREE) }; MANY];

/// While this value exists, forked children do not inherit the socket. Drop the value before the socket is closed.
#[derive(Debug)]
pub struct CloseOnFork {
    index: Option<usize>,
}

impl CloseOnFork {
    /// Registers the socket. Children that already exist keep the socket.
    #[must_use]
    pub fn new(socket: impl AsFd) -> CloseOnFork {
        static REGISTERED: Once = Once::new();
        // SAFETY: the handler has the right type and is async-signal-safe. The C library removes it when
        // this library is unloaded. If registration fails, children inherit the sockets.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        let fd = socket.as_fd().as_raw_fd();
        let take = |slot: &AtomicI32| {
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            slot.compare_exchange(FREE, fd, order.0, order.1).is_ok()
        };
        CloseOnFork {
            index: KEPT.iter().position(take),
        }
    }
}

impl Drop for CloseOnFork {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            KEPT[index].store(FREE, Ordering::Release);
        }
    }
}

/// Runs in the child after `fork`, where only async-signal-safe calls are allowed.
unsafe extern "C" fn in_child() {
    // SAFETY: the path is a constant NUL-terminated string.
    let nothing = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    for slot in &KEPT {
        let fd = slot.load(Ordering::Relaxed);
        if fd == FREE {
            continue;
        }
        // SAFETY: `fd` is registered, and nothing uses it in the child, because the threads that use it are in the parent.
        unsafe {
            if nothing < 0 || libc::dup3(nothing, fd, libc::O_CLOEXEC) < 0 {
                libc::close(fd);
            }
        }
    }
    if nothing >= 0 {
        // SAFETY: `nothing` was opened above, and is not used afterwards.
        unsafe { libc::close(nothing) };
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    /// How long another test may take to start a program on a busy machine. `posix_spawn` runs no handler, so until
    /// `exec` closes them, the new process has all sockets of this process.
    const SPAWNED: Duration = Duration::from_secs(10);

    use super::*;

    #[test]
    fn a_forked_child_does_not_keep_the_port() {
        // Only this test uses this address, so no other test can take the port once it is free.
        let socket = UdpSocket::bind("127.83.7.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let kept = CloseOnFork::new(&socket);
        drop(CloseOnFork::new(&other));
        let (mut answer, question) = std::io::pipe().unwrap();
        let fds = [socket.as_raw_fd(), other.as_raw_fd()];
        // SAFETY: the child makes only system calls.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: the child makes only system calls, with pointers to locals. The child then runs until it is
            // killed.
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
        // The child lives until it is killed below. If it had the first socket, the port would stay bound.
        let until = Instant::now() + SPAWNED;
        let bound = loop {
            let bound = UdpSocket::bind(address);
            if bound.is_ok() || Instant::now() > until {
                break bound;
            }
            std::thread::yield_now();
        };
        // SAFETY: `child` is a child of this process, and was not waited for yet.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert_eq!(sockets, [0, 1], "the child has only the second socket");
        assert!(bound.is_ok(), "{bound:?}");
    }
}
