//! Safe wrappers of the system calls for scheduling and sockets that are missing in the libraries in use. Linux only.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
#[cfg(feature = "host")]
use std::os::fd::{AsFd, AsRawFd as _};

#[cfg(feature = "host")]
use rustix::process::{Pid, Uid};

/// The peer of a Unix socket, as seen in this process's namespaces.
#[cfg(feature = "host")]
pub(crate) struct PeerCredentials {
    /// The peer's process; `None` if the process is not visible in this process's PID namespace, for example because it
    /// runs outside this process's sandbox.
    pub(crate) pid: Option<Pid>,
    /// Its user.
    pub(crate) uid: Uid,
}

/// The credentials of a Unix socket's peer at connection time (unix(7), `SO_PEERCRED`). The function of this name in
/// rustix is not used, because its type excludes process 0, which the kernel reports for an invisible process.
#[cfg(feature = "host")]
pub(crate) fn peer_credentials(socket: impl AsFd) -> io::Result<PeerCredentials> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).map_err(io::Error::other)?;
    // SAFETY: `peer` is writable for `len` bytes, and any bytes are valid.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCredentials {
        pid: Pid::from_raw(peer.pid),
        uid: Uid::from_raw(peer.uid),
    })
}

/// Sets a SCHED_FIFO priority (1 to 99) for the calling thread. With `inherit`, child threads and processes inherit the
/// priority. Otherwise, they start with SCHED_OTHER.
pub(crate) fn set_fifo(priority: u8, inherit: bool) -> io::Result<()> {
    let flag = if inherit {
        0
    } else {
        libc::SCHED_RESET_ON_FORK
    };
    let param = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    // SAFETY: `param` outlives the call, and 0 means the calling thread. (The code makes the system call itself because
    // musl's function always fails.)
    let rc = unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO | flag,
            &raw const param,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The calling thread's policy number (without flags) and real-time priority.
pub(crate) fn policy() -> (i32, u8) {
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` outlives the call. 0 means the calling thread, which exists, so neither call can fail.
    let policy = unsafe {
        libc::syscall(libc::SYS_sched_getparam, 0, &raw mut param);
        libc::syscall(libc::SYS_sched_getscheduler, 0)
    };
    (
        i32::try_from(policy).unwrap_or(-1) & !libc::SCHED_RESET_ON_FORK,
        u8::try_from(param.sched_priority).unwrap_or(0),
    )
}

/// The highest real-time priority that an unprivileged thread may take: RLIMIT_RTPRIO.
pub(crate) fn priority_limit() -> u8 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) };
    u8::try_from(limit.rlim_cur.min(99)).unwrap_or(0)
}

/// The locked stack of the thread that created this value. Dropping the value unlocks the stack. The thread must drop
/// it before the thread ends, because the C library reuses the stack for other threads.
pub(crate) struct LockedStack {
    start: *mut libc::c_void,
    len: usize,
}

/// Locks the pages of the calling thread's stack once they are touched (mlock2(2), `MLOCK_ONFAULT`). Untouched pages
/// take no memory but count towards RLIMIT_MEMLOCK.
pub(crate) fn lock_stack() -> io::Result<LockedStack> {
    let mut attributes = MaybeUninit::uninit();
    let (mut start, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: pthread_getattr_np initialises `attributes` for the calling thread; they are then read, and destroyed
    // once. The range that they name is this thread's mapping, and mlock2 only marks its pages.
    unsafe {
        match libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut len);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        match libc::syscall(libc::SYS_mlock2, start, len, libc::MLOCK_ONFAULT) {
            0 => Ok(LockedStack { start, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for LockedStack {
    fn drop(&mut self) {
        // SAFETY: the range is the stack of the thread that drops this value; munlock only clears a mark.
        unsafe { libc::munlock(self.start, self.len) };
    }
}

/// Sets the calling thread's timer slack in ns.
pub(crate) fn set_timer_slack(ns: libc::c_ulong) {
    // SAFETY: the call takes no pointers. Only very old kernels refuse it, and they keep their default slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns, 0, 0, 0) };
}

/// Calls `f` with all signals except `except` blocked in this thread. Threads that `f` starts inherit the mask.
pub(crate) fn with_signals_blocked<R>(except: &[libc::c_int], f: impl FnOnce() -> R) -> R {
    let mut blocked = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises `blocked`, and pthread_sigmask `before`; with valid arguments, neither fails.
    let before: libc::sigset_t = unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for signal in except {
            libc::sigdelset(blocked.as_mut_ptr(), *signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    let result = f();
    // SAFETY: `before` is the mask that the kernel returned.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

/// Whether the calling thread blocks `signal`.
#[cfg(test)]
pub(crate) fn blocks(signal: libc::c_int) -> bool {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: with a null new set, pthread_sigmask only writes the current mask.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
        libc::sigismember(mask.as_ptr(), signal) == 1
    }
}
