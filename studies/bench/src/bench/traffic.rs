//! The results of `openuvr lab traffic` in the report: its table next to the study's, and the
//! verdicts on the figures of sections 5 to 8.1 of the Unity Render Streaming study.

use serde_json::Value;

use super::data::{Data, list, number, words};
use super::html::{escaped, section, table};
use super::mark::{Claim, Mark};

/// All claims, in the study's order.
pub(super) const CLAIMS: [Claim; 13] = [
    (
        "Unity Render Streaming section 5.2, table 3",
        "99.3 % of the load goes down, and 99.5 % of that is video.",
        |data| judge(data, "section 5.2"),
        COMMAND,
    ),
    (
        "Unity Render Streaming section 6.1",
        "97 % of the video packets come microseconds behind another.",
        |data| judge(data, "section 6.1"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 10",
        "Frames come at their rate.",
        |data| judge(data, "fig. 10b"),
        COMMAND,
    ),
    (
        "Unity Render Streaming section 6.3, fig. 11",
        "Frames are sent in batches 5.56 ms apart, at every frame rate.",
        |data| judge(data, "section 6.3"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 12",
        "A frame is sent in 2.1, 2.54 and 4.56 batches at 90, 60 and 30 frames/s.",
        |data| judge(data, "fig. 12"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 13",
        "15, 20 and 25 % of the batches' times are idle at 90, 60 and 30 frames/s.",
        |data| judge(data, "fig. 13"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 14",
        "Nearly all frames that are encoded are decoded.",
        |_| not_testable("no capture shows decoding"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 15(a)",
        "The round trip is 1.5 ms, 4 to 5 ms at 99.99 %.",
        |data| judge(data, "fig. 15a"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 15(b)",
        "The jitter is 7, 9 and 20 ms at 90, 60 and 30 frames/s.",
        |data| judge(data, "fig. 15b"),
        COMMAND,
    ),
    (
        "Unity Render Streaming section 7.2",
        "No packet is lost in the end.",
        |data| judge(data, "section 7.2"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 15(c)",
        "A frame's packets arrive within 6, 9 and 21 ms at 90, 60 and 30 frames/s.",
        |data| judge(data, "fig. 15c"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 16",
        "Over Wi-Fi, 89.7 % of the packets down arrive with others.",
        |data| over_wifi(data, "fig. 16"),
        COMMAND,
    ),
    (
        "Unity Render Streaming fig. 18",
        "Over Wi-Fi, 13 to 14 video packets arrive at once at every frame rate.",
        |data| over_wifi(data, "fig. 18"),
        COMMAND,
    ),
];

const COMMAND: &str = "lab traffic";

/// The study's duration, in seconds.
const SECONDS: f64 = 30.0;

fn not_testable(why: &str) -> Option<(Mark, String)> {
    Some((Mark::NotTestable, why.to_owned()))
}

/// Why the capture is insufficient, if it is.
fn doubt(data: &Data) -> Option<String> {
    let captures = list(&data.traffic, "/captures");
    let is = |capture: &Value, at: &str| capture.pointer(at).and_then(Value::as_bool) == Some(true);
    let seconds = |capture| number(capture, "/seconds").unwrap_or(0.0);
    let shortest = captures.iter().map(seconds).fold(f64::INFINITY, f64::min);
    match () {
        () if captures.iter().any(|capture| is(capture, "/generated")) => {
            Some("the capture was generated: it shows that the analysis is right".to_owned())
        }
        () if captures.iter().any(|capture| capture["broken"].is_string()) => {
            Some("the capture is broken".to_owned())
        }
        // A capture is slightly shorter than its configured duration.
        () if shortest < SECONDS * 0.9 => Some(format!(
            "{shortest:.0} s of capture are fewer than the study's {SECONDS}"
        )),
        () => None,
    }
}

/// Whether the rows of a section agree with the study.
fn judge(data: &Data, place: &str) -> Option<(Mark, String)> {
    if data.traffic.is_null() {
        return None;
    }
    let rows = list(&data.traffic, "/paper/rows").iter();
    let rows: Vec<&Value> = rows.filter(|row| words(row, "/place") == place).collect();
    if rows.is_empty() {
        return not_testable(
            "the capture is insufficient: it needs RTP video, captured at the right end (--end), or at both",
        );
    }
    let within = |row: &&Value| row.pointer("/within").and_then(Value::as_bool) == Some(true);
    let inside = rows.iter().filter(|row| within(row)).count();
    let mark = match inside {
        0 => Mark::NotReproduced,
        all if all == rows.len() => Mark::Reproduced,
        _ => Mark::Inconclusive,
    };
    let value = |row: &Value, at: &str| number(row, at).map_or("–".into(), |n| format!("{n:.2}"));
    let each = rows.iter().map(|row| {
        let (what, unit) = (words(row, "/what"), words(row, "/unit"));
        format!(
            "{what}: {} {unit}, not {}",
            value(row, "/ours"),
            value(row, "/study")
        )
    });
    let same = rows.iter().map(|row| {
        let (what, unit) = (words(row, "/what"), words(row, "/unit"));
        format!("{what}: {} {unit}", value(row, "/ours"))
    });
    let why = match mark {
        Mark::Reproduced => same.collect::<Vec<_>>().join("; "),
        _ => each.collect::<Vec<_>>().join("; "),
    };
    Some(match doubt(data) {
        None => (mark, why),
        Some(doubt) => (Mark::Inconclusive, format!("{why}; {doubt}")),
    })
}

/// A claim about Wi-Fi: a capture does not tell its medium.
fn over_wifi(data: &Data, place: &str) -> Option<(Mark, String)> {
    let (mark, why) = judge(data, place)?;
    Some(match mark {
        Mark::NotTestable => (mark, why),
        _ => (
            Mark::NotTestable,
            format!("{why}; a capture does not show whether it was over Wi-Fi"),
        ),
    })
}

/// The page's section.
pub(super) fn show(data: &Data, page: &mut String) {
    let captures = list(&data.traffic, "/captures");
    if captures.is_empty() {
        return;
    }
    page.push_str(&section("Captured traffic"));
    let streams = captures.iter().flat_map(|capture| {
        let end = words(capture, "/end");
        list(capture, "/streams")
            .iter()
            .map(move |stream| (end, stream))
    });
    let cell = |row: &Value, at: &str, scale: f64, digits: usize| {
        let value = number(row, at).map(|value| value / scale);
        value.map_or("–".into(), |value| format!("{value:.digits$}"))
    };
    let rows = streams.map(|(end, stream)| {
        vec![
            escaped(end),
            escaped(words(stream, "/way")),
            escaped(words(stream, "/name")),
            cell(stream, "/bytes/count", 1.0, 0),
            cell(stream, "/bytes/mean", 1.0, 2),
            cell(stream, "/interval_ns/mean", 1e6, 2),
            cell(stream, "/mbps", 1.0, 4),
            cell(stream, "/sequence/lost", 1.0, 0),
        ]
    });
    let heads = [
        "captured at",
        "way",
        "stream",
        "packets",
        "bytes",
        "ms",
        "Mb/s",
        "lost",
    ];
    page.push_str(&table(&heads, rows));
    let rows = list(&data.traffic, "/paper/rows").iter().map(|row| {
        let unit = words(row, "/unit");
        vec![
            escaped(words(row, "/place")),
            escaped(words(row, "/what")),
            format!("{} {unit}", cell(row, "/study", 1.0, 2)),
            format!("{} {unit}", cell(row, "/ours", 1.0, 2)),
        ]
    });
    page.push_str(&table(&["place", "what", "the study", "captured"], rows));
    page.push_str(
        "<p>From <code>openuvr lab traffic</code>; its page has the plots. The study's programs were Unity \
         and Chrome; others send differently.</p>",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::figures;
    use super::*;

    fn found(seconds: f64, interval: f64, generated: bool) -> Data {
        let row = |place: &str, study: f64, ours: f64| {
            json!({"place": place, "what": "interval", "unit": "ms", "study": study, "ours": ours,
                "within": (ours / study - 1.0).abs() < 0.15})
        };
        Data {
            traffic: json!({
                "captures": [{"end": "server", "seconds": seconds, "generated": generated,
                    "streams": [{"name": "RTP video", "way": "down", "mbps": 53.4,
                        "bytes": {"count": 9, "mean": 1242.0}}]}],
                "paper": {"rows": [row("section 6.3", 5.56, interval), row("fig. 16", 89.7, 3.0)]},
            }),
            ..Data::default()
        }
    }

    fn mark(data: &Data, place: &str) -> Mark {
        let name = format!("Unity Render Streaming {place}");
        let all = figures::all(data);
        all.iter().find(|figure| figure.name == name).unwrap().mark
    }

    #[test]
    fn captures_are_judged_by_their_data() {
        let place = "section 6.3, fig. 11";
        assert_eq!(mark(&found(30.0, 5.5, false), place), Mark::Reproduced);
        assert_eq!(mark(&found(30.0, 16.7, false), place), Mark::NotReproduced);
        assert_eq!(mark(&found(5.0, 16.7, false), place), Mark::Inconclusive);
        assert_eq!(mark(&found(30.0, 5.5, true), place), Mark::Inconclusive);
        assert_eq!(mark(&Data::default(), place), Mark::NotMeasured);
        let data = found(30.0, 5.5, false);
        assert_eq!(mark(&data, "fig. 12"), Mark::NotTestable);
        assert_eq!(mark(&data, "fig. 14"), Mark::NotTestable);
        assert_eq!(mark(&data, "fig. 16"), Mark::NotTestable);
    }

    #[test]
    fn the_page_has_streams_and_the_study() {
        let mut page = String::new();
        show(&found(30.0, 5.5, false), &mut page);
        assert!(
            page.contains("RTP video") && page.contains("53.4"),
            "{page}"
        );
        assert!(
            page.contains("5.56 ms") && page.contains("5.50 ms"),
            "{page}"
        );
        let mut nothing = String::new();
        show(&Data::default(), &mut nothing);
        assert_eq!(nothing, "");
    }
}
