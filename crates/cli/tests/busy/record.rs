//! A host's record of each frame (`--csv`).

use std::path::Path;

/// A frame that was captured while a subscriber was connected.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The subscriber: a session's number, or `other-` and a number.
    pub(crate) subscriber: String,
    pub(crate) frame: u64,
    pub(crate) outcome: String,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) captured: Option<i64>,
    pub(crate) encoded: Option<i64>,
    pub(crate) key_frame: bool,
    /// `None` if the frame was not encoded.
    pub(crate) qp: Option<f64>,
    /// The longest run of missing audio sample frames in the subscriber's newest report.
    pub(crate) longest_concealment: Option<u64>,
}

pub(crate) fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).expect("the host's CSV");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let column = |name| names.iter().position(|n| *n == name).expect("a column");
    let [subscriber, frame, outcome, captured, encoded] = [
        "subscriber",
        "frame",
        "outcome",
        "Captured_ns",
        "Encoded_ns",
    ]
    .map(column);
    let [key, qp, longest] = ["key_frame", "qp", "audio_longest_concealment_samples"].map(column);
    lines
        .map(|line| Row {
            subscriber: line[subscriber].to_owned(),
            frame: line[frame].parse().expect("a number"),
            outcome: line[outcome].to_owned(),
            captured: line[captured].parse().ok(),
            encoded: line[encoded].parse().ok(),
            key_frame: line[key] == "1",
            qp: line[qp].parse().ok(),
            longest_concealment: line[longest].parse().ok(),
        })
        .collect()
}

/// Panics unless each frame from the first to the last has exactly one outcome.
pub(crate) fn assert_accounted(rows: &[Row]) {
    let mut frames: Vec<u64> = rows.iter().map(|row| row.frame).collect();
    frames.sort_unstable();
    let first = *frames.first().expect("frames were sent");
    let complete = first..first + rows.len() as u64;
    assert!(
        frames.iter().copied().eq(complete),
        "a frame without exactly one outcome"
    );
}

/// Number of frames that were encoded for a subscriber, and number of these frames that the subscriber received.
pub(crate) fn encoded_and_received<'a>(rows: impl Iterator<Item = &'a Row>) -> (usize, usize) {
    // Frames before the first sent frame are not losses: the subscriber waits for a key frame.
    let mut rows: Vec<_> = rows.filter(|row| row.encoded.is_some()).collect();
    rows.sort_by_key(|row| row.frame);
    let first = rows
        .iter()
        .position(|row| row.outcome == "sent_unacknowledged");
    let rows = &rows[first.expect("a sent frame")..];
    let left = rows
        .iter()
        .filter(|row| row.outcome == "sent_unacknowledged")
        .count();
    (rows.len(), left)
}
