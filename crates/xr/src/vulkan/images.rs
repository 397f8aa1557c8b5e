//! What an application may wish for as a swapchain, and the images that it gets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;
use ash::vk::Handle as _;
use openuvr_media::capture::vulkan::Pixels;
use openuvr_proto::units::Size;
use openxr_sys as xr;

use super::memory::{Owned, Readable};
use crate::border::Outcome;

/// The widest and highest image, in pixels (guess: twice what the sharpest headset takes; the larger ones
/// that some devices could make are memory, not sharpness).
pub(crate) const LARGEST_IMAGE: u32 = 8192;

/// Layers of an image at most (guess: two eyes, or a stack of pages).
const MOST_LAYERS: u32 = 256;

/// One is shown, one is copied, one is drawn.
const IMAGES: u32 = 3;

/// Formats that applications may draw in, the best first: bytes in sRGB are copied as they are; of all others
/// the colours are linear.
pub(super) const COLOURS: [vk::Format; 6] = [
    vk::Format::R8G8B8A8_SRGB,
    vk::Format::B8G8R8A8_SRGB,
    vk::Format::R16G16B16A16_SFLOAT,
    vk::Format::A2B10G10R10_UNORM_PACK32,
    vk::Format::R8G8B8A8_UNORM,
    vk::Format::B8G8R8A8_UNORM,
];

/// Formats of depth. They can be drawn into, and no layer shows them.
pub(super) const DEPTHS: [vk::Format; 4] = [
    vk::Format::D32_SFLOAT,
    vk::Format::D16_UNORM,
    vk::Format::D24_UNORM_S8_UINT,
    vk::Format::D32_SFLOAT_S8_UINT,
];

/// A swapchain that an application wishes for.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    format: vk::Format,
    size: Size,
    layers: u32,
    mips: u32,
    samples: vk::SampleCountFlags,
    usage: vk::ImageUsageFlags,
    mutable: bool,
    pub(crate) is_static: bool,
}

impl Wish {
    /// Reads and checks it.
    ///
    /// # Errors
    /// What the specification has for what is wrong with it.
    pub(crate) fn read(info: &xr::SwapchainCreateInfo) -> Outcome<Wish> {
        let wrong = xr::Result::ERROR_VALIDATION_FAILURE;
        let unsupported = xr::Result::ERROR_FEATURE_UNSUPPORTED;
        let format = i32::try_from(info.format).map(vk::Format::from_raw);
        let format = format
            .ok()
            .filter(|f| COLOURS.contains(f) || DEPTHS.contains(f));
        let format = format.ok_or(xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED)?;
        let sides = [info.width, info.height];
        let positive = [info.sample_count, info.array_size, info.mip_count];
        match info.face_count {
            1 => {}
            // Nothing of ours shows the inside of a cube.
            6 => return Err(unsupported),
            _ => return Err(wrong),
        }
        if sides.iter().any(|side| !(1..=LARGEST_IMAGE).contains(side)) || positive.contains(&0) {
            return Err(wrong);
        }
        if info.array_size > MOST_LAYERS || info.mip_count > 32 {
            return Err(wrong);
        }
        let known = xr::SwapchainCreateFlags::STATIC_IMAGE;
        if info
            .create_flags
            .intersects(!(known | xr::SwapchainCreateFlags::PROTECTED_CONTENT))
        {
            return Err(wrong);
        }
        if info
            .create_flags
            .contains(xr::SwapchainCreateFlags::PROTECTED_CONTENT)
        {
            // What nobody may read can't be streamed.
            return Err(unsupported);
        }
        let is_power = info.sample_count.is_power_of_two() && info.sample_count <= 64;
        if !is_power || (info.sample_count > 1 && info.mip_count > 1) {
            return Err(unsupported);
        }
        let all = [
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
        let mut known = xr::SwapchainUsageFlags::MUTABLE_FORMAT;
        let mut usage = vk::ImageUsageFlags::empty();
        for (theirs, ours) in all {
            known |= theirs;
            if info.usage_flags.contains(theirs) {
                usage |= ours;
            }
        }
        if info.usage_flags.intersects(!known) {
            return Err(wrong);
        }
        // It has to be attached to what draws, and we read it.
        usage |= match COLOURS.contains(&format) {
            true => {
                vk::ImageUsageFlags::COLOR_ATTACHMENT
                    | vk::ImageUsageFlags::TRANSFER_SRC
                    | vk::ImageUsageFlags::SAMPLED
            }
            false => vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT,
        };
        Ok(Wish {
            format,
            size: Size::new(info.width, info.height),
            layers: info.array_size,
            mips: info.mip_count,
            samples: vk::SampleCountFlags::from_raw(info.sample_count),
            usage,
            mutable: info
                .usage_flags
                .contains(xr::SwapchainUsageFlags::MUTABLE_FORMAT),
            is_static: info
                .create_flags
                .contains(xr::SwapchainCreateFlags::STATIC_IMAGE),
        })
    }

    /// How many images there are.
    pub(crate) fn count(&self) -> u32 {
        if self.is_static { 1 } else { IMAGES }
    }

    /// What one of them is to be.
    pub(super) fn info(&self) -> vk::ImageCreateInfo<'static> {
        let flags = match self.mutable {
            true => vk::ImageCreateFlags::MUTABLE_FORMAT,
            false => vk::ImageCreateFlags::empty(),
        };
        vk::ImageCreateInfo::default()
            .flags(flags)
            .image_type(vk::ImageType::TYPE_2D)
            .format(self.format)
            .extent(vk::Extent3D {
                width: self.size.width,
                height: self.size.height,
                depth: 1,
            })
            .mip_levels(self.mips)
            .array_layers(self.layers)
            .samples(self.samples)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(self.usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
    }
}

/// The images of a swapchain.
pub(crate) struct Pictures {
    pub(super) wish: Wish,
    pub(super) images: Vec<Owned>,
    /// What our shader reads them through, made when it first does: for each image and layer.
    pub(super) seen: Mutex<Vec<((u32, u32), Readable)>>,
    gone: AtomicBool,
}

impl Pictures {
    pub(super) fn new(wish: Wish, images: Vec<Owned>) -> Pictures {
        Pictures {
            wish,
            images,
            seen: Mutex::default(),
            gone: AtomicBool::new(false),
        }
    }

