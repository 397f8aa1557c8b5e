//! The time that a browser spends on each step, from its trace
//! (<https://chromedevtools.github.io/devtools-protocol/tot/Tracing/>). The names of events are those of Chromium 156.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use openuvr_devtools::DevTools;
use serde_json::{Value, json};

/// The categories of the events below.
const CATEGORIES: [&str; 4] = ["webrtc", "media", "cc", "viz"];

/// The counted events, in this order: decoding of a picture; passing the picture to the display's compositor (without a
/// GPU, this includes the conversion to RGB); composition of the page itself, which a video does not need; and drawing
/// of everything (without a GPU, by the CPU).
const NAMES: [&str; 4] = [
    "VideoReceiver2::Decode",
    "VideoFrameSubmitter::SubmitFrame",
    "ProxyMain::BeginMainFrame",
    "Display::DrawAndSwap",
];

/// Durations of each counted event, ms.
pub type Slices = Vec<(&'static str, Vec<f64>)>;

/// Size of one read of the trace, bytes (a guess).
const PIECE: u32 = 1 << 20;

pub(super) fn start(tools: &mut DevTools<impl Write>) -> Result<(), String> {
    let requested = json!({
        "transferMode": "ReturnAsStream", "traceConfig": { "includedCategories": CATEGORIES },
    });
    tools.call(None, "Tracing.start", &requested).map(|_| ())
}

pub(super) fn stop(tools: &mut DevTools<impl Write>) -> Result<Slices, String> {
    tools.call(None, "Tracing.end", &json!({}))?;
    let complete = tools.event("Tracing.tracingComplete")?;
    let requested = json!({ "handle": complete["stream"], "size": PIECE });
    let mut text = Vec::new();
    loop {
        let piece = tools.call(None, "IO.read", &requested)?;
        let data = piece["data"].as_str().unwrap_or_default();
        match piece["base64Encoded"].as_bool() {
            Some(true) => text.extend(BASE64.decode(data).map_err(|error| error.to_string())?),
            _ => text.extend_from_slice(data.as_bytes()),
        }
        if piece["eof"] != json!(false) {
            break;
        }
    }
    let trace: Value = serde_json::from_slice(&text)
        .map_err(|error| format!("the browser's trace is not JSON: {error}"))?;
    Ok(slices(&trace))
}

/// Parses a trace in the format of <https://perfetto.dev/docs/getting-started/other-formats>.
fn slices(trace: &Value) -> Slices {
    let events = trace["traceEvents"].as_array();
    let of = |name: &'static str| {
        let named = events.into_iter().flatten();
        let named = named.filter(|event| event["name"] == name && event["ph"] == "X");
        let took = named.filter_map(|event| Some(event["dur"].as_f64()? / 1e3));
        (name, took.collect::<Vec<f64>>())
    };
    Vec::from(NAMES.map(of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_added_up_by_name() {
        let slices = slices(&json!({ "traceEvents": [
            { "name": "Display::DrawAndSwap", "ph": "X", "dur": 2500 },
            { "name": "Display::DrawAndSwap", "ph": "X", "dur": 7500 },
            { "name": "Display::DrawAndSwap", "ph": "b" },
            { "name": "another", "ph": "X", "dur": 1 },
        ] }));
        assert_eq!(slices.len(), NAMES.len());
        assert_eq!(slices[0], ("VideoReceiver2::Decode", Vec::new()));
        assert_eq!(slices[3], ("Display::DrawAndSwap", vec![2.5, 7.5]));
        assert!(
            super::slices(&Value::Null)
                .iter()
                .all(|(_, took)| took.is_empty())
        );
    }
}
