//! The header in front of a band of rows, which the codecs share that cut a picture into bands
//! which know nothing of each other: four little-endian 16-bit numbers, namely width and height of
//! the picture, first row and number of rows of this band. So each slice says all that a decoder
//! must know. Not the rows themselves.

use openuvr_proto::units::Size;

/// A place in a picture: all of its columns, some of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Band {
    /// Of the whole picture.
    pub(crate) size: Size,
    /// The first row.
    pub(crate) first: u32,
    /// How many rows; at least one.
    pub(crate) rows: u32,
}

impl Band {
    /// Bytes of the header.
    #[cfg(feature = "client")]
    pub(crate) const HEADER: usize = 8;

    /// Appends the header to `out`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        for number in [self.size.width, self.size.height, self.first, self.rows] {
            // All of them are at most `Size::MAX_SIDE`.
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Reads the header; what is behind it comes back too.
    ///
    /// # Errors
    /// What is wrong with it: the band lies inside a picture of a possible size, or this fails.
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
            return Err("a band says an impossible size");
        }
        if band.rows == 0 || band.first + band.rows > band.size.height {
            return Err("a band lies outside its picture");
        }
        Ok((band, rest))
    }
}
