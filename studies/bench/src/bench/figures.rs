//! What became of each figure of the papers, computed from the data of the benches: what it
//! claims, whether that holds here, and why. It draws nothing.
//!
//! Papers: OpenUVR (figures 6, 10, 11, sections IV-B3 and V-E), GamingAnywhere (figures 9 to 11; of both,
//! what they say of other products, in [`peers`]) and
//! Unity Render Streaming over Wi-Fi (sections 5 to 7 and 8.1, in [`traffic`]; figures 19 to 22, in
//! [`wifi`]), and the SEARIS slides on latency jitter (in [`jitter`]). A figure without data is "not
//! measured", never a guess.

use openuvr_testbed::stats::Range;
use serde_json::Value;

use super::data::{Data, list, named, number, words};
use super::machine::QUIET;
use super::mark::{Claim, Mark, holds, holds_of};
use super::{jitter, peers, traffic, wifi};

/// A figure of a paper.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) claim: &'static str,
    pub(super) mark: Mark,
    pub(super) why: String,
}

/// What is claimed, by study; one more study is one more line.
const STUDIES: [&[Claim]; 5] = [
    &CLAIMS,
    &peers::CLAIMS,
    &traffic::CLAIMS,
    &wifi::CLAIMS,
    &jitter::CLAIMS,
];

/// What OpenUVR and GamingAnywhere claim, in the papers' order.
const CLAIMS: [Claim; 14] = [
    (
        "OpenUVR fig. 6",
        "Of a conventional stream's time, the host's network stack takes most, encoding next, \
         the client least.",
        breakdown,
        "ablation",
    ),
    (
        "OpenUVR fig. 10",
        "Visual latency stays below 20 ms, and far below that of a conventional stream (14.3 \
         against 38 ms).",
        visual_latency,
        "ablation",
    ),
    (
        "OpenUVR fig. 11, all",
        "All optimisations together bring the latency below one frame at 60 a second.",
        together,
        "ablation",
    ),
    (
        "OpenUVR fig. 11, transcoding",
        "Encoding RGB without converting colours saves 5.51 ms.",
        transcoding,
        "ablation",
    ),
    (
        "OpenUVR fig. 11, sharing",
        "A host inside the application's process saves 4.71 ms against one beside it.",
        sharing,
        "sync",
    ),
    (
        "OpenUVR fig. 11, network",
        "Going past the network stack to the link layer saves 14.4 ms.",
        network,
        "ablation",
    ),
    (
        "OpenUVR fig. 11, topology",
        "Peer-to-peer Wi-Fi saves 0.8 to 1.6 ms against an access point.",
        |_| {
            let why = "both ends are on one machine: there is no radio";
            Some((Mark::NotTestable, why.to_owned()))
        },
        "latency",
    ),
    (
        "OpenUVR section IV-B3",
        "At a given bitrate a longer GOP looks better; with loss, it stays corrupted for \
         longer.",
        gop,
        "quality",
    ),
    (
        "OpenUVR section V-E",
        "An application that waits for the host sees no significant change of latency or \
         quality.",
        synchronous,
        "sync",
    ),
    (
        "GamingAnywhere fig. 9",
        "The downlink carries no more than the bitrate that was set.",
        network_load,
        "latency",
    ),
    (
        "GamingAnywhere fig. 10(a), 11(a)",
        "Network delay hardly affects video quality.",
        |data| against(data, "delay", false),
        "quality",
    ),
    (
        "GamingAnywhere fig. 10(b), 11(b)",
        "Packet loss lowers video quality.",
        |data| against(data, "loss", true),
        "quality",
    ),
    (
        "GamingAnywhere fig. 10(c), 11(c)",
        "Quality drops suddenly where the bandwidth is below the bitrate.",
        bandwidth,
        "quality",
    ),
    (
        "OpenUVR section V-D1",
        "Displayed frames have a mean SSIM above 0.9 (0.918; the worst batch 0.679).",
        similarity,
        "quality",
    ),
];

