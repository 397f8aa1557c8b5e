//! Recordings, read by ffmpeg as an independent decoder.

use std::process::Command;

use super::skip;

/// Decodes all of a file without a warning.
pub(crate) fn ffprobe_reads(file: &str) {
    let args = ["-v", "error", "-count_frames", "-show_streams", file];
    let Ok(out) = Command::new("ffprobe").args(args).output() else {
        skip("ffmpeg is not installed: apt-get install ffmpeg");
        return;
    };
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && complaints.is_empty(),
        "{complaints}"
    );
}
