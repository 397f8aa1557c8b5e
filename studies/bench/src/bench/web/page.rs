//! Browsers' and video players' part of the page of all measurements.

use serde_json::Value;

use crate::bench::data::{Data, list, number, range, words};
use crate::bench::html::{escaped, section, table};

/// Writes the tables, if this was measured: first each goal.
pub(in crate::bench) fn show(data: &Data, page: &mut String) {
    let all = &data.web;
    if all.is_null() {
        return;
    }
    page.push_str(&section("Browsers and video players on the same encode"));
    let skipped = words(all, "/skipped");
    if !skipped.is_empty() {
        page.push_str(&format!("<p>Not measured: {}.</p>\n", escaped(skipped)));
        return;
    }
    let rows = list(all, "/verdicts").iter().map(|verdict| {
        let (class, judged) = judged(verdict);
        let unit = words(verdict, "/unit");
        let figure = |at: &str| {
            number(verdict, at).map_or("–".to_owned(), |value| format!("{value:.2} {unit}"))
        };
        let least = verdict.pointer("/at_least") == Some(&Value::Bool(true));
        let sign = if least { "≥" } else { "≤" };
        vec![
            escaped(words(verdict, "/what")),
            figure("/measured"),
            format!("{sign} {}", figure("/target/pass")),
            format!("<span class={class}>{}</span>", escaped(&judged)),
        ]
    });
    page.push_str(&table(&["", "measured", "goal", ""], rows));

    let rows = list(all, "/browsers").iter().map(|browser| {
        let columns = [
            "p50_ms",
            "p99_ms",
            "drawn_fps",
            "decoded_fps",
            "presented_fps",
            "handed_fps",
            "whole_fps",
            "freeze_ms",
            "host_cores",
            "browser_cores",
        ];
        let figures = columns.map(|name| range(browser, &format!("/{name}")));
        [vec![escaped(words(browser, "/name"))], figures.to_vec()].concat()
    });
    let heads = [
        "browser",
        "drawn to compositor p50, ms",
        "p99, ms",
        "drawn/s",
        "decoded/s",
        "given to the compositor/s",
        "handed over/s",
        "whole/s",
        "longest freeze, ms",
        "host, cores",
        "browser, cores",
    ];
    page.push_str(&table(&heads, rows));
    for browser in list(all, "/browsers") {
        let rows = list(browser, "/steps").iter().map(|step| {
            let ms = |of: &str| {
                number(step, &format!("/ms/{of}")).map_or("–".to_owned(), |ms| format!("{ms:.2}"))
            };
            vec![
                format!(
                    "{} to {}",
                    escaped(words(step, "/from")),
                    escaped(words(step, "/to"))
                ),
                ms("p50"),
                ms("p90"),
                ms("p99"),
            ]
        });
        let name = format!("{}, by stage", words(browser, "/name"));
        page.push_str(&table(&[&name, "p50, ms", "p90", "p99"], rows));
    }
    let rows = list(all, "/beside").iter().map(|way| {
        let figures =
            ["p50_ms", "p99_ms", "host_cores"].map(|name| range(way, &format!("/{name}")));
        let count = |at: &str| number(way, at).map_or("–".to_owned(), |count| format!("{count}"));
        let counts = vec![count("/encoders_opened"), count("/unaccounted")];
        [vec![escaped(words(way, "/what"))], figures.to_vec(), counts].concat()
    });
    let heads = [
        "our client while …",
        "drawn to visible p50, ms",
        "p99, ms",
        "host, cores",
        "encoders opened",
        "frames without a record",
    ];
    page.push_str(&table(&heads, rows));
    let rows = list(all, "/players").iter().map(|player| {
        let ms = |at: &str| number(player, at).map_or("–".to_owned(), |ms| format!("{ms:.1}"));
        vec![
            escaped(words(player, "/what")),
            ms("/latency_ms/p50"),
            ms("/latency_ms/p99"),
            ms("/seen_fps"),
        ]
    });
    let heads = [
        "video player",
        "drawn to visible p50, ms",
        "p99, ms",
        "seen/s",
    ];
    page.push_str(&table(&heads, rows));
    page.push_str(&format!(
        "<p>{}, without a window and a GPU, on the same machine as the host. \
         <code>openuvr bench web --help</code> says what is measured how.</p>\n",
        escaped(words(all, "/version"))
    ));
}

/// The mark of a goal, and what stands in it.
fn judged(verdict: &Value) -> (&'static str, String) {
    let withheld = words(verdict, "/withheld");
    if !withheld.is_empty() {
        return ("open", withheld.to_owned());
    }
    let least = verdict.pointer("/at_least") == Some(&Value::Bool(true));
    match (
        number(verdict, "/measured"),
        number(verdict, "/target/pass"),
    ) {
        (Some(measured), Some(bound)) if measured == bound || (measured > bound) == least => {
            ("yes", "met".to_owned())
        }
        (Some(_), Some(_)) => ("no", "missed".to_owned()),
        _ => ("open", "not measured".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(web: Value) -> String {
        let data = Data {
            web,
            ..Data::default()
        };
        let mut page = String::new();
        show(&data, &mut page);
        page
    }

    #[test]
    fn each_goal_of_browsers_has_a_mark() {
        let verdict = |measured: Value, least: bool, withheld: Value| {
            json!({"what": "it <takes>", "unit": "ms", "measured": measured, "at_least": least,
                   "target": {"pass": 7.0, "aim": null}, "withheld": withheld})
        };
        let none = Value::Null;
        let page = page(json!({"verdicts": [
            verdict(json!(6.0), false, none.clone()),
            verdict(json!(7.0), false, none.clone()),
            verdict(json!(8.0), false, none.clone()),
            verdict(json!(8.0), true, none.clone()),
            verdict(json!(6.0), true, none.clone()),
            verdict(json!(6.0), false, json!("not quiet")),
            verdict(none.clone(), false, none),
        ], "browsers": [{"name": "1 % lost", "p50_ms": {"median": 6.5, "min": 6.0, "max": 7.0},
            "steps": [{"from": "drawn", "to": "Captured", "ms": {"p50": 0.5}}]}],
            "version": "Chromium <156>"}));
        assert_eq!(page.matches("class=yes").count(), 3, "{page}");
        assert_eq!(page.matches("class=no").count(), 2, "{page}");
        assert_eq!(page.matches("class=open").count(), 2, "{page}");
        assert!(page.contains("it &lt;takes&gt;") && page.contains("Chromium &lt;156&gt;"));
        assert!(page.contains("6.50 (6.00–7.00)") && page.contains("drawn to Captured"));
    }

    #[test]
    fn what_was_not_measured_is_told() {
        assert!(page(Value::Null).is_empty());
        assert!(page(json!({"skipped": "install chromium"})).contains("install chromium"));
    }
}
