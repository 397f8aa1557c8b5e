//! `--record`: the contents of the file, for each way to end.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::stalls::measured_without_stalls;
use crate::support::{Display, Folder, Host, Program, eventually, openuvr, skip};

const PATTERN: [&str; 6] = ["--source", "pattern", "--size", "320x200", "--fps", "60"];

/// Number of complete fragments of a file.
fn fragments(file: &str) -> usize {
    let bytes = std::fs::read(file).unwrap_or_default();
    bytes.windows(4).filter(|four| four == b"moof").count()
}

/// Decodes a file with ffmpeg, which must print no warning, and returns the number of frames. If ffmpeg is not
/// installed, prints a message and returns `None`.
fn decoded(file: &str) -> Option<usize> {
    let args = [
        "-v",
        "error",
        "-i",
        file,
        "-map",
        "0:v",
        "-fps_mode",
        "passthrough",
    ];
    let mut command = Command::new("ffmpeg");
    command.args(args).args(["-f", "framemd5", "-"]);
    let Ok(out) = command.stdin(Stdio::null()).output() else {
        skip("ffmpeg is not installed: apt-get install ffmpeg");
        return None;
    };
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && complaints.is_empty(),
        "{complaints}"
    );
    let text = String::from_utf8_lossy(&out.stdout);
    Some(text.lines().filter(|line| !line.starts_with('#')).count())
}

#[test]
fn a_killed_host_leaves_a_recording() {
    let folder = Folder::new();
    let file = folder.join("it.mp4");
    let args = ["--sound", "tone:440", "--record", &file];
    let mut host = Host::start(&[&PATTERN[..], &args].concat());
    eventually("four fragments", || (fragments(&file) >= 4).then_some(()));
    host.program.kill();
    let Some(frames) = decoded(&file) else {
        return;
    };
    // Each of the first fragments lasts half a second. At 60 frames/s it has 30 frames, or fewer if something delays
    // them.
    assert!(frames >= 3, "{frames}");
}

#[test]
fn a_constant_frame_rate_fills_a_recording() {
    let Some(still) = Display::start("320x200") else {
        return;
    };
    let folder = Folder::new();
    let file = folder.join("it.mp4");
    let args = ["--display", &still.name, "--fps", "30"];
    let steady = ["--constant-frame-rate", "--record", &file];
    let mut host = Host::start(&[&args[..], &steady].concat());
    eventually("six fragments", || (fragments(&file) >= 6).then_some(()));
    host.program.stop();
    let Some(frames) = decoded(&file) else {
        return;
    };
    // A fragment lasts about half a second. Without the option, it contains one frame. With it, it contains 15 frames,
    // or fewer on a slow machine.
    let fragments = fragments(&file);
    assert!(
        frames > 3 * fragments,
        "{frames} frames in {fragments} fragments"
    );
}

#[test]
fn a_recording_has_the_chosen_sound_codec() {
    for codec in ["opus", "aac"] {
        let folder = Folder::new();
        let file = folder.join("it.mp4");
        let sound = ["--sound", "tone:440", "--record-sound", codec];
        let args = [&PATTERN[..], &sound, &["--record", &file]].concat();
        let mut host = Host::start(&args);
        eventually("two fragments", || (fragments(&file) >= 2).then_some(()));
        let text = host.program.stop();
        assert!(text.contains("packets of sound"), "{text}");
        let mut command = Command::new("ffprobe");
        command.args(["-v", "error", "-select_streams", "a"]);
        command.args([
            "-show_entries",
            "stream=codec_name",
            "-of",
            "csv=p=0",
            &file,
        ]);
        let Ok(out) = command.stdin(Stdio::null()).output() else {
            skip("ffprobe is not installed: apt-get install ffmpeg");
            return;
        };
        assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), codec);
    }
}

#[test]
fn an_alsa_device_is_recorded() {
    // In a stall, the host may record less, or with gaps: a device that is read 50 ms late counts as silent.
    measured_without_stalls(3, Duration::from_millis(40), record_alsa_device);
}