/// All figures, in the studies' order.
pub(super) fn all(data: &Data) -> Vec<Figure> {
    let claims = STUDIES.into_iter().flatten();
    let judged = claims.map(|&(name, claim, judge, bench)| {
        let (mark, why) = judge(data).unwrap_or_else(|| {
            let group = if bench.starts_with("lab ") {
                ""
            } else {
                "bench "
            };
            let why = format!("no data for it: openuvr {group}{bench} measures it");
            (Mark::NotMeasured, why)
        });
        let told = matches!(mark, Mark::Reproduced | Mark::NotReproduced);
        let doubt = match () {
            () if told && data.other_cores(bench) > QUIET => "the machine was not quiet",
            () if told && data.is_quick(bench) && !matches!(bench, "ablation" | "sync") => {
                "a quick run decides nothing"
            }
            () => "",
        };
        let (mark, why) = match doubt {
            "" => (mark, format!("{why}.")),
            doubt => (Mark::Inconclusive, format!("{why}; {doubt}.")),
        };
        Figure {
            name,
            claim,
            mark,
            why,
        }
    });
    judged.collect()
}

/// What a single run may lie from the next, of itself: those of five seldom lay a tenth apart
/// (`bench ablation`), and one that is quick, of a second, may lie farther.
const SINGLE: f64 = 0.25;

/// A median with its range, of a file's row. Of a single run it is what a next one might have been;
/// files that do not say how often they measured have one.
fn range(of: &Value, row: &Value) -> Option<Range> {
    let part = |of: &str| number(row, &format!("/p50_ms/{of}"));
    let median = part("median")?;
    let single = number(of, "/repetitions").unwrap_or(1.0) < 2.0;
    let (min, max) = match single {
        true => (median * (1.0 - SINGLE), median * (1.0 + SINGLE)),
        false => (part("min")?, part("max")?),
    };
    Some(Range { median, min, max })
}

/// The parts of a frame's way, each from where the one before ends.
const PARTS: [(&str, &[(&str, &str)]); 7] = [
    ("until captured", &[("drawn", "Captured")]),
    ("conversion", &[("Captured", "Converted")]),
    (
        "encoding",
        &[("Converted", "FirstSlice"), ("FirstSlice", "Encoded")],
    ),
    ("network", &[("Encoded", "Recoverable")]),
    ("decoding", &[("Recoverable", "Decoded")]),
    ("to the display", &[("Decoded", "Submitted")]),
    ("display", &[("Submitted", "visible")]),
];

/// The parts of a way, from the steps that a run has written; negative ones as they are: what is
/// sent while it is encoded.
fn parts(steps: &[Value]) -> Option<Vec<(String, f64)>> {
    let one = |(from, to): &(&str, &str)| {
        let is = |s: &&Value| words(s, "/from") == *from && words(s, "/to") == *to;
        number(steps.iter().find(is)?, "/ms/p50")
    };
    let part = |(name, of): &(&str, &[(&str, &str)])| {
        let sum = of.iter().map(one).sum::<Option<f64>>()?;
        Some(((*name).to_owned(), sum))
    };
    PARTS.iter().map(part).collect()
}

/// The runs of a configuration.
fn runs_of<'a>(ablation: &'a Value, configuration: &str) -> Vec<&'a Value> {
    let is = |run: &&Value| words(run, "/configuration") == configuration;
    list(ablation, "/runs").iter().filter(is).collect()
}

/// That whose median is in the middle.
fn middle_run<'a>(ablation: &'a Value, configuration: &str) -> Option<&'a Value> {
    let mut runs = runs_of(ablation, configuration);
    let p50 = |run: &Value| number(run, "/latency_ms/p50").unwrap_or(f64::MAX);
    runs.sort_by(|a, b| p50(a).total_cmp(&p50(b)));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

fn conventional_parts(data: &Data) -> Option<Vec<(String, f64)>> {
    parts(list(middle_run(&data.ablation, CONVENTIONAL)?, "/steps"))
}

