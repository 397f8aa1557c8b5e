//! Compares the angle of a scripted head with the pictures in the client's window, while a delay is added between host
//! and client. The bench reads the angles from pixels.

use super::{bench, has_xvfb, read_json};

#[test]
fn reprojected_pictures_follow_the_head() {
    if !has_xvfb() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The head turns slowly and the delay is long, so that a busy machine distorts neither figure. Without
    // reprojection, the picture is 12 degrees late. A stall of a tenth of a second adds 2 degrees.
    let words = [
        "reprojection",
        "--eye",
        "320",
        "--rate",
        "30",
        "--speed",
        "20",
    ];
    let more = [
        "--round-trips",
        "600",
        "--duration",
        "3s",
        "--with",
        "software,gl",
    ];
    let words = [&words[..], &more].concat();
    let text = bench(&words, "--out", folder.path());
    let report = read_json(&folder, "reprojection.json");
    let row = &report["round_trips"][0];
    let without = row["without"]["p50"].as_f64().expect("pictures were seen");
    assert!(without > 8.0, "{text}");
    for (i, name) in ["software", "gl"].iter().enumerate() {
        let way = &row["re_aimed"][i];
        let with = way["degrees"]["p50"].as_f64().expect("pictures were seen");
        assert!(with < without / 2.0, "{text}");
        // In 3 s, a fast machine shows 90 pictures. A slow one draws few with a software renderer.
        assert!(way["degrees"]["pictures"].as_u64() >= Some(3), "{text}");
        // The client used the requested method, not the fallback.
        let cost = way["cost"].as_str().expect("the client's report");
        assert!(cost.ends_with(&format!("with {name}")), "{text}");
    }
}