/// Records a tone of an ALSA device. Returns an error if the tone in the recording is short or spoiled.
fn record_alsa_device() -> Result<(), String> {
    let folder = Folder::new();
    let [dir, file, tone, config] =
        ["host", "it.mp4", "tone.raw", "asound.conf"].map(|name| folder.join(name));
    // Ten seconds of a square wave of 1000 Hz, as 16-bit integers with two channels.
    let frame = |n: u32| match n % 48 < 24 {
        true => 8000_i16.to_le_bytes().repeat(2),
        false => (-8000_i16).to_le_bytes().repeat(2),
    };
    let samples: Vec<u8> = (0..480_000).flat_map(frame).collect();
    std::fs::write(&tone, samples).expect("the tone");
    let device =
        format!("type file slave.pcm {{ type null }} file /dev/null infile \"{tone}\" format raw");
    let plug = format!(
        "pcm.tone {{ type plug slave {{ pcm {{ {device} }} format S16_LE rate 48000 channels 2 }} }}"
    );
    std::fs::write(&config, plug).expect("the configuration");
    let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
    let sound = [
        "--sound",
        "alsa:tone",
        "--record",
        &file,
        "--duration",
        "4s",
    ];
    let mut host = openuvr(&[&own[..], &PATTERN, &sound].concat());
    host.env("ALSA_CONFIG_PATH", &config);
    let (status, text) = Program::start("host", host).wait();
    if text.contains("apt install libasound2") {
        skip(&text);
        return Ok(());
    }
    assert!(
        status.success() && text.contains("packets of sound"),
        "{text}"
    );
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-i", &file, "-map", "0:a"]);
    command.args(["-ac", "1", "-ar", "48000", "-f", "s16le", "-"]);
    let Ok(out) = command.stdin(Stdio::null()).output() else {
        skip("ffmpeg is not installed: apt-get install ffmpeg");
        return Ok(());
    };
    let samples = out.stdout.chunks_exact(2);
    let samples: Vec<i16> = samples
        .map(|two| i16::from_le_bytes([two[0], two[1]]))
        .collect();
    if samples.len() <= 96_000 {
        return Err(format!("only {} samples", samples.len()));
    }
    let second = &samples[samples.len() - 72_000..][..48_000];
    let crossings = second.windows(2).filter(|two| two[0] < 0 && two[1] >= 0);
    let pitch = crossings.count();
    // Gaps of a slow machine lower the pitch. A mistaken rate of 44.1 kHz would change it by 8 %.
    match pitch {
        940..=1060 => Ok(()),
        _ => Err(format!("{pitch} Hz")),
    }
}

#[test]
fn a_recording_is_reported_and_not_overwritten() {
    let folder = Folder::new();
    let file = folder.join("it.mp4");
    let mut host = Host::start(&[&PATTERN[..], &["--record", &file]].concat());
    eventually("a fragment", || (fragments(&file) >= 1).then_some(()));
    let text = host.program.stop();
    let message = text.lines().find(|line| line.contains("recorded in"));
    let message = message.unwrap_or_else(|| panic!("not reported: {text}"));
    assert!(
        message.contains(&file) && message.contains("no sound"),
        "{message}"
    );
    let rest = message
        .split_once(&format!("{file}: "))
        .map(|(_, rest)| rest);
    let count: usize = rest
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no number: {message}"));
    if let Some(frames) = decoded(&file) {
        assert_eq!(frames, count);
    }
    let before = std::fs::read(&file).expect("the recording");
    let dir = folder.join("host");
    let own = [
        "host",
        "--config-dir",
        &dir,
        "--record",
        &file,
        "--bind",
        "127.0.0.1:0",
    ];
    let args = [&own[..], &PATTERN, &["--duration", "1s"]].concat();
    let text = Program::start("host", openuvr(&args)).fails_in_one_line();
    assert!(
        text.contains("already exists: choose another file"),
        "{text}"
    );
    assert_eq!(std::fs::read(&file).expect("the recording"), before);
    let args = [&args[..], &["--record-overwrite"]].concat();
    let (status, text) = Program::start("host", openuvr(&args)).wait();
    assert!(status.success(), "{text}");
    assert_ne!(std::fs::read(&file).expect("the recording"), before);
}

#[test]
fn an_impossible_recording_is_an_error_at_start() {
    let folder = Folder::new();
    let (dir, file) = (folder.join("host"), folder.join("it.mp4"));
    let nowhere = folder.join("nowhere/it.mp4");
    for (args, expected) in [
        (
            vec!["--record", nowhere.as_str()],
            "No such file or directory",
        ),
        (
            vec!["--record-overwrite"],
            "--record-overwrite requires --record",
        ),
        (vec!["--record", &file, "--csv", &file], "are the same file"),
        (
            vec!["--record", &file, "--encoder", "jpeg"],
            "which this host does not encode",
        ),
    ] {
        let own = ["host", "--config-dir", &dir, "--bind", "127.0.0.1:0"];
        let args = [&own[..], &PATTERN, &args].concat();
        let text = Program::start("host", openuvr(&args)).fails_in_one_line();
        assert!(text.contains(expected), "{text}");
        assert!(!Path::new(&file).exists(), "{args:?}");
    }
}
