//! H.264 pictures that are painted slice by slice into a surface's memory are bit-exact with pictures that are
//! converted after the last slice.
#![allow(clippy::cast_possible_truncation)]

mod moving;

use std::ops::Range;

use moving::Nv12;
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk, Decoded, View};
use openuvr_media::encode::{self, Chroma, FrameRequest, Settings, Slice};
use openuvr_media::picture::{Picture, Plane, RowOrder};
use openuvr_media::present::{Canvas, PresentError, to_bgrx};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

/// The memory of a surface, which contains garbage before each picture.
#[derive(Default)]
struct Paper {
    size: Size,
    pixels: Vec<u8>,
    /// Number of rows requested for the current picture, counted from the top.
    rows: u32,
    /// Number of requested rows of all pictures.
    painted: usize,
}

impl Canvas for Paper {
    fn rows(&mut self, size: Size, rows: Range<u32>) -> Option<&mut [u8]> {
        assert!(rows.start < rows.end && rows.end <= size.height, "{rows:?}");
        let row = size.width as usize * 4;
        if size != self.size {
            self.size = size;
            self.pixels = vec![0xa5; row * size.height as usize];
        }
        self.rows = self.rows.max(rows.end);
        self.painted += rows.len();
        self.pixels
            .get_mut(rows.start as usize * row..rows.end as usize * row)
    }

    fn show(&mut self, _: FrameId, _: Size) -> Result<bool, PresentError> {
        Ok(true)
    }
}

struct Kept {
    first_mb: u16,
    mbs: u16,
    last: bool,
    bytes: Vec<u8>,
}

fn film(settings: &Settings, count: u32) -> Vec<Vec<Kept>> {
    let mut encoder = encode::open("x264", settings).expect("libx264");
    let frames = (1..=count).map(|frame| {
        let mut kept = Vec::new();
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: frame % 8 == 1,
            reference: FrameId::NONE,
            refresh: false,
            qp: 26,
            part: None,
            unchanged: None,
        };
        let source = Nv12::frame(settings.size, frame);
        let whole = Plane {
            data: &source.luma,
            stride: settings.size.width as usize,
        };
        let picture = match settings.pixels {
            Chroma::Yuv444 => Picture {
                size: settings.size,
                format: openuvr_media::picture::PixelFormat::I444,
                rows: RowOrder::TopDown,
                planes: [whole; 3],
            },
            _ => source.picture(),
        };
        let mut keep = |s: Slice<'_>| {
            kept.push(Kept {
                first_mb: s.first_mb,
                mbs: s.mbs,
                last: s.last,
                bytes: s.bytes.to_vec(),
            });
        };
        encoder.encode(&picture, &ask, &mut keep).expect("encoded");
        kept
    });
    frames.collect()
}

/// The fate of a chunk. It arrives, is lost, or arrives damaged. If its frame was abandoned, it is never fed.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    Damaged,
    Never,
}

/// The fate of a frame's slice. All slices of frames 1 to 8 arrive.
fn fate(frame: u32, slice: usize, last: bool) -> Fate {
    match frame {
        0..=8 => Fate::Arrives,
        10 | 12 if slice % 3 == 1 => Fate::Lost,
        13 if slice == 0 || last => Fate::Lost,
        14 | 21 if slice > 2 => Fate::Never,
        15 => Fate::Lost,
        19 if slice == 2 => Fate::Damaged,
        25 if last => Fate::Lost,
        _ => Fate::Arrives,
    }
}

