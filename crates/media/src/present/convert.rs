//! Converts a decoder's picture to packed BGRX, on the calling thread. A large picture is divided between this thread
//! and a second thread.

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
/// [`PresentError`] if a plane or `bgrx` is shorter than size and stride require, or if the pixel format is not
/// supported.
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
            "invalid {:?} picture of {size}: {cause}",
            picture.format
        ))
    };
    let [first, second, third] = picture.planes;
    let (range, matrix) = (YuvRange::Limited, YuvStandardMatrix::Bt709);
    let stride = |plane: Plane<'_>| u32::try_from(plane.stride).unwrap_or(u32::MAX);
    let out_stride = size.width * 4;
    match picture.format {
        PixelFormat::Bgrx => {
            copy_rows(size, first, bgrx).ok_or_else(|| wrong(&"the plane is too short"))
        }
        PixelFormat::Rgbx | PixelFormat::Bgr | PixelFormat::Rgb => {
            Err(wrong(&"unsupported pixel format"))
        }
        PixelFormat::Nv12 => {
            let whole = whole_pairs(size, first, second);
            let (upper, last) = bgrx.split_at_mut(row * whole);
            nv12_to_bgrx(size.width, whole, [first, second], upper).map_err(|c| wrong(&c))?;
            if last.is_empty() {
                return Ok(());
            }
            let parts = last_rows(size, whole, first, second);
            let (luma, chroma) = parts.ok_or_else(|| wrong(&"the planes are too short"))?;
            let left = size.height as usize - whole;
            let plane = |data, stride| Plane { data, stride };
            let planes = [
                plane(&luma, luma.len() / left),
                plane(&chroma, chroma.len()),
            ];
            nv12_to_bgrx(size.width, left, planes, last).map_err(|cause| wrong(&cause))
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

/// Copies the rows of a BGRX plane without padding; `None` if it is too short.
fn copy_rows(size: Size, plane: Plane<'_>, bgrx: &mut [u8]) -> Option<()> {
    let row = size.width as usize * 4;
    let gaps = plane.stride.saturating_mul(size.height as usize - 1);
    if plane.stride < row || plane.data.len() < gaps.saturating_add(row) {
        return None;
    }
    let from = plane.data.chunks(plane.stride);
    for (to, from) in bgrx.chunks_exact_mut(row).zip(from) {
        to.copy_from_slice(&from[..row]);
    }
    Some(())
}

/// The luma and chroma rows of an NV12 picture after its first `whole` rows. All rows have the same length. `None` if
/// the planes are too short.
fn last_rows(
    size: Size,
    whole: usize,
    luma: Plane<'_>,
    chroma: Plane<'_>,
) -> Option<(Vec<u8>, Vec<u8>)> {
    // A chroma sample covers two pixels, also at the end of a row of odd length.
    let side = size.width.next_multiple_of(2) as usize;
    let rows = |plane: Plane<'_>, from: usize, count: usize| {
        let rows = (from..from + count).map(|n| plane.data.get(n * plane.stride..));
        let cut = |data: Option<&[u8]>| data?.get(..side.min(plane.stride)).map(<[u8]>::to_vec);
        rows.map(cut).collect::<Option<Vec<_>>>()
    };
    let left = size.height as usize - whole;
    let (luma, chroma) = rows(luma, whole, left).zip(rows(chroma, whole / 2, 1))?;
    Some((luma.concat(), chroma.concat()))
}

/// The number of rows of an NV12 picture that `yuv` can convert in place. The number is even, and each of these rows
/// has its complete stride. `yuv` skips other rows or panics on them.
fn whole_pairs(size: Size, luma: Plane<'_>, chroma: Plane<'_>) -> usize {
    let rows = size.height as usize / 2 * 2;
    let has = |plane: Plane<'_>, rows: usize| plane.data.len() >= plane.stride.saturating_mul(rows);
    match has(luma, rows) && has(chroma, rows / 2) {
        true => rows,
        false => rows.saturating_sub(2),
    }
}

fn nv12_to_bgrx(
    width: u32,
    rows: usize,
    [luma, chroma]: [Plane<'_>; 2],
    bgrx: &mut [u8],
) -> Result<(), String> {
    if rows == 0 {
        return Ok(());
    }
    let y_plane = luma.data.get(..luma.stride.saturating_mul(rows));
    let uv_plane = (chroma.data).get(..chroma.stride.saturating_mul(rows.div_ceil(2)));
    let (y_plane, uv_plane) = y_plane.zip(uv_plane).ok_or("the planes are too short")?;
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let image = YuvBiPlanarImage {
        y_plane,
        y_stride: number(luma.stride),
        uv_plane,
        uv_stride: number(chroma.stride),
        width,
        height: number(rows),
    };
    let (range, matrix) = (YuvRange::Limited, YuvStandardMatrix::Bt709);
    let mode = YuvConversionMode::Balanced;
    yuv_nv12_to_bgra(&image, bgrx, width * 4, range, matrix, mode).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_frames_are_converted_to_the_last_row() {
        // Rows may have padding, except for the last row. Some pictures have an extra row.
        for (size, coded, stride) in [
            (Size::new(1366, 768), 768, 1536),
            (Size::new(1280, 719), 720, 1280),
            (Size::new(33, 7), 8, 40),
            (Size::new(1, 1), 2, 2),
            (Size::new(64, 2), 2, 64),
        ] {
            let side = size.width.next_multiple_of(2) as usize;
            let value = |i: usize| (i.wrapping_mul(2_654_435_761) >> 11).to_le_bytes()[0];
            let luma: Vec<u8> = (0..stride * (coded - 1) + side).map(value).collect();
            let chroma: Vec<u8> = (0..stride * (coded / 2 - 1) + side).map(value).collect();
            let picture = Picture {
                size,
                format: PixelFormat::Nv12,
                rows: crate::picture::RowOrder::TopDown,
                planes: [
                    Plane {
                        data: &luma,
                        stride,
                    },
                    Plane {
                        data: &chroma,
                        stride,
                    },
                    Plane::EMPTY,
                ],
            };
            // The same picture with separate chroma planes, which `yuv` accepts directly.
            let (cb, cr): (Vec<u8>, Vec<u8>) = (0..coded / 2)
                .flat_map(|y| chroma[y * stride..][..side].chunks(2))
                .map(|pair| (pair[0], pair[1]))
                .unzip();
            let plane = |data, stride| Plane { data, stride };
            let same = Picture {
                format: PixelFormat::I420,
                planes: [
                    plane(&luma, stride),
                    plane(&cb, side / 2),
                    plane(&cr, side / 2),
                ],
                ..picture
            };
            let (mut one, mut other) = (vec![1; size.pixels() * 4], vec![2; size.pixels() * 4]);
            rows_to_bgrx(&picture, &mut one).expect("NV12");
            rows_to_bgrx(&same, &mut other).expect("I420");
            let worst = one.iter().zip(&other).map(|(a, b)| a.abs_diff(*b)).max();
            // The two kernels round differently.
            assert!(worst <= Some(3), "{size}: {worst:?}");
        }
    }

    #[test]
    fn two_cores_write_the_same_as_one() {
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
                rows: crate::picture::RowOrder::TopDown,
                planes: planes.map(|(bytes, stride)| plane(0, bytes, stride)),
            };
            let (mut one, mut two) = (vec![0; luma * 4], vec![1; luma * 4]);
            rows_to_bgrx(&picture, &mut one).expect("one core");
            to_bgrx(&picture, &mut two).expect("two cores");
            assert!(one == two, "{format:?}");
        }
    }
}
