//! The persistent picture: the server copies the rows that changed into memory both share.

use std::ops::Range;

use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{Drawable, ImageFormat};

use super::display::Display;
use crate::capture::CaptureError;
use crate::picture::Picture;
use crate::sys::memory::SharedMemory;

/// Bytes a pixel of the depths 24 and 32.
const PIXEL: usize = 4;

/// One whole picture in a MIT-SHM segment. Rows are fetched at full width, so that damage moves
/// few bytes and the picture stays in one piece.
#[derive(Debug)]
pub(super) struct Image {
    size: Size,
    memory: SharedMemory,
    segment: shm::Seg,
    whole: bool,
}

impl Image {
    /// An empty picture of `size`.
    pub(super) fn new(display: &Display, size: Size) -> Result<Image, CaptureError> {
        let fail = |what: &dyn std::fmt::Display| {
            CaptureError(format!(
                "{}: can't share a {size} picture with the X server: {what}",
                display.name
            ))
        };
        if !size.is_valid() {
            return Err(fail(&format_args!(
                "a side must be 1 to {}",
                Size::MAX_SIDE
            )));
        }
        let (memory, fd) = SharedMemory::new(size.pixels() * PIXEL).map_err(|e| fail(&e))?;
        let segment = display.new_id()?;
        display
            .conn
            .shm_attach_fd(segment, fd, false)
            .map_err(|e| fail(&e))?
            .check()
            .map_err(|e| fail(&e))?;
        Ok(Image {
            size,
            memory,
            segment,
            whole: false,
        })
    }

    /// Lets the server forget the segment; the memory goes with `self`.
    pub(super) fn release(self, display: &Display) {
        // If the connection is broken, the server has forgotten it already.
        let _ = display.conn.shm_detach(self.segment);
    }

    /// Copies `rows` of the picture from `drawable`, where it begins at `origin`. Returns the
    /// request's sequence number: what the server drew before it, is in.
    pub(super) fn fetch(
        &mut self,
        display: &Display,
        drawable: Drawable,
        origin: (i16, i16),
        rows: Range<u16>,
    ) -> Result<u64, ReplyError> {
        let stride = self.size.width as usize * PIXEL;
        let offset = usize::from(rows.start) * stride;
        let cookie = display.conn.shm_get_image(
            drawable,
            origin.0,
            origin.1.saturating_add_unsigned(rows.start),
            u16::try_from(self.size.width).unwrap_or(u16::MAX),
            rows.end - rows.start,
            !0,
            ImageFormat::Z_PIXMAP.into(),
            self.segment,
            // Size::is_valid bounds it to 1 GiB.
            u32::try_from(offset).unwrap_or(u32::MAX),
        )?;
        let sequence = cookie.sequence_number();
        cookie.reply()?;
        if rows.start == 0 && u32::from(rows.end) == self.size.height {
            self.whole = true;
        }
        Ok(sequence)
    }

    /// What was fetched is too old: there is no picture until all rows are fetched again.
    pub(super) fn forget(&mut self) {
        self.whole = false;
    }

    pub(super) const fn size(&self) -> Size {
        self.size
    }

    /// The picture, once all of its rows have been fetched.
    pub(super) fn picture(&self) -> Option<Picture<'_>> {
        let stride = self.size.width as usize * PIXEL;
        self.whole
            .then(|| Picture::bgrx(self.size, self.memory.bytes(), stride))
    }
}
