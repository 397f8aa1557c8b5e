//! Tests HEVC with the installed libraries: libx265 encodes through libavcodec, and libavcodec decodes.

#![expect(clippy::unwrap_used, reason = "a test fails there")]

use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::decode::{self, Chunk, Decoder};
use openuvr_media::encode::{self, Encoder, FrameRequest, Opening};
use openuvr_media::picture::Picture;
use openuvr_proto::id::FrameId;
use openuvr_proto::units::{Bitrate, Size};

const SIZE: Size = Size::new(320, 192);

/// A coded picture, and the luma of the picture before encoding.
struct Coded {
    bytes: Vec<u8>,
    key_frame: bool,
    luma: Vec<u8>,
}

/// Draws a moving gradient. Returns the BGRX pixels of picture number `t`.
fn drawing(t: u32) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(SIZE.pixels() * 4);
    for y in 0..SIZE.height {
        for x in 0..SIZE.width {
            let value = u8::try_from((x + 2 * y + 3 * t) / 2 % 200 + 20).unwrap();
            pixels.extend_from_slice(&[value, value, value, 0]);
        }
    }
    pixels
}

fn encoder() -> Box<dyn Encoder> {
    encoder_with("")
}

fn encoder_with(options: &str) -> Box<dyn Encoder> {
    let backend = encode::find("libx265").unwrap();
    assert_eq!(backend.codec, Codec::Hevc);
    encode::open_with(&Opening {
        backend,
        settings: &backend.settings(SIZE, Bitrate::from_mbps(10)),
        options: &options.parse().unwrap(),
    })
    .expect("libx265 in libavcodec")
}

fn coded(encoder: &mut dyn Encoder, frame: u32, key_frame: bool) -> Coded {
    let pixels = drawing(frame);
    let mut converter = Converter::new();
    let picture = Picture::bgrx(SIZE, &pixels, SIZE.width as usize * 4);
    let picture = converter.convert(&picture, encoder.input()).unwrap();
    let ask = FrameRequest {
        frame: FrameId(frame),
        key_frame,
        reference: FrameId::NONE,
        refresh: false,
        qp: 30,
        part: None,
        unchanged: None,
    };
    let mut bytes = Vec::new();
    let encoded = encoder.encode(&picture, &ask, &mut |slice| {
        assert_eq!((slice.index, slice.mbs, slice.last), (0, 0, true));
        bytes.extend_from_slice(slice.bytes);
    });
    Coded {
        bytes,
        key_frame: encoded.expect("encoded").key_frame,
        luma: luma(&picture),
    }
}

fn luma(picture: &Picture<'_>) -> Vec<u8> {
    let plane = picture.planes[0];
    let rows = plane.data.chunks(plane.stride).take(SIZE.height as usize);
    rows.flat_map(|row| row[..SIZE.width as usize].to_vec())
        .collect()
}

fn fed(decoder: &mut dyn Decoder, frame: u32, bytes: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let chunk = Chunk {
        frame: FrameId(frame),
        first: true,
        last: true,
        first_mb: 0,
        mbs: 0,
        bytes,
    };
    let picture = decoder.feed(&chunk).map_err(|why| why.to_string())?;
    let picture = picture.expect("a picture after its last chunk");
    assert_eq!(picture.size, SIZE);
    Ok(luma(&picture))
}

fn largest_difference(one: &[u8], other: &[u8]) -> u8 {
    assert_eq!(one.len(), other.len());
    let differences = one.iter().zip(other).map(|(a, b)| a.abs_diff(*b));
    differences.max().unwrap_or(0)
}

#[test]
fn each_picture_is_decoded_at_once() {
    let mut encoder = encoder();
    let mut decoder = decode::open(Codec::Hevc).expect("hevc in libavcodec");
    for frame in 1..=30 {
        let coded = coded(&mut *encoder, frame, frame == 1 || frame == 12);
        assert_eq!(coded.key_frame, frame == 1 || frame == 12, "frame {frame}");
        let luma = fed(&mut *decoder, frame, Some(&coded.bytes)).expect("decoded");
        let most = largest_difference(&luma, &coded.luma);
        assert!(most < 40, "frame {frame}: a sample differs by {most}");
    }
}

#[test]
fn configured_parameters_of_x265_leave_key_frames_on_request() {
    let mut encoder = encoder_with("x265-params=aq-mode=0:rd=2");
    for frame in 1..=8 {
        let coded = coded(&mut *encoder, frame, frame == 1 || frame == 5);
        assert_eq!(coded.key_frame, frame == 1 || frame == 5, "frame {frame}");
    }
}

#[test]
fn a_lost_picture_is_followed_by_a_key_frame() {
    let mut encoder = encoder();
    let mut decoder = decode::open(Codec::Hevc).expect("hevc in libavcodec");
    let film: Vec<Coded> = (1..=6)
        .map(|frame| coded(&mut *encoder, frame, frame == 1 || frame == 5))
        .collect();
    let bytes = |frame: usize| Some(film[frame - 1].bytes.as_slice());
    assert!(fed(&mut *decoder, 1, bytes(1)).is_ok());
    assert!(fed(&mut *decoder, 2, bytes(2)).is_ok());
    let lost = fed(&mut *decoder, 3, None).unwrap_err();
    assert!(
        lost.contains("frame 3 is dropped: it did not arrive"),
        "{lost}"
    );
    let useless = fed(&mut *decoder, 4, bytes(4)).unwrap_err();
    assert!(
        useless.contains("its reference frame was lost"),
        "{useless}"
    );
    for frame in [5, 6] {
        let luma = fed(&mut *decoder, u32::try_from(frame).unwrap(), bytes(frame)).unwrap();
        assert!(largest_difference(&luma, &film[frame - 1].luma) < 40);
    }
}

#[test]
fn a_damaged_picture_leaves_the_decoder_usable() {
    let mut encoder = encoder();
    let mut decoder = decode::open(Codec::Hevc).expect("hevc in libavcodec");
    let key = coded(&mut *encoder, 1, true);
    for cut in [0, 3, 20, key.bytes.len() / 2] {
        // For a part of a picture, the library may return an error or a damaged picture.
        let _ = decoder.feed(&Chunk {
            frame: FrameId(1),
            first: true,
            last: true,
            first_mb: 0,
            mbs: 0,
            bytes: Some(&key.bytes[..cut]),
        });
    }
    let key = coded(&mut *encoder, 2, true);
    let luma = fed(&mut *decoder, 2, Some(&key.bytes)).expect("decoded");
    assert!(largest_difference(&luma, &key.luma) < 40);
}
