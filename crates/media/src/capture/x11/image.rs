//! The persistent picture: the server copies changed areas into shared memory. If an area is as wide as the picture and
//! the server's pixel layout equals the picture's layout, the server writes directly into the picture. Otherwise, the
//! server writes to a second segment. The pixels are then copied from this segment to the picture, and converted if
//! necessary.

use openuvr_proto::units::Size;
use x11rb::errors::ReplyError;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{Colormap, Drawable, ImageFormat};

use super::debounce::Area;
use super::display::Display;
use crate::capture::CaptureError;
use crate::damage::Block;
use crate::picture::Picture;
use crate::pixel_layout::PixelLayout;
use crate::sys::memory::SharedMemory;

/// Bytes per pixel of the picture; no layout has more.
const PIXEL: usize = 4;

/// The picture in a MIT-SHM segment, and a second segment for parts. The server writes rows without padding, so a part
/// that is narrower than the picture can't be written in place.
#[derive(Debug)]
pub(super) struct Image {
    size: Size,
    form: PixelLayout,
    picture: Segment,
    part: Segment,
    whole: bool,
}

/// Memory that the server writes into.
#[derive(Debug)]
struct Segment {
    memory: SharedMemory,
    id: shm::Seg,
}

impl Image {
    /// An empty picture of `size`, stored by the server in this layout.
    pub(super) fn new(
        display: &Display,
        size: Size,
        form: PixelLayout,
    ) -> Result<Image, CaptureError> {
        let fail = |what: &dyn std::fmt::Display| {
            CaptureError(format!(
                "{}: can't share a {size} picture with the X server: {what}",
                display.name
            ))
        };
        if !size.is_valid() {
            return Err(fail(&format_args!(
                "each side must be 1 to {} pixels",
                Size::MAX_SIDE
            )));
        }
        let segment = || -> Result<Segment, CaptureError> {
            let (memory, fd) = SharedMemory::new(size.pixels() * PIXEL).map_err(|e| fail(&e))?;
            let id = display.new_id()?;
            display
                .conn
                .shm_attach_fd(id, fd, false)
                .map_err(|e| fail(&e))?
                .check()
                .map_err(|e| fail(&e))?;
            Ok(Segment { memory, id })
        };
        Ok(Image {
            size,
            form,
            picture: segment()?,
            // This segment has the size of the picture, because a part may be as large as the picture.
            part: segment()?,
            whole: false,
        })
    }

    /// Detaches the segments from the server; the memory is freed with `self`.
    pub(super) fn release(self, display: &Display) {
        // If the connection is broken, the server has already detached them.
        let _ = display.conn.shm_detach(self.picture.id);
        let _ = display.conn.shm_detach(self.part.id);
    }

    /// Copies `block`, a part of the picture, from `drawable`. In the drawable, the picture starts at `origin`. Pixels
    /// may be indices into `colormap`. Returns the request's sequence number; the picture includes drawing before this
    /// request.
    pub(super) fn fetch(
        &mut self,
        display: &Display,
        (drawable, colormap): (Drawable, Colormap),
        origin: (i16, i16),
        block: &Block,
    ) -> Result<u64, ReplyError> {
        let stride = self.size.width as usize * PIXEL;
        let wide = block.columns.len() == self.size.width as usize;
        // Complete rows are written in place.
        let at_once = wide && self.form.is_bgrx();
        let (segment, offset) = match at_once {
            true => (self.picture.id, block.rows.start as usize * stride),
            false => (self.part.id, 0),
        };
        // The picture's sides fit in 16 bits, like all sizes in X.
        let side = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        let cookie = display.conn.shm_get_image(
            drawable,
            origin.0.saturating_add_unsigned(side(block.columns.start)),
            origin.1.saturating_add_unsigned(side(block.rows.start)),
            side(block.columns.end - block.columns.start),
            side(block.rows.end - block.rows.start),
            !0,
            ImageFormat::Z_PIXMAP.into(),
            segment,
            // `Size::is_valid` limits the offset to 1 GiB.
            u32::try_from(offset).unwrap_or(u32::MAX),
        )?;
        let sequence = cookie.sequence_number();
        cookie.reply()?;
        if !at_once {
            self.copy_part(block, &self.form.cells(&display.conn, colormap)?);
        }
        self.whole |= wide && block.rows.len() == self.size.height as usize;
        Ok(sequence)
    }

    /// Copies a part to its position in the picture.
    fn copy_part(&mut self, block: &Block, cells: &[[u8; 3]]) {
        let stride = self.size.width as usize * PIXEL;
        let columns = block.columns.start as usize * PIXEL..block.columns.end as usize * PIXEL;
        let rows = block.rows.start as usize..block.rows.end as usize;
        let places = self.picture.memory.bytes_mut().chunks_exact_mut(stride);
        let part = (self.form).rows(self.part.memory.bytes(), block.columns.len());
        for (to, from) in places.skip(rows.start).take(rows.len()).zip(part) {
            self.form.convert(cells, from, &mut to[columns.clone()]);
        }
    }

    /// Writes `pixels`, which have the layout `form`, to `area`.
    pub(super) fn write_area(
        &mut self,
        area: Area,
        pixels: &[u8],
        (form, cells): (&PixelLayout, &[[u8; 3]]),
    ) {
        let stride = self.size.width as usize * PIXEL;
        let number = |n: i32| usize::try_from(n).unwrap_or(0);
        let (left, top) = (number(area.left) * PIXEL, number(area.top));
        let width = number(area.right - area.left) * PIXEL;
        let rows = self
            .picture
            .memory
            .bytes_mut()
            .chunks_exact_mut(stride.max(1));
        for (row, pixels) in rows.skip(top).zip(form.rows(pixels, width / PIXEL)) {
            if let Some(row) = row.get_mut(left..left + width) {
                form.convert(cells, pixels, row);
            }
        }
    }

    /// Discards the contents. There is no picture until a single fetch fills it completely.
    pub(super) fn forget(&mut self) {
        self.whole = false;
    }

    /// The server's pixel layout.
    pub(super) const fn form(&self) -> &PixelLayout {
        &self.form
    }

    pub(super) const fn size(&self) -> Size {
        self.size
    }

    /// The picture; `None` until a single fetch has filled it completely.
    pub(super) fn picture(&self) -> Option<Picture<'_>> {
        let stride = self.size.width as usize * PIXEL;
        self.whole
            .then(|| Picture::bgrx(self.size, self.picture.memory.bytes(), stride))
    }
}
