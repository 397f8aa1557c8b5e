//! Waits for a time or a waker, for backends that do not wait for a device.

use std::time::Duration;

use openuvr_clock as clock;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{AudioError, Waker};

/// Waits until `until` (`None`: no limit), or until the waker is raised. Returns whether the waker
/// was raised.
pub(super) fn until(until: Option<Instant>, waker: &Waker) -> Result<bool, AudioError> {
    loop {
        let left = until.map(|until| until.since(clock::now()));
        if left == Some(Duration::ZERO) {
            return Ok(waker.lower());
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::from_borrowed_fd(waker.fd(), PollFlags::IN)];
        match poll(&mut fds, left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(waker.lower()),
            Err(error) => return Err(AudioError(format!("can't wait for sound: {error}"))),
        }
    }
}
