//! The choice of a plane for a decoded picture.
//!
//! It does no I/O. A plane lists its formats, and the modifiers of each format in the property `IN_FORMATS`. Only the
//! driver knows whether a plane can scale and place a picture, so the planes are tried one after the other.
//!
//! Spec: `struct drm_format_modifier_blob` (the kernel's `include/uapi/drm/drm_mode.h`).

use openuvr_media::dma_buf::{LINEAR, Layout, UNSTATED};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Overlay,
    Primary,
}

/// A plane's formats, each with a modifier.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Formats(Vec<(u32, u64)>);

impl Formats {
    /// The formats of a plane without the property `IN_FORMATS`.
    pub(crate) fn linear(formats: &[u32]) -> Formats {
        Formats(formats.iter().map(|format| (*format, LINEAR)).collect())
    }

    /// Reads the property `IN_FORMATS`. `None` if it is invalid.
    pub(crate) fn parse(blob: &[u8]) -> Option<Formats> {
        // The header: version, flags, number and offset of the formats, number and offset of the modifiers.
        let header = |number: usize| Some(u32_at(blob, number * 4)? as usize);
        if header(0)? != 1 {
            return None;
        }
        let (formats, formats_at) = (header(2)?, header(3)?);
        let (modifiers, modifiers_at) = (header(4)?, header(5)?);
        let mut all = Vec::new();
        for entry in 0..modifiers {
            // An entry: a mask that selects formats, the index of the format for bit 0 of the mask, padding, and the
            // modifier of the selected formats.
            let at = modifiers_at.checked_add(entry.checked_mul(24)?)?;
            let (mask, modifier) = (u64_at(blob, at)?, u64_at(blob, at.checked_add(16)?)?);
            let first = u32_at(blob, at + 8)? as usize;
            for bit in (0..64).filter(|bit| mask >> bit & 1 == 1) {
                let number = first.checked_add(bit).filter(|number| *number < formats)?;
                let at = formats_at.checked_add(number.checked_mul(4)?)?;
                all.push((u32_at(blob, at)?, modifier));
            }
        }
        Some(Formats(all))
    }

    /// Whether the plane takes pictures of this format.
    pub(crate) fn take(&self, layout: &Layout) -> bool {
        let wanted = match layout.modifier {
            UNSTATED => LINEAR,
            modifier => modifier,
        };
        self.0.contains(&(layout.format, wanted))
    }
}

/// The positions of the planes that take pictures of this format, in the order in which they are tried. The primary
/// plane comes first, because it needs no picture on another plane under it.
pub(crate) fn order<'a>(
    planes: impl Iterator<Item = (Role, &'a Formats)>,
    layout: &Layout,
) -> Vec<usize> {
    let able = |(number, (role, formats)): (usize, (Role, &Formats))| {
        formats.take(layout).then_some((role, number))
    };
    let mut able: Vec<_> = planes.enumerate().filter_map(able).collect();
    able.sort_by_key(|(role, _)| *role != Role::Primary);
    able.into_iter().map(|(_, number)| number).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use openuvr_media::dma_buf::{NV12, PlaneLayout, XRGB8888, YUV420};
    use openuvr_proto::units::Size;

    use super::*;

    /// `DRM_FORMAT_MOD_BROADCOM_SAND128`, a tiled layout of the Raspberry Pi's video decoder.
    const TILED: u64 = 0x0700_0000_0000_0004;

    fn layout(format: u32, modifier: u64) -> Layout {
        let plane = PlaneLayout {
            object: 0,
            offset: 0,
            pitch: 1280,
        };
        let count = match format {
            NV12 => 2,
            YUV420 => 3,
            _ => 1,
        };
        Layout::new(Size::new(1280, 720), format, modifier, &[plane; 3][..count]).unwrap()
    }

    fn blob(formats: &[u32], modifiers: &[(u64, u32, u64)]) -> Vec<u8> {
        let (some, end) = (formats.len(), 24 + formats.len() * 4);
        let header = [1, 0, some, 24, modifiers.len(), end];
        let header = header.map(|n| u32::try_from(n).unwrap());
        let mut blob: Vec<u8> = (header.iter().chain(formats))
            .flat_map(|n| n.to_ne_bytes())
            .collect();
        for (mask, first, modifier) in modifiers {
            blob.extend(mask.to_ne_bytes());
            blob.extend([*first, 0].map(u32::to_ne_bytes).as_flattened());
            blob.extend(modifier.to_ne_bytes());
        }
        blob
    }

    #[test]
    fn each_format_has_its_modifiers() {
        let bytes = blob(
            &[XRGB8888, YUV420, NV12],
            &[(0b111, 0, LINEAR), (1, 2, TILED)],
        );
        let formats = Formats::parse(&bytes).unwrap();
        for (format, modifier, taken) in [
            (NV12, LINEAR, true),
            (NV12, UNSTATED, true),
            (NV12, TILED, true),
            (YUV420, LINEAR, true),
            (YUV420, TILED, false),
        ] {
            assert_eq!(formats.take(&layout(format, modifier)), taken);
        }
    }

    #[test]
    fn an_invalid_list_of_formats_is_refused() {
        let good = blob(&[NV12], &[(1, 0, LINEAR)]);
        assert!(Formats::parse(&good).is_some());
        for end in 0..good.len() {
            assert_eq!(Formats::parse(&good[..end]), None, "{end} bytes");
        }
        assert_eq!(Formats::parse(&blob(&[NV12], &[(0b10, 0, LINEAR)])), None);
        assert_eq!(Formats::parse(&blob(&[NV12], &[(1, 64, LINEAR)])), None);
        let mut other_version = good;
        other_version[0] = 2;
        assert_eq!(Formats::parse(&other_version), None);
    }

    #[test]
    fn the_primary_plane_comes_first_if_it_takes_the_format() {
        let (rgb, video) = (
            Formats::linear(&[XRGB8888]),
            Formats::linear(&[NV12, YUV420]),
        );
        let order = |planes: &[(Role, &Formats)], format| {
            super::order(planes.iter().copied(), &layout(format, LINEAR))
        };
        let (overlay, primary) = (Role::Overlay, Role::Primary);
        let planes = [(overlay, &video), (overlay, &video), (primary, &video)];
        assert_eq!(order(&planes, NV12), [2, 0, 1]);
        let planes = [(primary, &rgb), (overlay, &video)];
        assert_eq!(order(&planes, YUV420), [1]);
        assert_eq!(order(&planes[..1], NV12), [0; 0]);
        assert_eq!(order(&planes[..1], XRGB8888), [0]);
    }
}
