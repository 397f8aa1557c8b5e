//! Decoded pictures in dma-bufs: memory of a device, which drivers share through file descriptors. A display can show such
//! a picture without a copy; [`DmaBufPicture::map`] makes it readable for everything else.
//!
//! A decoder can't reuse the memory while a [`DmaBufPicture`] or its mapping exists.
//!
//! Limits: only linear memory of a few formats can be mapped. Memory of devices is often uncached, so reading it is slow.
//!
//! Spec: the kernel's `Documentation/driver-api/dma-buf.rst`, `include/uapi/drm/drm_fourcc.h`.

mod sys;

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use openuvr_proto::units::Size;

use crate::picture::{Picture, PixelFormat, Plane, RowOrder};

/// The maximum number of objects, and of planes, of a picture.
pub const MAX_PLANES: usize = 4;

/// `DRM_FORMAT_NV12`: luma, then interleaved Cb Cr at half size.
pub const NV12: u32 = u32::from_le_bytes(*b"NV12");
/// `DRM_FORMAT_YUV420`: luma, Cb and Cr, chroma at half size.
pub const YUV420: u32 = u32::from_le_bytes(*b"YU12");
/// `DRM_FORMAT_XRGB8888`: blue, green, red, unused.
pub const XRGB8888: u32 = u32::from_le_bytes(*b"XR24");

/// `DRM_FORMAT_MOD_LINEAR`: rows of pixels.
pub const LINEAR: u64 = 0;
/// `DRM_FORMAT_MOD_INVALID`: the arrangement is not stated. This module then assumes linear memory.
pub const UNSTATED: u64 = 0x00ff_ffff_ffff_ffff;

/// The arrangement of a picture in its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Width and height in pixels.
    pub size: Size,
    /// `DRM_FORMAT_*`.
    pub format: u32,
    /// `DRM_FORMAT_MOD_*`.
    pub modifier: u64,
    /// The planes, in the format's order.
    planes: [PlaneLayout; MAX_PLANES],
    count: usize,
}

/// The location of a plane in the memory of its picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaneLayout {
    /// The number of the object that contains the plane.
    pub object: usize,
    /// Bytes from the object's start.
    pub offset: u32,
    /// Bytes from the start of a row to the start of the next row.
    pub pitch: u32,
}

impl Layout {
    /// # Errors
    /// [`DmaBufError`] if the size is invalid, or if a picture of this format has a different number of planes.
    pub fn new(
        size: Size,
        format: u32,
        modifier: u64,
        planes: &[PlaneLayout],
    ) -> Result<Layout, DmaBufError> {
        let wanted = match format {
            NV12 => 2,
            YUV420 => 3,
            XRGB8888 => 1,
            _ => planes.len(),
        };
        let invalid = planes.len() != wanted || !(1..=MAX_PLANES).contains(&wanted);
        if invalid || !size.is_valid() {
            return Err(DmaBufError::Layout(format!(
                "{} planes of {} for {size}",
                planes.len(),
                FourCc(format)
            )));
        }
        let mut all = [PlaneLayout::default(); MAX_PLANES];
        all[..planes.len()].copy_from_slice(planes);
        Ok(Layout {
            size,
            format,
            modifier,
            planes: all,
            count: planes.len(),
        })
    }

    /// The planes, in the format's order.
    #[must_use]
    pub fn planes(&self) -> &[PlaneLayout] {
        &self.planes[..self.count]
    }

    /// Whether the memory consists of rows of pixels.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        matches!(self.modifier, LINEAR | UNSTATED)
    }
}

/// A format's code as text.
#[derive(Clone, Copy, Debug)]
pub struct FourCc(pub u32);

impl fmt::Display for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_le_bytes().escape_ascii())
    }
}

/// The owner of a picture's memory. Until it is dropped, no device writes to the memory.
pub trait Objects: Send + Sync {
    /// The descriptor of an object.
    fn object(&self, number: usize) -> Option<BorrowedFd<'_>>;
}

impl Objects for Vec<OwnedFd> {
    fn object(&self, number: usize) -> Option<BorrowedFd<'_>> {
        Some(self.get(number)?.as_fd())
    }
}

/// A decoded picture in the memory of a device. A clone refers to the same memory.
#[derive(Clone)]
pub struct DmaBufPicture {
    visible: Size,
    layout: Layout,
    memory: Arc<dyn Objects>,
}

