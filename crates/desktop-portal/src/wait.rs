//! Waits for several descriptors at once.

use openuvr_clock as clock;
use openuvr_media::capture::CaptureError;
use openuvr_proto::time::Instant;
use rustix::event::{PollFd, Timespec, poll};

/// Waits for one of these descriptors, or until `next`. A signal ends the wait early.
pub(crate) fn wait_until(
    fds: &mut [PollFd<'_>],
    next: Option<Instant>,
) -> Result<(), CaptureError> {
    let left = next.map(|next| next.since(clock::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(fds, left.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(cause) => Err(CaptureError(format!("can't wait for the desktop: {cause}"))),
    }
}
