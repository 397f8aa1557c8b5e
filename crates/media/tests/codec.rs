//! Encoders and decoders together: the real libx264 and the real libavcodec.
#![allow(clippy::cast_possible_truncation)]

mod moving;

use moving::Nv12;
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk, DecodeError, Decoder};
use openuvr_media::encode::{self, Ask, Encoded, Encoder, Settings, Slice};
use openuvr_media::picture::{Picture, PixelFormat};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

const SIZES: [Size; 2] = [Size::new(640, 360), Size::new(850, 478)];
const QP: u8 = 24;

/// A slice that was kept.
#[derive(Clone)]
struct Kept {
    index: u8,
    first_mb: u16,
    mbs: u16,
    last: bool,
    bytes: Vec<u8>,
}

/// A decoded picture that was kept: its rows without padding.
type Planes = [Vec<u8>; 3];

fn settings(size: Size, slices: u8, threads: u8) -> Settings {
    Settings {
        size,
        fps: 60,
        slices,
        threads,
        subpel: false,
        rate: openuvr_media::encode::Rate::Own,
    }
}

fn encode_one(
    encoder: &mut dyn Encoder,
    picture: &Picture<'_>,
    frame: u32,
    key_frame: bool,
) -> (Vec<Kept>, Encoded) {
    let mut kept = Vec::new();
    let ask = Ask {
        frame: FrameId(frame),
        key_frame,
        reference: FrameId::NONE,
        qp: QP,
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

/// Frames 1 to `count`, those in `keys` asked for as key frames.
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
    assert_eq!(picture.format, PixelFormat::I420);
    std::array::from_fn(|i| {
        let half = usize::from(i > 0) + 1;
        let plane = picture.planes[i];
        (0..h / half)
            .flat_map(|y| &plane.data[y * plane.stride..][..w / half])
            .copied()
            .collect()
    })
}

/// Feeds a frame, asserts that its picture comes behind the last slice and nowhere else.
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
fn a_key_frame_is_an_idr_with_parameter_sets_and_nothing_else() {
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
        let ask = Ask {
            frame: FrameId(frame),
            key_frame: true,
            reference: FrameId::NONE,
            qp,
        };
        let encoded = encoder.encode(&source.picture(), &ask, &mut |_| {});
        bytes.push(encoded.expect("encoded").bytes);
    }
    assert!(bytes.windows(2).all(|w| w[1] > w[0] * 3 / 2), "{bytes:?}");
}

#[test]
fn a_lost_slice_is_concealed_and_mended_by_the_next_key_frame() {
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
    // A third of all slices, whole frames too; key frames come through.
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
fn frames_that_never_arrived_are_no_stall() {
    let film = film(&settings(SIZES[0], 4, 1), 24, &[18]);
    let clean = decode_clean(&film);
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    for (frame, slices) in (1..).zip(&film) {
        if (6..=8).contains(&frame) {
            continue;
        }
        // The hole at the front of frame 9 can only be filled with what its other slices say:
        // from frame 5 its number can't be told.
        let lost = |frame, i| frame == 9 && i < 2;
        let picture = feed(&mut *decoder, frame, slices, &lost).expect("decoded");
        assert!(frame < 18 || picture == clean[frame as usize - 1]);
    }
}

#[test]
fn a_frame_that_is_left_unfinished_does_not_hold_up_the_next() {
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
fn a_key_frame_with_a_hole_is_dropped_and_the_next_one_mends() {
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
    decoder.reset();
    assert!(feed(&mut *decoder, 7, &film[6], &|_, _| false).is_err());
}

#[test]
fn damaged_bytes_never_panic_and_a_key_frame_mends() {
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
        let picture = feed(&mut *decoder, id, &film[8], &|_, _| false).expect("mended");
        assert!(picture == clean[8], "round {round}");
    }
    assert!(damaged > 60, "{damaged} frames were refused");
}

#[test]
fn raw_rows_come_back_as_they_were_and_a_lost_band_keeps_the_old_ones() {
    let size = Size::new(33, 21);
    let stride = 33 * 4 + 12;
    let image = |t: usize| -> Vec<u8> { (0..stride * 21).map(|i| (i * 7 + t) as u8).collect() };
    let visible = |image: &[u8]| -> Vec<u8> {
        let rows = image.chunks(stride);
        rows.flat_map(|row| &row[..33 * 4]).copied().collect()
    };
    let mut encoder = encode::open("raw", &settings(size, 5, 1)).expect("raw");
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
    let mut encoder = encode::open("null", &settings(size, 5, 1)).expect("null");
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
fn what_can_t_be_opened_says_why() {
    let good = settings(SIZES[0], 8, 2);
    let error = |name: &str, settings: &Settings| {
        let error = encode::open(name, settings).err().expect("refused");
        error.to_string()
    };
    assert!(error("h265", &good).contains("x264, raw, null"));
    assert!(error("x264", &settings(Size::new(641, 360), 8, 1)).contains("even"));
    assert!(error("x264", &settings(Size::new(0, 360), 8, 1)).contains("sides"));
    assert!(error("raw", &settings(Size::new(16_384, 16_384), 8, 1)).contains("pixels"));
    assert!(error("raw", &settings(SIZES[0], 0, 1)).contains("slices"));
    assert!(error("raw", &settings(SIZES[0], 8, 65)).contains("threads"));
    assert!(error("raw", &Settings { fps: 0, ..good }).contains("frames/s"));
    let error = decode::open_named("x265").err().expect("refused");
    assert!(error.to_string().contains("avcodec, raw, null"));
    // A picture that is too short is refused, and the encoder goes on.
    let mut encoder = encode::open("x264", &good).expect("libx264");
    let source = Nv12::frame(good.size, 1);
    let mut short = source.picture();
    short.planes[1].data = &source.chroma[1..];
    let ask = Ask {
        frame: FrameId(1),
        key_frame: false,
        reference: FrameId::NONE,
        qp: QP,
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
        let ask = Ask {
            frame: FrameId(frame),
            key_frame: frame == 1,
            reference: FrameId(if frame == 9 { to } else { frame - 1 }),
            qp: QP,
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
fn after_a_loss_a_frame_that_refers_to_a_sound_one_is_clean_again() {
    for (threads, to) in [(1, 5), (2, 5), (1, 2)] {
        let film = film_that_skips_back(&settings(SIZES[0], 8, threads), to);
        let clean = decode_clean(&film);
        // Frame 9 builds on what is there of frame 5: whole frames are missing …
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
        // … or patched, and what is between builds on the patch.
        let pictures = decode_all(&film, &|frame, i| frame == 6 && i >= 3);
        for (i, picture) in pictures.into_iter().enumerate() {
            let exact = picture.expect("concealed") == clean[i];
            assert_eq!(exact, !(5..8).contains(&i), "to {to}, frame {}", i + 1);
        }
    }
}
