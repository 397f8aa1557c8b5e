//! Front-buffer drawing: rows are written into the displayed buffer, without a flip.
//!
//! Most drivers read the buffer at each refresh. Others display a copy of it (virtual machines, USB, panels that
//! refresh themselves) and need a request that specifies the changed rows. The request may wait for the refresh, so the
//! event thread makes it without holding the display's lock.
//!
//! Spec: `DRM_IOCTL_MODE_DIRTYFB` (the kernel's `include/uapi/drm/drm_mode.h`).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use drm::control::{ClipRect, Device as _, framebuffer};
use openuvr_proto::units::Size;

use crate::buffers::around;
use crate::card::Card;

/// The rows that were written into the displayed buffer since the driver was last requested to display rows.
#[derive(Debug, Default)]
pub(crate) struct UnflushedRows {
    rows: Range<u32>,
    /// Whether the driver has refused the request because it reads the buffer itself.
    reads_buffer: bool,
}

/// A request for the driver to display rows.
pub(crate) struct Flush {
    card: Arc<Card>,
    framebuffer: framebuffer::Handle,
    clip: ClipRect,
}

impl UnflushedRows {
    /// Records that these rows were written.
    pub(crate) fn add(&mut self, rows: &Range<u32>) {
        if !self.reads_buffer {
            self.rows = around(&self.rows, rows);
        }
    }

    /// Whether there are rows for the driver.
    pub(crate) fn is_pending(&self) -> bool {
        !self.rows.is_empty()
    }

    /// The rows for the driver, which count as displayed from now on.
    pub(crate) fn take(&mut self) -> Option<Range<u32>> {
        let rows = std::mem::take(&mut self.rows);
        (!rows.is_empty()).then_some(rows)
    }

    /// Handles the driver's refusal of the rows. Returns whether it is an error.
    pub(crate) fn refused(&mut self, cause: &io::Error) -> bool {
        // drm_mode_dirtyfb_ioctl() of the kernel returns this for a driver that does not support the request.
        let unknown = cause.raw_os_error() == Some(libc::ENOSYS);
        self.reads_buffer |= unknown;
        !unknown
    }
}

impl Flush {
    pub(crate) fn new(
        card: &Arc<Card>,
        framebuffer: framebuffer::Handle,
        size: Size,
        rows: &Range<u32>,
    ) -> Flush {
        let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
        Flush {
            card: Arc::clone(card),
            framebuffer,
            clip: ClipRect::new(0, side(rows.start), side(size.width), side(rows.end)),
        }
    }

    /// Makes the request, which may wait for a refresh. It fails if the buffer no longer exists.
    pub(crate) fn run(&self) -> io::Result<()> {
        loop {
            match self.card.dirty_framebuffer(self.framebuffer, &[self.clip]) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_merged_until_they_are_flushed() {
        let mut unflushed = UnflushedRows::default();
        unflushed.add(&(0..0));
        assert!(!unflushed.is_pending());
        assert_eq!(unflushed.take(), None);
        unflushed.add(&(10..20));
        unflushed.add(&(40..44));
        assert!(unflushed.is_pending());
        assert_eq!(unflushed.take(), Some(10..44));
        assert_eq!(unflushed.take(), None);
    }

    #[test]
    fn a_driver_that_reads_the_buffer_is_asked_once() {
        let mut unflushed = UnflushedRows::default();
        unflushed.add(&(0..8));
        assert!(unflushed.refused(&io::Error::from_raw_os_error(libc::EINVAL)));
        unflushed.add(&(0..8));
        assert!(unflushed.is_pending(), "another error says nothing");
        assert!(!unflushed.refused(&io::Error::from_raw_os_error(libc::ENOSYS)));
        unflushed.take();
        unflushed.add(&(0..8));
        assert!(!unflushed.is_pending());
    }
}
