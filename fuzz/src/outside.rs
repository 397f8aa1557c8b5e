//! Recordings, sensor samples, and the datagrams of head trackers.

use openuvr_gateway::record::fragments::{Fragments, Frame, Sound};
use openuvr_proto::time::Instant;
use openuvr_proto::units::Size;
use openuvr_runtime::host::SoundCodec;

/// Records an encoder with arbitrary output at arbitrary times. The recording contains at most the frames and packets
/// of the encoder, and is not much larger than the input.
pub fn recording(bytes: &[u8]) {
    let is_aac = bytes.first().is_some_and(|first| first % 2 == 1);
    let codec = if is_aac {
        SoundCodec::Aac
    } else {
        SoundCodec::Opus
    };
    let mut fragments = Fragments::new(Some(codec));
    let (mut frames, mut packets, mut came) = (0, 0, 0);
    let mut now = Instant(0);
    for piece in bytes.chunks(16) {
        let [what, step, body @ ..] = piece else {
            continue;
        };
        // Clocks may jump forwards or backwards.
        now = Instant(now.0 + (i64::from(*step) - 32) * 5_000_000);
        came += body.len() + 512;
        match what % 4 {
            0 => {
                packets += 1;
                fragments.sound(Sound {
                    captured: now,
                    samples: 240,
                    bytes: body.to_vec(),
                });
            }
            1 => fragments.idle(now),
            key => {
                frames += 1;
                let sets = [
                    0,
                    0,
                    1,
                    0x67,
                    0x64,
                    0,
                    0x1e,
                    body.first().copied().unwrap_or(1),
                    9,
                ];
                let mut bytes = sets.to_vec();
                bytes.extend([0, 0, 1, 0x68, 0xcb, 0x83]);
                bytes.extend(body);
                fragments.frame(Frame {
                    captured: now,
                    key: key == 2,
                    size: Some(Size::new(640, 384)),
                    fps: Some(60),
                    bytes,
                });
            }
        }
    }
    fragments.finish(now);
    let (mut length, mut last) = (0, None);
    while let Some((bytes, written)) = fragments.poll() {
        length += bytes.len();
        last = Some(written);
    }
    if let Some(written) = last {
        assert!(written.frames <= frames && written.packets <= packets);
    }
    assert!(length <= 4096 + came, "{length}");
}

/// The type of a sensor's samples, as sysfs describes it, followed by samples. An invalid type is rejected. Samples are
/// decoded within the size of the type.
pub fn iio(bytes: &[u8]) {
    use openuvr_media::head::iio::scan::{Channel, Layout, SampleType};
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let (text, samples) = bytes.split_at(end);
    let Some(kind) = str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<SampleType>().ok())
    else {
        return;
    };
    assert!((1..=128).contains(&kind.size()));
    if kind.is_scalar() {
        assert_eq!(kind.decode(samples).is_some(), samples.len() >= kind.size());
    }
    let axes = (0..3).map(|axis| (2 - axis, Channel::Gyroscope(axis as usize), kind));
    if let Some(layout) = Layout::new(axes.collect()) {
        let scan = layout.decode(samples);
        assert!(scan.gyroscope.is_none() || samples.len() >= layout.size() - kind.size());
        assert_eq!((scan.accelerometer, scan.timestamp), (None, None));
    }
}

/// A datagram that arrives at the port for head trackers. It is rejected, or contains a nearby position and valid
/// angles.
pub fn opentrack(bytes: &[u8]) {
    if let Some((at, angles)) = openuvr_media::head::opentrack::parse(bytes) {
        assert!(at.iter().all(|metres| metres.abs() <= 100.0));
        assert!(angles.iter().all(|radians| radians.abs() <= 6.3));
    }
}
