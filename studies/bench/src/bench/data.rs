//! What the benches have left in a folder, read back as JSON.

use std::path::{Path, PathBuf};
use std::slice::from_ref;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// What the benches found.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// One for each case.
    pub(super) latency: Vec<Value>,
    pub(super) ablation: Value,
    pub(super) sync: Value,
    pub(super) doors: Value,
    pub(super) handoff: Value,
    pub(super) peers: Value,
    pub(super) sound: Value,
    pub(super) pads: Value,
    /// Browsers and video players.
    pub(super) web: Value,
    /// One for each case.
    pub(super) link: Vec<Value>,
    /// Objects with `title`, `x` and `series`.
    pub(super) quality: Vec<Value>,
    /// The files that they are from.
    pub(super) quality_files: Vec<Value>,
    /// What `lab wifi` left.
    pub(super) wifi: Value,
    /// What `lab jitter` left.
    pub(super) jitter: Value,
    /// What `lab traffic` left.
    pub(super) traffic: Value,
}

impl Data {
    pub(super) fn read(folder: &Path) -> Result<Data> {
        let mut data = Data::default();
        let list = std::fs::read_dir(folder).with_context(|| {
            format!(
                "can't read the folder {}: --run fills it, --from names another",
                folder.display()
            )
        })?;
        let mut names: Vec<PathBuf> = list.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for path in names {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let Some(name) = name.strip_suffix(".json") else {
                continue;
            };
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("can't read {}", path.display()))?;
            let value: Value = serde_json::from_str(&text)
                .with_context(|| format!("{} is no JSON", path.display()))?;
            match name {
                "latency" => data.latency = value.as_array().cloned().unwrap_or_default(),
                "ablation" => data.ablation = value,
                "sync" => data.sync = value,
                "doors" => data.doors = value,
                "handoff" => data.handoff = value,
                "peers" => data.peers = value,
                "sound" => data.sound = value,
                "pads" => data.pads = value,
                "web" => data.web = value,
                "wifi" => data.wifi = value,
                "jitter" => data.jitter = value,
                "traffic" => data.traffic = value,
                "link" => data.link = value.as_array().cloned().unwrap_or_default(),
                _ if name.starts_with("quality") => {
                    collect(&value, &mut data.quality);
                    data.quality_files.push(value);
                }
                _ => {}
            }
        }
        let nothing = data.latency.is_empty()
            && data.quality.is_empty()
            && data.link.is_empty()
            && [
                &data.ablation,
                &data.sync,
                &data.doors,
                &data.handoff,
                &data.peers,
                &data.sound,
                &data.pads,
                &data.web,
                &data.wifi,
                &data.jitter,
                &data.traffic,
            ]
            .iter()
            .all(|v| v.is_null());
        if nothing {
            bail!(
                "{} has no data of a bench: --run makes it, --from names another folder",
                folder.display()
            );
        }
        Ok(data)
    }

    /// What a bench has left.
    fn of(&self, bench: &str) -> &[Value] {
        match bench {
            "latency" => &self.latency,
            "ablation" => from_ref(&self.ablation),
            "sync" => from_ref(&self.sync),
            "doors" => from_ref(&self.doors),
            "handoff" => from_ref(&self.handoff),
            "peers" => from_ref(&self.peers),
            "sound" => from_ref(&self.sound),
            "pads" => from_ref(&self.pads),
            "web" => from_ref(&self.web),
            "link" => &self.link,
            "quality" => &self.quality_files,
            _ => &[],
        }
    }

    /// The most cores that other processes used while a bench ran.
    pub(super) fn other_cores(&self, bench: &str) -> f64 {
        let places = ["", "/floor", "/stream"];
        let of = |value| places.map(|at| number(value, &format!("{at}/other_cores")));
        let all = self.of(bench).iter().flat_map(of);
        all.flatten().fold(0.0, f64::max)
    }

    /// Whether what a bench has left is of its short version.
    pub(super) fn is_quick(&self, bench: &str) -> bool {
        self.of(bench).iter().any(is_quick)
    }

    pub(super) fn machine(&self) -> Option<&Value> {
        let latency = self.latency.first();
        let others = [
            &self.ablation,
            &self.sync,
            &self.doors,
            &self.handoff,
            &self.peers,
            &self.sound,
            &self.pads,
            &self.web,
        ];
        let all = latency.into_iter().chain(others);
        all.filter_map(|value| value.get("machine")).next()
    }
}

/// Whether it is of a short version; files from before that was noted are taken for whole ones.
fn is_quick(value: &Value) -> bool {
    let says = |at| value.pointer(at).and_then(Value::as_bool) == Some(true);
    match value {
        Value::Array(all) => all.iter().any(is_quick),
        _ => says("/quick") || says("/setting/quick"),
    }
}

/// Whether there is a file with data of a whole run.
pub(super) fn is_whole_run(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).is_ok_and(|value| !is_quick(&value))
}

/// Every plot in `value`, wherever it lies.
fn collect(value: &Value, into: &mut Vec<Value>) {
    match value {
        Value::Object(fields) if fields.contains_key("series") && fields.contains_key("title") => {
            into.push(value.clone());
        }
        Value::Object(fields) => fields.values().for_each(|inner| collect(inner, into)),
        Value::Array(all) => all.iter().for_each(|inner| collect(inner, into)),
        _ => {}
    }
}

/// The number at a JSON pointer (RFC 6901).
pub(super) fn number(value: &Value, at: &str) -> Option<f64> {
    value.pointer(at)?.as_f64()
}

/// A median with its range at a JSON pointer, for people.
pub(super) fn range(row: &Value, at: &str) -> String {
    let part = |of: &str| number(row, &format!("{at}/{of}"));
    match (part("median"), part("min"), part("max")) {
        (Some(median), Some(min), Some(max)) if min < max => {
            format!("{median:.2} ({min:.2}–{max:.2})")
        }
        (Some(median), ..) => format!("{median:.2}"),
        (None, ..) => "–".to_owned(),
    }
}

/// The text at a JSON pointer.
pub(super) fn words<'a>(value: &'a Value, at: &str) -> &'a str {
    value
        .pointer(at)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a JSON pointer, or none.
pub(super) fn list<'a>(value: &'a Value, at: &str) -> &'a [Value] {
    value
        .pointer(at)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The element of a list whose `name` is this.
pub(super) fn named<'a>(all: &'a [Value], name: &str) -> Option<&'a Value> {
    all.iter().find(|value| words(value, "/name") == name)
}

/// Frames per second that the scene drew; files from before the seconds were measured have those
/// that were asked for.
pub(super) fn drawn(case: &Value) -> Option<f64> {
    let seconds = number(case, "/stream/seconds").or_else(|| number(case, "/setting/seconds"));
    Some(number(case, "/stream/frames/drawn")? / seconds?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plots_are_found_at_any_depth() {
        let plot = json!({"title": "t", "x": "loss, %", "series": []});
        let mut found = Vec::new();
        collect(
            &json!({"plots": [plot, {"deep": {"er": plot}}], "n": 1}),
            &mut found,
        );
        assert_eq!(found.len(), 2);
    }
}
