//! What `openuvr bench peers` found, in the report: its table, the command lines, and what became of what
//! two papers say of other products. The products are others, and so is the machine: what is compared is
//! a claim, not a number.

use std::fmt::Write as _;

use openuvr_testbed::stats::Range;
use serde_json::Value;

use crate::bench::data::{Data, list, named, number, range, words};
use crate::bench::html::{escaped, section, table};
use crate::bench::mark::{Claim, Mark, holds, holds_of};

const BENCH: &str = "peers";
const OURS: &str = "openuvr";

/// In the order of the papers.
pub(in crate::bench) const CLAIMS: [Claim; 3] = [
    (
        "OpenUVR fig. 4",
        "No streaming platform of before shows a picture within 20 ms (26.5 to 52 ms with laptops).",
        others_are_late,
        BENCH,
    ),
    (
        "OpenUVR fig. 10, others",
        "OpenUVR's visual latency is far below that of the others (14.3 ms, 2.67 times below the next).",
        far_below,
        BENCH,
    ),
    (
        "GamingAnywhere fig. 7",
        "It responds within 100 ms, and others take several times as long.",
        responds,
        BENCH,
    ),
];

/// Those that were measured and are not ours, with a figure of each.
fn others<T>(data: &Data, of: impl Fn(&Value) -> Option<T>) -> Vec<(&str, T)> {
    let ways = list(&data.peers, "/ways").iter();
    let others = ways.filter(|way| !words(way, "/name").starts_with(OURS));
    others
        .filter_map(|way| Some((words(way, "/name"), of(way)?)))
        .collect()
}

fn ours(data: &Data) -> Option<&Value> {
    named(list(&data.peers, "/ways"), OURS)
}

fn latency(way: &Value) -> Option<Range> {
    let part = |of: &str| number(way, &format!("/direct/p50_ms/{of}"));
    Some(Range {
        median: part("median")?,
        min: part("min")?,
        max: part("max")?,
    })
}

fn others_are_late(data: &Data) -> Option<(Mark, String)> {
    let all = others(data, latency);
    (!all.is_empty()).then_some(())?;
    let told = all
        .iter()
        .map(|(name, ms)| format!("{name} {:.1} ms", ms.median));
    let why = format!(
        "{}, without a radio and at 60 pictures a second; none of these is a product of the paper",
        told.collect::<Vec<_>>().join(", ")
    );
    let late = |of: fn(&Range) -> f64| all.iter().all(|(_, ms)| of(ms) > 20.0);
    Some((holds_of(late(|ms| ms.min), late(|ms| ms.max)), why))
}

fn far_below(data: &Data) -> Option<(Mark, String)> {
    let ours = latency(ours(data)?)?;
    let all = others(data, latency);
    let (name, next) = all
        .iter()
        .min_by(|a, b| a.1.median.total_cmp(&b.1.median))?;
    let why = format!(
        "{:.1} ms against {:.1} of {name}, the fastest of {} others: {:.1} times",
        ours.median,
        next.median,
        all.len(),
        next.median / ours.median
    );
    let claim = |ours: f64, next: f64| next / ours >= 2.0;
    Some((
        holds_of(claim(ours.max, next.min), claim(ours.min, next.max)),
        why,
    ))
}

fn responds(data: &Data) -> Option<(Mark, String)> {
    let reaction = |way: &Value| number(way, "/direct/reaction_ms/p50");
    let ours = reaction(ours(data)?)?;
    let all = others(data, reaction);
    let (name, other) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let why = format!(
        "ours responds within {ours:.1} ms (median), {name}, the only other one that carries input, \
         within {other:.1}; the paper's are other products, and its figure leaves the network out"
    );
    Some((holds(ours < 100.0 && other / ours >= 2.0), why))
}

