//! Round trips through the real library.

use super::super::tone::Sine;
use super::*;
use crate::audio::goertzel::amplitude;

fn encoded(blocks: usize, frames: usize) -> (Vec<Vec<u8>>, u32) {
    let mut encoder = Encoder::open(BITRATE, false).unwrap();
    let mut sine = Sine::new(1000.0, 0.25);
    let mut block = vec![0.0; frames * CHANNELS];
    let payloads = (0..blocks).map(|_| {
        sine.fill(&mut block);
        encoder.encode(&block).unwrap().to_vec()
    });
    (payloads.collect(), encoder.lookahead)
}

#[test]
fn pitch_and_level_come_back() {
    for frames in [120, 240, 480, 960] {
        let (payloads, lookahead) = encoded(48_000 / frames, frames);
        assert_eq!(lookahead, 120, "2.5 ms");
        let mut decoder = Decoder::open().unwrap();
        let mut heard = Vec::new();
        for payload in &payloads {
            let samples = decoder.decode(payload).unwrap();
            assert_eq!(samples.len(), frames * CHANNELS);
            heard.extend_from_slice(samples);
        }
        let steady = &heard[9600 * CHANNELS..];
        let (tone, beside) = (amplitude(steady, 1000.0), amplitude(steady, 1300.0));
        assert!((tone - 0.25).abs() < 0.01, "{frames}: {tone}");
        assert!(beside < 0.003, "{frames}: {beside}");
    }
}

#[test]
fn a_constant_bitrate_is_kept() {
    let (payloads, _) = encoded(200, 240);
    assert!(
        payloads
            .iter()
            .all(|payload| payload.len() == 128_000 / 8 / 200)
    );
    let mut encoder = Encoder::open(BITRATE, false).unwrap();
    let mut half = Encoder::open(Bitrate(64_000), false).unwrap();
    assert_eq!(half.encode(&[0.0; 480]).unwrap().len(), 40);
    let error = Encoder::open(Bitrate(1), false).err().unwrap().to_string();
    assert!(error.contains("16000 to 510000"), "{error}");
    assert!(
        encoder.encode(&[0.0; 482]).is_err(),
        "no Opus frame has this length"
    );
    assert!(encoder.encode(&[0.0; 480]).is_ok());
}

#[test]
fn losses_are_concealed_and_fade() {
    let (payloads, _) = encoded(400, 240);
    let mut decoder = Decoder::open().unwrap();
    for payload in &payloads[..200] {
        decoder.decode(payload).unwrap();
    }
    let first = decoder.conceal(240).unwrap().to_vec();
    assert_eq!(first.len(), 480);
    assert!(
        amplitude(&first, 1000.0) > 0.12,
        "{}",
        amplitude(&first, 1000.0)
    );
    for _ in 0..60 {
        decoder.conceal(240).unwrap();
    }
    let last = decoder.conceal(240).unwrap();
    assert!(
        amplitude(last, 1000.0) < 0.01,
        "{}",
        amplitude(last, 1000.0)
    );
    let mut again = Vec::new();
    for payload in &payloads[262..] {
        again.extend_from_slice(decoder.decode(payload).unwrap());
    }
    let tone = amplitude(&again[9600..], 1000.0);
    assert!((tone - 0.25).abs() < 0.01, "{tone}");
}

#[test]
fn invalid_payloads_are_refused_and_skipped() {
    let (payloads, _) = encoded(50, 240);
    let mut decoder = Decoder::open().unwrap();
    assert!(decoder.decode(&[]).is_err());
    assert!(decoder.decode(&[0xff; 3]).is_err());
    let mut bytes = payloads[3].clone();
    for at in 0..bytes.len() {
        bytes[at] ^= 0x55;
        let _ = decoder.decode(&bytes);
    }
    for payload in &payloads {
        assert_eq!(decoder.decode(payload).unwrap().len(), 480);
    }
}

#[test]
fn a_missing_library_names_the_package() {
    let error = |path: &str| {
        let error = sys::Library::open(Some(path.into())).err();
        error.expect("no such library").to_string()
    };
    let missing = error("/nonexistent/libopus.so");
    assert!(missing.contains("/nonexistent/libopus.so"), "{missing}");
    assert!(missing.contains("apt install libopus0"), "{missing}");
    assert!(error("libc.so.6").contains("opus_"));
    assert!(
        version().unwrap().contains("opus"),
        "{}",
        version().unwrap()
    );
}
