//! Any picture into packed BGRX, on the calling thread.

use yuv::{
    YuvBiPlanarImage, YuvConversionMode, YuvPlanarImage, YuvRange, YuvStandardMatrix, gbr_to_bgra,
    yuv_nv12_to_bgra, yuv420_to_bgra, yuv444_to_bgra,
};

use super::PresentError;
use crate::picture::{Picture, PixelFormat, Plane};

/// Writes `picture` into `bgrx`, rows `4 × width` bytes apart.
///
/// # Errors
/// [`PresentError`] if a plane is shorter than the size and stride say.
pub fn to_bgrx(picture: &Picture<'_>, bgrx: &mut [u8]) -> Result<(), PresentError> {
    let size = picture.size;
    let row = size.width as usize * 4;
    let bgrx = bgrx
        .get_mut(..size.pixels() * 4)
        .filter(|_| size.is_valid())
        .ok_or_else(|| PresentError(format!("a picture of {size} does not fit its buffer")))?;
    let wrong = |cause: &dyn std::fmt::Display| {
        PresentError(format!(
            "a {:?} picture of {size} is broken: {cause}",
            picture.format
        ))
    };
    let [first, second, third] = picture.planes;
    let (range, matrix) = (YuvRange::Limited, YuvStandardMatrix::Bt709);
    let stride = |plane: Plane<'_>| u32::try_from(plane.stride).unwrap_or(u32::MAX);
    let out_stride = size.width * 4;
    match picture.format {
        PixelFormat::Bgrx => {
            let needed =
                (first.stride.saturating_mul(size.height as usize - 1)).saturating_add(row);
            if first.stride < row || first.data.len() < needed {
                return Err(wrong(&"its plane is too short"));
            }
            for (to, from) in bgrx
                .chunks_exact_mut(row)
                .zip(first.data.chunks(first.stride))
            {
                to.copy_from_slice(&from[..row]);
            }
            Ok(())
        }
        PixelFormat::Nv12 => {
            let image = YuvBiPlanarImage {
                y_plane: first.data,
                y_stride: stride(first),
                uv_plane: second.data,
                uv_stride: stride(second),
                width: size.width,
                height: size.height,
            };
            let mode = YuvConversionMode::Balanced;
            yuv_nv12_to_bgra(&image, bgrx, out_stride, range, matrix, mode)
                .map_err(|cause| wrong(&cause))
        }
        PixelFormat::I420 | PixelFormat::I444 | PixelFormat::Gbr => {
            let image = YuvPlanarImage {
                y_plane: first.data,
                y_stride: stride(first),
                u_plane: second.data,
                u_stride: stride(second),
                v_plane: third.data,
                v_stride: stride(third),
                width: size.width,
                height: size.height,
            };
            match picture.format {
                PixelFormat::Gbr => gbr_to_bgra(&image, bgrx, out_stride, YuvRange::Full),
                PixelFormat::I444 => yuv444_to_bgra(&image, bgrx, out_stride, range, matrix),
                _ => yuv420_to_bgra(&image, bgrx, out_stride, range, matrix),
            }
            .map_err(|cause| wrong(&cause))
        }
    }
}
