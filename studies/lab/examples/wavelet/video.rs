//! Pictures from a YUV4MPEG2 file with 4:2:0 and 8 bits.

use std::error::Error;

/// A plane of samples without padding.
pub(crate) struct Plane {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) samples: Vec<u8>,
}

impl Plane {
    /// The samples of row `y`. Below the last row, the last row is repeated.
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let from = y.min(self.height - 1) * self.width;
        &self.samples[from..from + self.width]
    }

    /// The sum of the squared differences from a plane of the same size.
    pub(crate) fn squared_error(&self, other: &[u8]) -> f64 {
        let pairs = self.samples.iter().zip(other);
        pairs.map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2)).sum()
    }
}

/// Luma and chroma of a picture.
pub(crate) struct Picture(pub(crate) [Plane; 3]);

impl Picture {
    /// The vertical strip with the index `part`, if the picture is divided into `parts` strips.
    pub(crate) fn columns(&self, part: usize, parts: usize) -> [Plane; 3] {
        self.0.each_ref().map(|plane| {
            let width = plane.width / parts;
            let rows = plane.samples.chunks_exact(plane.width);
            Plane {
                width,
                height: plane.height,
                samples: rows
                    .flat_map(|row| &row[part * width..][..width])
                    .copied()
                    .collect(),
            }
        })
    }
}

/// All pictures of a file.
pub(crate) struct Video {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pictures: Vec<Picture>,
}

impl Video {
    pub(crate) fn read(path: &str) -> Result<Video, Box<dyn Error>> {
        let bytes = std::fs::read(path).map_err(|why| format!("can't read {path}: {why}"))?;
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or("no line in the file")?;
        let header = std::str::from_utf8(&bytes[..end])?;
        let value = |name: char| {
            header
                .split(' ')
                .skip(1)
                .find_map(|word| word.strip_prefix(name))
        };
        let (width, height) = (
            value('W').ok_or("no width")?,
            value('H').ok_or("no height")?,
        );
        let (width, height): (usize, usize) = (width.parse()?, height.parse()?);
        let is_420 = |chroma: &str| ["420", "420jpeg", "420mpeg2", "420paldv"].contains(&chroma);
        if !header.starts_with("YUV4MPEG2 ") || !value('C').is_none_or(is_420) {
            return Err(format!("{path} is not a YUV4MPEG2 file with 4:2:0 and 8 bits").into());
        }
        // At each level, the widths of a picture and of its halves are even, so rows need no padding.
        if width % 128 != 0 || width == 0 || height % 2 != 0 || height < 64 {
            let rule = "the width must be a multiple of 128, and the height even and at least 64";
            return Err(format!("{width}x{height}: {rule}").into());
        }
        let mut rest = &bytes[end + 1..];
        let mut pictures = Vec::new();
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            rest = &rest[at + 1..];
            let mut plane = |width: usize, height: usize| {
                let count = width
                    .checked_mul(height)
                    .ok_or("the pictures are too large")?;
                let (samples, after) = rest
                    .split_at_checked(count)
                    .ok_or("an incomplete picture")?;
                rest = after;
                Ok::<Plane, Box<dyn Error>>(Plane {
                    width,
                    height,
                    samples: samples.to_vec(),
                })
            };
            pictures.push(Picture([
                plane(width, height)?,
                plane(width / 2, height / 2)?,
                plane(width / 2, height / 2)?,
            ]));
        }
        Ok(Video {
            width,
            height,
            pictures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of pictures, or the error.
    fn read(size: &str, samples: usize) -> Result<usize, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = format!("YUV4MPEG2 {size} C420\nFRAME\n").into_bytes();
        bytes.resize(bytes.len() + samples, 128);
        std::fs::write(file.path(), bytes).unwrap();
        let video = Video::read(file.path().to_str().unwrap());
        video
            .map(|video| video.pictures.len())
            .map_err(|why| why.to_string())
    }

    #[test]
    fn a_size_beyond_the_memory_is_refused() {
        let samples = 128 * 64 * 3 / 2;
        assert_eq!(read("W128 H64", samples), Ok(1));
        let error = |size: &str, samples: usize| read(size, samples).unwrap_err();
        assert_eq!(error("W128 H64", samples - 1), "an incomplete picture");
        assert_eq!(
            error("W1099511627776 H1099511627776", 1),
            "the pictures are too large"
        );
    }
}
