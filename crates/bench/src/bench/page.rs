//! `openuvr bench report`: one HTML file from what the benches wrote, with tables, plots and what
//! became of each figure of the papers. No script, nothing fetched: it opens anywhere.
//!
//! It measures nothing itself; `--run` starts the benches whose data is missing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_runtime::clock;
use serde_json::Value;

use super::figures::{self, Mark};
use super::plot::{self, Lines, Point, Series, Stacked, Step, Waterfall};
use super::report::{QUIET, ratio};
use crate::child::Child;
use crate::pair;

/// Make one HTML page of all measurements, with each figure of the papers and what became of it.
///
/// Reads latency.json, ablation.json, sync.json, doors.json, handoff.json, link.json, quality*.json and
/// the wifi.json of `openuvr lab wifi --paper` and the traffic.json of `openuvr lab traffic`. Each figure of the papers is marked as reproduced, refuted here, undecided, or not
/// testable here, with the reason, computed from that data. A busy machine decides nothing, and a
/// quick or single run only what is far beyond what runs differ by.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Folder with the data of the benches
    #[arg(long, value_name = "FOLDER", default_value = "bench-data")]
    from: PathBuf,
    /// Run the benches whose data is missing there, or is that of a quick run (half an hour;
    /// --quick: minutes)
    #[arg(long)]
    run: bool,
    /// With --run: the short version of each, and all of them anew
    #[arg(long, requires = "run")]
    quick: bool,
    /// The page (default: report.html in that folder)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The benches, the file that each leaves in the folder, and the option that names its place: the
/// folder or the file.
const BENCHES: [(&str, &str, &str); 7] = [
    ("latency", "latency.json", "--json"),
    ("ablation", "ablation.json", "--out"),
    ("sync", "sync.json", "--out"),
    ("doors", "doors.json", "--out"),
    ("handoff", "handoff.json", "--out"),
    ("link", "link.json", "--json"),
    ("quality", "quality.json", "--json"),
];

/// How long a bench may take to end what it has started: hosts, clients, displays, namespaces.
const CLEARS_AWAY: Duration = Duration::from_secs(20);

/// What the benches found.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// One for each case.
    pub(super) latency: Vec<Value>,
    pub(super) ablation: Value,
    pub(super) sync: Value,
    pub(super) doors: Value,
    pub(super) handoff: Value,
    /// One for each case.
    pub(super) link: Vec<Value>,
    /// Objects with `title`, `x` and `series`.
    pub(super) quality: Vec<Value>,
    /// The files that they are from.
    pub(super) quality_files: Vec<Value>,
    /// What `lab wifi` left.
    pub(super) wifi: Value,
    /// What `lab traffic` left.
    pub(super) traffic: Value,
}

/// Runs what is missing, if asked, and writes the page.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut failed = Vec::new();
    if args.run {
        let stop = openuvr_terminal::signals::stop_on_signals()?;
        std::fs::create_dir_all(&args.from)
            .with_context(|| format!("can't make the folder {}", args.from.display()))?;
        for bench in BENCHES {
            if !args.quick && is_whole_run(&args.from.join(bench.1)) {
                continue;
            }
            // What one of them can't do says nothing about the others.
            let outcome = measure(bench, args, &stop);
            ensure!(!stop.load(Ordering::Relaxed), "interrupted");
            if let Err(error) = outcome {
                eprintln!("openuvr bench report: {error:#}");
                failed.push(bench.0);
            }
        }
    }
    let data = Data::read(&args.from)?;
    let path = args
        .out
        .clone()
        .unwrap_or_else(|| args.from.join("report.html"));
    std::fs::write(&path, page(&data)?)
        .with_context(|| format!("can't write {}", path.display()))?;
    println!("the report is {}", path.display());
    let failed = failed.join(", ");
    ensure!(
        failed.is_empty(),
        "these benches failed, and the report lacks them in part: {failed}"
    );
    Ok(())
}

