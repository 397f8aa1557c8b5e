//! The description of a picture in dma-bufs, as libavcodec returns it: `AV_PIX_FMT_DRM_PRIME`.
//!
//! Spec: `libavutil/hwcontext_drm.h`, whose structures have not changed since FFmpeg 3.4.

use std::ffi::c_int;

use openuvr_proto::units::Size;

use crate::dma_buf::{DmaBufError, Layout, MAX_PLANES, PlaneLayout};

/// `AVDRMFrameDescriptor`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Descriptor {
    object_count: c_int,
    objects: [Object; MAX_PLANES],
    layer_count: c_int,
    layers: [Layer; MAX_PLANES],
}

/// `AVDRMObjectDescriptor`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Object {
    pub(super) fd: c_int,
    size: usize,
    modifier: u64,
}

/// `AVDRMLayerDescriptor`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Layer {
    format: u32,
    plane_count: c_int,
    planes: [Plane; MAX_PLANES],
}

/// `AVDRMPlaneDescriptor`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Plane {
    object: c_int,
    offset: isize,
    pitch: isize,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Descriptor>() == 8 + 4 * 24 + 8 + 4 * (8 + 4 * 24));

impl Descriptor {
    /// The layout of a picture of this size.
    ///
    /// # Errors
    /// [`DmaBufError`] if the descriptor is invalid, or if the picture consists of several layers.
    pub(super) fn layout(&self, size: Size) -> Result<Layout, DmaBufError> {
        let invalid = |what: String| DmaBufError::Layout(what);
        if self.layer_count != 1 {
            return Err(invalid(format!("{} layers", self.layer_count)));
        }
        let objects = self.objects();
        let layer = &self.layers[0];
        let mut planes = [PlaneLayout::default(); MAX_PLANES];
        let count = usize::try_from(layer.plane_count).unwrap_or(0);
        let (Some(planes), Some(described)) = (planes.get_mut(..count), layer.planes.get(..count))
        else {
            return Err(invalid(format!("{count} planes")));
        };
        for (plane, described) in planes.iter_mut().zip(described) {
            let place = usize::try_from(described.object)
                .ok()
                .filter(|object| objects.get(*object).is_some_and(|object| object.fd >= 0))
                .zip(u32::try_from(described.offset).ok())
                .zip(u32::try_from(described.pitch).ok());
            let Some(((object, offset), pitch)) = place else {
                return Err(invalid("a plane outside of its memory".to_owned()));
            };
            *plane = PlaneLayout {
                object,
                offset,
                pitch,
            };
        }
        // All objects of a picture have the same modifier, as the kernel requires.
        let modifier = objects.first().map_or(0, |object| object.modifier);
        if objects.iter().any(|object| object.modifier != modifier) {
            return Err(invalid("several modifiers".to_owned()));
        }
        Layout::new(size, layer.format, modifier, planes)
    }

    /// A picture in one object, with offset and pitch of each plane.
    #[cfg(test)]
    pub(super) fn linear(fd: c_int, format: u32, planes: &[(isize, isize)]) -> Descriptor {
        let mut it = Descriptor {
            object_count: 1,
            layer_count: 1,
            ..Descriptor::default()
        };
        it.objects[0].fd = fd;
        it.layers[0].format = format;
        it.layers[0].plane_count = planes.len().try_into().unwrap_or(0);
        for (plane, (offset, pitch)) in it.layers[0].planes.iter_mut().zip(planes) {
            (plane.offset, plane.pitch) = (*offset, *pitch);
        }
        it
    }

    /// The objects of the picture, without the unused entries of the array.
    pub(super) fn objects(&self) -> &[Object] {
        let count = usize::try_from(self.object_count).unwrap_or(0);
        self.objects.get(..count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dma_buf::{LINEAR, NV12, YUV420};

    const SIZE: Size = Size::new(1280, 720);

    /// A picture as a driver describes it: one object, with the chroma below 736 rows of luma.
    fn descriptor(format: u32, planes: &[(isize, isize)]) -> Descriptor {
        Descriptor::linear(7, format, planes)
    }

    fn nv12() -> Descriptor {
        descriptor(NV12, &[(0, 1280), (1280 * 736, 1280)])
    }

    #[test]
    fn planes_are_placed_in_their_object() {
        let layout = nv12().layout(SIZE).unwrap();
        assert_eq!((layout.size, layout.format), (SIZE, NV12));
        assert_eq!(layout.modifier, LINEAR);
        let chroma = PlaneLayout {
            object: 0,
            offset: 1280 * 736,
            pitch: 1280,
        };
        assert_eq!(layout.planes()[1], chroma);
        let luma = 1280 * 736;
        let planes = [(0, 1280), (luma, 640), (luma + luma / 4, 640)];
        let layout = descriptor(YUV420, &planes).layout(SIZE).unwrap();
        assert_eq!(layout.planes().len(), 3);
    }

    #[test]
    fn invalid_descriptors_are_errors() {
        let breaks: [fn(&mut Descriptor); 9] = [
            |it| it.layer_count = 0,
            |it| it.layer_count = 2,
            |it| it.object_count = 0,
            |it| it.object_count = 5,
            |it| it.objects[0].fd = -1,
            |it| it.layers[0].plane_count = 5,
            |it| it.layers[0].plane_count = -1,
            |it| it.layers[0].planes[1].object = 1,
            |it| it.layers[0].planes[1].offset = -1,
        ];
        for (number, break_it) in breaks.into_iter().enumerate() {
            let mut it = nv12();
            break_it(&mut it);
            assert!(it.layout(SIZE).is_err(), "{number}");
        }
        assert!(nv12().layout(Size::new(0, 720)).is_err());
    }

    #[test]
    fn objects_of_different_arrangements_are_refused() {
        let mut it = nv12();
        it.object_count = 2;
        it.objects[1] = Object {
            modifier: 1,
            ..it.objects[0]
        };
        it.layers[0].planes[1].object = 1;
        assert!(it.layout(SIZE).is_err());
        it.objects[1].modifier = LINEAR;
        assert_eq!(it.layout(SIZE).unwrap().planes()[1].object, 1);
    }
}
