//! `openuvr bench slices`: tests that the bench reads both ends of the pictures in the client's window.

use super::{bench, has_xvfb, read_json};

#[test]
fn slices_make_pictures_of_two_frames() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = ["slices", "--size", "640x360", "--bitrate", "5M", "--quick"];
    let text = bench(&words, "--out", folder.path());
    let report = read_json(&folder, "slices.json");
    let ways = report["ways"].as_array().expect("two");
    let names: Vec<_> = ways.iter().map(|way| way["name"].as_str()).collect();
    assert_eq!(names, [Some("whole"), Some("slices")], "{text}");
    for way in ways {
        for end in ["top_p50_ms", "bottom_p50_ms"] {
            assert!(way[end]["median"].as_f64() > Some(0.0), "{end}: {text}");
        }
    }
    // Even without slices, the share of mixed pictures can exceed 0, because a host may capture the scene while the
    // scene replaces one frame with the next.
    let mixed = |way: usize| ways[way]["mixed"]["median"].as_f64();
    assert!(mixed(0).is_some() && mixed(1) > mixed(0), "{text}");
}
