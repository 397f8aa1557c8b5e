//! The results of `openuvr bench web`, as text for users.

use openuvr_testbed::stats::{Range, Summary};

use super::Output;
use super::figures::Browser;

pub(super) fn print(found: &Output) {
    found.head.print("web", "");
    println!(
        "browser  {}, headless and without a GPU, on this machine",
        found.version
    );
    if !found.browsers.is_empty() {
        println!(
            "\ndrawn, decoded, composed, handed (to the compositor) and complete are in frames per second\n\
             {:<24} {:>17} {:>6} {:>6} {:>7} {:>8} {:>6} {:>8} {:>9} {:>11} {:>6}",
            "browser",
            "p50 ms (range)",
            "p99",
            "drawn",
            "decoded",
            "composed",
            "handed",
            "complete",
            "freeze ms",
            "cores",
            "Mb/s"
        );
    }
    for browser in &found.browsers {
        println!(
            "{:<24} {:>17} {:>6} {:>6} {:>7} {:>8} {:>6} {:>8} {:>9} {:>11} {:>6}",
            browser.name,
            spread(&browser.p50_ms),
            median(&browser.p99_ms, 1),
            median(&browser.drawn_fps, 1),
            median(&browser.decoded_fps, 1),
            median(&browser.presented_fps, 1),
            median(&browser.handed_fps, 1),
            median(&browser.complete_fps, 1),
            browser
                .freeze_ms
                .as_ref()
                .map_or("-".to_owned(), |freeze| format!("{:.0}", freeze.max)),
            [&browser.host_cores, &browser.browser_cores]
                .map(|cores| median(cores, 2))
                .join(" + "),
            median(&browser.sent_mbps, 1),
        );
    }
    for browser in &found.browsers {
        one(browser);
    }
    if !found.beside.is_empty() {
        println!(
            "\n{:<10} {:>21} {:>21} {:>8} {:>13} {:>9} {:>11}",
            "our client",
            "p50 ms (range)",
            "p99 ms (range)",
            "complete",
            "host's cores",
            "encoders",
            "no record"
        );
    }
    for way in &found.beside {
        println!(
            "{:<10} {:>21} {:>21} {:>8} {:>13} {:>9} {:>11}",
            way.name,
            spread(&way.p50_ms),
            spread(&way.p99_ms),
            way.complete.map_or("-".to_owned(), |complete| format!(
                "{:.0} %",
                complete * 100.0
            )),
            median(&way.host_cores, 3),
            way.encoders_opened,
            way.unaccounted,
        );
    }
    if !found.players.is_empty() {
        println!(
            "\n{:<10} {:>10} {:>8} {:>8}",
            "player", "p50 ms", "p99 ms", "seen/s"
        );
    }
    for player in &found.players {
        let latency = player.latency_ms();
        println!(
            "{:<10} {:>10} {:>8} {:>8.1}",
            player.name(),
            latency.map_or("-".to_owned(), |s| format!("{:.1}", s.p50)),
            latency.map_or("-".to_owned(), |s| format!("{:.1}", s.p99)),
            player.seen_fps(),
        );
    }
    println!();
    for way in &found.beside {
        println!("{:<10} {}", way.name, way.what);
    }
    for player in &found.players {
        println!("{:<10} {}", player.name(), player.what());
    }
    println!();
    for verdict in &found.verdicts {
        println!("{}", verdict.line());
    }
}

fn one(browser: &Browser) {
    println!("\n{}: by stage, ms", browser.name);
    for step in &browser.steps {
        let name = format!("{} -> {}{}", step.from, step.to, step.bound());
        all(&name, Some(step.ms));
    }
    all("key: press -> the page", browser.page_ms);
    all("key: page -> the application", browser.input_ms);
    if browser.presses_lost > 0 {
        println!(
            "{:<36} {}",
            "key presses that did not arrive", browser.presses_lost
        );
    }
    all("click, host's sink to browser's", browser.sound_ms);
    all("click's latency minus the flash's", browser.offset_ms);
    if let Some(unheard) = browser.unheard {
        println!("{:<36} {unheard}", "clicks not heard");
    }
    for (run, counted) in browser.statistics.iter().enumerate() {
        println!(
            "run {}, counted by the browser: {} decoded, {} dropped, {} freezes; {} key frames requested",
            run + 1,
            counted.decoded,
            counted.dropped,
            counted.freezes,
            counted.key_frames_asked,
        );
        println!(
            "  {} packets lost, {} NACK, {} retransmitted; decode {:.1} ms, jitter buffer {:.1} ms",
            counted.packets_lost,
            counted.nacks,
            counted.retransmitted,
            counted.decode_ms,
            counted.jitter_buffer_ms,
        );
        if counted.samples > 0 {
            // The sample rate is 48 kHz, so a millisecond has 48 sample frames.
            let made_up = counted.concealed as f64 / 48.0;
            println!(
                "  {made_up:.0} ms of sound concealed in {} gaps",
                counted.concealments
            );
        }
    }
    if browser.unreadable + browser.replaced > 0 {
        println!(
            "{:<36} {} unreadable, {} replaced while they were read",
            "pictures left out", browser.unreadable, browser.replaced
        );
    }
    if let Some(late) = browser.link_late_ms {
        println!(
            "{:<36} {late:.2} ms in the worst run",
            "p99 of the emulated link's lateness"
        );
    }
}

fn all(name: &str, summary: Option<Summary>) {
    if let Some(s) = summary {
        println!(
            "{name:<36} p50 {:>6.2}  p90 {:>6.2}  p99 {:>6.2}  max {:>7.2}  of {}",
            s.p50, s.p90, s.p99, s.max, s.count
        );
    }
}

fn spread(range: &Option<Range>) -> String {
    range.as_ref().map_or("nothing came".to_owned(), |range| {
        let Range {
            median, min, max, ..
        } = range;
        format!("{median:.2} ({min:.2}-{max:.2})")
    })
}

fn median(range: &Option<Range>, digits: usize) -> String {
    let median = range.as_ref().map(|range| range.median);
    median.map_or("-".to_owned(), |median| format!("{median:.digits$}"))
}
