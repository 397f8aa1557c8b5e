//! Checks access units of the installed libavcodec. The tests of the crate `gateway` decode access units with ffmpeg.

use super::super::tone::Sine;
use super::*;
use crate::audio::opus;

const BLOCK: usize = FRAME as usize * CHANNELS;

/// Encodes `blocks` blocks of a tone. Returns the access units with the indices of their first sample frames.
fn encoded(blocks: usize, bitrate: Bitrate) -> Vec<(i64, Vec<u8>)> {
    let mut encoder = Encoder::open(bitrate).unwrap();
    let mut sine = Sine::new(1000.0, 0.25);
    let mut block = vec![0.0; BLOCK];
    let units = (0..blocks).filter_map(|_| {
        sine.fill(&mut block);
        let unit = encoder.encode(&block).unwrap()?;
        Some((unit.first, unit.bytes.to_vec()))
    });
    units.collect()
}

#[test]
fn each_block_but_the_first_yields_an_access_unit() {
    let units = encoded(50, opus::BITRATE);
    assert_eq!(units.len(), 49);
    let starts = units.iter().map(|(first, _)| *first);
    let expected = (-1..48).map(|unit| unit * i64::from(FRAME));
    assert!(starts.eq(expected), "{:?}", units[0].0);
    for (first, bytes) in &units {
        assert!(
            !bytes.is_empty() && bytes.len() <= MAX_BYTES.into(),
            "{first}"
        );
        // The first element is a channel pair (ID_CPE, 1) or a fill element (ID_FIL, 6) (ISO/IEC 14496-3 table 4.85).
        assert!([1, 6].contains(&(bytes[0] >> 5)), "{first}: {:x}", bytes[0]);
    }
}

#[test]
fn the_bitrate_is_followed() {
    let bytes = |bitrate| {
        let units = encoded(200, Bitrate(bitrate));
        units.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    };
    assert!(bytes(160_000) > bytes(48_000) * 2);
}

#[test]
fn a_block_of_another_length_is_refused() {
    let mut encoder = Encoder::open(opus::BITRATE).unwrap();
    for length in [0, BLOCK - 2, BLOCK + 2] {
        let why = encoder.encode(&vec![0.0; length]).unwrap_err().to_string();
        assert!(why.contains("must have 1024"), "{why}");
    }
    assert_eq!(encoder.encode(&[0.0; BLOCK]).unwrap(), None);
    assert!(encoder.encode(&[0.0; BLOCK]).unwrap().is_some());
}

#[test]
fn the_configuration_states_the_stream_s_format() {
    let [high, low] = CONFIG.map(u16::from);
    let bits = high << 8 | low;
    assert_eq!(bits >> 11, 2, "AAC LC");
    assert_eq!(bits >> 7 & 15, 3, "48 kHz");
    assert_eq!(bits >> 3 & 15, 2, "two channels");
    assert_eq!(bits & 7, 0, "1024 samples, no core coder, no extension");
}