/// Runs a bench to its end, or ends it with us.
fn measure((name, file, option): (&str, &str, &str), args: &Args, stop: &AtomicBool) -> Result<()> {
    let mut command = pair::own("bench")?;
    let place = if option == "--json" {
        args.from.join(file)
    } else {
        args.from.clone()
    };
    command.arg(name).arg(option).arg(place);
    if args.quick {
        command.arg("--quick");
    }
    println!("\nopenuvr bench {name}");
    let mut bench = Child::start("bench", command, None)?;
    let status = loop {
        if let Some(status) = bench.ended() {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            bench.stop_within(CLEARS_AWAY);
            bail!("interrupted");
        }
        clock::sleep_until(clock::now() + Duration::from_millis(100));
    };
    if !status.success() {
        bail!("bench {name} ended with {status}: its own words are above");
    }
    Ok(())
}

impl Data {
    fn read(folder: &Path) -> Result<Data> {
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
                "wifi" => data.wifi = value,
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
                &data.wifi,
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

    fn machine(&self) -> Option<&Value> {
        let latency = self.latency.first();
        let all =
            latency
                .into_iter()
                .chain([&self.ablation, &self.sync, &self.doors, &self.handoff]);
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
fn is_whole_run(path: &Path) -> bool {
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

fn page(data: &Data) -> Result<String> {
    let mut page = String::from(HEAD);
    // Writing to a string doesn't fail.
    let _ = write!(page, "<h1>OpenUVR: what was measured</h1>");
    if let Some(machine) = data.machine() {
        let _ = write!(
            page,
            "<p>{}, {} cores, Linux {}; openuvr {}. Sender and receiver share this machine and \
             its clock: no panel, no radio, but all the software.</p>",
            escaped(words(machine, "/cpu")),
            number(machine, "/cores").unwrap_or_default(),
            escaped(words(machine, "/kernel")),
            env!("CARGO_PKG_VERSION"),
        );
    }
    let those = |is: &dyn Fn(&str) -> bool| {
        let names = BENCHES.iter().map(|bench| bench.0);
        names.filter(|name| is(name)).collect::<Vec<_>>().join(", ")
    };
    let loud = those(&|bench| data.other_cores(bench) > QUIET);
    if !loud.is_empty() {
        let _ = write!(
            page,
            "<p class=loud>Not quiet: other processes used more than {QUIET} of a core during \
             {loud}. Times of these mean little, and decide nothing.</p>"
        );
    }
    let quick = those(&|bench| data.is_quick(bench));
    if !quick.is_empty() {
        let _ = write!(
            page,
            "<p class=loud>Quick runs: {quick}. They show that it works; figures of these mean \
             little, and decide little.</p>"
        );
    }
    page.push_str(&papers(data));
    latency(data, &mut page)?;
    ablation(data, &mut page)?;
    sync(data, &mut page);
    doors(data, &mut page);
    handoff(data, &mut page);
    link(data, &mut page);
    quality(data, &mut page)?;
    super::wifi::show(data, &mut page);
    super::traffic::show(data, &mut page);
    page.push_str("</body></html>\n");
    Ok(page)
}

fn papers(data: &Data) -> String {
    let rows = figures::all(data).into_iter().map(|figure| {
        let class = match figure.mark {
            Mark::Reproduced => "yes",
            Mark::Refuted => "no",
            Mark::Undecided | Mark::NotTestable | Mark::NotMeasured => "open",
        };
        vec![
            escaped(figure.name).replace(' ', "&nbsp;"),
            escaped(figure.claim),
            format!("<span class={class}>{}</span>", figure.mark.words()),
            escaped(&figure.why),
        ]
    });
    let heads = ["figure", "what it claims", "here", "why"];
    section("The papers' figures") + &table(&heads, rows)
}

fn latency(data: &Data, page: &mut String) -> Result<()> {
    if data.latency.is_empty() {
        return Ok(());
    }
    page.push_str(&section("Drawn to visible"));
    let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    let rows = data.latency.iter().map(|case| {
        let cores = number(case, "/stream/cores/host").zip(number(case, "/stream/cores/client"));
        vec![
            format!(
                "{} ({} at {})",
                escaped(words(case, "/setting/name")),
                escaped(words(case, "/setting/size")),
                escaped(words(case, "/setting/bitrate"))
            ),
            cell(number(case, "/floor/latency_ms/p50")),
            against(case, "/stream/latency_ms/p50", "p50_ms"),
            against(case, "/stream/latency_ms/p99", "p99_ms"),
            cell(number(case, "/codec/serial/p50")),
            cell(number(case, "/codec/pipelined/p50")),
            cell(pipeline(case)),
            cores.map_or("–".to_owned(), |(host, client)| {
                format!("{:.0} %", (host + client) * 100.0)
            }),
            against(case, "/stream/wire_mbps", "wire_mbps"),
            escaped(or_dash(words(case, "/stream/link"))),
            whole(case),
            drawn(case).map_or("–".to_owned(), |fps| format!("{fps:.1}")),
            cell(median(list(case, "/stream/psnr_db"))),
        ]
    });
    page.push_str(&table(
        &[
            "case",
            "floor p50, ms",
            "p50, ms",
            "p99, ms",
            "serial codec, ms",
            "pipelined, ms",
            "(end − floor) / serial",
            "host + client",
            "Mb/s",
            "link",
            "whole, of those drawn",
            "frames drawn/s",
            "luma PSNR, dB",
        ],
        rows,
    ));
    page.push_str("<p>In brackets: to pass / to aim at.</p>");
    let curves = data.latency.iter().map(|case| {
        let mut whole: Vec<f64> = list(case, "/stream/samples")
            .iter()
            .filter(|sample| words(sample, "/outcome") == "whole")
            .filter_map(|s| Some((number(s, "/seen_us")? - number(s, "/drawn_us")?) / 1000.0))
            .collect();
        whole.sort_by(f64::total_cmp);
        let count = whole.len().max(1) as f64;
        let points = whole.iter().enumerate().map(|(n, ms)| Point {
            x: *ms,
            y: (n + 1) as f64 / count * 100.0,
            range: None,
        });
        // A point for each half percent is more than a plot can show.
        let every = (whole.len() / 200).max(1);
        Series {
            name: words(case, "/setting/name").to_owned(),
            points: points.step_by(every).collect(),
        }
    });
    let lines = Lines {
        title: "Share of frames visible within a time".into(),
        x: "drawn to visible, ms".into(),
        y: "% of whole frames".into(),
        names: Vec::new(),
        series: curves.filter(|series| !series.points.is_empty()).collect(),
    };
    if !lines.series.is_empty() {
        page.push_str(&figure(&plot::svg(&lines)?));
    }
    Ok(())
}

/// What the pipeline is worth.
fn pipeline(case: &Value) -> Option<f64> {
    let floor = number(case, "/floor/latency_ms/p50")?;
    let serial = number(case, "/codec/serial/p50")?;
    Some(ratio(
        number(case, "/stream/latency_ms/p50")?,
        floor,
        serial,
    ))
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}

/// Frames displayed whole, of those drawn.
fn whole(case: &Value) -> String {
    let whole = number(case, "/stream/latency_ms/count");
    let drawn = number(case, "/stream/frames/drawn").filter(|drawn| *drawn > 0.0);
    whole.zip(drawn).map_or("–".to_owned(), |(whole, drawn)| {
        format!("{:.1} %", whole / drawn * 100.0)
    })
}

/// Frames a second that the scene drew; files from before the seconds were measured have those
/// that were asked for.
pub(super) fn drawn(case: &Value) -> Option<f64> {
    let seconds = number(case, "/stream/seconds").or_else(|| number(case, "/setting/seconds"));
    Some(number(case, "/stream/frames/drawn")? / seconds?)
}

/// What was measured, and its targets in brackets.
fn against(case: &Value, at: &str, target: &str) -> String {
    let Some(measured) = number(case, at) else {
        return "–".to_owned();
    };
    let bound = |kind: &str| number(case, &format!("/setting/targets/{target}/{kind}"));
    match (bound("pass"), bound("aim")) {
        (None, _) => format!("{measured:.2}"),
        (Some(pass), None) => format!("{measured:.2} ({pass})"),
        (Some(pass), Some(aim)) => format!("{measured:.2} ({pass} / {aim})"),
    }
}

fn ablation(data: &Data, page: &mut String) -> Result<()> {
    let all = &data.ablation;
    if all.is_null() {
        return Ok(());
    }
    page.push_str(&section("What each optimisation is worth"));
    let steps = list(all, "/cumulative").iter().filter_map(|row| {
        Some(Step {
            name: words(row, "/name").to_owned(),
            note: words(row, "/note").to_owned(),
            value: number(row, "/p50_ms/median")?,
            low: number(row, "/p50_ms/min")?,
            high: number(row, "/p50_ms/max")?,
        })
    });
    let waterfall = Waterfall {
        title: "Drawn to visible, one optimisation after the other".into(),
        subtitle: format!(
            "{} at {}, median and range; {} of {} s each",
            words(all, "/size"),
            words(all, "/bitrate"),
            plot::runs(number(all, "/repetitions").unwrap_or_default()),
            number(all, "/seconds").unwrap_or_default()
        ),
        unit: "ms".into(),
        floor: number(all, "/floor_ms/p50"),
        steps: steps.collect(),
    };
    if !waterfall.steps.is_empty() {
        page.push_str(&figure(&plot::svg(&waterfall)?));
    }
    for (title, at) in [
        ("Cumulative", "/cumulative"),
        ("Ours, leaving one out", "/leave_one_out"),
        ("Ours, with something else", "/alternatives"),
        ("Ours over a virtual cable", "/links"),
        ("Every core busy", "/busy"),
    ] {
        let rows = list(all, at).iter().map(|row| {
            let name = escaped(words(row, "/name"));
            if number(row, "/p50_ms/median").is_none() {
                let why = row.pointer("/unavailable").and_then(Value::as_str);
                let why = escaped(why.unwrap_or("not measured"));
                let dash = || "–".to_owned();
                return vec![name, dash(), dash(), dash(), dash(), dash(), why];
            }
            let worth = number(row, "/worth_ms").map_or(String::new(), |w| format!("{w:+.2}"));
            let note = match row.pointer("/clear").and_then(Value::as_bool) {
                Some(false) => "within the range of the runs",
                None if !worth.is_empty() => "one run",
                _ => "",
            };
            vec![
                name,
                range(row, "/p50_ms"),
                range(row, "/p99_ms"),
                number(row, "/runs").map_or("–".to_owned(), |runs| runs.to_string()),
                escaped(or_dash(words(row, "/link"))),
                worth,
                note.to_owned(),
            ]
        });
        let _ = write!(page, "<h3>{title}</h3>");
        let heads = [
            "",
            "p50, ms (range)",
            "p99, ms (range)",
            "runs",
            "link",
            "gained or worth, ms",
            "",
        ];
        page.push_str(&table(&heads, rows));
    }
    let bars = figures::breakdowns(data);
    if !bars.is_empty() {
        page.push_str(&section("Where the time goes"));
        page.push_str(&figure(&plot::svg(&Stacked {
            title: "Drawn to visible by stage, sums of medians".into(),
            unit: "ms".into(),
            bars,
        })?));
    }
    Ok(())
}

fn sync(data: &Data, page: &mut String) {
    if data.sync.is_null() {
        return;
    }
    page.push_str(&section("Continuous and synchronous"));
    let rows = list(&data.sync, "/ways").iter().map(|row| {
        vec![
            escaped(words(row, "/name")),
            escaped(words(row, "/what")),
            range(row, "/p50_ms"),
            range(row, "/p99_ms"),
            range(row, "/drawn_fps"),
            range(row, "/cores"),
            number(row, "/psnr_db/p50").map_or("–".into(), |db| format!("{db:.1}")),
        ]
    });
    page.push_str(&table(
        &[
            "",
            "",
            "p50, ms",
            "p99, ms",
            "frames drawn/s",
            "cores",
            "luma PSNR, dB",
        ],
        rows,
    ));
}

fn doors(data: &Data, page: &mut String) {
    if data.doors.is_null() {
        return;
    }
    page.push_str(&section("Ways in: what each costs viewer and application"));
    let rows = list(&data.doors, "/ways").iter().map(|row| {
        vec![
            escaped(words(row, "/name")),
            escaped(words(row, "/what")),
            range(row, "/p50_ms"),
            range(row, "/p99_ms"),
            range(row, "/cores"),
            range(row, "/frame_p50_ms"),
            range(row, "/unheld_fps"),
        ]
    });
    page.push_str(&table(
        &[
            "",
            "",
            "drawn to visible, p50, ms",
            "p99, ms",
            "cores",
            "the application's frame, p50, ms",
            "its frames/s, not held to a rate",
        ],
        rows,
    ));
}

fn handoff(data: &Data, page: &mut String) {
    if data.handoff.is_null() {
        return;
    }
    page.push_str(&section("Hand-offs between threads, and sealing"));
    let micros = |name: String, us: &Value| {
        let count = number(us, "/count").map_or("–".to_owned(), |count| count.to_string());
        let mut row = vec![name, count];
        let values = ["/p50", "/p99", "/p999", "/max"].map(|at| number(us, at));
        row.extend(values.map(|v| v.map_or("–".into(), |v| format!("{v:.1}"))));
        row
    };
    let handoffs = list(&data.handoff, "/handoffs").iter().map(|cell| {
        let one = cell.pointer("/one_core").and_then(Value::as_bool) == Some(true);
        let place = if one { ", one core" } else { "" };
        let name = format!(
            "{}, {}{place}",
            words(cell, "/primitive"),
            words(cell, "/policy")
        );
        micros(escaped(&name), &cell["us"])
    });
    let sealing = list(&data.handoff, "/sealing_us")
        .iter()
        .zip(["1 slice", "8 slices"]);
    let sealing = sealing.map(|(us, how)| micros(format!("sealing 42 kB in {how}"), us));
    let heads = ["", "received", "p50, µs", "p99, µs", "p99.9, µs", "max, µs"];
    page.push_str(&table(&heads, handoffs.chain(sealing)));
    page.push_str("<p>Targets under FIFO: p99 10, p99.9 50; sealing 10.</p>");
}

fn link(data: &Data, page: &mut String) {
    if data.link.is_empty() {
        return;
    }
    page.push_str(&section("On a bad link"));
    let rows = data.link.iter().map(|case| {
        let cell = |at: &str| number(case, at).map_or("–".to_owned(), |n| format!("{n:.1}"));
        vec![
            escaped(words(case, "/case")),
            cell("/whole_per_second"),
            cell("/longest_gap_ms"),
            cell("/latency_ms/p50"),
            cell("/latency_ms/p99"),
            cell("/wire_mbps"),
            cell("/narrow/settled_p99_ms"),
            cell("/narrow/back_after_s"),
        ]
    });
    let heads = [
        "case",
        "whole frames/s",
        "longest gap, ms",
        "p50, ms",
        "p99, ms",
        "Mb/s",
        "p99 settled, ms",
        "rate back after, s",
    ];
    page.push_str(&table(&heads, rows));
    page.push_str(
        "<p>Captured to submitted; `openuvr bench link --help` says what each case is.</p>",
    );
}

fn quality(data: &Data, page: &mut String) -> Result<()> {
    if data.quality.is_empty() {
        return Ok(());
    }
    page.push_str(&section("Quality of what was displayed"));
    for plot in &data.quality {
        page.push_str(&figure(&plot::svg(&lines(plot))?));
    }
    Ok(())
}

/// A plot as `bench quality` writes it: a line of means, and one of the worst. Where places have
/// labels, they stand side by side in their order.
fn lines(plot: &Value) -> Lines {
    let mut series = Vec::new();
    let mut places: Vec<(f64, &str)> = list(plot, "/series")
        .iter()
        .flat_map(|one| list(one, "/points"))
        .filter_map(|p| Some((number(p, "/x")?, p.pointer("/label")?.as_str()?)))
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.dedup_by_key(|place| place.0);
    let rank = |x: f64| {
        places
            .iter()
            .position(|place| place.0 == x)
            .map(|n| n as f64)
    };
    for one in list(plot, "/series") {
        let line = |at: &str, ranged: bool| -> Vec<Point> {
            let points = list(one, "/points").iter().filter_map(|p| {
                let x = number(p, "/x")?;
                Some(Point {
                    x: rank(x).unwrap_or(x),
                    y: number(p, at)?,
                    range: number(p, "/lo").zip(number(p, "/hi")).filter(|_| ranged),
                })
            });
            points.collect()
        };
        let (name, before) = (words(one, "/name"), series.len());
        let (means, worst) = (line("/mean", true), line("/worst", false));
        // Of a single batch, the worst is the only one.
        let tells = worst.iter().zip(&means).any(|(a, b)| a.y != b.y);
        for (points, name) in [
            (means, name.to_owned()),
            (worst, format!("{name}, worst batch")),
        ] {
            if !points.is_empty() && (tells || series.len() == before) {
                series.push(Series { name, points });
            }
        }
    }
    Lines {
        title: words(plot, "/title").to_owned(),
        x: words(plot, "/x").to_owned(),
        y: words(plot, "/y").to_owned(),
        names: places.iter().map(|place| place.1.to_owned()).collect(),
        series,
    }
}

/// The middle of a list of numbers.
fn median(all: &[Value]) -> Option<f64> {
    let all: Vec<f64> = all.iter().filter_map(Value::as_f64).collect();
    super::stats::Summary::of(&all).map(|s| s.p50)
}

fn range(row: &Value, at: &str) -> String {
    let part = |of: &str| number(row, &format!("{at}/{of}"));
    match (part("median"), part("min"), part("max")) {
        (Some(median), Some(min), Some(max)) if min < max => {
            format!("{median:.2} ({min:.2}–{max:.2})")
        }
        (Some(median), ..) => format!("{median:.2}"),
        (None, ..) => "–".to_owned(),
    }
}

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pair::TemporaryDir;

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

    #[test]
    fn a_quick_run_is_told_and_measured_anew() {
        let folder = TemporaryDir::new().unwrap();
        let write = |name: &str, value: Value| {
            let path = folder.path().join(name);
            std::fs::write(&path, value.to_string()).unwrap();
            path
        };
        let quick = [
            write("latency.json", json!([{"setting": {"quick": true}}])),
            write("link.json", json!([{"quick": true}])),
            write("quality.json", json!({"quick": true, "figures": []})),
        ];
        assert!(quick.iter().all(|path| !is_whole_run(path)));
        let page = page(&Data::read(folder.path()).unwrap()).unwrap();
        assert!(
            page.contains("Quick runs: latency, link, quality."),
            "{page}"
        );
        // Files of before say nothing of it.
        assert!(is_whole_run(&write("sync.json", json!({"repetitions": 5}))));
        assert!(is_whole_run(&write("quality.json", json!([]))));
        assert!(!is_whole_run(&folder.path().join("doors.json")));
    }

    #[test]
    fn a_quality_plot_has_lines_of_means_and_of_the_worst() {
        let plot = json!({"title": "PSNR", "x": "loss, %", "series": [{"name": "scene", "points": [
            {"x": 0.0, "mean": 40.0, "worst": 38.0, "lo": 39.0, "hi": 41.0},
            {"x": 1.0, "mean": 39.0},
        ]}]});
        let lines = lines(&plot);
        assert_eq!(lines.series.len(), 2);
        assert_eq!(lines.series[0].points.len(), 2);
        assert_eq!(lines.series[0].points[0].range, Some((39.0, 41.0)));
        assert_eq!(
            lines.series[1].points.len(),
            1,
            "a missing figure is no point"
        );
    }

    #[test]
    fn a_page_of_little_data_is_whole_and_escapes_what_it_quotes() {
        let data = Data {
            ablation: json!({
                "machine": {"cpu": "A<B>&C", "cores": 2, "kernel": "6"},
                "other_cores": 0.5,
                "alternatives": [{"name": "AF_XDP", "unavailable": "needs <root>", "p50_ms": null}],
            }),
            ..Data::default()
        };
        let page = page(&data).unwrap();
        assert!(page.contains("A&lt;B&gt;&amp;C"), "{page}");
        assert!(page.contains("needs &lt;root&gt;"), "{page}");
        assert!(page.contains("Not quiet"), "{page}");
        assert!(page.trim_end().ends_with("</html>"));
        assert!(!page.contains("<script"));
        let opened = page.matches("<table>").count();
        assert_eq!(opened, page.matches("</table>").count());
    }
}