    /// They are used no more.
    pub(super) fn goes(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether they are used no more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// As OpenXR hands them out.
    pub(crate) fn handles(&self) -> Vec<u64> {
        self.images.iter().map(|own| own.image.as_raw()).collect()
    }

    pub(crate) fn size(&self) -> Size {
        self.wish.size
    }

    pub(crate) fn layers(&self) -> u32 {
        self.wish.layers
    }

    pub(crate) fn is_colour(&self) -> bool {
        COLOURS.contains(&self.wish.format)
    }

    pub(super) fn format(&self) -> vk::Format {
        self.wish.format
    }

    pub(super) fn samples(&self) -> vk::SampleCountFlags {
        self.wish.samples
    }

    /// How its bytes are arranged, if they can be streamed as they are.
    pub(super) fn pixels(&self) -> Option<Pixels> {
        let plain = self.wish.samples == vk::SampleCountFlags::TYPE_1;
        match self.wish.format {
            vk::Format::R8G8B8A8_SRGB if plain => Some(Pixels::Rgba8),
            vk::Format::B8G8R8A8_SRGB if plain => Some(Pixels::Bgra8),
            _ => None,
        }
    }

    /// As what they are laid out while they are ours.
    pub(super) fn layout(&self) -> vk::ImageLayout {
        match self.is_colour() {
            true => vk::ImageLayout::COLOR_ATTACHMENT_OPTIMAL,
            false => vk::ImageLayout::DEPTH_STENCIL_ATTACHMENT_OPTIMAL,
        }
    }

    /// All of one.
    pub(super) fn range(&self) -> vk::ImageSubresourceRange {
        let depth = vk::ImageAspectFlags::DEPTH;
        let aspect_mask = match self.wish.format {
            _ if self.is_colour() => vk::ImageAspectFlags::COLOR,
            vk::Format::D24_UNORM_S8_UINT | vk::Format::D32_SFLOAT_S8_UINT => {
                depth | vk::ImageAspectFlags::STENCIL
            }
            _ => depth,
        };
        vk::ImageSubresourceRange {
            aspect_mask,
            base_mip_level: 0,
            level_count: self.wish.mips,
            base_array_layer: 0,
            layer_count: self.wish.layers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> xr::SwapchainCreateInfo {
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
    fn wishes_are_checked_one_by_one() {
        type Change = fn(&mut xr::SwapchainCreateInfo);
        let wrong = xr::Result::ERROR_VALIDATION_FAILURE;
        let unsupported = xr::Result::ERROR_FEATURE_UNSUPPORTED;
        let cases: [(Change, xr::Result); 11] = [
            (|i| i.width = 0, wrong),
            (|i| i.width = 16_384, wrong),
            (|i| i.height = LARGEST_IMAGE + 1, wrong),
            (|i| i.array_size = 0, wrong),
            (|i| i.mip_count = 0, wrong),
            (|i| i.sample_count = 0, wrong),
            (|i| i.sample_count = 3, unsupported),
            (|i| i.face_count = 6, unsupported),
            (|i| i.face_count = 2, wrong),
            (
                |i| i.create_flags = xr::SwapchainCreateFlags::PROTECTED_CONTENT,
                unsupported,
            ),
            (
                |i| i.format = 1 << 40,
                xr::Result::ERROR_SWAPCHAIN_FORMAT_UNSUPPORTED,
            ),
        ];
        assert!(Wish::read(&usual()).is_ok());
        for (index, (change, result)) in cases.into_iter().enumerate() {
            let mut info = usual();
            change(&mut info);
            assert_eq!(Wish::read(&info).err(), Some(result), "case {index}");
        }
    }

    #[test]
    fn what_we_do_with_an_image_is_among_its_uses() {
        let colour = Wish::read(&usual()).unwrap();
        assert!(colour.usage.contains(vk::ImageUsageFlags::TRANSFER_SRC));
        assert_eq!(colour.count(), 3);
        let mut info = usual();
        info.create_flags = xr::SwapchainCreateFlags::STATIC_IMAGE;
        info.format = vk::Format::D32_SFLOAT.as_raw().into();
        let depth = Wish::read(&info).unwrap();
        assert!(!depth.usage.contains(vk::ImageUsageFlags::COLOR_ATTACHMENT) || depth.is_static);
        assert_eq!(depth.count(), 1);
    }
}
