//! The results of `openuvr bench latency`, as text for users.

use openuvr_terminal::wrap::wrapped;
use openuvr_testbed::stats::{Frames, Summary};

use super::heading::print_links;
use super::report::Report;
use super::verdict::verdicts;
use crate::machine::QUIET;

/// Maximum width of the text, in terminal columns.
const WIDTH: usize = 96;

pub(super) fn print(report: &Report) {
    let is = &report.setting;
    println!("== {}: {} at {} frames/s ==", is.name, is.size, is.fps);
    println!("machine  {}", report.machine);
    if let Some(stream) = &report.stream {
        print_links(&Vec::from_iter(&stream.link));
    }
    println!(
        "scene    {} frames/s; host: {} frames/s, {}; {} s per case",
        is.scene_fps, is.fps, is.bitrate, is.seconds
    );
    if report.is_loud() {
        println!(
            "NOT QUIET: other processes used more than {QUIET} cores; latencies are multiples of the \
             floor's p50"
        );
    }
    print_latency(report);
    print_steps(report);
    print_codec(report);
    print_reactions(report);
    print_use(report);
    print_verdicts(report);
    println!();
}

/// The factor by which times are multiplied, and the unit of the products.
fn scale(report: &Report) -> (f64, &'static str) {
    let floor = report.floor.as_ref().and_then(|case| case.latency_ms);
    match floor {
        Some(floor) if report.is_loud() => (1.0 / floor.p50, "x floor p50"),
        _ => (1.0, "ms"),
    }
}

fn print_latency(report: &Report) {
    let (scale, unit) = scale(report);
    println!(
        "\n{:<26} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}",
        format!("drawn -> visible, {unit}"),
        "p50",
        "p90",
        "p99",
        "max",
        "drawn",
        "visible",
        "missed"
    );
    for (name, case) in report.cases() {
        let Frames {
            drawn,
            visible,
            missed,
        } = case.frames;
        let Some(s) = case.latency_ms else {
            println!("{name:<26} no complete frame became visible");
            continue;
        };
        let [p50, p90, p99, max] = [s.p50, s.p90, s.p99, s.max].map(|ms| ms * scale);
        println!(
            "{name:<26} {p50:>7.2} {p90:>7.2} {p99:>7.2} {max:>7.2} {drawn:>7} {visible:>7} \
             {missed:>7}"
        );
        if case.unreadable > 0 {
            println!(
                "  picture changes without a readable bar code: {}",
                case.unreadable
            );
        }
    }
    if let Some(stream) = &report.stream {
        let complete = report
            .complete_of_due()
            .map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0));
        println!(
            "  complete frames among the frames due: {complete}; visible but incomplete (left out): {}",
            stream.incomplete
        );
        let outcomes: Vec<String> = stream
            .outcomes
            .iter()
            .map(|(outcome, count)| format!("{outcome} {count}"))
            .collect();
        lines("  host's record: ", &outcomes.join("; "));
    }
}

fn print_steps(report: &Report) {
    let (scale, unit) = scale(report);
    let Some(stream) = report.stream.as_ref().filter(|s| !s.steps.is_empty()) else {
        return;
    };
    println!(
        "\n{:<32} {:>7} {:>7}   (some steps overlap)",
        format!("where the time goes, {unit}"),
        "p50",
        "p99"
    );
    for step in &stream.steps {
        println!(
            "{:<32} {:>7.2} {:>7.2}{}",
            format!("  {} -> {}", step.from, step.to),
            step.ms.p50 * scale,
            step.ms.p99 * scale,
            step.bound()
        );
    }
}

fn print_codec(report: &Report) {
    let (scale, unit) = scale(report);
    let Some(codec) = &report.codec else { return };
    let line = |name: &str, s: &Summary| {
        println!("{name:<32} {:>7.2} {:>7.2}", s.p50 * scale, s.p99 * scale);
    };
    println!(
        "\n{:<32} {:>7} {:>7}   (same scene, no network, no display)",
        format!("the codec alone, {unit}"),
        "p50",
        "p99"
    );
    for (name, step) in &codec.steps {
        line(&format!("  {name}"), step);
    }
    line("serial, one-slice x264 CBR", &codec.serial);
    line("pipelined, as host and client", &codec.pipelined);
    println!(
        "  {:.2} and {:.2} Mb/s; pipelined / serial {:.2}",
        codec.serial_mbps,
        codec.pipelined_mbps,
        codec.pipelined.p50 / codec.serial.p50
    );
    if let Some(ratio) = report.ratio() {
        println!("(end to end - floor) / serial     {ratio:>6.2}");
    }
}

