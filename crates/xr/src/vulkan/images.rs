//! Parameters and images of Vulkan swapchains.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use ash::vk::Handle as _;
use openuvr_media::capture::vulkan::Pixels;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use super::memory::{Owned, Readable};
use crate::ffi::Outcome;
use crate::logic::swapchain_info;

/// Supported colour formats, in order of preference. sRGB images with one sample per pixel can be copied unchanged.
/// Images in the other formats contain linear colours.
pub(super) const COLOURS: [vk::Format; 6] = [
    vk::Format::R8G8B8A8_SRGB,
    vk::Format::B8G8R8A8_SRGB,
    vk::Format::R16G16B16A16_SFLOAT,
    vk::Format::A2B10G10R10_UNORM_PACK32,
    vk::Format::R8G8B8A8_UNORM,
    vk::Format::B8G8R8A8_UNORM,
];

/// Supported depth formats. The application can render to them, but no layer shows them.
pub(super) const DEPTHS: [vk::Format; 4] = [
    vk::Format::D32_SFLOAT,
    vk::Format::D16_UNORM,
    vk::Format::D24_UNORM_S8_UINT,
    vk::Format::D32_SFLOAT_S8_UINT,
];

/// Parameters of a Vulkan swapchain.
#[derive(Clone, Copy)]
pub(crate) struct ImageInfo {
    pub(crate) common: swapchain_info::SwapchainInfo,
    format: vk::Format,
    samples: vk::SampleCountFlags,
    usage: vk::ImageUsageFlags,
}

/// Usage flags of OpenXR and Vulkan.
const USAGE_FLAGS: [(xr::SwapchainUsageFlags, vk::ImageUsageFlags); 7] = [
    (
        xr::SwapchainUsageFlags::COLOR_ATTACHMENT,
        vk::ImageUsageFlags::COLOR_ATTACHMENT,
    ),
    (
        xr::SwapchainUsageFlags::DEPTH_STENCIL_ATTACHMENT,
        vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT,
    ),
    (
        xr::SwapchainUsageFlags::UNORDERED_ACCESS,
        vk::ImageUsageFlags::STORAGE,
    ),
    (
        xr::SwapchainUsageFlags::TRANSFER_SRC,
        vk::ImageUsageFlags::TRANSFER_SRC,
    ),
    (
        xr::SwapchainUsageFlags::TRANSFER_DST,
        vk::ImageUsageFlags::TRANSFER_DST,
    ),
    (
        xr::SwapchainUsageFlags::SAMPLED,
        vk::ImageUsageFlags::SAMPLED,
    ),
    (
        xr::SwapchainUsageFlags::INPUT_ATTACHMENT,
        vk::ImageUsageFlags::INPUT_ATTACHMENT,
    ),
];

impl ImageInfo {
    /// Reads and validates the parameters.
    ///
    /// # Errors
    /// Returns the error code that the specification defines for the parameter.
    pub(crate) fn read(info: &xr::SwapchainCreateInfo) -> Outcome<ImageInfo> {
        let format = i32::try_from(info.format).map(vk::Format::from_raw);
        let format = format
            .ok()
            .filter(|f| COLOURS.contains(f) || DEPTHS.contains(f));
        let format = format.ok_or(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED)?;
        let common = swapchain_info::SwapchainInfo::read(info)?;
        let flags = USAGE_FLAGS
            .iter()
            .filter(|(theirs, _)| common.usage.contains(*theirs));
        let wanted = flags.fold(vk::ImageUsageFlags::empty(), |sum, (_, ours)| sum | *ours);
        // The usage that the application needs to render to the image, and the runtime to read it.
        let needed = match COLOURS.contains(&format) {
            true => {
                vk::ImageUsageFlags::COLOR_ATTACHMENT
                    | vk::ImageUsageFlags::TRANSFER_SRC
                    | vk::ImageUsageFlags::SAMPLED
            }
            false => vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT,
        };
        Ok(ImageInfo {
            common,
            format,
            samples: vk::SampleCountFlags::from_raw(common.samples),
            usage: wanted | needed,
        })
    }

    /// Creation parameters of an image.
    pub(super) fn create_info(&self) -> vk::ImageCreateInfo<'static> {
        let flags = match (self.common.usage).contains(xr::SwapchainUsageFlags::MUTABLE_FORMAT) {
            true => vk::ImageCreateFlags::MUTABLE_FORMAT,
            false => vk::ImageCreateFlags::empty(),
        };
        vk::ImageCreateInfo::default()
            .flags(flags)
            .image_type(vk::ImageType::TYPE_2D)
            .format(self.format)
            .extent(vk::Extent3D {
                width: self.common.size.width,
                height: self.common.size.height,
                depth: 1,
            })
            .mip_levels(self.common.mips)
            .array_layers(self.common.layers)
            .samples(self.samples)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(self.usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
    }
}