const CONVENTIONAL: &str = "conventional";

/// The bars of fig. 6: the conventional stream, and ours.
pub(super) fn breakdowns(data: &Data) -> Vec<(String, Vec<(String, f64)>)> {
    let ours = list(&data.ablation, "/cumulative").last();
    let ours = ours.and_then(|row| middle_run(&data.ablation, words(row, "/name")));
    let ours = ours.and_then(|run| parts(list(run, "/steps")));
    [("conventional", conventional_parts(data)), ("ours", ours)]
        .into_iter()
        .filter_map(|(name, parts)| Some((name.to_owned(), parts?)))
        .collect()
}

fn breakdown(data: &Data) -> Option<(Mark, String)> {
    let spent = |parts: Vec<(String, f64)>| {
        let of = |name: &str| parts.iter().find(|p| p.0 == name).map_or(0.0, |p| p.1);
        let client = of("decoding") + of("to the display");
        [of("network"), of("encoding"), client]
    };
    let claims: Vec<bool> = runs_of(&data.ablation, CONVENTIONAL)
        .into_iter()
        .filter_map(|run| Some(spent(parts(list(run, "/steps"))?)))
        .map(|spent| spent.is_sorted_by(|more, less| more > less))
        .collect();
    let [network, encoding, client] = spent(conventional_parts(data)?);
    let (all, some) = (claims.iter().all(|claim| *claim), claims.contains(&true));
    let why = format!(
        "the conventional stream spends {network:.1} ms on the network, {encoding:.1} ms on \
         encoding, {client:.1} ms in the client; without a radio, and with an encoder on the \
         processor"
    );
    let mark = match claims.len() {
        0 | 1 => Mark::Inconclusive,
        _ => holds_of(all, some),
    };
    Some((mark, why))
}

/// p50 of the conventional stream and of ours.
fn both_ends(data: &Data) -> Option<(Range, Range)> {
    let rungs = list(&data.ablation, "/cumulative");
    let of = |row| range(&data.ablation, row);
    Some((of(rungs.first()?)?, of(rungs.last()?)?))
}

fn visual_latency(data: &Data) -> Option<(Mark, String)> {
    let (conventional, ours) = both_ends(data)?;
    let why = format!(
        "{:.1} ms against {:.1} ms of the conventional stream, {:.1} times (paper: 2.67 times)",
        ours.median,
        conventional.median,
        conventional.median / ours.median
    );
    let claim = |ours: f64, conventional: f64| ours < 20.0 && conventional / ours >= 2.0;
    let all = claim(ours.max, conventional.min);
    let some = claim(ours.min, conventional.max);
    Some((holds_of(all, some), why))
}

fn together(data: &Data) -> Option<(Mark, String)> {
    let (conventional, ours) = both_ends(data)?;
    let frame = 1000.0_f64 / 60.0;
    let why = format!(
        "from {:.1} to {:.1} ms; a frame lasts {frame:.1} ms",
        conventional.median, ours.median
    );
    let claim = |ours: f64, conventional: f64| ours < frame.min(conventional);
    let all = claim(ours.max, conventional.min);
    let some = claim(ours.min, conventional.max);
    Some((holds_of(all, some), why))
}

/// A step of the ablation whose sign is the claim, decided if the ranges of its runs are apart.
fn gained(row: &Value, what: &str) -> Option<(Mark, String)> {
    if let Some(why) = row.pointer("/unavailable").and_then(Value::as_str) {
        return Some((Mark::NotTestable, format!("it did not run: {why}")));
    }
    let worth = number(row, "/worth_ms")?;
    let clear = row.pointer("/clear").and_then(Value::as_bool);
    let doubt = match clear {
        Some(true) => "",
        Some(false) => ", within the range of the runs",
        None => " in the one run that was made",
    };
    let word = if worth >= 0.0 { "saves" } else { "costs" };
    let why = format!("{what} {word} {:.2} ms{doubt}", worth.abs());
    let mark = match clear {
        Some(true) => holds(worth > 0.0),
        _ => Mark::Inconclusive,
    };
    Some((mark, why))
}

