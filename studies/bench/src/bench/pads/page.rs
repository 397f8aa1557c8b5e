//! Pads' part of the page of all measurements.

use super::super::data::{Data, number, range};
use super::super::html::{escaped, section, table};
use super::super::machine::QUIET;

/// Writes the table, if pads were measured: the figure with its target.
pub(in super::super) fn show(data: &Data, page: &mut String) {
    let all = &data.pads;
    if all.is_null() {
        return;
    }
    page.push_str(&section("Game pads"));
    let ms = |at: &str| number(all, at).map_or("–".to_owned(), |value| format!("{value:.2}"));
    let loud = number(all, "/other_cores").is_some_and(|cores| cores > QUIET);
    let measured = number(all, "/late_ms/p50").zip(number(all, "/target_ms"));
    let (class, verdict) = match measured {
        None => ("open", "not measured"),
        Some(_) if loud => ("open", "not quiet"),
        Some((measured, target)) if measured <= target => ("yes", "met"),
        Some(_) => ("no", "missed"),
    };
    let heads = [
        "",
        "p50, ms",
        "at most",
        "target",
        "p50 of repetitions",
        "p90",
        "p99",
        "longest",
        "reports",
        "overtaken",
    ];
    let count = |at: &str| number(all, at).map_or("–".to_owned(), |value| format!("{value:.0}"));
    let row = vec![
        escaped("from a pad's report to the game's read"),
        ms("/late_ms/p50"),
        ms("/target_ms"),
        format!("<span class={class}>{verdict}</span>"),
        range(all, "/p50_ms"),
        ms("/late_ms/p90"),
        ms("/late_ms/p99"),
        ms("/late_ms/max"),
        count("/late_ms/count"),
        count("/overtaken"),
    ];
    page.push_str(&table(&heads, std::iter::once(row)));
    page.push_str(
        "<p>The scene reads the device that <code>openuvr run</code> shows it, while it draws and is streamed; \
         the client's pad is served by the bench. A report that is overtaken is one whose stick had moved on \
         before it left.</p>",
    );
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(other_cores: f64, p50: f64) -> String {
        let pads = json!({
            "other_cores": other_cores, "target_ms": 1.0, "overtaken": 2,
            "late_ms": {"p50": p50, "p90": 1.0, "p99": 2.0, "max": 3.25, "count": 300},
            "p50_ms": {"median": p50, "min": 0.25, "max": 0.75},
        });
        let data = Data {
            pads,
            ..Data::default()
        };
        let mut page = String::new();
        show(&data, &mut page);
        page
    }

    #[test]
    fn the_target_has_a_mark() {
        let met = page(0.0, 0.5);
        assert!(
            met.contains("class=yes>met") && met.contains("3.25"),
            "{met}"
        );
        assert!(page(0.0, 1.5).contains("class=no>missed"));
        assert!(page(0.5, 0.5).contains("class=open>not quiet"));
        let mut nothing = String::new();
        show(&Data::default(), &mut nothing);
        assert!(nothing.is_empty());
    }
}
