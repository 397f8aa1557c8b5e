//! Sound's part of the page of all measurements.

use serde_json::Value;

use super::super::data::{Data, list, number, words};
use super::super::html::{escaped, section, table};
use super::super::machine::QUIET;

/// Writes the tables, if sound was measured: each figure with its target.
pub(in super::super) fn show(data: &Data, page: &mut String) {
    let all = &data.sound;
    if all.is_null() {
        return;
    }
    page.push_str(&section("Sound"));
    let loud = number(all, "/other_cores").is_some_and(|cores| cores > QUIET);
    let with = list(all, "/ways").last().unwrap_or(&Value::Null);
    let ms = |value: f64| format!("{value:.1} ms");
    let share = |value: f64| format!("{:.1} % of a core", value * 100.0);
    let target = |name: &str| number(all, &format!("/targets/{name}"));
    let mut rows = Vec::new();
    let mut judge =
        |what: &str, measured: Option<f64>, name: &str, words: &dyn Fn(f64) -> String| {
            let bound = target(name);
            let verdict = match (measured, bound) {
                (Some(_), Some(_)) if loud && name != "concealment_ms" => ("open", "not quiet"),
                (Some(measured), Some(bound)) if measured.abs() <= bound => ("yes", "met"),
                (Some(_), Some(_)) => ("no", "missed"),
                _ => ("open", "not measured"),
            };
            let cell = |value: Option<f64>| value.map_or("–".to_owned(), words);
            rows.push(vec![
                escaped(what),
                cell(measured),
                cell(bound),
                format!("<span class={}>{}</span>", verdict.0, verdict.1),
            ]);
        };
    let of = |at: &str| number(with, at);
    judge(
        "a click from sink to sink, p50",
        of("/sound_ms/p50"),
        "p50_ms",
        &ms,
    );
    judge("the same, p99", of("/sound_ms/p99"), "p99_ms", &ms);
    let offset = "… less what its flash took to become visible, p50 (above 0: sound is later)";
    judge(offset, of("/offset_ms/p50"), "offset_ms", &ms);
    judge(
        "what sound takes of the host",
        number(all, "/cost/host"),
        "cores",
        &share,
    );
    judge(
        "what sound takes of the client",
        number(all, "/cost/client"),
        "cores",
        &share,
    );
    for link in list(all, "/links") {
        let what = format!("{}: longest concealment", words(link, "/name"));
        judge(&what, number(link, "/longest_ms"), "concealment_ms", &ms);
    }
    let heads = ["", "measured", "at most", "target"];
    page.push_str(&table(&heads, rows.into_iter()));

    let range = |row: &Value, at: &str, unit: f64| {
        let part = |of: &str| number(row, &format!("{at}/{of}")).map(|value| value * unit);
        match (part("median"), part("min"), part("max")) {
            (Some(median), Some(min), Some(max)) => format!("{median:.2} ({min:.2}–{max:.2})"),
            _ => "–".to_owned(),
        }
    };
    let rows = list(all, "/ways").iter().map(|row| {
        vec![
            escaped(words(row, "/name")),
            range(row, "/p50_ms", 1.0),
            range(row, "/p99_ms", 1.0),
            range(row, "/host_cores", 100.0),
            range(row, "/client_cores", 100.0),
            range(row, "/host_audio_cores", 100.0),
            range(row, "/client_audio_cores", 100.0),
            range(row, "/delay_ms", 1.0),
        ]
    });
    let heads = [
        "",
        "picture p50, ms",
        "picture p99, ms",
        "host, % of a core",
        "client, %",
        "sound's thread at the host, %",
        "at the client, %",
        "buffer aimed at, ms",
    ];
    page.push_str(&table(&heads, rows));
    page.push_str(
        "<p>Null sinks of one sound server: what sound cards add is not in it. Clicks and flashes are made \
         together by the scene; <code>openuvr bench sound --help</code> says how.</p>",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(other_cores: f64) -> String {
        let targets = json!({"p50_ms": 25.0, "p99_ms": 40.0, "offset_ms": 15.0, "cores": 0.02,
                             "concealment_ms": 20.0});
        let with = json!({"name": "with sound", "sound_ms": {"p50": 19.5, "p99": 41.0},
                          "offset_ms": {"p50": -16.0}});
        let sound = json!({
            "other_cores": other_cores,
            "targets": targets,
            "ways": [{"name": "without"}, with],
            "cost": {"host": 0.019, "client": 0.03},
            "links": [{"name": "1 % <lost>", "longest_ms": 15.0}],
        });
        let data = Data {
            sound,
            ..Data::default()
        };
        let mut page = String::new();
        show(&data, &mut page);
        page
    }

    #[test]
    fn each_target_has_a_mark() {
        let quiet = page(0.0);
        assert_eq!(quiet.matches("class=yes").count(), 3, "{quiet}");
        assert_eq!(quiet.matches("class=no").count(), 3, "{quiet}");
        assert!(quiet.contains("1 % &lt;lost&gt;: longest"), "{quiet}");
        assert!(quiet.contains("-16.0 ms") && quiet.contains("1.9 % of a core"));
        // A busy machine is late, but loses no payload.
        let loud = page(0.5);
        assert_eq!(loud.matches("class=open").count(), 5, "{loud}");
        assert_eq!(loud.matches("class=yes").count(), 1, "{loud}");
    }

    #[test]
    fn without_data_nothing_is_said() {
        let mut page = String::new();
        show(&Data::default(), &mut page);
        assert!(page.is_empty());
    }
}
