//! Encoders and decoders together, with the real libx264 and the real libavcodec.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness captures it"
)]
#![allow(clippy::cast_possible_truncation)]

mod moving;
mod skip;

use moving::Nv12;
use openuvr_media::codec::Codec;
use openuvr_media::convert::Converter;
use openuvr_media::decode::{self, Chunk, DecodeError, Decoder};
use openuvr_media::difference::DifferenceMeter;
use openuvr_media::encode::{self, Chroma, Encoded, Encoder, FrameRequest, Rate, Settings, Slice};
use openuvr_media::picture::{Picture, PixelFormat, Plane, RowOrder};
use openuvr_proto::id::FrameId;
use openuvr_proto::send::rate::RateControl;
use openuvr_proto::units::{Bitrate, Size};
use skip::skip;

const SIZES: [Size; 2] = [Size::new(640, 360), Size::new(850, 478)];
const QP: u8 = 24;

/// A stored slice.
#[derive(Clone)]
struct Kept {
    index: u8,
    first_mb: u16,
    mbs: u16,
    last: bool,
    bytes: Vec<u8>,
}

/// The planes of a decoded picture, with rows without padding.
type Planes = [Vec<u8>; 3];

fn settings(size: Size, slices: u8, threads: u8) -> Settings {
    Settings {
        slices,
        threads,
        ..Settings::of(size)
    }
}

/// The default settings of the encoder `name`.
fn usual(name: &str, size: Size, slices: u8, threads: u8) -> Settings {
    Settings {
        slices,
        threads,
        ..encode::find(name)
            .expect("in the table")
            .settings(size, Bitrate(8_000_000))
    }
}

fn encode_one(
    encoder: &mut dyn Encoder,
    picture: &Picture<'_>,
    frame: u32,
    key_frame: bool,
) -> (Vec<Kept>, Encoded) {
    let mut kept = Vec::new();
    let ask = FrameRequest {
        frame: FrameId(frame),
        key_frame,
        reference: FrameId::NONE,
        refresh: false,
        qp: QP,
        part: None,
        unchanged: None,
    };
    let encoded = encoder
        .encode(picture, &ask, &mut |s: Slice<'_>| {
            kept.push(Kept {
                index: s.index,
                first_mb: s.first_mb,
                mbs: s.mbs,
                last: s.last,
                bytes: s.bytes.to_vec(),
            });
        })
        .expect("encoded");
    assert_eq!(encoded.bytes, kept.iter().map(|s| s.bytes.len()).sum());
    (kept, encoded)
}

/// Frames 1 to `count`, with the frames in `keys` requested as key frames.
fn film(settings: &Settings, count: u32, keys: &[u32]) -> Vec<Vec<Kept>> {
    let mut encoder = encode::open("x264", settings).expect("libx264");
    assert_eq!(encoder.input(), PixelFormat::Nv12);
    (1..=count)
        .map(|frame| {
            let source = Nv12::frame(settings.size, frame);
            let key = keys.contains(&frame);
            let (kept, encoded) = encode_one(&mut *encoder, &source.picture(), frame, key);
            assert_eq!(encoded.key_frame, key || frame == 1, "frame {frame}");
            assert_eq!(kept.len(), usize::from(encoder.slices()));
            kept
        })
        .collect()
}

fn keep(picture: &Picture<'_>) -> Planes {
    let (w, h) = (picture.size.width as usize, picture.size.height as usize);
    std::array::from_fn(|i| {
        let half = match picture.format {
            PixelFormat::I420 => usize::from(i > 0) + 1,
            PixelFormat::I444 | PixelFormat::Gbr => 1,
            other => panic!("{other:?} is not a format of libavcodec"),
        };
        let plane = picture.planes[i];
        (0..h / half)
            .flat_map(|y| &plane.data[y * plane.stride..][..w / half])
            .copied()
            .collect()
    })
}

/// Feeds a frame, and asserts that the decoder returns its picture with the last slice.
fn feed(
    decoder: &mut dyn Decoder,
    frame: u32,
    slices: &[Kept],
    lost: &dyn Fn(u32, usize) -> bool,
) -> Result<Planes, DecodeError> {
    for (i, slice) in slices.iter().enumerate() {
        let chunk = Chunk {
            frame: FrameId(frame),
            first: i == 0,
            last: slice.last,
            first_mb: slice.first_mb,
            mbs: slice.mbs,
            bytes: (!lost(frame, i)).then_some(&slice.bytes),
        };
        let picture = decoder.feed(&chunk)?;
        assert_eq!(picture.is_some(), slice.last, "frame {frame}, slice {i}");
        if let Some(picture) = picture {
            return Ok(keep(&picture));
        }
    }
    panic!("frame {frame} has no last slice");
}

fn decode_all(
    film: &[Vec<Kept>],
    lost: &dyn Fn(u32, usize) -> bool,
) -> Vec<Result<Planes, DecodeError>> {
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    (1..)
        .zip(film)
        .map(|(frame, slices)| feed(&mut *decoder, frame, slices, lost))
        .collect()
}

fn decode_clean(film: &[Vec<Kept>]) -> Vec<Planes> {
    let pictures = decode_all(film, &|_, _| false);
    pictures.into_iter().map(|p| p.expect("clean")).collect()
}

fn psnr(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let error = a
        .iter()
        .zip(b)
        .map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2));
    let mean = error.sum::<f64>() / a.len() as f64;
    10.0 * (255.0 * 255.0 / mean.max(1e-9)).log10()
}

fn nal_types(bytes: &[u8]) -> Vec<u8> {
    let starts = bytes.windows(4).filter(|w| w[..3] == [0, 0, 1]);
    starts.map(|w| w[3] & 31).collect()
}

#[test]
fn every_frame_comes_out_at_once_and_looks_as_it_should() {
    for size in SIZES {
        for threads in [1, 2] {
            let film = film(&settings(size, 8, threads), 12, &[7]);
            for (frame, planes) in (1..).zip(decode_clean(&film)) {
                let source = Nv12::frame(size, frame);
                let luma = psnr(&planes[0], &source.luma);
                assert!(luma > 35.0, "{size}, frame {frame}: {luma} dB");
                let cb: Vec<u8> = source.chroma.iter().copied().step_by(2).collect();
                let chroma = psnr(&planes[1], &cb);
                assert!(chroma > 35.0, "{size}, frame {frame}: {chroma} dB of Cb");
            }
        }
    }
}