pub(crate) struct SwapchainImages {
    pub(super) info: ImageInfo,
    pub(super) images: Vec<Owned>,
    /// Views for the composition shader, by image index and array layer. Each is created when it is first used.
    pub(super) views: Mutex<Vec<((u32, u32), Readable)>>,
    initialised: AtomicBool,
    destroyed: AtomicBool,
}

impl SwapchainImages {
    pub(super) fn new(info: ImageInfo, images: Vec<Owned>) -> SwapchainImages {
        SwapchainImages {
            info,
            images,
            views: Mutex::default(),
            initialised: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
        }
    }

    /// Returns whether the layout had already been initialised, and marks it as initialised.
    pub(super) fn was_initialised(&self) -> bool {
        self.initialised.swap(true, Ordering::Relaxed)
    }

    pub(super) fn mark_destroyed(&self) {
        self.destroyed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Relaxed)
    }

    /// The image handles, for the application.
    pub(crate) fn handles(&self) -> Vec<u64> {
        self.images.iter().map(|own| own.image.as_raw()).collect()
    }

    pub(crate) fn size(&self) -> Size {
        self.info.common.size
    }

    pub(crate) fn layers(&self) -> u32 {
        self.info.common.layers
    }

    pub(crate) fn is_colour(&self) -> bool {
        COLOURS.contains(&self.info.format)
    }

    pub(super) fn format(&self) -> vk::Format {
        self.info.format
    }

    pub(super) fn samples(&self) -> vk::SampleCountFlags {
        self.info.samples
    }

    /// The pixel format of the images; `None` if they cannot be streamed unchanged.
    pub(super) fn pixels(&self) -> Option<Pixels> {
        let plain = self.info.samples == vk::SampleCountFlags::TYPE_1;
        match self.info.format {
            vk::Format::R8G8B8A8_SRGB if plain => Some(Pixels::Rgba8),
            vk::Format::B8G8R8A8_SRGB if plain => Some(Pixels::Bgra8),
            _ => None,
        }
    }

    /// The layout of released images.
    pub(super) fn layout(&self) -> vk::ImageLayout {
        match self.is_colour() {
            true => vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL,
            false => vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL,
        }
    }

    /// The subresource range of a whole image.
    pub(super) fn range(&self) -> vk::ImageSubresourceRange {
        let depth = vk::ImageAspectFlags::DEPTH;
        let aspect_mask = match self.info.format {
            _ if self.is_colour() => vk::ImageAspectFlags::COLOR,
            vk::Format::D24_UNORM_S8_UINT | vk::Format::D32_SFLOAT_S8_UINT => {
                depth | vk::ImageAspectFlags::STENCIL
            }
            _ => depth,
        };
        vk::ImageSubresourceRange {
            aspect_mask,
            base_mip_level: 0,
            level_count: self.info.common.mips,
            base_array_layer: 0,
            layer_count: self.info.common.layers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid_info() -> xr::SwapchainCreateInfo {
        xr::SwapchainCreateInfo {
            ty: xr::SwapchainCreateInfo::TYPE,
            next: std::ptr::null(),
            create_flags: xr::SwapchainCreateFlags::EMPTY,
            usage_flags: xr::SwapchainUsageFlags::COLOR_ATTACHMENT,
            format: vk::Format::R8G8B8A8_SRGB.as_raw().into(),
            sample_count: 1,
            width: 640,
            height: 480,
            face_count: 1,
            array_size: 2,
            mip_count: 1,
        }
    }

    #[test]
    fn only_supported_formats_are_accepted() {
        let mut info = valid_info();
        assert!(ImageInfo::read(&info).is_ok());
        for format in [0, vk::Format::R8_UNORM.as_raw().into(), 1 << 40] {
            info.format = format;
            let unsupported = Some(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED);
            assert_eq!(ImageInfo::read(&info).err(), unsupported, "{format}");
        }
    }

    #[test]
    fn the_usage_includes_what_the_runtime_needs() {
        let colour = ImageInfo::read(&valid_info()).unwrap();
        assert!(colour.usage.contains(vk::ImageUsageFlags::TRANSFER_SRC));
        assert_eq!(colour.common.count(), 3);
        let mut info = valid_info();
        info.create_flags = xr::SwapchainCreateFlags::STATIC_IMAGE;
        info.format = vk::Format::D32_SFLOAT.as_raw().into();
        let depth = ImageInfo::read(&info).unwrap();
        assert!(
            !depth.usage.contains(vk::ImageUsageFlags::COLOR_ATTACHMENT) || depth.common.is_static
        );
        assert_eq!(depth.common.count(), 1);
    }
}
