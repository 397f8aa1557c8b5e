//! Copies of pictures in ordinary memory, with recycled buffers. They serve components that must
//! keep a borrowed picture, or share one (behind an [`Arc`]).

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use openuvr_proto::units::Size;

use super::submit::Frame;
use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// The free buffers. Their number never exceeds the maximum number of buffers that were in use at the same time.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Pool {
    /// A BGRX picture without row padding; its bytes are zero or left from an earlier picture.
    #[must_use]
    pub fn take(&self, size: Size) -> PooledPicture {
        let mut data = self.spare();
        data.resize(size.pixels() * 4, 0);
        PooledPicture {
            size,
            format: PixelFormat::Bgrx,
            rows: RowOrder::TopDown,
            planes: [
                (0..data.len(), size.width as usize * 4),
                Default::default(),
                Default::default(),
            ],
            data,
            home: self.clone(),
        }
    }

    /// A copy of a picture with the same plane layout.
    #[must_use]
    pub fn copy_of(&self, picture: &Picture<'_>) -> PooledPicture {
        let mut data = self.spare();
        data.clear();
        let planes = picture.planes.map(|plane| {
            let begin = data.len();
            data.extend_from_slice(plane.data);
            (begin..data.len(), plane.stride)
        });
        PooledPicture {
            size: picture.size,
            format: picture.format,
            rows: picture.rows,
            planes,
            data,
            home: self.clone(),
        }
    }

    /// The number of free buffers.
    #[cfg(test)]
    pub(super) fn spares(&self) -> usize {
        self.free.lock().map_or(0, |free| free.len())
    }

    fn spare(&self) -> Vec<u8> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().unwrap_or_default()
    }
}

/// A picture in a buffer that returns to its [`Pool`] on drop.
#[derive(Debug)]
pub struct PooledPicture {
    size: Size,
    format: PixelFormat,
    rows: RowOrder,
    /// Each plane's range in the buffer, and its stride.
    planes: [(Range<usize>, usize); 3],
    data: Vec<u8>,
    home: Pool,
}

impl PooledPicture {
    /// Sets the format (4 bytes per pixel) and row order of a picture from [`Pool::take`].
    pub fn order(&mut self, format: PixelFormat, rows: RowOrder) {
        debug_assert_eq!(format.packed(), Some(4), "{format:?}");
        (self.format, self.rows) = (format, rows);
    }

    /// The bytes of all rows. A picture from [`Pool::take`] has no padding and 4 bytes per pixel.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.data
    }
}

impl Frame for PooledPicture {
    fn picture(&self) -> Picture<'_> {
        let planes = self.planes.each_ref().map(|(place, stride)| Plane {
            data: &self.data[place.clone()],
            stride: *stride,
        });
        Picture {
            size: self.size,
            format: self.format,
            rows: self.rows,
            planes,
        }
    }
}

impl Drop for PooledPicture {
    fn drop(&mut self) {
        let data = std::mem::take(&mut self.data);
        let free = self.home.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).push(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_planes_is_exact_and_its_buffer_is_recycled() {
        let size = Size::new(4, 2);
        let (luma, chroma): (Vec<u8>, Vec<u8>) = ((0..12).collect(), (50..56).collect());
        let planes = [
            Plane {
                data: &luma,
                stride: 6,
            },
            Plane {
                data: &chroma,
                stride: 6,
            },
            Plane::EMPTY,
        ];
        let picture = Picture {
            size,
            format: PixelFormat::Nv12,
            rows: RowOrder::BottomUp,
            planes,
        };
        let pool = Pool::default();
        let shared = Arc::new(pool.copy_of(&picture));
        let other = shared.clone();
        let seen = other.picture();
        assert_eq!((seen.size, seen.format), (size, PixelFormat::Nv12));
        assert_eq!(seen.rows, RowOrder::BottomUp);
        assert_eq!((seen.planes[0].data, seen.planes[0].stride), (&*luma, 6));
        assert_eq!((seen.planes[1].data, seen.planes[1].stride), (&*chroma, 6));
        assert!(seen.planes[2].data.is_empty());
        let place = seen.planes[0].data.as_ptr();
        drop(shared);
        assert_eq!(pool.spares(), 0, "it is in use");
        drop(other);
        // The next copy reuses the first buffer.
        assert_eq!(
            pool.copy_of(&picture).picture().planes[0].data.as_ptr(),
            place
        );
    }
}