#[test]
fn slices_come_in_order_and_cover_the_picture() {
    for size in SIZES {
        let total = size.width.div_ceil(16) * size.height.div_ceil(16);
        for (slices, threads) in [(1, 1), (8, 1), (16, 1), (2, 2), (8, 2), (11, 3), (8, 4)] {
            for kept in film(&settings(size, slices, threads), 4, &[3]) {
                assert!(kept.len() <= usize::from(slices));
                let mut next = 0;
                for (i, slice) in kept.iter().enumerate() {
                    assert_eq!(usize::from(slice.index), i);
                    assert_eq!(u32::from(slice.first_mb), next);
                    next += u32::from(slice.mbs);
                    assert_eq!(slice.last, i + 1 == kept.len());
                }
                assert_eq!(next, total);
            }
        }
    }
}

#[test]
fn a_key_frame_is_an_idr_with_parameter_sets_only() {
    for threads in [1, 2] {
        let film = film(&settings(SIZES[0], 4, threads), 5, &[4]);
        for (frame, kept) in (1..).zip(&film) {
            let key = frame == 1 || frame == 4;
            let first: &[u8] = if key { &[7, 8, 5] } else { &[1] };
            assert_eq!(nal_types(&kept[0].bytes), first, "frame {frame}");
            for slice in &kept[1..] {
                assert_eq!(nal_types(&slice.bytes), [if key { 5 } else { 1 }]);
            }
        }
    }
}

#[test]
fn the_quantiser_of_each_picture_is_its_own() {
    let size = SIZES[0];
    let mut encoder = encode::open("x264", &settings(size, 4, 1)).expect("libx264");
    let source = Nv12::frame(size, 1);
    let mut bytes = Vec::new();
    for (frame, qp) in (1..).zip([51, 36, 24, 12, 1]) {
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: true,
            reference: FrameId::NONE,
            refresh: false,
            qp,
            part: None,
            unchanged: None,
        };
        let encoded = encoder.encode(&source.picture(), &ask, &mut |_| {});
        bytes.push(encoded.expect("encoded").bytes);
    }
    assert!(bytes.windows(2).all(|w| w[1] > w[0] * 3 / 2), "{bytes:?}");
}

#[test]
fn a_lost_slice_is_concealed_until_the_next_key_frame() {
    for (size, threads) in [(SIZES[0], 1), (SIZES[1], 2)] {
        let film = film(&settings(size, 8, threads), 30, &[20]);
        let clean = decode_clean(&film);
        let slices = film[0].len();
        for hole in [0, slices / 2, slices - 1] {
            let pictures = decode_all(&film, &|frame, i| frame == 5 && i == hole);
            for (frame, picture) in (1..).zip(&pictures) {
                let picture = picture.as_ref().expect("concealed");
                let exact = *picture == clean[frame - 1];
                assert_eq!(
                    exact,
                    !(5..20).contains(&frame),
                    "slice {hole}, frame {frame}"
                );
                if frame == 5 {
                    let damage = psnr(&picture[0], &clean[frame - 1][0]);
                    assert!(damage > 18.0, "slice {hole}: {damage} dB");
                }
            }
        }
    }
}

#[test]
fn heavy_loss_never_stalls() {
    let film = film(&settings(SIZES[0], 8, 1), 60, &[40]);
    let clean = decode_clean(&film);
    // Up to frame 39, about a third of the slices and every tenth frame are lost. Both key frames (1 and 40) arrive.
    let lost = |frame: u32, i: usize| {
        let dice = frame.wrapping_mul(2_654_435_761).rotate_left(i as u32) % 3;
        frame != 1 && frame < 40 && (dice == 0 || frame.is_multiple_of(10))
    };
    for (i, picture) in decode_all(&film, &lost).into_iter().enumerate() {
        let picture = picture.expect("concealed");
        assert!(i < 39 || picture == clean[i], "frame {}", i + 1);
    }
}

#[test]
fn frames_that_never_arrived_cause_no_stall() {
    let film = film(&settings(SIZES[0], 4, 1), 24, &[18]);
    let clean = decode_clean(&film);
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    for (frame, slices) in (1..).zip(&film) {
        if (6..=8).contains(&frame) {
            continue;
        }
        // The number of frame 9 can't be derived from frame 5. Only the other slices of frame 9 make it possible to
        // conceal its missing first slices.
        let lost = |frame, i| frame == 9 && i < 2;
        let picture = feed(&mut *decoder, frame, slices, &lost).expect("decoded");
        assert!(frame < 18 || picture == clean[frame as usize - 1]);
    }
}

#[test]
fn an_unfinished_frame_does_not_delay_the_next() {
    let film = film(&settings(SIZES[0], 4, 1), 12, &[9]);
    let clean = decode_clean(&film);
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    for (frame, slices) in (1..).zip(&film) {
        if frame == 4 {
            let chunk = Chunk {
                frame: FrameId(frame),
                first: true,
                last: false,
                first_mb: 0,
                mbs: slices[0].mbs,
                bytes: Some(&slices[0].bytes),
            };
            assert!(decoder.feed(&chunk).expect("fed").is_none());
            continue;
        }
        let picture = feed(&mut *decoder, frame, slices, &|_, _| false).expect("decoded");
        assert!(frame < 9 || picture == clean[frame as usize - 1]);
    }
}

