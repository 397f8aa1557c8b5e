//! Checks whether an encoder works on this machine: encodes generated pictures, or reports why this fails. It is not a
//! benchmark, because one small picture on a busy machine does not show the encoder's speed.

use std::time::{Duration, Instant};

use openuvr_proto::id::FrameId;
use openuvr_proto::units::{Bitrate, Size};

use super::{Backend, EncodeError, EncoderOptions, FrameRequest, Opening, open_with};
use crate::convert::Converter;
use crate::picture::Picture;

/// The picture's size: small, but not below the minimum of hardware encoders. For some of them, the minimum width is
/// 145 pixels.
pub const PROBE_SIZE: Size = Size::new(640, 368);

/// A moderate bitrate for encoders with their own rate control.
const BITRATE: Bitrate = Bitrate::from_mbps(10);

/// Number of encoded pictures: the first is a key frame for warm-up, and the last is timed.
const PICTURES: u32 = 3;

/// The measurement of the last test picture.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Probe {
    /// Time from submitting the picture to receiving its last slice, in milliseconds.
    pub millis: f64,
    /// Size of the coded picture.
    pub bytes: usize,
}

/// Opens `backend` and encodes generated pictures of [`PROBE_SIZE`] with it.
///
/// # Errors
/// [`EncodeError`] in one line if the encoder can't be opened or fails.
pub fn probe(backend: &Backend) -> Result<Probe, EncodeError> {
    probe_at(backend, PROBE_SIZE)
}

/// Opens `backend` and encodes generated pictures of `size` with it.
///
/// # Errors
/// The same errors as [`probe`].
pub fn probe_at(backend: &Backend, size: Size) -> Result<Probe, EncodeError> {
    let mut encoder = open_with(&Opening {
        backend,
        settings: &backend.settings(size, BITRATE),
        options: &EncoderOptions::NONE,
    })?;
    let mut converter = Converter::new();
    let mut result = Probe {
        millis: 0.0,
        bytes: 0,
    };
    for number in 1..=PICTURES {
        let pixels = drawing(number, size);
        let picture = Picture::bgrx(size, &pixels, size.width as usize * 4);
        let picture = converter
            .convert(&picture, encoder.input())
            .map_err(|error| EncodeError(error.to_string()))?;
        let ask = FrameRequest {
            frame: FrameId(number),
            key_frame: number == 1,
            reference: FrameId::NONE,
            refresh: false,
            qp: 30,
            part: None,
            unchanged: None,
        };
        let start = Instant::now();
        let (mut last, mut bytes) = (None, 0);
        encoder.encode(&picture, &ask, &mut |slice| {
            bytes += slice.bytes.len();
            if slice.last {
                last = Some(start.elapsed());
            }
        })?;
        let took: Duration = last.filter(|_| bytes > 0).ok_or_else(|| {
            EncodeError(format!("{} returned an incomplete picture", backend.name))
        })?;
        result = Probe {
            millis: took.as_secs_f64() * 1e3,
            bytes,
        };
    }
    Ok(result)
}

/// Checks `options` for `backend`: opens the encoder once with these options, for pictures of [`PROBE_SIZE`], and
/// encodes nothing. Without options, the encoder is not opened.
///
/// # Errors
/// [`EncodeError`] in one line. It names an option that the encoder does not have, an option whose value the encoder
/// refuses, or an option that is known to delay pictures. If the encoder can't be opened even without options, the
/// error contains the reason.
pub fn check_options(backend: &Backend, options: &EncoderOptions) -> Result<(), EncodeError> {
    if options.is_empty() {
        return Ok(());
    }
    open_with(&Opening {
        backend,
        settings: &backend.settings(PROBE_SIZE, BITRATE),
        options,
    })
    .map(drop)
}

/// A gradient with a moving lattice.
fn drawing(number: u32, size: Size) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(size.pixels() * 4);
    for y in 0..size.height {
        for x in 0..size.width {
            let lattice = ((x + 4 * number) ^ y) & 32;
            let [red, ..] = (x * 255 / size.width).to_le_bytes();
            let [green, ..] = (y * 255 / size.height).to_le_bytes();
            let [blue, ..] = (lattice * 4).to_le_bytes();
            pixels.extend_from_slice(&[blue, green, red, 0]);
        }
    }
    pixels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_without_options_refuses_all_of_them() {
        let options: EncoderOptions = "quality=80".parse().unwrap();
        let jpeg = crate::encode::find("jpeg").unwrap();
        let why = check_options(jpeg, &options).expect_err("no options");
        assert!(why.to_string().contains("quality"), "{why}");
        assert!(check_options(jpeg, &EncoderOptions::NONE).is_ok());
    }
}
