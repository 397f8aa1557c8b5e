//! Checks of a file with ffmpeg and ffprobe, where every warning fails the test.

use std::path::Path;
use std::process::{Command, Stdio};

use super::support::skip::has_program;

/// Whether ffmpeg and ffprobe are installed.
pub(crate) fn is_there() -> bool {
    (["ffmpeg", "ffprobe"].iter()).all(|program| has_program(program, "ffmpeg"))
}

fn output(program: &str, words: &[&str]) -> Vec<u8> {
    let out = Command::new(program)
        .args(["-v", "warning"])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && complaints.is_empty(),
        "{program}: {complaints}"
    );
    out.stdout
}

/// The output of ffmpeg for the file with these arguments.
fn ffmpeg(file: &Path, words: &[&str]) -> Vec<u8> {
    let file = file.to_str().unwrap();
    output("ffmpeg", &[&["-i", file], words, &["-"]].concat())
}

/// The H.264 stream of the file, unchanged.
pub(crate) fn annex_b(file: &Path) -> Vec<u8> {
    // This format has no timestamps. Frames that are closer together than the format's time base cause warnings,
    // although the file is correct.
    let words = ["-v", "fatal", "-map", "0:v", "-c", "copy", "-f", "h264"];
    ffmpeg(file, &words)
}

/// Number of frames that ffmpeg decodes from a track.
pub(crate) fn decodes(file: &Path, track: &str) -> usize {
    let map = format!("0:{track}");
    let words = ["-map", &map, "-fps_mode", "passthrough", "-f", "framemd5"];
    let text = String::from_utf8(ffmpeg(file, &words)).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).count()
}

/// A value of each packet or frame of a track.
pub(crate) fn entries(file: &Path, track: &str, what: &str) -> Vec<f64> {
    let file = file.to_str().unwrap();
    let words = ["-select_streams", track, "-show_entries", what, "-of"];
    let bytes = output("ffprobe", &[&words[..], &["csv=p=0", file]].concat());
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.lines().map(|line| line.trim_end_matches(','));
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| line.parse().unwrap()).collect()
}

/// Duration of the file in seconds.
pub(crate) fn duration(file: &Path) -> f64 {
    let file = file.to_str().unwrap();
    let words = ["-show_entries", "format=duration", "-of", "csv=p=0", file];
    let text = String::from_utf8(output("ffprobe", &words)).unwrap();
    text.trim().parse().unwrap()
}

/// Samples of one sound channel.
pub(crate) fn samples(file: &Path) -> Vec<f32> {
    let words = ["-map", "0:a", "-ac", "1", "-ar", "48000", "-f", "f32le"];
    let bytes = ffmpeg(file, &words);
    let samples = bytes.chunks_exact(4);
    samples
        .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
        .collect()
}

/// Codec, profile, sampling rate and channels of the sound.
pub(crate) fn sound_format(file: &Path) -> String {
    let what = "stream=codec_name,profile,sample_rate,channels";
    let file = file.to_str().unwrap();
    let words = ["-select_streams", "a", "-show_entries", what, "-of"];
    let text = output("ffprobe", &[&words[..], &["csv=p=0", file]].concat());
    String::from_utf8(text).unwrap().trim().to_owned()
}
