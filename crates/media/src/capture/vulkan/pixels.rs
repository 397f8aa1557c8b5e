//! The swapchain formats that are streamed, and the pixel formats in which they are submitted.
//!
//! There is no colour management. Only sRGB is accepted. Wide-gamut pictures (HDR10, scRGB) would need a tone curve
//! that only the application knows.

use ash::vk;

use crate::picture::PixelFormat;

/// The byte layout of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pixels {
    /// Blue first.
    Bgra8,
    /// Red first.
    Rgba8,
    /// Ten bits per colour in a word, red in the highest bits.
    Rgb10,
    /// Ten bits per colour in a word, blue in the highest bits.
    Bgr10,
}

impl Pixels {
    /// The layout of a swapchain's images.
    ///
    /// # Errors
    /// Returns the reason why such a swapchain is not streamed.
    pub fn of(format: vk::Format, space: vk::ColorSpaceKHR) -> Result<Pixels, String> {
        if space != vk::ColorSpaceKHR::SRGB_NONLINEAR {
            return Err(format!(
                "colour space {} is not supported, only sRGB is: switch HDR off",
                space.as_raw()
            ));
        }
        match format {
            vk::Format::B8G8R8A8_UNORM | vk::Format::B8G8R8A8_SRGB => Ok(Pixels::Bgra8),
            vk::Format::R8G8B8A8_UNORM
            | vk::Format::R8G8B8A8_SRGB
            | vk::Format::A8B8G8R8_UNORM_PACK32
            | vk::Format::A8B8G8R8_SRGB_PACK32 => Ok(Pixels::Rgba8),
            vk::Format::A2R10G10B10_UNORM_PACK32 => Ok(Pixels::Rgb10),
            vk::Format::A2B10G10R10_UNORM_PACK32 => Ok(Pixels::Bgr10),
            other => Err(format!(
                "Vulkan format {} is not supported: use 8 or 10 bits per colour",
                other.as_raw()
            )),
        }
    }

    /// The format in which pictures can be submitted without a copy. `None` if a copy is needed.
    #[must_use]
    pub fn as_they_are(self) -> Option<PixelFormat> {
        match self {
            Pixels::Bgra8 => Some(PixelFormat::Bgrx),
            Pixels::Rgba8 => Some(PixelFormat::Rgbx),
            Pixels::Rgb10 | Pixels::Bgr10 => None,
        }
    }

    /// Copies `from` to `to`, which both have 4 bytes per pixel and the same length. Returns the format of the copy.
    pub(super) fn copy(self, from: &[u8], to: &mut [u8]) -> PixelFormat {
        let places = match (self, self.as_they_are()) {
            (_, Some(format)) => {
                to.copy_from_slice(from);
                return format;
            }
            (Pixels::Bgr10, None) => [20, 10, 0],
            (_, None) => [0, 10, 20],
        };
        for (from, to) in from.chunks_exact(4).zip(to.chunks_exact_mut(4)) {
            to.copy_from_slice(&upper_bits(from, places));
        }
        PixelFormat::Bgrx
    }
}

/// The upper eight of the ten bits at each position, and a zero byte.
fn upper_bits(word: &[u8], places: [u32; 3]) -> [u8; 4] {
    let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    let [blue, green, red] = places.map(|place| (word >> (place + 2)).to_le_bytes()[0]);
    [blue, green, red, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrangement_is_copied_as_something_that_is_streamed() {
        let (blue, green, red) = (0x12_u8, 0x34, 0x56);
        let ten = |value: u8| u32::from(value) << 2 | 3;
        let word = |high: u8, low: u8| ten(high) << 20 | ten(green) << 10 | ten(low);
        let (bgr, rgb) = ([blue, green, red], [red, green, blue]);
        let (bgrx, rgbx) = ((PixelFormat::Bgrx, bgr), (PixelFormat::Rgbx, rgb));
        let cases = [
            (Pixels::Bgra8, [blue, green, red, 9], bgrx),
            (Pixels::Rgba8, [red, green, blue, 9], rgbx),
            (Pixels::Rgb10, word(red, blue).to_le_bytes(), bgrx),
            (Pixels::Bgr10, word(blue, red).to_le_bytes(), bgrx),
        ];
        for (pixels, from, (format, colours)) in cases {
            let mut to = [0; 8];
            assert_eq!(pixels.copy(&[from, from].concat(), &mut to), format);
            for pixel in to.chunks_exact(4) {
                assert_eq!(pixel[..3], colours, "{pixels:?}");
            }
        }
    }

    #[test]
    fn non_srgb_is_refused_with_a_reason() {
        let srgb = vk::ColorSpaceKHR::SRGB_NONLINEAR;
        let wide = vk::ColorSpaceKHR::HDR10_ST2084_EXT;
        assert!(Pixels::of(vk::Format::B8G8R8A8_SRGB, srgb).is_ok());
        let reason = Pixels::of(vk::Format::A2B10G10R10_UNORM_PACK32, wide).unwrap_err();
        assert!(reason.contains("HDR"), "{reason}");
        let reason = Pixels::of(vk::Format::R16G16B16A16_SFLOAT, srgb).unwrap_err();
        assert!(reason.contains("format 97"), "{reason}");
    }
}
