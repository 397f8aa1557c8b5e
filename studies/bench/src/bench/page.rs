//! `openuvr bench report`: one HTML file from what the benches wrote, with tables, plots and what
//! became of each figure of the papers. No script, nothing fetched: it opens anywhere.
//!
//! It measures nothing itself; `--run` starts the benches whose data is missing.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use openuvr_clock as clock;
use openuvr_testbed::child::Child;
use openuvr_testbed::programs;

use super::data::{Data, is_whole_run, number, words};
use super::html::{HEAD, escaped};
use super::machine::QUIET;
use super::sections;

/// Make one HTML page of all measurements, with each figure of the papers and what became of it.
///
/// Reads latency.json, ablation.json, sync.json, doors.json, peers.json, handoff.json, link.json, sound.json, pads.json,
/// web.json, quality*.json and the wifi.json of `openuvr lab wifi --paper`, the jitter.json of `openuvr lab jitter` and the traffic.json
/// of `openuvr lab traffic`. Each figure of the papers is marked as reproduced, not reproduced, inconclusive, or
/// not testable here, with the reason, computed from that data. A busy machine decides nothing, and a
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
const BENCHES: [(&str, &str, &str); 11] = [
    ("latency", "latency.json", "--json"),
    ("ablation", "ablation.json", "--out"),
    ("sync", "sync.json", "--out"),
    ("doors", "doors.json", "--out"),
    ("peers", "peers.json", "--out"),
    ("handoff", "handoff.json", "--out"),
    ("link", "link.json", "--json"),
    ("sound", "sound.json", "--out"),
    ("web", "web.json", "--out"),
    ("pads", "pads.json", "--out"),
    ("quality", "quality.json", "--json"),
];

/// How long a bench may take to end what it has started: hosts, clients, displays, namespaces.
const CLEARS_AWAY: Duration = Duration::from_secs(20);

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
    let mut command = programs::own("bench")?;
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
    page.push_str(&sections::papers(data));
    sections::latency(data, &mut page)?;
    sections::ablation(data, &mut page)?;
    sections::sync(data, &mut page);
    sections::doors(data, &mut page);
    super::peers::show(data, &mut page);
    sections::handoff(data, &mut page);
    sections::link(data, &mut page);
    super::sound::show(data, &mut page);
    super::pads::show(data, &mut page);
    super::web::show(data, &mut page);
    sections::quality(data, &mut page)?;
    super::wifi::show(data, &mut page);
    super::jitter::show(data, &mut page);
    super::traffic::show(data, &mut page);
    page.push_str("</body></html>\n");
    Ok(page)
}

#[cfg(test)]
mod tests {
    use openuvr_testbed::pair::TemporaryDir;
    use serde_json::{Value, json};

    use super::*;

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
