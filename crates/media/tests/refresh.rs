//! Intra refresh with the real libx264 and the real libavcodec: the picture is bit-exact where the
//! encoder reports it clean.
#![allow(clippy::cast_possible_truncation)]

mod moving;

use moving::Nv12;
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk};
use openuvr_media::encode::{self, FrameRequest, Refresh, Settings, Slice};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::Size;

const SIZE: Size = Size::new(640, 360);
/// Columns of macroblocks.
const COLUMNS: u16 = 40;

/// A coded frame: each slice's first macroblock, number of macroblocks and bytes, and the frame's refresh information.
struct Coded {
    slices: Vec<(u16, u16, Vec<u8>)>,
    clean_after: Option<u16>,
}

/// Parameters of a film.
#[derive(Clone, Copy, Debug)]
struct Shot {
    refresh: Refresh,
    slices: u8,
    threads: u8,
    subpel: bool,
    /// Reverses the motion.
    backwards: bool,
}

const SHOT: Shot = Shot {
    refresh: Refresh::OnDemand,
    slices: 8,
    threads: 1,
    subpel: false,
    backwards: false,
};

/// Frames 1 to `count`, with a refresh requested at the frames in `asks`.
fn film(shot: Shot, count: u32, asks: &[u32]) -> Vec<Coded> {
    let settings = Settings {
        slices: shot.slices,
        threads: shot.threads,
        subpel: shot.subpel,
        refresh: Some(shot.refresh),
        ..Settings::of(SIZE)
    };
    let mut encoder = encode::open("x264", &settings).expect("libx264");
    assert_eq!(encoder.memory(), 1);
    let code = |frame| {
        let drawn = if shot.backwards { count - frame } else { frame };
        let source = Nv12::frame(SIZE, drawn);
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: frame == 1,
            reference: FrameId(frame - 1),
            refresh: asks.contains(&frame),
            qp: 24,
            part: None,
            unchanged: None,
        };
        let (mut slices, mut said) = (Vec::new(), Vec::new());
        let encoded = encoder.encode(&source.picture(), &ask, &mut |s: Slice<'_>| {
            slices.push((s.first_mb, s.mbs, s.bytes.to_vec()));
            said.push(s.clean_after);
        });
        let encoded = encoded.expect("encoded");
        assert_eq!(encoded.key_frame, frame == 1, "frame {frame}");
        assert!(said.iter().all(|said| *said == encoded.clean_after));
        let clean_after = encoded.clean_after;
        Coded {
            slices,
            clean_after,
        }
    };
    (1..=count).map(code).collect()
}

/// The decoded planes of each frame that is not lost completely.
fn decode(film: &[Coded], lost: &dyn Fn(u32, usize) -> bool) -> Vec<Option<Vec<u8>>> {
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    let mut pictures = Vec::new();
    for (frame, coded) in (1..).zip(film) {
        let count = coded.slices.len();
        let mut shown = None;
        if !(0..count).all(|i| lost(frame, i)) {
            for (i, (first_mb, mbs, bytes)) in coded.slices.iter().enumerate() {
                let chunk = Chunk {
                    frame: FrameId(frame),
                    first: i == 0,
                    last: i + 1 == count,
                    first_mb: *first_mb,
                    mbs: *mbs,
                    bytes: (!lost(frame, i)).then_some(bytes),
                };
                if let Some(picture) = decoder.feed(&chunk).expect("decoded") {
                    let rows = (0..3).flat_map(|p| {
                        let (w, h) = match p {
                            0 => (SIZE.width as usize, SIZE.height as usize),
                            _ => (SIZE.width as usize / 2, SIZE.height as usize / 2),
                        };
                        let plane = picture.planes[p];
                        plane
                            .data
                            .chunks(plane.stride)
                            .take(h)
                            .map(move |row| &row[..w])
                    });
                    shown = Some(rows.flatten().copied().collect());
                }
            }
            assert!(shown.is_some(), "frame {frame} has no picture");
        }
        pictures.push(shown);
    }
    pictures
}

/// The frames whose decoded picture differs from the picture decoded without loss. Completely lost frames are included.
fn damaged(film: &[Coded], lost: &dyn Fn(u32, usize) -> bool) -> Vec<u32> {
    let clean = decode(film, &|_, _| false);
    let pictures = decode(film, lost);
    let pairs = (1..).zip(clean.into_iter().zip(pictures));
    pairs
        .filter(|(_, (a, b))| a != b)
        .map(|(frame, _)| frame)
        .collect()
}

/// The start frames of refreshes, and their announced durations.
fn refreshes(film: &[Coded]) -> Vec<(u32, u16)> {
    let all = (1..).zip(film);
    all.filter_map(|(frame, coded)| Some((frame, coded.clean_after?)))
        .collect()
}

#[test]
fn a_completed_refresh_is_bit_exact() {
    for shot in [
        SHOT,
        Shot {
            subpel: true,
            backwards: true,
            ..SHOT
        },
        Shot { threads: 2, ..SHOT },
        Shot {
            slices: 1,
            backwards: true,
            ..SHOT
        },
    ] {
        let film = film(shot, 52, &[10]);
        assert_eq!(refreshes(&film), [(10, COLUMNS - 2)], "{shot:?}");
        let clean = 10 + u32::from(COLUMNS) - 2;
        // Frames 6 to 8 are lost completely.
        let expected: Vec<u32> = (6..clean).collect();
        assert_eq!(
            damaged(&film, &|frame, _| (6..=8).contains(&frame)),
            expected,
            "{shot:?}"
        );
        // Part of frame 7 is lost and concealed.
        if shot.slices > 1 {
            let damaged = damaged(&film, &|frame, i| frame == 7 && i > 1);
            assert_eq!(
                (damaged.first(), damaged.last() < Some(&clean)),
                (Some(&7), true),
                "{shot:?}"
            );
        }
    }
}

#[test]
fn a_loss_within_a_refresh_needs_another_one() {
    let film = film(SHOT, 100, &[10, 21, 22, 23]);
    // Requests during a refresh start one further refresh after it.
    let second = 10 + u32::from(COLUMNS) - 1;
    assert_eq!(refreshes(&film), [(10, COLUMNS - 2), (second, COLUMNS - 2)]);
    let damaged = damaged(&film, &|frame, _| frame == 6 || frame == 20);
    let expected: Vec<u32> = (6..second + u32::from(COLUMNS) - 2).collect();
    assert_eq!(damaged, expected);
}

#[test]
fn periodic_refreshes_take_their_period() {
    let refresh = Refresh::Every(12);
    let film = film(Shot { refresh, ..SHOT }, 50, &[]);
    assert_eq!(refreshes(&film), [(13, 11), (25, 11), (37, 11), (49, 11)]);
    let expected: Vec<u32> = (6..24).collect();
    assert_eq!(damaged(&film, &|frame, _| frame == 6), expected);
    // The loss is after the refresh's start, so only the next refresh helps.
    let expected: Vec<u32> = (15..36).collect();
    assert_eq!(damaged(&film, &|frame, _| frame == 15), expected);
}

#[test]
fn an_encoder_without_intra_refresh_refuses_it() {
    for name in ["jpeg", "openh264", "raw"] {
        let backend = encode::find(name).expect("in the table");
        let settings = Settings {
            refresh: Some(Refresh::OnDemand),
            ..backend.settings(SIZE, openuvr_proto::units::Bitrate(8_000_000))
        };
        let why = encode::open(name, &settings)
            .err()
            .expect("refused")
            .to_string();
        assert!(
            why.contains(name) && why.contains("choose the encoder x264"),
            "{why}"
        );
    }
}