/// The part of the page.
pub(in crate::bench) fn show(data: &Data, page: &mut String) {
    if data.peers.is_null() {
        return;
    }
    page.push_str(&section("Beside other programs"));
    let ways = || list(&data.peers, "/ways").iter();
    for (title, at) in [
        ("The loopback device between them", "/direct"),
        ("1 % loss, 2 ms each way", "/loss"),
    ] {
        let rows = ways().filter_map(|way| {
            let skipped = at == "/direct" && way.pointer("/direct").is_none_or(Value::is_null);
            let figures = way.pointer(at).filter(|figures| !figures.is_null());
            if figures.is_none() && !skipped {
                return None;
            }
            Some(row(way, figures))
        });
        let _ = write!(page, "<h3>{title}</h3>");
        let heads = [
            "",
            "drawn to visible, p50, ms",
            "p99, ms",
            "frames seen/s",
            "intact",
            "Mb/s, both ways",
            "sender, of a core",
            "receiver",
            "luma PSNR, dB",
            "key to effect, p50, ms",
            "",
        ];
        page.push_str(&table(&heads, rows));
    }
    let lines = ways().map(|way| {
        let texts = |at: &str| {
            let all = list(way, at).iter().filter_map(Value::as_str).map(escaped);
            all.collect::<Vec<_>>().join("<br>")
        };
        vec![
            escaped(words(way, "/name")),
            escaped(words(way, "/what")),
            texts("/versions"),
            format!("<code>{}</code>", texts("/commands")),
        ]
    });
    page.push_str(&table(&["", "", "versions", "sender and receiver"], lines));
}

fn row(way: &Value, figures: Option<&Value>) -> Vec<String> {
    let mut row = vec![escaped(words(way, "/name"))];
    let Some(figures) = figures else {
        row.extend((0..9).map(|_| "–".to_owned()));
        let why = [words(way, "/skipped"), words(way, "/failed")];
        let why = ["skipped", "failed"]
            .iter()
            .zip(why)
            .find(|(_, why)| !why.is_empty());
        row.push(why.map_or("not measured".to_owned(), |(how, why)| {
            escaped(&format!("{how}: {why}"))
        }));
        return row;
    };
    let cell = |at: &str, digits: usize| {
        number(figures, at).map_or("–".to_owned(), |value| format!("{value:.digits$}"))
    };
    let intact = number(figures, "/intact");
    row.extend([
        range(figures, "/p50_ms"),
        range(figures, "/p99_ms"),
        cell("/seen_fps/median", 1),
        intact.map_or("–".to_owned(), |part| format!("{:.0} %", part * 100.0)),
        range(figures, "/wire_mbps"),
        cell("/sender_cores/median", 2),
        cell("/receiver_cores/median", 2),
        cell("/psnr_db/p50", 1),
        cell("/reaction_ms/p50", 1),
        String::new(),
    ]);
    row
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data(ours: f64, other: f64) -> Data {
        let figures = |ms: f64| json!({"p50_ms": {"median": ms, "min": ms, "max": ms}, "reaction_ms": {"p50": ms + 10.0}});
        Data {
            peers: json!({"ways": [
                {"name": "openuvr", "direct": figures(ours)},
                {"name": "openuvr-ordinary", "direct": figures(1.0)},
                {"name": "that", "direct": figures(other)},
                {"name": "absent", "skipped": "install a<b>", "direct": null, "loss": null},
            ]}),
            ..Data::default()
        }
    }

    #[test]
    fn what_papers_say_of_others_is_judged_by_the_others() {
        let marks = |data: &Data| CLAIMS.map(|(_, _, judge, _)| judge(data).unwrap().0);
        assert_eq!(marks(&data(5.0, 30.0)), [Mark::Reproduced; 3]);
        assert_eq!(marks(&data(9.0, 12.0)), [Mark::NotReproduced; 3]);
        let none = Data::default();
        assert!(CLAIMS.iter().all(|(_, _, judge, _)| judge(&none).is_none()));
    }

    #[test]
    fn skipped_programs_are_in_the_table() {
        let mut page = String::new();
        show(&data(5.0, 30.0), &mut page);
        assert!(page.contains("skipped: install a&lt;b&gt;"), "{page}");
        assert_eq!(page.matches("<table>").count(), 3);
    }
}
