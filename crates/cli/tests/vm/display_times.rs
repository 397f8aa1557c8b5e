//! The times at which pictures became visible, in the client's CSV.

use std::collections::HashMap;

use super::VGA;
use super::rig::Rig;

/// The number of flips whose time may be missing in the CSV. At the end, the client may not have read the reports of
/// the newest flips yet.
const UNREPORTED: usize = 2;

/// Frames to display.
const FRAMES: usize = 8;

#[test]
fn each_flip_stamps_the_frame_that_it_displays() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.client_options = "--csv /tmp/frames.csv";
    rig.stream_pattern(VGA);
    rig.frames(FRAMES);
    rig.end_client();
    let flips: usize = rig.client_log_value(" flips").parse().unwrap();
    let csv = rig.machine.succeed("cat /tmp/frames.csv").unwrap();
    let (mut presented, mut before_submitted) = (Vec::new(), 0);
    for row in rows(&csv) {
        let Some(visible) = time(&row, "Presented") else {
            continue;
        };
        let decoded = time(&row, "Decoded").unwrap();
        let submitted = time(&row, "Submitted").unwrap();
        assert!(visible >= decoded, "visible before it was decoded: {row:?}");
        // A driver without vertical blanks may flip before its request returns, and so before Submitted is stamped.
        before_submitted += usize::from(visible < submitted);
        presented.push(visible);
    }
    let stamps = presented.len();
    println!("{stamps} stamps of {flips} flips, {before_submitted} of them before Submitted");
    assert!(presented.is_sorted_by(|a, b| a < b), "{presented:?}");
    assert!(
        stamps <= flips && flips <= stamps + UNREPORTED,
        "{stamps} stamps of {flips} flips:\n{csv}"
    );
    assert!(flips >= FRAMES, "{flips} flips:\n{csv}");
}

/// The rows of a CSV, by the names of the columns. No field of these files is quoted.
fn rows(csv: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines
        .map(|line| names.iter().copied().zip(line.split(',')).collect())
        .collect()
}

/// The time of a stage in nanoseconds; `None` if it was not measured.
fn time(row: &HashMap<&str, &str>, stage: &str) -> Option<i64> {
    let field = row[format!("{stage}_ns").as_str()];
    (!field.is_empty()).then(|| field.parse().unwrap())
}