fn transcoding(data: &Data) -> Option<(Mark, String)> {
    let row = named(list(&data.ablation, "/alternatives"), "RGB, not converted")?;
    gained(
        row,
        "with an encoder on the processor, RGB without conversion",
    )
}

fn network(data: &Data) -> Option<(Mark, String)> {
    let links = list(&data.ablation, "/links");
    let raw = named(links, "raw Ethernet")?;
    let (mark, mut why) = gained(raw, "against a call per datagram, raw Ethernet")?;
    for (name, what) in [
        ("raw Ethernet by rings", "mapped rings"),
        ("segmented by the kernel", "UDP cut by the kernel"),
    ] {
        let row = named(links, name);
        if let Some(worth) = row.and_then(|row| number(row, "/worth_ms")) {
            let word = if worth >= 0.0 { "saves" } else { "costs" };
            why.push_str(&format!("; {what} {word} {:.2} ms", worth.abs()));
        }
    }
    Some((mark, why))
}

fn sharing(data: &Data) -> Option<(Mark, String)> {
    let ways = list(&data.sync, "/ways");
    let (captured, submitted) = (named(ways, "captured")?, named(ways, "submitted")?);
    let of = |row| range(&data.sync, row);
    let (captured, submitted) = (of(captured)?, of(submitted)?);
    let saved = captured.median - submitted.median;
    let word = if saved >= 0.0 { "saves" } else { "costs" };
    let why = format!(
        "submitting from within the process {word} {:.2} ms against capturing the display; the \
         picture is read back from the renderer either way, as there is no graphics card to share",
        saved.abs()
    );
    let all = submitted.max < captured.min;
    let some = submitted.min < captured.max;
    Some((holds_of(all, some), why))
}

fn synchronous(data: &Data) -> Option<(Mark, String)> {
    let ways = list(&data.sync, "/ways");
    let (free, step) = (named(ways, "submitted")?, named(ways, "lock-step")?);
    let of = |row| range(&data.sync, row);
    let (before, after) = (of(free)?, of(step)?);
    let psnr = |way| number(way, "/psnr_db/p50");
    let quality = psnr(step).zip(psnr(free)).map(|(step, free)| step - free);
    // A tenth of the latency, and what a person can just see: half a decibel.
    let bound = before.median * 0.1;
    let farthest = (after.max - before.min).max(before.max - after.min);
    let nearest = (after.min - before.max).max(before.min - after.max);
    let alike = quality.is_none_or(|db| db.abs() <= 0.5);
    let picture = quality.map_or("quality not compared".into(), |db| format!("{db:+.1} dB"));
    let rate = number(step, "/drawn_fps/median").map_or(String::new(), |fps| {
        format!(", at {fps:.1} frames a second")
    });
    let why = format!(
        "{:.2} ms with waiting, {:.2} without; {picture}{rate}",
        after.median, before.median
    );
    let (all, some) = (farthest <= bound && alike, nearest <= bound && alike);
    Some((holds_of(all, some), why))
}

fn network_load(data: &Data) -> Option<(Mark, String)> {
    let case = data.latency.first()?;
    let wire = number(case, "/stream/wire_mbps")?;
    let target = words(case, "/setting/bitrate").trim_end_matches('M');
    let target: f64 = target.parse().ok()?;
    let why = format!(
        "{wire:.2} Mb/s with all headers, {target} set; the figure's other products are not here"
    );
    // A hundredth: the measured seconds begin and end within a frame.
    Some((holds(wire <= target * 1.01), why))
}

/// A line of a plot.
struct Ends<'a> {
    name: &'a str,
    /// Else it is PSNR.
    ssim: bool,
    /// The means at its ends.
    first: f64,
    last: f64,
}

