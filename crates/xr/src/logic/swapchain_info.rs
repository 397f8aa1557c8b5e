//! Parameters of a swapchain, independent of the graphics API (OpenXR 1.0, section 10.1).

use openuvr_proto::units::Size;
use openxr_sys as xr;

use crate::debug::with_message;
use crate::ffi::Outcome;

/// Maximum width and height of an image, in pixels (guess: twice the resolution of the sharpest headset).
pub(crate) const MAX_IMAGE_SIDE: u32 = 8192;

/// Maximum width and height of one eye's picture. Two pictures of 4096x4096 side by side have 131 072 macroblocks of
/// 256 pixels. The maximum of H.264 is 139 264 (level 6.2, ITU-T H.264 table A-1).
pub(crate) const MAX_VIEW_SIDE: u32 = 4096;

/// Maximum number of array layers of an image (guess: far more than the two that an application needs for both eyes).
const MAX_ARRAY_SIZE: u32 = 256;

/// Number of images: at a time, one image is shown, one is copied, and one is rendered.
const IMAGE_COUNT: u32 = 3;

/// Validated parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SwapchainInfo {
    pub(crate) size: Size,
    pub(crate) layers: u32,
    pub(crate) mips: u32,
    /// The number of samples, a power of two.
    pub(crate) samples: u32,
    pub(crate) usage: xr::SwapchainUsageFlags,
    pub(crate) is_static: bool,
}

impl SwapchainInfo {
    /// Validates all parameters except the format.
    ///
    /// # Errors
    /// Returns the error code that the specification defines for the parameter.
    pub(crate) fn read(info: &xr::SwapchainCreateInfo) -> Outcome<SwapchainInfo> {
        let invalid = xr::Result::ERROR_VALIDATION_FAILURE;
        let unsupported = xr::Result::ERROR_FEATURE_UNSUPPORTED;
        let sides = [info.width, info.height];
        let positive = [info.sample_count, info.array_size, info.mip_count];
        match info.face_count {
            1 => {}
            // No supported layer shows cube maps.
            6 => return Err(with_message(unsupported, c"cube maps are not supported")),
            _ => return Err(invalid),
        }
        if sides
            .iter()
            .any(|side| !(1..=MAX_IMAGE_SIDE).contains(side))
            || positive.contains(&0)
        {
            return Err(with_message(
                invalid,
                c"the width, the height or a count is 0, or a side exceeds 8192 pixels",
            ));
        }
        // The smallest mip level has a single pixel.
        let halvings = u32::BITS - info.width.max(info.height).leading_zeros();
        if info.array_size > MAX_ARRAY_SIZE || info.mip_count > halvings {
            return Err(with_message(
                invalid,
                c"the swapchain has more than 256 array elements, or more mip levels than its size allows",
            ));
        }
        let protected = xr::SwapchainCreateFlags::PROTECTED_CONTENT;
        let fixed = xr::SwapchainCreateFlags::STATIC_IMAGE;
        if info.create_flags.intersects(!(fixed | protected)) {
            return Err(invalid);
        }
        if info.create_flags.contains(protected) {
            return Err(with_message(
                unsupported,
                c"protected content can't be streamed",
            ));
        }
        let is_power = info.sample_count.is_power_of_two() && info.sample_count <= 64;
        if !is_power || (info.sample_count > 1 && info.mip_count > 1) {
            return Err(unsupported);
        }
        let known = xr::SwapchainUsageFlags::COLOR_ATTACHMENT
            | xr::SwapchainUsageFlags::DEPTH_STENCIL_ATTACHMENT
            | xr::SwapchainUsageFlags::UNORDERED_ACCESS
            | xr::SwapchainUsageFlags::TRANSFER_SRC
            | xr::SwapchainUsageFlags::TRANSFER_DST
            | xr::SwapchainUsageFlags::SAMPLED
            | xr::SwapchainUsageFlags::MUTABLE_FORMAT
            | xr::SwapchainUsageFlags::INPUT_ATTACHMENT;
        if info.usage_flags.intersects(!known) {
            return Err(invalid);
        }
        Ok(SwapchainInfo {
            size: Size::new(info.width, info.height),
            layers: info.array_size,
            mips: info.mip_count,
            samples: info.sample_count,
            usage: info.usage_flags,
            is_static: info.create_flags.contains(fixed),
        })
    }

    /// Number of images.
    pub(crate) fn count(&self) -> u32 {
        if self.is_static { 1 } else { IMAGE_COUNT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_checked() {
        type Change = fn(&mut xr::SwapchainCreateInfo);
        let valid_info = || xr::SwapchainCreateInfo {
            ty: xr::SwapchainCreateInfo::TYPE,
            next: std::ptr::null(),
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT,
            format: 0,
            sample_count: 1,
            width: 640,
            height: 480,
            face_count: 1,
            array_size: 2,
            mip_count: 1,
        };
        let invalid = xr::Result::ERROR_VALIDATION_FAILURE;
        let unsupported = xr::Result::ERROR_FEATURE_UNSUPPORTED;
        let cases: [(Change, xr::Result); 12] = [
            (|i| i.width = 0, invalid),
            (|i| i.width = 16_384, invalid),
            (|i| i.height = MAX_IMAGE_SIDE + 1, invalid),
            (|i| i.array_size = 0, invalid),
            (|i| i.mip_count = 0, invalid),
            (|i| i.mip_count = 11, invalid),
            (|i| i.sample_count = 0, invalid),
            (|i| i.sample_count = 3, unsupported),
            (|i| i.face_count = 6, unsupported),
            (|i| i.face_count = 2, invalid),
            (
                |i| i.create_flags = xr::SwapchainCreateFlags::PROTECTED_CONTENT,
                unsupported,
            ),
            (
                |i| i.usage_flags = xr::SwapchainUsageFlags::from_raw(1 << 40),
                invalid,
            ),
        ];
        assert_eq!(
            SwapchainInfo::read(&valid_info()).map(|info| info.count()),
            Ok(IMAGE_COUNT)
        );
        for (index, (change, result)) in cases.into_iter().enumerate() {
            let mut info = valid_info();
            change(&mut info);
            assert_eq!(
                SwapchainInfo::read(&info).err(),
                Some(result),
                "case {index}"
            );
        }
    }
}
