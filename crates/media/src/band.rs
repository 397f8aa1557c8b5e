//! The header of a band of rows, shared by codecs that divide a picture into independent bands. It consists of four
//! little-endian 16-bit numbers: the width and height of the picture, and the first row and the number of rows of the
//! band. The rows follow in the codec's format. Each band is therefore self-contained.

use openuvr_proto::units::Size;

/// A range of rows of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Band {
    /// Size of the complete picture.
    pub(crate) size: Size,
    /// The first row.
    pub(crate) first: u32,
    /// Number of rows; at least one.
    pub(crate) rows: u32,
}

impl Band {
    /// Size of the header in bytes.
    #[cfg(feature = "client")]
    pub(crate) const HEADER: usize = 8;

    /// Appends the header to `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        for number in [self.size.width, self.size.height, self.first, self.rows] {
            // All four numbers are at most `Size::MAX_SIDE`.
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Parses the header; also returns the remaining bytes.
    ///
    /// # Errors
    /// The defect, if the band is shorter than its header, if its picture size is invalid, or if it lies outside of its
    /// picture.
    #[cfg(feature = "client")]
    pub(crate) fn read(bytes: &[u8]) -> Result<(Band, &[u8]), &'static str> {
        let (header, rest) = (bytes.split_first_chunk::<{ Band::HEADER }>())
            .ok_or("a band is shorter than its header")?;
        let number = |i: usize| u32::from(u16::from_le_bytes([header[i], header[i + 1]]));
        let band = Band {
            size: Size::new(number(0), number(2)),
            first: number(4),
            rows: number(6),
        };
        if !band.size.is_valid() || band.size.pixels() > crate::codec::MAX_PIXELS {
            return Err("a band has an invalid picture size");
        }
        if band.rows == 0 || band.first + band.rows > band.size.height {
            return Err("a band lies outside its picture");
        }
        Ok((band, rest))
    }
}
