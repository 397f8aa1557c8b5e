//! A recording, read by ffmpeg, which nobody wrote for this.

use std::process::Command;

use super::skip;

/// It decodes all of a file, and complains about nothing.
pub(crate) fn ffprobe_reads(file: &str) {
    let words = ["-v", "error", "-count_frames", "-show_streams", file];
    let Ok(out) = Command::new("ffprobe").args(words).output() else {
        skip("ffmpeg is not installed");
        return;
    };
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.success() && complaints.is_empty(),
        "{complaints}"
    );
}
