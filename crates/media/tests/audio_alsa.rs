//! Records devices of ALSA's plug-ins: devices that play a tone from a file, and the monitor of a sound server.
#![cfg(any(feature = "host", feature = "client"))]
#![allow(clippy::unwrap_used, reason = "a test fails there")]

mod pulse_server;
#[allow(clippy::duplicate_mod, reason = "the sound server has it, too")]
mod skip;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use openuvr_media::audio::alsa::Capture;
use openuvr_media::audio::goertzel::amplitude;
use openuvr_media::audio::tone::Sine;
use openuvr_media::audio::{AudioCapture, AudioError, AudioEvent, CHANNELS, Settings, duration_of};
use openuvr_proto::time::Instant;
use pulse_server::PulseServer;
use skip::skip;

const FRAME: usize = 240;
const PITCH: f64 = 1000.0;

/// The environment variable that marks a process in which ALSA has a test's configuration.
const CONFIGURED: &str = "OPENUVR_TEST_ALSA";

/// Runs the test `test` again in a child process in which ALSA has the configuration `config`. Returns `true` in the
/// child process, and `false` in the parent process when the child process has passed the test.
fn is_configured(test: &str, config: impl FnOnce(&Path) -> String) -> bool {
    if std::env::var_os(CONFIGURED).is_some() {
        return true;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asound.conf");
    std::fs::write(&file, config(folder.path())).unwrap();
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ALSA_CONFIG_PATH", &file)
        .env(CONFIGURED, "yes")
        .output()
        .unwrap();
    let [said, complaints] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(out.status.success(), "{said}{complaints}");
    assert!(!complaints.contains("ALSA lib"), "{complaints}");
    false
}

/// Opens a device. If this fails, skips the test and returns `None`.
fn opened(device: &str, package: &str) -> Option<Capture> {
    let settings = Settings {
        device: Some(device.to_owned()),
        ..Settings::default()
    };
    match Capture::open(&settings) {
        Ok(capture) => Some(capture),
        Err(AudioError(why)) => {
            skip(&format!("{why}: apt-get install {package}"));
            None
        }
    }
}

/// Reads `count` blocks. Returns their samples and their capture times.
fn blocks(capture: &mut Capture, count: usize) -> (Vec<f32>, Vec<Instant>) {
    let (mut all, mut times) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let mut block = [9.0; FRAME * CHANNELS];
        match capture
            .read(&mut block, Some(Duration::from_secs(20)))
            .unwrap()
        {
            AudioEvent::Captured(at) => times.push(at),
            other => panic!("{other:?}, not a block"),
        }
        all.extend_from_slice(&block);
    }
    (all, times)
}

/// Generates two seconds of a tone as 16-bit integers.
fn tone() -> Vec<u8> {
    let mut samples = vec![0.0; 96_000 * CHANNELS];
    Sine::new(PITCH, 0.25).fill(&mut samples);
    #[expect(clippy::cast_possible_truncation, reason = "a quarter of the range")]
    let integers = samples.iter().map(|sample| (sample * 32768.0) as i16);
    integers.flat_map(i16::to_le_bytes).collect()
}

/// The configuration of two devices that play a file. `converted` converts its samples to floating-point numbers;
/// `integers` supports only 16-bit integers.
fn files(folder: &Path) -> String {
    std::fs::write(folder.join("tone.raw"), tone()).unwrap();
    let folder = folder.display();
    let file = format!(
        "type file slave.pcm {{ type null }} file /dev/null infile \"{folder}/tone.raw\" format raw"
    );
    format!(
        "pcm.converted {{ type plug slave {{ pcm {{ {file} }} format S16_LE rate 48000 channels 2 }} }}\n\
         pcm.integers {{ type linear slave {{ pcm {{ {file} }} format S16_LE }} }}\n"
    )
}

#[test]
fn a_tone_is_recorded_in_both_sample_formats() {
    if !is_configured("a_tone_is_recorded_in_both_sample_formats", files) {
        return;
    }
    for device in ["converted", "integers"] {
        let Some(mut capture) = opened(device, "libasound2") else {
            return;
        };
        let (samples, times) = blocks(&mut capture, 100);
        let [tone, other] = [PITCH, 1300.0].map(|pitch| amplitude(&samples, pitch));
        assert!((tone - 0.25).abs() < 0.01, "{device}: {tone}");
        assert!(other < 0.01, "{device}: {other}");
        let right: Vec<f32> = samples.chunks(CHANNELS).map(|frame| frame[1]).collect();
        let left: Vec<f32> = samples.chunks(CHANNELS).map(|frame| frame[0]).collect();
        assert_eq!(left, right, "{device}");
        assert!(times.is_sorted(), "{device}");
        // The device has no clock, but is read in real time.
        let span = times[99].since(times[0]);
        let exact = duration_of(99 * FRAME);
        assert!(
            span + Duration::from_millis(100) > exact,
            "{device}: {span:?}"
        );
    }
}

#[test]
fn a_sound_server_is_recorded_through_its_plug_in() {
    let mut server = None;
    let configured = is_configured("a_sound_server_is_recorded_through_its_plug_in", |_| {
        server = PulseServer::start();
        let Some(server) = &server else {
            return String::new();
        };
        server.pactl(&["load-module", "module-sine", "sink=usual", "frequency=1000"]);
        let address = &server.address;
        format!("pcm.server {{ type pulse server \"{address}\" device \"usual.monitor\" }}\n")
    });
    if !configured {
        return;
    }
    let Some(mut capture) = opened("server", "libasound2-plugins pulseaudio") else {
        return;
    };
    // The server may start with silence.
    blocks(&mut capture, 100);
    let (samples, times) = blocks(&mut capture, 200);
    let [tone, other] = [PITCH, 1300.0].map(|pitch| amplitude(&samples, pitch));
    assert!(tone > 0.1, "{tone}");
    assert!(other < tone / 20.0, "{other} beside {tone}");
    assert!(times.is_sorted());
}

#[test]
fn a_missing_device_is_one_line_with_its_name() {
    let config = |_: &Path| "pcm.other { type null }\n".to_owned();
    if !is_configured("a_missing_device_is_one_line_with_its_name", config) {
        return;
    }
    let settings = Settings {
        device: Some("hw:77".to_owned()),
        ..Settings::default()
    };
    let why = Capture::open(&settings).err().unwrap().to_string();
    if why.contains("apt install libasound2") {
        skip(&why);
        return;
    }
    assert!(why.contains("ALSA device \"hw:77\""), "{why}");
    assert!(why.contains("`arecord -L` lists the devices"), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
}
