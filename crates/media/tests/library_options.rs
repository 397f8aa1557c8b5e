//! Tests options of the encoders' libraries: a decoder accepts streams that are encoded with options, and an error
//! names a wrong option.

#![expect(clippy::unwrap_used, reason = "a test fails there")]

mod moving;

use moving::Nv12;
use openuvr_media::codec::Codec;
use openuvr_media::decode::{self, Chunk};
use openuvr_media::encode::{self, EncoderOptions, FrameRequest, Opening, Settings};
use openuvr_proto::id::FrameId;
use openuvr_proto::units::{Bitrate, Size};

const SIZE: Size = Size::new(640, 368);

/// Encodes 20 pictures with `options` and decodes them. Returns the total size of the coded pictures in bytes.
fn bytes_of_a_stream(encoder: &str, options: &str) -> usize {
    let backend = encode::find(encoder).unwrap();
    let settings = Settings {
        slices: 4,
        threads: 2,
        ..backend.settings(SIZE, Bitrate::from_mbps(10))
    };
    let mut encoder = encode::open_with(&Opening {
        backend,
        settings: &settings,
        options: &options.parse().unwrap(),
    })
    .expect(options);
    let mut decoder = decode::open(Codec::H264).expect("libavcodec");
    let mut sum = 0;
    for frame in 1..=20 {
        let source = Nv12::frame(SIZE, frame);
        let ask = FrameRequest {
            frame: FrameId(frame),
            key_frame: frame == 1,
            reference: FrameId::NONE,
            refresh: false,
            qp: 30,
            part: None,
            unchanged: None,
        };
        let mut slices = Vec::new();
        let encoded = encoder
            .encode(&source.picture(), &ask, &mut |slice| {
                let place = (slice.index, slice.first_mb, slice.mbs, slice.last);
                slices.push((place, slice.bytes.to_vec()));
            })
            .expect("encoded");
        assert_eq!(encoded.key_frame, frame == 1, "{options}, frame {frame}");
        let mut shown = false;
        for ((index, first_mb, mbs, last), bytes) in &slices {
            sum += bytes.len();
            let chunk = Chunk {
                frame: ask.frame,
                first: *index == 0,
                last: *last,
                first_mb: *first_mb,
                mbs: *mbs,
                bytes: Some(bytes),
            };
            shown |= decoder.feed(&chunk).expect("decoded").is_some();
        }
        assert!(shown, "{options}, frame {frame}");
    }
    sum
}

#[test]
fn streams_with_options_of_x264_are_decoded() {
    let usual = bytes_of_a_stream("x264", "");
    for options in [
        "preset=faster\ntune=zerolatency\nref=1\nme=dia\nmerange=16",
        "ref=3\nme=hex\nsubme=4",
        "deblock=0,0",
        "8x8dct=1\nsubme=2",
        "preset=veryfast\ntune=psnr",
    ] {
        let bytes = bytes_of_a_stream("x264", options);
        assert_ne!(bytes, usual, "{options} has no effect");
    }
}

#[test]
fn streams_with_options_of_libavcodec_are_decoded() {
    let usual = bytes_of_a_stream("libx264", "");
    for options in [
        "preset=veryfast\nrefs=2\nme_range=16",
        "preset=veryfast\ntune=psnr,zerolatency",
        "x264-params=ref=2:subme=4",
    ] {
        let bytes = bytes_of_a_stream("libx264", options);
        assert_ne!(bytes, usual, "{options} has no effect");
    }
}

#[test]
fn an_option_of_libavcodec_is_refused_by_its_name() {
    let refused = |options: &str| {
        let options: EncoderOptions = options.parse().unwrap();
        let backend = encode::find("libx264").unwrap();
        let why = encode::check_options(backend, &options).expect_err("refused");
        why.to_string()
    };
    for (options, name) in [
        ("prest=faster", "prest"),
        ("refs=2\nprest=faster", "prest"),
        ("refs=many", "refs"),
        // libx264 refuses this value only when the encoder is opened.
        ("refs=2\npreset=warp\nme_range=16", "preset"),
        ("bf=2", "bf"),
        ("rc-lookahead=20", "rc-lookahead"),
        ("preset=veryfast\ntune=film", "tune"),
        ("x264-params=ref=2:bframes=3", "x264-params"),
        ("refs=2\ncrf=20", "crf"),
    ] {
        let why = refused(options);
        assert!(
            why.starts_with(&format!("the encoder option {name} is refused: ")),
            "{options}: {why}"
        );
        assert!(!why.contains('\n'), "{why}");
    }
}

#[test]
fn encoders_of_libavcodec_are_found_by_name() {
    let rgb = encode::find("libx264rgb").unwrap();
    assert_eq!((rgb.name, rgb.codec), ("libx264rgb", Codec::H264));
    let again = encode::find("libx264rgb").unwrap();
    assert!(std::ptr::eq(rgb, again), "one entry per name");
    for name in ["mpeg4", "aac", "h264", ""] {
        let why = encode::find(name).expect_err(name).to_string();
        assert!(
            why.contains(&format!("unknown encoder \"{name}\"")),
            "{why}"
        );
    }
}
