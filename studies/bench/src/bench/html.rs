//! The few pieces of HTML that pages of measurements are made of. No script, nothing fetched: they open
//! anywhere.

use std::fmt::Write as _;

pub(crate) fn section(title: &str) -> String {
    format!("<h2>{}</h2>\n", escaped(title))
}

pub(crate) fn figure(svg: &str) -> String {
    format!("<figure>{svg}</figure>\n")
}

/// A table of cells that are HTML already.
pub(crate) fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = String::from("<table><tr>");
    for head in heads {
        let _ = write!(text, "<th>{}</th>", escaped(head));
    }
    text.push_str("</tr>\n");
    for row in rows {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{cell}</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

pub(crate) const HEAD: &str = "<!doctype html>
<html lang=en><head><meta charset=utf-8><title>OpenUVR: what was measured</title><style>
body { font: 15px/1.45 sans-serif; color: #1e1e1e; max-width: 1080px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.25em; margin-top: 2em } h3 { font-size: 1em }
table { border-collapse: collapse; margin: .6em 0 }
th, td { text-align: left; vertical-align: top; padding: .25em .7em .25em 0; border-bottom: 1px solid #ddd }
th { font-weight: 600 } figure { margin: 1em 0 } svg { max-width: 100%; height: auto }
.yes, .no, .open { padding: .1em .45em; border-radius: .3em; white-space: nowrap; color: #fff }
.yes { background: #00785a } .no { background: #b84a00 } .open { background: #666 }
.loud { background: #fff0d8; padding: .5em .8em; border-left: 4px solid #d55e00 }
</style></head><body>
";