#[test]
fn a_key_frame_with_a_gap_is_dropped_and_the_next_one_repairs() {
    let film = film(&settings(SIZES[0], 4, 1), 16, &[5, 10]);
    let clean = decode_clean(&film);
    for hole in 0..4 {
        let pictures = decode_all(&film, &|frame, i| frame == 5 && i == hole);
        for (frame, picture) in (1..).zip(pictures) {
            match picture {
                Ok(picture) => assert!(picture == clean[frame - 1], "frame {frame}"),
                Err(error) => {
                    assert!((5..10).contains(&frame), "frame {frame}: {error}");
                    assert!(error.to_string().contains("key frame"), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_decoder_that_starts_in_the_middle_waits_for_a_key_frame() {
    let film = film(&settings(SIZES[0], 4, 1), 8, &[6]);
    let clean = decode_clean(&film);
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    for frame in 3..=8 {
        let picture = feed(&mut *decoder, frame, &film[frame as usize - 1], &|_, _| {
            false
        });
        assert_eq!(
            picture.ok(),
            (frame >= 6).then(|| clean[frame as usize - 1].clone())
        );
    }
}

#[test]
fn damaged_bytes_never_panic_and_a_key_frame_repairs() {
    let film = film(&settings(SIZES[0], 4, 1), 9, &[9]);
    let clean = decode_clean(&film);
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    let mut damaged = 0;
    for round in 0..60 {
        for (frame, slices) in (1..).zip(&film[..8]) {
            let mut slices = slices.clone();
            let victim = random(4);
            let bytes = &mut slices[victim].bytes;
            match random(4) {
                0 => bytes.truncate(random(bytes.len())),
                1 => bytes.iter_mut().for_each(|b| *b = random(256) as u8),
                2 => (0..8).for_each(|_| {
                    let place = random(bytes.len().min(60));
                    bytes[place] ^= 1 << random(8);
                }),
                _ => {
                    let place = random(bytes.len());
                    bytes[place] ^= 1 << random(8);
                }
            }
            let id = round * 10 + frame;
            damaged += u32::from(feed(&mut *decoder, id, &slices, &|_, _| false).is_err());
        }
        let id = round * 10 + 9;
        let picture = feed(&mut *decoder, id, &film[8], &|_, _| false).expect("repaired");
        assert!(picture == clean[8], "round {round}");
    }
    assert!(damaged > 60, "{damaged} frames were refused");
}

/// A BGRX picture of the film, with padding between its rows.
fn bgrx(size: Size, t: u32) -> (Vec<u8>, usize) {
    let stride = size.width as usize * 4 + 12;
    let mut pixels = vec![0xee; stride * size.height as usize];
    let source = Nv12::frame(Size::new(size.width + 2, size.height + 2), t);
    for (y, row) in pixels.chunks_mut(stride).enumerate() {
        for (x, pixel) in row.chunks_mut(4).take(size.width as usize).enumerate() {
            let luma = source.luma[y * (size.width as usize + 2) + x];
            pixel.copy_from_slice(&[luma, luma / 2 + 60, 255 - luma, 0]);
        }
    }
    (pixels, stride)
}

#[test]
fn each_pixel_has_its_colour_and_a_lost_slice_is_concealed() {
    for (pixels, size, threads) in [
        (Chroma::Rgb, Size::new(320, 180), 1),
        (Chroma::Rgb, Size::new(333, 217), 2),
        (Chroma::Yuv444, Size::new(333, 217), 1),
    ] {
        let settings = Settings {
            pixels,
            ..settings(size, 4, threads)
        };
        let mut encoder = encode::open("x264", &settings).expect("libx264");
        let mut converter = Converter::new();
        let mut film = Vec::new();
        let mut sources = Vec::new();
        for frame in 1..=10 {
            let (drawn, stride) = bgrx(size, frame);
            let picture = Picture::bgrx(size, &drawn, stride);
            let picture = converter.convert(&picture, encoder.input()).expect("taken");
            film.push(encode_one(&mut *encoder, &picture, frame, frame == 8).0);
            sources.push(match pixels {
                // Green, blue, red: the order of a GBR picture.
                Chroma::Rgb => [1, 0, 2].map(|c| {
                    let colours = colours(&drawn, size, stride);
                    colours.chunks(3).map(|pixel| pixel[c]).collect()
                }),
                _ => picture.planes.map(|plane| plane.data.to_vec()),
            });
        }
        let clean = decode_clean(&film);
        for (frame, (planes, source)) in (1..).zip(clean.iter().zip(&sources)) {
            for (i, (have, want)) in planes.iter().zip(source).enumerate() {
                let likeness = psnr(have, want);
                assert!(
                    likeness > 33.0,
                    "{pixels:?}, {frame}, plane {i}: {likeness} dB"
                );
            }
        }
        let hole = film[0].len() - 1;
        for (frame, picture) in (1..).zip(decode_all(&film, &|frame, i| frame == 4 && i == hole)) {
            let picture = picture.expect("concealed");
            assert_eq!(
                picture == clean[frame - 1],
                !(4..8).contains(&frame),
                "frame {frame}"
            );
        }
    }
}

#[test]
fn the_order_of_rows_in_memory_does_not_change_the_bytes() {
    let tried = [
        ("x264", Chroma::Yuv420, Size::new(128, 96)),
        ("x264", Chroma::Rgb, Size::new(101, 67)),
        ("x264", Chroma::Yuv444, Size::new(101, 67)),
        ("jpeg", Chroma::Yuv420, Size::new(101, 67)),
        ("openh264", Chroma::Yuv420, Size::new(128, 96)),
        ("raw", Chroma::Rgb, Size::new(101, 67)),
        ("libx264", Chroma::Yuv420, Size::new(128, 96)),
    ];
    let mut coded = 0;
    for (name, pixels, size) in tried {
        let settings = Settings {
            pixels,
            ..usual(name, size, 3, 1)
        };
        let film = |rows: RowOrder| -> Option<Vec<Vec<u8>>> {
            let mut encoder = match encode::open(name, &settings) {
                Ok(encoder) => encoder,
                Err(why) => {
                    skip(&format!("{name}: {why}"));
                    return None;
                }
            };
            let mut converter = Converter::new();
            let mut slices = Vec::new();
            for frame in 1..=4 {
                let (drawn, stride) = bgrx(size, frame);
                let turned: Vec<u8> = drawn.chunks(stride).rev().flatten().copied().collect();
                let picture = match rows {
                    RowOrder::TopDown => Picture::bgrx(size, &drawn, stride),
                    RowOrder::BottomUp => Picture {
                        rows,
                        ..Picture::bgrx(size, &turned, stride)
                    },
                };
                let picture = converter.convert(&picture, encoder.input()).expect("taken");
                let kept = encode_one(&mut *encoder, &picture, frame, frame == 1).0;
                slices.extend(kept.into_iter().map(|slice| slice.bytes));
            }
            Some(slices)
        };
        let (Some(usual), Some(turned)) = (film(RowOrder::TopDown), film(RowOrder::BottomUp))
        else {
            continue;
        };
        assert!(usual == turned, "{name}, {pixels:?}");
        coded += 1;
    }
    assert!(coded > 0);
}

/// The luma, Cb and Cr of a picture of the film, in an encoder's format.
fn i420(size: Size, t: u32) -> [Vec<u8>; 3] {
    let source = Nv12::frame(size, t);
    let chroma = |c| source.chroma.iter().skip(c).step_by(2).copied().collect();
    [source.luma, chroma(0), chroma(1)]
}

fn planar(size: Size, planes: &[Vec<u8>; 3]) -> Picture<'_> {
    let width = size.width as usize;
    let strides = [width, width / 2, width / 2];
    Picture {
        size,
        format: PixelFormat::I420,
        rows: RowOrder::TopDown,
        planes: std::array::from_fn(|i| Plane {
            data: &planes[i],
            stride: strides[i],
        }),
    }
}

#[test]
fn openh264_slices_are_decoded_at_once_and_concealed_when_lost() {
    for (size, slices, threads) in [
        (SIZES[0], 8, 1),
        (SIZES[1], 4, 2),
        (Size::new(64, 48), 3, 1),
    ] {
        let mut encoder =
            encode::open("openh264", &settings(size, slices, threads)).expect("libopenh264");
        assert_eq!(encoder.input(), PixelFormat::I420);
        let count = usize::from(encoder.slices());
        assert!((1..=usize::from(slices)).contains(&count));
        assert!(
            size.height < 100 || count == usize::from(slices),
            "{size}: {count}"
        );
        let total = size.width.div_ceil(16) * size.height.div_ceil(16);
        let mut film = Vec::new();
        for frame in 1..=14 {
            let planes = i420(size, frame);
            let key = frame == 1 || frame == 9;
            let (kept, encoded) =
                encode_one(&mut *encoder, &planar(size, &planes), frame, frame == 9);
            assert_eq!(encoded.key_frame, key, "frame {frame}");
            assert_eq!(kept.len(), count);
            let mut next = 0;
            for (i, slice) in kept.iter().enumerate() {
                assert_eq!(usize::from(slice.index), i);
                assert_eq!(u32::from(slice.first_mb), next);
                next += u32::from(slice.mbs);
                assert_eq!(slice.last, i + 1 == count);
            }
            assert_eq!(next, total);
            let types = nal_types(&kept[0].bytes);
            assert_eq!(
                types,
                if key { vec![7, 8, 5] } else { vec![1] },
                "frame {frame}"
            );
            film.push(kept);
        }
        let clean = decode_clean(&film);
        for (frame, planes) in (1..).zip(&clean) {
            for (have, want) in planes.iter().zip(&i420(size, frame)) {
                let likeness = psnr(have, want);
                assert!(likeness > 33.0, "{size}, frame {frame}: {likeness} dB");
            }
        }
        // If each frame is a single slice, no slice is lost here, because the decoder can't derive the number of a
        // picture from other slices.
        let hole = |frame, i| count > 1 && frame == 4 && i == count - 1;
        for (frame, picture) in (1..).zip(decode_all(&film, &hole)) {
            let picture = picture.expect("concealed");
            assert_eq!(
                picture == clean[frame - 1],
                count == 1 || !(4..9).contains(&frame),
                "frame {frame}"
            );
        }
    }
}

#[test]
fn openh264_changes_its_quantiser_without_a_key_frame() {
    let size = SIZES[0];
    let mut encoder = encode::open("openh264", &settings(size, 4, 1)).expect("libopenh264");
    let mut bytes = Vec::new();
    for (frame, qp) in (1..).zip([30, 45, 39, 33, 27, 21, 15]) {
        let planes = i420(size, frame);
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: false,
            reference: FrameId::NONE,
            refresh: false,
            qp,
            part: None,
            unchanged: None,
        };
        let encoded = encoder.encode(&planar(size, &planes), &ask, &mut |_| {});
        let encoded = encoded.expect("encoded");
        assert_eq!(encoded.key_frame, frame == 1);
        bytes.push(encoded.bytes);
    }
    assert!(
        bytes[1..].windows(2).all(|w| w[1] > w[0] * 5 / 4),
        "{bytes:?}"
    );
}

#[test]
fn a_constant_rate_keeps_frames_near_their_share() {
    let size = SIZES[0];
    let settings = Settings {
        rate: Rate::Cbr(Bitrate(4_000_000)),
        ..settings(size, 4, 1)
    };
    let mut encoder = encode::open("x264", &settings).expect("libx264");
    let mut bytes = Vec::new();
    for frame in 1..=120 {
        if frame == 61 {
            encoder.retarget(Bitrate(1_000_000)).expect("reconfigured");
        }
        let source = Nv12::frame(size, frame);
        let (_, encoded) = encode_one(&mut *encoder, &source.picture(), frame, frame == 30);
        assert_eq!(encoded.key_frame, frame == 1 || frame == 30);
        bytes.push(encoded.bytes);
    }
    let share = 4_000_000 / 8 / 60;
    let mean = |frames: &[usize]| frames.iter().sum::<usize>() / frames.len();
    assert!(mean(&bytes[10..60]) > share / 2, "{bytes:?}");
    assert!(
        bytes[10..60].iter().all(|b| *b < share * 5 / 4),
        "{bytes:?}"
    );
    assert!(mean(&bytes[70..]) < share / 4 * 5 / 4, "{bytes:?}");
}

/// The three colours of each pixel.
fn colours(pixels: &[u8], size: Size, stride: usize) -> Vec<u8> {
    let rows = pixels.chunks(stride).take(size.height as usize);
    rows.flat_map(|row| row[..size.width as usize * 4].chunks(4))
        .flat_map(|pixel| &pixel[..3])
        .copied()
        .collect()
}

#[test]
fn a_lost_jpeg_band_keeps_the_old_rows_for_one_frame() {
    for (size, slices, threads) in [
        (Size::new(640, 360), 8, 1),
        (Size::new(333, 217), 5, 3),
        (Size::new(5, 3), 4, 2),
    ] {
        let mut encoder = encode::open("jpeg", &settings(size, slices, threads)).expect("jpeg");
        let mut decoder = decode::open(Codec::Jpeg).expect("jpeg");
        let count = usize::from(encoder.slices());
        assert_eq!(
            count,
            usize::from(slices).min(size.height.div_ceil(16) as usize)
        );
        let row = size.width as usize * 3;
        let mut before = Vec::new();
        for frame in 1..=4 {
            let (pixels, stride) = bgrx(size, frame);
            let picture = Picture::bgrx(size, &pixels, stride);
            let (kept, encoded) = encode_one(&mut *encoder, &picture, frame, false);
            assert!(encoded.key_frame);
            assert_eq!(kept.len(), count);
            let mut next = 0;
            for (i, slice) in kept.iter().enumerate() {
                assert_eq!((usize::from(slice.index), slice.first_mb), (i, next));
                next += slice.mbs;
            }
            let lost = |i| frame == 3 && i == count / 2;
            let mut shown = None;
            for (i, slice) in kept.iter().enumerate() {
                let chunk = Chunk {
                    frame: FrameId(frame),
                    first: i == 0,
                    last: slice.last,
                    first_mb: slice.first_mb,
                    mbs: slice.mbs,
                    bytes: (!lost(i)).then_some(&slice.bytes),
                };
                let picture = decoder.feed(&chunk).expect("decoded");
                assert_eq!(picture.is_some(), slice.last);
                if let Some(picture) = picture {
                    assert_eq!((picture.size, picture.format), (size, PixelFormat::Bgrx));
                    let plane = picture.planes[0];
                    shown = Some(colours(plane.data, size, plane.stride));
                }
            }
            let shown = shown.expect("a picture after the last band");
            let source = colours(&pixels, size, stride);
            if frame == 3 {
                let columns = u16::try_from(size.width.div_ceil(16)).expect("small");
                let lost = &kept[count / 2];
                let first = usize::from(lost.first_mb / columns) * 16 * row;
                let end = (first + usize::from(lost.mbs / columns) * 16 * row).min(shown.len());
                assert!(shown[first..end] == before[first..end]);
                if count > 1 {
                    assert!(psnr(&shown[..first], &source[..first]) > 30.0);
                    assert!(psnr(&shown[first..end], &source[first..end]) < 30.0);
                }
            } else {
                let likeness = psnr(&shown, &source);
                // The PSNR of the smallest picture, which has one band, may be lower: its colours differ from pixel to
                // pixel, and chroma has a quarter of the resolution.
                let least = if count > 1 { 30.0 } else { 18.0 };
                assert!(likeness > least, "{size}, frame {frame}: {likeness} dB");
            }
            before = shown;
        }
    }
}

#[test]
fn jpeg_accepts_each_packed_format_without_conversion() {
    let size = Size::new(333, 217);
    let mut encoder = encode::open("jpeg", &settings(size, 4, 1)).expect("jpeg");
    let mut converter = Converter::new();
    let (bgrx, stride) = bgrx(size, 1);
    let bands = |kept: Vec<Kept>| -> Vec<_> { kept.into_iter().map(|slice| slice.bytes).collect() };
    let usual = Picture::bgrx(size, &bgrx, stride);
    let wanted = bands(encode_one(&mut *encoder, &usual, 1, false).0);
    for (format, places) in [
        (PixelFormat::Rgbx, &[2, 1, 0, 3][..]),
        (PixelFormat::Bgr, &[0, 1, 2]),
        (PixelFormat::Rgb, &[2, 1, 0]),
    ] {
        for order in [RowOrder::TopDown, RowOrder::BottomUp] {
            let mut rows: Vec<&[u8]> = bgrx.chunks(stride).take(size.height as usize).collect();
            if order == RowOrder::BottomUp {
                rows.reverse();
            }
            let data: Vec<u8> = (rows.iter())
                .flat_map(|row| row[..size.width as usize * 4].chunks_exact(4))
                .flat_map(|pixel| places.iter().map(|&place| pixel[place]))
                .collect();
            let plane = Plane {
                data: &data,
                stride: size.width as usize * places.len(),
            };
            let picture = Picture {
                size,
                format,
                rows: order,
                planes: [plane, Plane::EMPTY, Plane::EMPTY],
            };
            let taken = (converter.convert(&picture, encoder.input_for(format))).expect("taken");
            assert_eq!(
                taken.planes[0].data.as_ptr(),
                data.as_ptr(),
                "no copy is made"
            );
            let coded = bands(encode_one(&mut *encoder, &taken, 1, false).0);
            assert!(coded == wanted, "{format:?}, {order:?}");
        }
    }
}

#[test]
fn the_quantiser_changes_jpeg_as_rate_control_expects() {
    let size = SIZES[0];
    let mut encoder = encode::open("jpeg", &settings(size, 8, 2)).expect("jpeg");
    let (pixels, stride) = bgrx(size, 1);
    let mut bytes = Vec::new();
    for (frame, qp) in (1..).zip([45, 39, 33, 27, 21, 15]) {
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: false,
            reference: FrameId::NONE,
            refresh: false,
            qp,
            part: None,
            unchanged: None,
        };
        let picture = Picture::bgrx(size, &pixels, stride);
        bytes.push(
            encoder
                .encode(&picture, &ask, &mut |_| {})
                .expect("encoded")
                .bytes,
        );
    }
    // When the quantiser step is halved, the size may grow by less than a factor of two, because headers have a
    // constant size and zeros cost little. But the size must grow noticeably, or rate control would not settle.
    let grows = |w: &[usize]| w[1] * 10 > w[0] * 11 && w[1] < w[0] * 3;
    assert!(bytes.windows(2).all(grows), "{bytes:?}");
}

#[test]
fn frequent_key_frames_stay_within_the_rate() {
    let (size, target) = (SIZES[0], Bitrate(2_000_000));
    for every in [1, 2, 3, 10] {
        let mut encoder = encode::open("x264", &settings(size, 8, 1)).expect("libx264");
        let mut rate = RateControl::new(target, 60.0);
        rate.opened(size, Some(every));
        let mut spent = Vec::new();
        for frame in 1..=120 {
            let source = Nv12::frame(size, frame);
            let key_frame = (frame - 1) % every == 0;
            let ask = FrameRequest {
                frame: FrameId(frame),
                key_frame,
                reference: FrameId::NONE,
                refresh: false,
                qp: rate.qp(key_frame),
                part: None,
                unchanged: None,
            };
            let coded = encoder
                .encode(&source.picture(), &ask, &mut |_| {})
                .expect("encoded");
            rate.coded(key_frame, ask.qp, coded.bytes as u64 * 8);
            spent.push(coded.bytes * 8);
        }
        // Only the frames after the first second are checked, because the size of the first frame is a guess.
        let second: usize = spent[60..].iter().sum();
        assert!(
            (1_600_000..=2_150_000).contains(&second),
            "every {every}: {second} bits, {spent:?}"
        );
    }
}

#[test]
fn a_cut_takes_few_shares_of_the_rate() {
    let (size, target) = (SIZES[0], Bitrate(2_000_000));
    let cut = 100;
    let spent = |limits: bool| {
        let mut encoder = encode::open("x264", &settings(size, 8, 1)).expect("libx264");
        let mut rate = RateControl::new(target, 60.0);
        rate.opened(size, None);
        let mut meter = DifferenceMeter::default();
        let mut spent = Vec::new();
        for frame in 1..=cut + 20 {
            // At the cut, the textures jump, and the brightness is inverted.
            let after = frame >= cut;
            let mut source = Nv12::frame(size, frame + if after { 1000 } else { 0 });
            if after {
                source.luma.iter_mut().for_each(|luma| *luma = 255 - *luma);
            }
            let picture = source.picture();
            let difference = meter.measure(&picture);
            rate.set_difference(difference, limits);
            let key_frame = frame == 1;
            let ask = FrameRequest {
                frame: FrameId(frame),
                key_frame,
                reference: FrameId(frame - 1),
                refresh: false,
                qp: rate.qp(key_frame),
                part: None,
                unchanged: None,
            };
            let coded = encoder
                .encode(&picture, &ask, &mut |_| {})
                .expect("encoded");
            rate.coded(key_frame, ask.qp, coded.bytes as u64 * 8);
            spent.push(coded.bytes * 8);
        }
        spent
    };
    let share = 2_000_000 / 60;
    let (without, with) = (spent(false), spent(true));
    let at = cut as usize - 1;
    let figures = format!("{:?} {:?}", &without[at - 3..at + 4], &with[at - 3..at + 4]);
    assert!(without[at] > share * 2, "{figures}");
    assert!(with[at] < share * 2, "{figures}");
}

#[test]
fn damaged_jpeg_is_refused_and_the_next_frame_repairs() {
    let size = Size::new(320, 180);
    let mut encoder = encode::open("jpeg", &settings(size, 4, 1)).expect("jpeg");
    let mut decoder = decode::open(Codec::Jpeg).expect("jpeg");
    let (pixels, stride) = bgrx(size, 1);
    let (kept, _) = encode_one(
        &mut *encoder,
        &Picture::bgrx(size, &pixels, stride),
        1,
        false,
    );
    let mut state = 7u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut feed = |slices: &[Kept]| -> Result<Vec<u8>, DecodeError> {
        let mut shown = Vec::new();
        for (i, slice) in slices.iter().enumerate() {
            let chunk = Chunk {
                frame: FrameId(1),
                first: i == 0,
                last: slice.last,
                first_mb: slice.first_mb,
                mbs: slice.mbs,
                bytes: Some(&slice.bytes),
            };
            if let Some(picture) = decoder.feed(&chunk)? {
                shown = colours(picture.planes[0].data, size, picture.planes[0].stride);
            }
        }
        Ok(shown)
    };
    let clean = feed(&kept).expect("whole");
    let mut refused = 0;
    for _ in 0..200 {
        let mut slices = kept.clone();
        let bytes = &mut slices[random(4)].bytes;
        match random(3) {
            0 => bytes.truncate(random(bytes.len())),
            1 => bytes[..8].iter_mut().for_each(|b| *b = random(256) as u8),
            _ => (0..8).for_each(|_| {
                let place = random(bytes.len());
                bytes[place] ^= 1 << random(8);
            }),
        }
        refused += u32::from(feed(&slices).is_err());
        // The damaged header may contain a different size. The next frame then starts a new picture.
        assert!(feed(&kept).expect("whole") == clean);
    }
    assert!(refused > 100, "{refused} were refused");
}

#[test]
fn raw_rows_are_exact_and_a_lost_band_keeps_old_rows() {
    let size = Size::new(33, 21);
    let stride = 33 * 4 + 12;
    let image = |t: usize| -> Vec<u8> { (0..stride * 21).map(|i| (i * 7 + t) as u8).collect() };
    let visible = |image: &[u8]| -> Vec<u8> {
        let rows = image.chunks(stride);
        rows.flat_map(|row| &row[..33 * 4]).copied().collect()
    };
    let mut encoder = encode::open("raw", &usual("raw", size, 5, 1)).expect("raw");
    let mut decoder = decode::open(Codec::Raw).expect("raw");
    for frame in 1..4 {
        let source = image(frame as usize);
        let picture = Picture::bgrx(size, &source, stride);
        let (kept, encoded) = encode_one(&mut *encoder, &picture, frame, false);
        assert!(encoded.key_frame);
        assert_eq!(kept.len(), 5);
        for (i, slice) in kept.iter().enumerate() {
            let chunk = Chunk {
                frame: FrameId(frame),
                first: i == 0,
                last: slice.last,
                first_mb: 0,
                mbs: 0,
                bytes: (frame != 3 || i != 2).then_some(&slice.bytes),
            };
            let picture = decoder.feed(&chunk).expect("decoded");
            assert_eq!(picture.is_some(), slice.last);
            let Some(picture) = picture else { continue };
            assert_eq!((picture.size, picture.format), (size, PixelFormat::Bgrx));
            let (now, before) = (visible(&source), visible(&image(frame as usize - 1)));
            let mut expected = now.clone();
            if frame == 3 {
                let band = 2 * 21 / 5 * 132..3 * 21 / 5 * 132;
                expected[band.clone()].copy_from_slice(&before[band]);
            }
            assert!(picture.planes[0].data == expected);
        }
    }
    for bytes in [&[][..], &[1, 0, 1, 0, 0, 0, 1, 0], &[255; 64], &[0; 8]] {
        let chunk = Chunk {
            frame: FrameId(9),
            first: true,
            last: true,
            first_mb: 0,
            mbs: 0,
            bytes: Some(bytes),
        };
        assert!(decoder.feed(&chunk).is_err());
    }
}

#[test]
fn a_null_stream_carries_the_frame_id() {
    let size = Size::new(8, 8);
    let mut encoder = encode::open("null", &usual("null", size, 5, 1)).expect("null");
    let mut decoder = decode::open(Codec::Null).expect("null");
    let picture = Picture::bgrx(size, &[0; 256], 32);
    let (kept, _) = encode_one(&mut *encoder, &picture, 77, false);
    assert_eq!(kept.len(), 1);
    let chunk = Chunk {
        frame: FrameId(77),
        first: true,
        last: true,
        first_mb: 0,
        mbs: 0,
        bytes: Some(&kept[0].bytes),
    };
    let picture = decoder.feed(&chunk).expect("decoded").expect("a picture");
    assert_eq!(picture.planes[0].data, 77u32.to_le_bytes());
}

#[test]
fn libavcodec_returns_complete_pictures_and_key_frames() {
    let size = SIZES[1];
    let settings = usual("libx264", size, 8, 1);
    let mut encoder = encode::open("libx264", &settings).expect("libx264 in libavcodec");
    assert_eq!((encoder.slices(), encoder.input()), (1, PixelFormat::Nv12));
    let mut film = Vec::new();
    for frame in 1..=60 {
        if frame == 31 {
            encoder.retarget(Bitrate(2_000_000)).expect("another rate");
        }
        let source = Nv12::frame(size, frame);
        let (kept, encoded) = encode_one(&mut *encoder, &source.picture(), frame, frame == 9);
        assert_eq!(encoded.key_frame, frame == 1 || frame == 9, "frame {frame}");
        assert_eq!((kept.len(), kept[0].first_mb, kept[0].last), (1, 0, true));
        assert_eq!(
            u32::from(kept[0].mbs),
            size.width.div_ceil(16) * size.height.div_ceil(16)
        );
        let types = nal_types(&kept[0].bytes);
        let sets: Vec<u8> = types.iter().copied().filter(|t| *t > 5).collect();
        assert_eq!(
            sets,
            if encoded.key_frame {
                vec![7, 8]
            } else {
                vec![]
            }
        );
        film.push(kept);
    }
    for (frame, planes) in (1..).zip(decode_clean(&film)) {
        let likeness = psnr(&planes[0], &Nv12::frame(size, frame).luma);
        assert!(likeness > 25.0, "frame {frame}: {likeness} dB");
    }
    let bytes = |frames: &[Vec<Kept>]| frames.iter().map(|f| f[0].bytes.len()).sum::<usize>();
    assert!(
        bytes(&film[11..31]) > 2 * bytes(&film[40..]),
        "the rate did not change"
    );
}

#[test]
fn vp9_has_key_frames_on_request_and_at_a_lower_rate() {
    let size = SIZES[0];
    let name = "libvpx-vp9";
    let mut encoder = encode::open(name, &usual(name, size, 8, 2)).expect("libvpx in libavcodec");
    assert_eq!((encoder.slices(), encoder.input()), (1, PixelFormat::I420));
    let mut bytes = Vec::new();
    let mut keys = Vec::new();
    for frame in 1..=90 {
        match frame {
            // This change is too small to cost a key frame, so the new rate waits for the next key frame.
            21 => encoder.retarget(Bitrate(7_600_000)).expect("another rate"),
            31 => encoder.retarget(Bitrate(1_000_000)).expect("another rate"),
            _ => {}
        }
        let planes = i420(size, frame);
        let picture = planar(size, &planes);
        let (kept, encoded) = encode_one(&mut *encoder, &picture, frame, frame == 9);
        assert_eq!((kept.len(), kept[0].mbs, kept[0].last), (1, 0, true));
        keys.extend(encoded.key_frame.then_some(frame));
        bytes.push(encoded.bytes);
    }
    assert_eq!(keys, [1, 9, 31]);
    let sum = |frames: &[usize]| frames.iter().sum::<usize>();
    assert!(
        sum(&bytes[10..30]) > 2 * sum(&bytes[60..80]),
        "the rate did not change: {bytes:?}"
    );
}

#[test]
fn libx265_follows_a_large_change_of_the_rate_with_a_key_frame() {
    let size = SIZES[0];
    let name = "libx265";
    let mut encoder = encode::open(name, &usual(name, size, 8, 1)).expect("libx265 in libavcodec");
    assert_eq!(encoder.input(), PixelFormat::I420);
    let mut bytes = Vec::new();
    let mut keys = Vec::new();
    for frame in 1..=70 {
        match frame {
            // This change is too small to open the encoder again, even at the next key frame.
            6 => encoder.retarget(Bitrate(7_600_000)).expect("another rate"),
            31 => encoder.retarget(Bitrate(1_000_000)).expect("another rate"),
            _ => {}
        }
        let planes = i420(size, frame);
        let picture = planar(size, &planes);
        let (kept, encoded) = encode_one(&mut *encoder, &picture, frame, frame == 9);
        assert_eq!((kept.len(), kept[0].last), (1, true));
        keys.extend(encoded.key_frame.then_some(frame));
        bytes.push(encoded.bytes);
    }
    assert_eq!(keys, [1, 9, 31]);
    let sum = |frames: &[usize]| frames.iter().sum::<usize>();
    assert!(
        sum(&bytes[10..30]) > 4 * sum(&bytes[45..65]),
        "the rate did not change: {bytes:?}"
    );
}

#[test]
fn working_codecs_pass_the_probe_and_others_give_a_reason() {
    for backend in encode::BACKENDS {
        assert!(!backend.about.is_empty());
        match encode::probe(backend) {
            Ok(probe) => assert!(probe.bytes > 0 && probe.millis >= 0.0, "{probe:?}"),
            Err(error) => {
                let why = error.to_string();
                println!("skipped, the encoder {}: {why}", backend.name);
                assert!(backend.hardware, "{}: {why}", backend.name);
                assert!(why.contains(backend.name) && !why.contains('\n'), "{why}");
            }
        }
    }
    for backend in decode::BACKENDS {
        assert!(!backend.about.is_empty());
        match decode::probe(backend) {
            Ok(probe) => assert!(probe.bytes > 0 && probe.millis >= 0.0, "{probe:?}"),
            Err(error) => {
                let why = error.to_string();
                println!("skipped, the decoder {}: {why}", backend.name);
                let device = ["h264_", "hevc_"].map(|start| backend.name.starts_with(start));
                assert_ne!(device, [false; 2], "{}: {why}", backend.name);
                assert!(why.contains(backend.name) && !why.contains('\n'), "{why}");
            }
        }
    }
}

#[test]
fn unopenable_codecs_give_a_reason() {
    let good = settings(SIZES[0], 8, 2);
    let error = |name: &str, settings: &Settings| {
        let error = encode::open(name, settings).err().expect("refused");
        error.to_string()
    };
    assert!(error("h265", &good).contains("x264, jpeg, openh264, h264_nvenc"));
    assert!(error("x264", &settings(Size::new(641, 360), 8, 1)).contains("even"));
    assert!(error("x264", &settings(Size::new(0, 360), 8, 1)).contains("each side must be 1 to"));
    let rgb = Settings {
        pixels: Chroma::Rgb,
        ..good
    };
    assert!(error("jpeg", &rgb).contains("420 or 444"));
    let cbr = Settings {
        rate: Rate::Cbr(Bitrate(8_000_000)),
        ..good
    };
    assert!(error("jpeg", &cbr).contains("own"));
    assert!(error("raw", &settings(Size::new(16_384, 16_384), 8, 1)).contains("pixels"));
    assert!(error("raw", &settings(SIZES[0], 0, 1)).contains("slices"));
    assert!(error("raw", &settings(SIZES[0], 8, 65)).contains("threads"));
    assert!(error("raw", &Settings { fps: 0, ..good }).contains("frames/s"));
    let error = decode::find("x265").err().expect("refused");
    assert!(error.to_string().contains("avcodec, jpeg, h264_cuvid"));
    // A picture that is too short is refused, and the encoder continues.
    let mut encoder = encode::open("x264", &good).expect("libx264");
    let source = Nv12::frame(good.size, 1);
    let mut short = source.picture();
    short.planes[1].data = &source.chroma[1..];
    let ask = FrameRequest {
        frame: FrameId(1),
        key_frame: false,
        reference: FrameId::NONE,
        refresh: false,
        qp: QP,
        part: None,
        unchanged: None,
    };
    assert!(encoder.encode(&short, &ask, &mut |_| {}).is_err());
    assert!(
        encode_one(&mut *encoder, &source.picture(), 2, false)
            .1
            .key_frame
    );
}

/// Like [`film`], but frame 9 refers to `to`.
fn film_that_skips_back(settings: &Settings, to: u32) -> Vec<Vec<Kept>> {
    let mut encoder = encode::open("x264", settings).expect("libx264");
    assert_eq!(encoder.memory(), 7);
    let code = |frame| {
        let source = Nv12::frame(settings.size, frame);
        let mut kept = Vec::new();
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: frame == 1,
            reference: FrameId(if frame == 9 { to } else { frame - 1 }),
            refresh: false,
            qp: QP,
            part: None,
            unchanged: None,
        };
        let sink = &mut |s: Slice<'_>| {
            kept.push(Kept {
                index: s.index,
                first_mb: s.first_mb,
                mbs: s.mbs,
                last: s.last,
                bytes: s.bytes.to_vec(),
            });
        };
        let encoded = encoder
            .encode(&source.picture(), &ask, sink)
            .expect("encoded");
        assert_eq!(encoded.key_frame, frame == 1, "frame {frame}");
        kept
    };
    (1..=14).map(code).collect()
}

#[test]
fn after_a_loss_a_frame_with_a_sound_reference_is_clean() {
    for (threads, to) in [(1, 5), (2, 5), (1, 2)] {
        let film = film_that_skips_back(&settings(SIZES[0], 8, threads), to);
        let clean = decode_clean(&film);
        // Frames 6 to 8 are lost completely. Frame 9 refers to a frame before them, so all decoded frames are exact.
        let mut decoder = decode::open(Codec::H264).expect("libavcodec");
        for (frame, slices) in (1..).zip(&film) {
            if (6..=8).contains(&frame) {
                continue;
            }
            let picture = feed(&mut *decoder, frame, slices, &|_, _| false).expect("decoded");
            assert!(
                picture == clean[frame as usize - 1],
                "to {to}, frame {frame}"
            );
        }
        // Part of frame 6 is lost and concealed. Frames 7 and 8 are based on the concealment, frame 9 is exact again.
        let pictures = decode_all(&film, &|frame, i| frame == 6 && i >= 3);
        for (i, picture) in pictures.into_iter().enumerate() {
            let exact = picture.expect("concealed") == clean[i];
            assert_eq!(exact, !(5..8).contains(&i), "to {to}, frame {}", i + 1);
        }
    }
}