impl fmt::Debug for DmaBufPicture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("DmaBufPicture");
        text.field("visible", &self.visible);
        text.field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl DmaBufPicture {
    /// # Errors
    /// [`DmaBufError`] if the memory lacks an object of the layout.
    pub fn new(layout: Layout, memory: Arc<dyn Objects>) -> Result<DmaBufPicture, DmaBufError> {
        let missing = |plane: &&PlaneLayout| memory.object(plane.object).is_none();
        if let Some(plane) = layout.planes().iter().find(missing) {
            let what = format!("object {} is missing", plane.object);
            return Err(DmaBufError::Layout(what));
        }
        Ok(DmaBufPicture {
            visible: layout.size,
            layout,
            memory,
        })
    }

    /// The upper left part, of at most this size.
    #[must_use]
    pub fn cropped(mut self, size: Size) -> DmaBufPicture {
        self.visible.width = self.visible.width.min(size.width);
        self.visible.height = self.visible.height.min(size.height);
        self
    }

    /// The visible size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.visible
    }

    /// The arrangement in memory, including invisible parts.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The descriptor of an object of the layout.
    #[must_use]
    pub fn object(&self, number: usize) -> Option<BorrowedFd<'_>> {
        self.memory.object(number)
    }

    /// Makes the picture readable for the CPU.
    ///
    /// # Errors
    /// [`DmaBufError`] if the format is not supported, a plane exceeds its memory, or the kernel refuses the mapping.
    pub fn map(&self) -> Result<MappedPicture, DmaBufError> {
        let layout = &self.layout;
        let format = match layout.format {
            NV12 => PixelFormat::Nv12,
            YUV420 => PixelFormat::I420,
            XRGB8888 => PixelFormat::Bgrx,
            _ => return Err(DmaBufError::Format(FourCc(layout.format), layout.modifier)),
        };
        if !layout.is_linear() {
            return Err(DmaBufError::Format(FourCc(layout.format), layout.modifier));
        }
        let mut maps: [Option<sys::Map>; MAX_PLANES] = [const { None }; MAX_PLANES];
        for PlaneLayout { object, .. } in layout.planes() {
            let missing = || DmaBufError::Layout(format!("object {object} is missing"));
            let map = maps.get_mut(*object).ok_or_else(missing)?;
            if map.is_none() {
                let fd = self.object(*object).ok_or_else(missing)?;
                *map = Some(sys::Map::new(fd).map_err(DmaBufError::Map)?);
            }
        }
        let mapped = MappedPicture {
            size: self.visible,
            format,
            layout: *layout,
            maps,
            _memory: Arc::clone(&self.memory),
        };
        match mapped.planes() {
            Some(_) => Ok(mapped),
            None => Err(DmaBufError::Layout("a plane exceeds its memory".to_owned())),
        }
    }
}

/// A picture in the memory of a device, readable for the CPU.
pub struct MappedPicture {
    size: Size,
    format: PixelFormat,
    layout: Layout,
    /// The mapping of each object, by the object's number.
    maps: [Option<sys::Map>; MAX_PLANES],
    _memory: Arc<dyn Objects>,
}

impl MappedPicture {
    /// The picture.
    #[must_use]
    pub fn picture(&self) -> Picture<'_> {
        Picture {
            size: self.size,
            format: self.format,
            rows: RowOrder::TopDown,
            // The planes were checked when the picture was mapped.
            planes: self.planes().unwrap_or([Plane::EMPTY; 3]),
        }
    }

    /// `None` if a plane exceeds its memory.
    fn planes(&self) -> Option<[Plane<'_>; 3]> {
        let mut planes = [Plane::EMPTY; 3];
        let Size { width, height } = self.layout.size;
        let (width, height) = (width as usize, height as usize);
        for (number, (plane, at)) in planes.iter_mut().zip(self.layout.planes()).enumerate() {
            let (row, rows) = match (self.format, number) {
                (PixelFormat::Bgrx, _) => (width * 4, height),
                (_, 0) => (width, height),
                (PixelFormat::Nv12, _) => (width.next_multiple_of(2), height.div_ceil(2)),
                _ => (width.div_ceil(2), height.div_ceil(2)),
            };
            let (offset, stride) = (at.offset as usize, at.pitch as usize);
            let bytes = self.maps.get(at.object)?.as_ref()?.bytes();
            let data = bytes.get(offset..offset + stride * (rows - 1) + row)?;
            *plane = Plane {
                data: (stride >= row).then_some(data)?,
                stride,
            };
        }
        Some(planes)
    }
}

/// Why a picture in dma-bufs can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DmaBufError {
    /// The decoder or its driver describes the picture wrongly.
    #[error("the decoder's picture has an invalid layout ({0}): choose another decoder")]
    Layout(String),
    /// The CPU can't read the picture.
    #[error(
        "pictures of the format {0} with the modifier {1:#x} can't be copied: choose another decoder"
    )]
    Format(FourCc, u64),
    /// The kernel refuses to map the memory.
    #[error("the decoder's memory can't be read: {0}; choose another decoder")]
    Map(io::Error),
}

#[cfg(test)]
mod tests;