fn print_reactions(report: &Report) {
    let (scale, unit) = scale(report);
    let Some(own) = Summary::of(&report.application_reaction_ms) else {
        return;
    };
    println!(
        "\n{:<32} {:>7} {:>7} {:>7} {:>7}",
        format!("key pressed -> visible, {unit}"),
        "p50",
        "p90",
        "p99",
        "seen"
    );
    let line = |name: &str, [p50, p90, p99]: [f64; 3], seen: &str| {
        let [p50, p90, p99] = [p50, p90, p99].map(|ms| ms * scale);
        println!("{name:<32} {p50:>7.2} {p90:>7.2} {p99:>7.2} {seen:>7}");
    };
    let of = |s: &Summary| format!("{}/{}", s.count, report.setting.presses);
    line(
        "application on its own display",
        [own.p50, own.p90, own.p99],
        &of(&own),
    );
    let Some(stream) = &report.stream else { return };
    let Some(s) = Summary::of(&stream.reaction_ms) else {
        println!("stream: no press had a visible effect");
        return;
    };
    line("stream", [s.p50, s.p90, s.p99], &of(&s));
    let beyond = [s.p50 - own.p50, s.p90 - own.p90, s.p99 - own.p99];
    line("  beyond the application's", beyond, "");
}

fn print_use(report: &Report) {
    println!();
    for (name, case) in report.cases() {
        let used: Vec<String> = case
            .cores
            .iter()
            .map(|(name, cores)| format!("{name} {:.0} %", cores * 100.0))
            .collect();
        let text = format!(
            "share of a core: {}; all other processes {:.0} %",
            used.join(", "),
            case.other_cores * 100.0
        );
        lines(&format!("{name:<8} "), &text);
        println!(
            "{:<8} the scene drew {:.1} of {} frames/s",
            "",
            case.drawn_fps(),
            report.setting.scene_fps
        );
    }
    if let Some(stream) = &report.stream {
        let wire = stream
            .wire_mbps
            .map_or("unknown".to_owned(), |mbps| format!("{mbps:.2} Mb/s"));
        println!(
            "wire     media with IP and UDP headers {wire}; all traffic on the loopback device {:.2} Mb/s",
            stream.case.loopback_mbps
        );
        let frames = stream.complete().max(1) as f64;
        match stream.case.package_joules {
            Some(joules) => println!(
                "energy   {:.1} mJ per complete frame, of all processor packages (RAPL)",
                joules * 1e3 / frames
            ),
            None => println!(
                "energy   no readable counter (RAPL); host and client take {:.2} ms of CPU time per complete frame",
                stream.cores() * stream.case.seconds * 1e3 / frames
            ),
        }
        if let Some(s) = Summary::of(&stream.psnr_db) {
            println!(
                "picture  luma PSNR median {:.1} dB, least {:.1} dB ({} frames)",
                s.p50, s.min, s.count
            );
        }
    }
    let threads: Vec<String> = report
        .stream
        .as_ref()
        .map(|stream| &stream.case)
        .or(report.floor.as_ref())
        .into_iter()
        .flat_map(|case| &case.threads)
        .map(|(t, count)| {
            let times = if *count > 1 {
                format!(" x{count}")
            } else {
                String::new()
            };
            format!("{}/{} {}{times}", t.process, t.thread, t.policy)
        })
        .collect();
    lines("threads  ", &threads.join("; "));
}

fn print_verdicts(report: &Report) {
    let verdicts = verdicts(report);
    if verdicts.is_empty() {
        return;
    }
    println!("\n{:<36} {:>10} {:>10}", "target", "", "measured");
    for verdict in verdicts {
        println!("{}", verdict.line());
    }
}

/// Prints `text` after `first`, wrapped at [`WIDTH`] columns.
fn lines(first: &str, text: &str) {
    let mut first = first.to_owned();
    for line in wrapped(text, WIDTH - first.len()) {
        println!("{first}{line}");
        first = " ".repeat(first.len());
    }
}
