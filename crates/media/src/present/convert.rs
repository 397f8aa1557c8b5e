//! Any picture into packed BGRX, on the calling thread and, if it is large, one more.

use openuvr_proto::units::Size;
use yuv::{
    YuvBiPlanarImage, YuvConversionMode, YuvPlanarImage, YuvRange, YuvStandardMatrix, gbr_to_bgra,
    yuv_nv12_to_bgra, yuv420_to_bgra, yuv444_to_bgra,
};

use super::PresentError;
use crate::halves::halves;
use crate::picture::{Picture, PixelFormat, Plane};

/// Writes `picture` into `bgrx`, rows `4 × width` bytes apart.
///
/// # Errors
/// [`PresentError`] if a plane is shorter than the size and stride say.
pub fn to_bgrx(picture: &Picture<'_>, bgrx: &mut [u8]) -> Result<(), PresentError> {
    let Size { width, height } = picture.size;
    let parts = halves(width, height as usize).and_then(|half| {
        let row = u32::try_from(half).ok()?;
        let (upper, lower) = (picture.band(0..row)?, picture.band(row..height)?);
        let (above, below) = bgrx.split_at_mut_checked(width as usize * 4 * half)?;
        Some((upper, above, lower, below))
    });
    let Some((upper, above, lower, below)) = parts else {
        return rows_to_bgrx(picture, bgrx);
    };
    std::thread::scope(|scope| {
        let lower = scope.spawn(move || rows_to_bgrx(&lower, below));
        let upper = rows_to_bgrx(&upper, above);
        upper.and(
            lower
                .join()
                .unwrap_or_else(|e| std::panic::resume_unwind(e)),
        )
    })
}

fn rows_to_bgrx(picture: &Picture<'_>, bgrx: &mut [u8]) -> Result<(), PresentError> {
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
        PixelFormat::Rgbx | PixelFormat::Bgr | PixelFormat::Rgb => {
            Err(wrong(&"no decoder here makes such pixels"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_cores_write_what_one_does() {
        let size = Size::new(1920, 1080);
        let noise: Vec<u8> = (0..size.pixels() * 4)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
            .collect();
        let (luma, chroma) = (size.pixels(), size.pixels() / 4);
        let plane = |at: usize, bytes: usize, stride| Plane {
            data: &noise[at..at + bytes],
            stride,
        };
        let all = [
            (PixelFormat::Nv12, [(luma, 1920), (luma / 2, 1920), (0, 0)]),
            (
                PixelFormat::I420,
                [(luma, 1920), (chroma, 960), (chroma, 960)],
            ),
            (
                PixelFormat::I444,
                [(luma, 1920), (luma, 1920), (luma, 1920)],
            ),
            (PixelFormat::Bgrx, [(luma * 4, 7680), (0, 0), (0, 0)]),
        ];
        for (format, planes) in all {
            let picture = Picture {
                size,
                format,
                rows: crate::picture::Rows::TopDown,
                planes: planes.map(|(bytes, stride)| plane(0, bytes, stride)),
            };
            let (mut one, mut two) = (vec![0; luma * 4], vec![1; luma * 4]);
            rows_to_bgrx(&picture, &mut one).expect("one core");
            to_bgrx(&picture, &mut two).expect("two cores");
            assert!(one == two, "{format:?}");
        }
    }
}