#[test]
fn painting_slice_by_slice_gives_the_complete_picture() {
    for (size, visible, pixels, slices, threads) in [
        (
            Size::new(640, 360),
            Size::new(640, 360),
            Chroma::Yuv420,
            8,
            2,
        ),
        (
            Size::new(850, 478),
            Size::new(849, 477),
            Chroma::Yuv420,
            5,
            1,
        ),
        (
            Size::new(320, 200),
            Size::new(320, 200),
            Chroma::Yuv420,
            1,
            1,
        ),
        (
            Size::new(640, 360),
            Size::new(640, 360),
            Chroma::Yuv444,
            8,
            2,
        ),
        // If the size that a host announces differs from the coded size, the picture has the smaller of the two widths
        // and the smaller of the two heights.
        (
            Size::new(320, 200),
            Size::new(200, 400),
            Chroma::Yuv420,
            4,
            1,
        ),
    ] {
        let settings = Settings {
            slices,
            threads,
            pixels,
            ..Settings::of(size)
        };
        let mut plain = decode::open(Codec::H264).expect("libavcodec");
        let mut painter = decode::open(Codec::H264).expect("libavcodec");
        let mut paper = Paper::default();
        let (mut shown, mut early) = (0, 0);
        for (frame, slices) in (1..).zip(film(&settings, 32)) {
            paper.rows = 0;
            // An unwanted frame is not displayed, as if a later frame were already available.
            let wanted = frame % 7 != 6;
            for (i, slice) in slices.iter().enumerate() {
                let mut bytes = slice.bytes.clone();
                let fate = fate(frame, i, slice.last);
                if fate == Fate::Damaged {
                    (bytes[20..]).iter_mut().for_each(|byte| *byte = !*byte);
                }
                let chunk = Chunk {
                    frame: FrameId(frame),
                    first: i == 0,
                    last: slice.last,
                    first_mb: slice.first_mb,
                    mbs: slice.mbs,
                    bytes: (fate != Fate::Lost).then_some(&bytes),
                };
                if fate == Fate::Never {
                    continue;
                }
                if slice.last && slices.len() > 1 && wanted {
                    early += usize::from(paper.rows > 0);
                }
                let expected = plain.feed(&chunk);
                let seen = wanted.then_some(View {
                    size: visible,
                    follows: false,
                });
                let painted = painter.paint(&chunk, seen, &mut paper);
                match (expected, painted) {
                    (Ok(None), Ok(None)) => {}
                    (Ok(Some(_)), Ok(Some(Decoded::Picture(_)))) => assert!(!wanted),
                    (Ok(Some(picture)), Ok(Some(Decoded::OnCanvas(size)))) => {
                        let picture = picture.cropped(visible);
                        assert_eq!(size, picture.size);
                        let mut whole = vec![0; size.pixels() * 4];
                        to_bgrx(&picture, &mut whole).expect("converted");
                        assert!(whole == paper.pixels, "{size}, frame {frame}");
                        shown += 1;
                        paper.pixels.fill(0x5a);
                    }
                    (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
                    (one, other) => panic!("{size}, frame {frame}: {one:?}, {other:?}"),
                }
            }
            assert!(wanted || paper.rows == 0, "frame {frame} is not displayed");
        }
        assert!(shown > 15, "{size}: only {shown} pictures");
        // If this fails, libavcodec's memory layout is unknown, and painting gains nothing.
        assert!(
            early > 15 || slices == 1,
            "{size}: {early} were painted early"
        );
    }
}

/// A film in which a small part alternately moves and stands still.
fn quiet_film(settings: &Settings, count: u32) -> Vec<Vec<Kept>> {
    let mut encoder = encode::open("x264", settings).expect("libx264");
    let (columns, rows) = encode::macroblocks(settings.size).expect("a picture");
    let mut source = Nv12::frame(settings.size, 0);
    let width = settings.size.width as usize;
    let code = |frame: u32| {
        let moves = !frame.is_multiple_of(3);
        // Eight by four macroblocks, at a new position every eight frames.
        let (left, top) = ((frame / 8 * 5) as usize % 20, (frame / 8 * 7) as usize % 15);
        if moves {
            let new = Nv12::frame(settings.size, frame);
            for y in top * 16..top * 16 + 64 {
                let row = y * width + left * 16..y * width + left * 16 + 128;
                source.luma[row.clone()].copy_from_slice(&new.luma[row]);
            }
        }
        let same = |mb: usize| {
            let (x, y) = (mb % usize::from(columns), mb / usize::from(columns));
            let within = (left..left + 8).contains(&x) && (top..top + 4).contains(&y);
            frame > 1 && !(moves && within)
        };
        let unchanged: Vec<bool> = (0..usize::from(columns * rows)).map(same).collect();
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: frame == 1,
            reference: FrameId(reference(frame)),
            refresh: false,
            qp: 26,
            part: None,
            unchanged: Some(&unchanged),
        };
        let mut kept = Vec::new();
        let mut keep = |s: Slice<'_>| {
            kept.push(Kept {
                first_mb: s.first_mb,
                mbs: s.mbs,
                last: s.last,
                bytes: s.bytes.to_vec(),
            });
        };
        (encoder.encode(&source.picture(), &ask, &mut keep)).expect("encoded");
        kept
    };
    (1..=count).map(code).collect()
}

/// The reference of a frame. Every sixteenth frame skips two frames and refers to the frame before them.
fn reference(frame: u32) -> u32 {
    match frame {
        _ if frame % 16 == 9 => frame - 3,
        _ => frame - 1,
    }
}

#[test]
fn repeated_macroblocks_are_not_painted_again() {
    for threads in [1, 2] {
        let size = Size::new(640, 368);
        let settings = Settings {
            slices: 8,
            threads,
            ..Settings::of(size)
        };
        let mut plain = decode::open(Codec::H264).expect("libavcodec");
        let mut painter = decode::open(Codec::H264).expect("libavcodec");
        let (mut paper, mut pictures) = (Paper::default(), 0);
        // The number of the frame on the paper, if the client knows it.
        let mut on_paper = None;
        for (frame, slices) in (1..).zip(quiet_film(&settings, 96)) {
            // The two frames before each back reference are never fed. Sometimes a slice is lost, or a picture is not
            // displayed.
            if matches!(frame % 16, 7 | 8) {
                continue;
            }
            let follows = on_paper
                .take()
                .is_some_and(|shown: u32| shown == reference(frame));
            let wanted = frame % 11 != 5;
            let painted_before = paper.painted;
            for (i, slice) in slices.iter().enumerate() {
                let lost = frame % 13 == 4 && i % 3 == 1;
                let chunk = Chunk {
                    frame: FrameId(frame),
                    first: i == 0,
                    last: slice.last,
                    first_mb: slice.first_mb,
                    mbs: slice.mbs,
                    bytes: (!lost).then_some(&slice.bytes),
                };
                let expected = plain.feed(&chunk).expect("decoded");
                let view = wanted.then_some(View { size, follows });
                let painted = painter.paint(&chunk, view, &mut paper).expect("painted");
                let (Some(picture), Some(Decoded::OnCanvas(_))) = (expected, painted) else {
                    continue;
                };
                let mut whole = vec![0; size.pixels() * 4];
                to_bgrx(&picture, &mut whole).expect("converted");
                assert!(whole == paper.pixels, "{threads} threads, frame {frame}");
                on_paper = Some(frame);
                pictures += 1;
            }
            // If nothing has changed, no row is painted, not even the rows of macroblocks within which a slice ends.
            let stands_still = frame.is_multiple_of(3) && reference(frame) == frame - 1;
            if stands_still && follows && frame % 13 != 4 {
                assert_eq!(paper.painted, painted_before, "frame {frame}");
            }
        }
        let all = pictures * size.height as usize;
        assert!(pictures > 70, "{pictures}");
        assert!(paper.painted * 2 < all, "{} of {all} rows", paper.painted);
    }
}