impl Ends<'_> {
    fn change(&self) -> f64 {
        self.last - self.first
    }

    /// Whether it changes by more than 1 dB of PSNR or 0.01 of SSIM.
    fn matters(&self) -> bool {
        self.change().abs() > if self.ssim { 0.01 } else { 1.0 }
    }
}

/// The lines of every plot whose title names `what`.
fn ends<'a>(data: &'a Data, what: &str) -> Vec<Ends<'a>> {
    let about = |plot: &&Value| words(plot, "/title").to_lowercase().contains(what);
    let plots = data.quality.iter().filter(about);
    let series = plots.flat_map(|plot| {
        let ssim = words(plot, "/title").to_lowercase().contains("ssim");
        list(plot, "/series")
            .iter()
            .map(move |series| (ssim, series))
    });
    let ends = series.filter_map(|(ssim, series)| {
        let points = list(series, "/points").iter();
        let mut points: Vec<(f64, f64)> = points
            .filter_map(|p| Some((number(p, "/x")?, number(p, "/mean")?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        (points.len() > 1).then_some(())?;
        Some(Ends {
            name: words(series, "/name"),
            ssim,
            first: points.first()?.1,
            last: points.last()?.1,
        })
    });
    ends.collect()
}

fn listed(ends: &[Ends<'_>]) -> String {
    let one = |end: &Ends<'_>| {
        let Ends {
            name, first, last, ..
        } = end;
        match end.ssim {
            true => format!("SSIM {first:.3} to {last:.3} ({name})"),
            false => format!("PSNR {first:.1} to {last:.1} dB ({name})"),
        }
    };
    ends.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Whether quality falls from the least to the most of `x`, or stays.
fn against(data: &Data, x: &str, falls: bool) -> Option<(Mark, String)> {
    let ends = ends(data, x);
    (!ends.is_empty()).then_some(())?;
    let claim = match falls {
        true => ends.iter().all(|end| end.change() < 0.0 && end.matters()),
        false => ends.iter().all(|end| !end.matters()),
    };
    let why = format!("from the least to the most {x}: {}", listed(&ends));
    Some((holds(claim), why))
}

fn bandwidth(data: &Data) -> Option<(Mark, String)> {
    let all = ends(data, "bandwidth");
    (!all.is_empty()).then_some(())?;
    // The paper's system kept its rate whatever the link did: so does the line that says so.
    let (constant, adaptive): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|end| end.name.contains("constant"));
    // 6 dB, or a tenth of SSIM, is what the paper's curves fall by.
    let falls = |end: &Ends<'_>| end.change() > if end.ssim { 0.1 } else { 6.0 };
    if constant.is_empty() {
        let why = format!(
            "only with a rate that follows the link: {}",
            listed(&adaptive)
        );
        return Some((Mark::Inconclusive, why));
    }
    let why = format!(
        "from the least to the most bandwidth: {}; with a rate that follows the link {}",
        listed(&constant),
        listed(&adaptive)
    );
    Some((holds(constant.iter().all(falls)), why))
}

fn gop(data: &Data) -> Option<(Mark, String)> {
    let all = ends(data, "group of pictures");
    let (lossy, clean): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|end| end.name.contains("% loss"));
    // Half of the claim is no claim.
    (!lossy.is_empty() && !clean.is_empty()).then_some(())?;
    let better = clean.iter().all(|end| end.change() > 0.0);
    let worse = lossy.iter().all(|end| end.change() < 0.0);
    let why = format!(
        "from the shortest to the longest GOP: {}; with loss {}",
        listed(&clean),
        listed(&lossy)
    );
    Some((holds(better && worse), why))
}

fn similarity(data: &Data) -> Option<(Mark, String)> {
    let best = |x: &str| {
        let ends = ends(data, x).into_iter().filter(|end| end.ssim);
        ends.map(|end| end.first).reduce(f64::min)
    };
    let ssim = best("loss").or_else(|| best("delay"))?;
    let why = format!("without loss the mean SSIM is {ssim:.3}");
    Some((holds(ssim > 0.9), why))
}

#[cfg(test)]
mod tests;
