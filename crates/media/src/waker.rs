//! Ends another thread's wait for a device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, poll};

/// Wakes a waiting thread: an `eventfd` shared between threads.
#[derive(Clone, Debug)]
pub struct Waker(pub Arc<OwnedFd>);

/// The system's error if no file descriptor is left.
#[derive(Debug, thiserror::Error)]
#[error("can't create an eventfd: {0}")]
pub struct WakerError(rustix::io::Errno);

impl Waker {
    /// A new eventfd, not raised, that never blocks.
    ///
    /// # Errors
    /// [`WakerError`] if no file descriptor is left.
    pub fn new() -> Result<Waker, WakerError> {
        rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map(|fd| Waker(Arc::new(fd)))
            .map_err(WakerError)
    }

    /// Makes the current wait return, or the next wait if no thread waits now. May be called from any thread. Several
    /// calls before the wait count as one.
    pub fn wake(&self) {
        // The only possible error is a full counter. The waker is then already raised.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until the waker is raised, and lowers it.
    pub fn wait(&self) {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        // If `poll` is interrupted, it is called again.
        while !self.lower() {
            let _ = poll(&mut fds, None);
        }
    }

    /// Lowers the waker. Returns whether it was raised since the last call.
    pub fn lower(&self) -> bool {
        rustix::io::read(&self.0, &mut [0u8; 8]).is_ok()
    }

    /// The descriptor to poll.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
