use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openuvr_proto::control::clock::Mapped;
use openuvr_proto::control::negotiate::Role;
use openuvr_proto::id::{FrameId, SessionId};
use openuvr_proto::time::{Instant, PeerInstant};
use openuvr_proto::trace::{
    ClientStamps, DropCause, Fidelity, FrameCost, FrameRecord, Outcome, Stage, Stamps,
};
use openuvr_proto::wire::video::EchoKind;
use serde_json::Value;

use super::csv::Csv;
use super::spread::{Spread, WINDOW};
use super::table::Table;
use super::totals::{MOST, Totals};
use super::trace::Trace;
use super::{Options, Recorder};
use crate::config::kind::TableMode;

/// What was written, readable while it is.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const MS: i64 = 1_000_000;

fn ms(n: i64) -> Instant {
    Instant(n * MS)
}

/// Frame `n` of 60 a second, each stage a millisecond behind the one before, all measured. The
/// client's clock is an hour ahead.
fn whole(session: u32, n: u32) -> FrameRecord {
    let begun = 1_000 * MS + i64::from(n) * 16_666_667;
    let mut host = Stamps::default();
    let stages = [
        Stage::Captured,
        Stage::Converted,
        Stage::FirstSlice,
        Stage::FirstSent,
        Stage::Encoded,
        Stage::LastSent,
    ];
    for (i, stage) in (0..).zip(stages) {
        host.stamp(stage, Instant(begun + i * MS));
    }
    let received = begun + 10 * MS;
    let span = |n| Some(Duration::from_millis(n));
    FrameRecord {
        session: SessionId(session),
        frame: FrameId(n),
        host,
        client: ClientStamps {
            first_received: Some(PeerInstant(received + 3_600_000 * MS)),
            first_received_here: Some(Mapped {
                at: Instant(received),
                bound: Duration::from_micros(30),
            }),
            recoverable: span(1),
            decoded: span(2),
            submitted: span(3),
            presented: None,
        },
        outcome: Outcome::Displayed(Fidelity::Whole),
        cost: FrameCost {
            key_frame: n == 1,
            qp: 23,
            datagrams: 16,
            bytes: 20_000,
        },
        motion_to_photon: Some(Duration::from_micros(21_500)),
        echo: EchoKind::Injected,
        missing: 0,
    }
}

fn dropped(session: u32, n: u32, stage: Stage, why: DropCause) -> FrameRecord {
    let mut host = Stamps::default();
    host.stamp(
        Stage::Captured,
        Instant(1_000 * MS + i64::from(n) * 16_666_667),
    );
    FrameRecord {
        host,
        client: ClientStamps::default(),
        outcome: Outcome::Dropped { stage, why },
        cost: FrameCost::default(),
        motion_to_photon: None,
        echo: EchoKind::None,
        ..whole(session, n)
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("openuvr-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

mod rows {
    use super::*;

    fn rows(records: &[FrameRecord]) -> Vec<HashMap<String, String>> {
        let paper = Paper::default();
        let mut csv = Csv::new(Box::new(paper.clone())).unwrap();
        for record in records {
            csv.row(record).unwrap();
        }
        csv.finish().unwrap();
        let text = paper.text();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                assert_eq!(fields.len(), names.len(), "{line}");
                let pairs = names.iter().zip(fields);
                pairs
                    .map(|(n, f)| ((*n).to_owned(), f.to_owned()))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn a_row_has_each_stage_on_the_clock_of_its_side() {
        let rows = rows(&[whole(7, 1)]);
        let row = |name: &str| rows[0][name].as_str();
        assert_eq!(
            (row("session"), row("frame"), row("outcome")),
            ("7", "1", "whole")
        );
        assert_eq!((row("stage"), row("cause")), ("", ""));
        assert_eq!(row("Captured"), "1016666667");
        assert_eq!(row("LastSent"), "1021666667");
        assert_eq!(row("FirstReceived"), "3601026666667");
        assert_eq!(row("Submitted"), "3601029666667");
        for unmeasured in ["Presented", "InputSampled", "InputReceived", "RenderBegun"] {
            assert_eq!(row(unmeasured), "", "{unmeasured}");
        }
        let cost = ["key_frame", "qp", "datagrams", "bytes"].map(row);
        assert_eq!(cost, ["1", "23", "16", "20000"]);
        assert_eq!(row("clock_bound"), "30000");
        assert_eq!(
            (row("motion_to_photon"), row("echo")),
            ("21500000", "injected")
        );
        assert_eq!(row("missing"), "0");
    }

    #[test]
    fn a_dropped_frame_says_before_which_stage_and_why() {
        let rows = rows(&[dropped(7, 2, Stage::Converted, DropCause::Superseded)]);
        let row = |name: &str| rows[0][name].as_str();
        assert_eq!(
            (row("outcome"), row("stage"), row("cause")),
            ("dropped", "Converted", "Superseded")
        );
        assert_ne!(row("Captured"), "");
        for unmeasured in [
            "Converted",
            "FirstReceived",
            "clock_bound",
            "qp",
            "bytes",
            "motion_to_photon",
        ] {
            assert_eq!(
                row(unmeasured),
                "",
                "{unmeasured}: what was not measured is never zero"
            );
        }
        assert_eq!(row("echo"), "none");
    }

    #[test]
    fn the_header_names_all_stages_in_order() {
        let paper = Paper::default();
        drop(Csv::new(Box::new(paper.clone())).unwrap());
        let stages: Vec<&str> = Stage::ALL.iter().map(|s| s.name()).collect();
        assert!(
            paper
                .text()
                .starts_with("session,frame,outcome,stage,cause,InputSampled,")
        );
        assert!(paper.text().contains(&stages.join(",")));
        assert_eq!(paper.text().lines().count(), 1);
    }

    #[test]
    fn rows_reach_the_disk_within_a_second() {
        let paper = Paper::default();
        let mut csv = Csv::new(Box::new(paper.clone())).unwrap();
        csv.tick(ms(0)).unwrap();
        csv.row(&whole(1, 1)).unwrap();
        csv.tick(ms(999)).unwrap();
        assert_eq!(paper.text().lines().count(), 1);
        csv.tick(ms(1000)).unwrap();
        assert_eq!(paper.text().lines().count(), 2);
    }
}

mod time_line {
    use super::*;

    /// Reads a trace and checks it against the rules of the format, and those of Perfetto:
    ///
    /// From the document *Trace Event Format* (Google):
    /// 1. "JSON Array Format": an array of event objects, whose closing bracket may be missing.
    /// 2. "Event Descriptions": each has name, ph, ts (microseconds), pid and tid; `args` is an
    ///    object; an event may be of a category `cat`.
    /// 3. "Complete Events" (X): `dur` in microseconds, not negative.
    /// 4. "Counter Events" (C): the values of `args` are numbers.
    /// 5. "Instant Events" (i): the scope `s` is g, p or t.
    /// 6. "Flow Events" (s, t, f): `id`; one s, then t, then one f, in the order of time; they
    ///    bind to a slice on their track that is there at their time (`bp` "e" for f).
    /// 7. "Metadata Events" (M): process_name and thread_name carry `args.name`.
    ///
    /// From Perfetto's FAQ ("Why are overlapping events in JSON traces not displayed correctly?"):
    /// 8. slices of one track nest; here they don't even touch, and come in the order of time.
    ///
    /// From how Perfetto keeps threads (trace processor, tables `thread` and `process`):
    /// 9. a tid belongs to one pid; pid and tid are not 0, which is the idle process.
    fn check(text: &str) -> Vec<Value> {
        let whole = text.trim_end().ends_with(']');
        let text = if whole {
            text.to_owned()
        } else {
            format!("{text}]")
        };
        let events: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut owner: HashMap<u64, u64> = HashMap::new();
        let mut free: HashMap<u64, f64> = HashMap::new();
        let mut slices: HashMap<u64, Vec<(f64, f64)>> = HashMap::new();
        let mut counters: HashMap<String, f64> = HashMap::new();
        let mut flows: HashMap<String, Vec<(String, f64, u64)>> = HashMap::new();
        let mut named = Vec::new();
        for e in &events {
            let name = e["name"].as_str().unwrap();
            let ts = e["ts"].as_f64().unwrap();
            let (pid, tid) = (e["pid"].as_u64().unwrap(), e["tid"].as_u64().unwrap());
            assert!(pid > 0 && tid > 0, "{e}");
            assert_eq!(*owner.entry(tid).or_insert(pid), pid, "{e}");
            assert!(e.get("args").is_none_or(Value::is_object), "{e}");
            match e["ph"].as_str().unwrap() {
                "X" => {
                    let dur = e["dur"].as_f64().unwrap();
                    assert!(dur >= 0.0, "{e}");
                    let free = free.entry(tid).or_insert(f64::MIN);
                    // Half a nanosecond for rounding.
                    assert!(ts >= *free - 0.0005, "{e} begins before {free}");
                    *free = ts + dur;
                    slices.entry(tid).or_default().push((ts, ts + dur));
                    assert!(named.contains(&tid), "track without a name: {e}");
                }
                "C" => {
                    assert!(
                        e["args"]
                            .as_object()
                            .unwrap()
                            .values()
                            .all(Value::is_number)
                    );
                    let before = counters.insert(format!("{pid} {name}"), ts);
                    assert!(before.is_none_or(|before| before <= ts), "{e}");
                }
                "i" => assert!(["g", "p", "t"].contains(&e["s"].as_str().unwrap()), "{e}"),
                ph @ ("s" | "t" | "f") => {
                    assert!(ph != "f" || e["bp"] == "e", "{e}");
                    let id = e["id"].as_str().unwrap().to_owned();
                    flows.entry(id).or_default().push((ph.to_owned(), ts, tid));
                }
                "M" => {
                    assert!(["process_name", "thread_name"].contains(&name), "{e}");
                    assert!(e["args"]["name"].is_string(), "{e}");
                    named.push(tid);
                }
                other => panic!("{other} in {e}"),
            }
        }
        for (id, flow) in &flows {
            let phs: String = flow.iter().map(|(ph, ..)| ph.as_str()).collect();
            assert!(phs.len() >= 2, "{id}: {phs}");
            assert_eq!(phs, format!("s{}f", "t".repeat(phs.len() - 2)), "{id}");
            assert!(flow.is_sorted_by_key(|(_, ts, _)| *ts), "{id}: {flow:?}");
            for (ph, ts, tid) in flow {
                let inside = slices[tid].iter().any(|(from, to)| from <= ts && ts < to);
                assert!(inside, "{id}: {ph} at {ts} hangs in the air");
            }
        }
        events
    }

    fn trace(records: &[FrameRecord], name: &str) -> Vec<Value> {
        let paper = Paper::default();
        let mut trace = Trace::new(Box::new(paper.clone())).unwrap();
        for record in records {
            trace.frame(record, name).unwrap();
        }
        trace.finish().unwrap();
        assert!(paper.text().ends_with("]\n"));
        check(&paper.text())
    }

    fn of<'a>(events: &'a [Value], ph: &str, cat: &str) -> Vec<&'a Value> {
        let matching = |e: &&Value| e["ph"] == ph && (cat.is_empty() || e["cat"] == cat);
        events.iter().filter(matching).collect()
    }

    #[test]
    fn a_frame_has_a_slice_for_each_span_on_both_sides() {
        let events = trace(&[whole(1, 1)], "desk");
        let spans = [
            ("Captured→Converted", 1, 1016666.667, 1000.0),
            ("Converted→Encoded", 1, 1017666.667, 3000.0),
            ("FirstSent→LastSent", 1, 1019666.667, 2000.0),
            ("FirstSent→FirstReceived", 1, 1019666.667, 7000.0),
            ("FirstReceived→Recoverable", 2, 1026666.667, 1000.0),
            ("Recoverable→Decoded", 2, 1027666.667, 1000.0),
            ("Decoded→Submitted", 2, 1028666.667, 1000.0),
        ];
        for (cat, pid, ts, dur) in spans {
            let slices = of(&events, "X", cat);
            let [slice] = slices[..] else {
                panic!("{cat}: {slices:?}")
            };
            assert_eq!(slice["pid"], pid, "{cat}");
            assert_eq!(
                (slice["ts"].as_f64(), slice["dur"].as_f64()),
                (Some(ts), Some(dur)),
                "{cat}"
            );
            assert_eq!(slice["args"]["frame"], 1);
            let bound = &slice["args"]["clock_bound_us"];
            let crosses = pid == 2 || cat.ends_with("FirstReceived");
            assert_eq!(
                bound.as_f64(),
                crosses.then_some(30.0),
                "{cat}: the bound stands with it"
            );
        }
        assert_eq!(of(&events, "X", "").len(), spans.len());
        // An arrow from the first slice at the host to the last at the client.
        assert_eq!(of(&events, "s", "")[0]["pid"], 1);
        assert_eq!(of(&events, "f", "")[0]["pid"], 2);
        let names: Vec<&str> = of(&events, "M", "")
            .iter()
            .map(|e| e["args"]["name"].as_str().unwrap())
            .collect();
        assert!(
            names.contains(&"host") && names.contains(&"client desk (session 1)"),
            "{names:?}"
        );
    }

    #[test]
    fn frames_that_overlap_on_the_link_take_lanes() {
        // 100 ms on the link at 60 frames/s: seven at a time.
        let records: Vec<FrameRecord> = (1..=30)
            .map(|n| {
                let mut record = whole(1, n);
                let here = record.client.first_received_here.as_mut().unwrap();
                here.at = here.at + Duration::from_millis(90);
                record
            })
            .collect();
        let events = trace(&records, "desk");
        let link = of(&events, "X", "FirstSent→FirstReceived");
        assert_eq!(link.len(), 30);
        let lanes: std::collections::HashSet<u64> =
            link.iter().map(|e| e["tid"].as_u64().unwrap()).collect();
        assert_eq!(lanes.len(), 6);
        // Twice as long is too long for the lanes: some are left out, none overlap.
        let late: Vec<FrameRecord> = (1..=30)
            .map(|n| {
                let mut record = whole(1, n);
                let here = record.client.first_received_here.as_mut().unwrap();
                here.at = here.at + Duration::from_millis(300);
                record
            })
            .collect();
        assert!(of(&trace(&late, "desk"), "X", "FirstSent→FirstReceived").len() < 30);
    }

    #[test]
    fn two_subscribers_share_the_hosts_slices() {
        let records: Vec<FrameRecord> = (1..=5).flat_map(|n| [whole(1, n), whole(2, n)]).collect();
        let events = trace(&records, "desk");
        assert_eq!(of(&events, "X", "Converted→Encoded").len(), 5);
        assert_eq!(of(&events, "X", "FirstSent→LastSent").len(), 10);
        assert_eq!(of(&events, "X", "Decoded→Submitted").len(), 10);
    }

    #[test]
    fn drops_are_instants_with_their_cause() {
        let drops = [
            dropped(1, 1, Stage::Converted, DropCause::Superseded),
            dropped(1, 2, Stage::FirstReceived, DropCause::Lost),
        ];
        let events = trace(&drops, "desk");
        let instants = of(&events, "i", "dropped");
        let told: Vec<_> = instants
            .iter()
            .map(|e| {
                (
                    e["name"].as_str().unwrap(),
                    e["args"]["before"].as_str().unwrap(),
                )
            })
            .collect();
        let want = [
            ("dropped: Superseded", "Converted"),
            ("dropped: Lost", "FirstReceived"),
        ];
        assert_eq!(told, want);
    }

    #[test]
    fn bit_rate_and_quantiser_are_counted() {
        let records: Vec<FrameRecord> = (1..=121).map(|n| whole(1, n)).collect();
        let events = trace(&records, "desk");
        let counters = of(&events, "C", "");
        let rates: Vec<f64> = counters
            .iter()
            .filter_map(|e| e["args"]["Mb/s"].as_f64())
            .collect();
        assert!(rates.len() >= 3, "{rates:?}");
        // 20 000 bytes, 60 times a second.
        assert!(
            rates.iter().all(|rate| (rate - 9.6).abs() < 0.01),
            "{rates:?}"
        );
        let qps = counters.iter().filter(|e| e["args"]["qp"].is_number());
        assert_eq!(qps.count(), 1, "only when it changes");
    }

    #[test]
    fn what_a_killed_program_leaves_can_be_read() {
        let paper = Paper::default();
        let mut trace = Trace::new(Box::new(paper.clone())).unwrap();
        assert_eq!(check(&paper.text()).len(), 1);
        for n in 1..=300 {
            trace.frame(&whole(1, n), "a \"b\"\\\u{7}\n").unwrap();
            trace.tick(Instant(i64::from(n) * 16_666_667)).unwrap();
            if n % 50 == 0 {
                check(&paper.text());
            }
        }
        drop(trace);
        assert!(!paper.text().trim_end().ends_with(']'));
        assert!(of(&check(&paper.text()), "X", "Recoverable→Decoded").len() > 200);
    }

    #[test]
    fn hostile_stamps_do_not_break_it() {
        let mut backwards = whole(1, 1);
        backwards.host = Stamps::default();
        backwards.host.stamp(Stage::Captured, ms(50));
        backwards.host.stamp(Stage::Converted, ms(40));
        backwards.host.stamp(Stage::FirstSent, ms(60));
        backwards.host.stamp(Stage::LastSent, ms(60));
        let here = backwards.client.first_received_here.as_mut().unwrap();
        here.at = ms(20);
        let mut far = whole(1, 2);
        far.client.submitted = Some(Duration::MAX);
        far.client.first_received_here.as_mut().unwrap().at = Instant(i64::MAX);
        let mut none = dropped(1, 3, Stage::Captured, DropCause::RateCap);
        none.host = Stamps::default();
        trace(&[backwards, far, none, whole(1, 4)], "desk");
    }
}

mod figures {
    use super::*;

    fn naive(values: &[u64], percent: usize) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        // The smallest value that at least `percent` of the values don't exceed.
        *sorted
            .iter()
            .find(|v| {
                let covered = sorted.iter().filter(|w| w <= v).count();
                covered * 100 >= percent * sorted.len()
            })
            .unwrap()
    }

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let mut seed = 1_u64;
        for count in [1, 2, 3, 19, 20, 99, 100, 101, 1000] {
            let values: Vec<u64> = (0..count)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    1 + (seed >> 33) % 40_000
                })
                .collect();
            let mut spread = Spread::new();
            for value in &values {
                spread.note(ms(0), Duration::from_micros(*value));
            }
            let recent = spread.recent(ms(0)).unwrap();
            let run = spread.run().unwrap();
            let pairs = [
                (50, recent.p50, run.p50),
                (95, recent.p95, run.p95),
                (99, recent.p99, run.p99),
                (100, recent.max, run.max),
            ];
            for (percent, recent, run) in pairs {
                let want = naive(&values, percent);
                assert_eq!(recent, Duration::from_micros(want), "p{percent} of {count}");
                let off = run.as_micros().abs_diff(u128::from(want));
                assert!(
                    off * 1000 <= u128::from(want),
                    "p{percent} of {count}: {run:?} {want}"
                );
            }
        }
    }

    #[test]
    fn the_window_forgets_and_the_run_does_not() {
        let mut spread = Spread::new();
        assert_eq!((spread.recent(ms(0)), spread.run()), (None, None));
        spread.note(ms(0), Duration::from_millis(9));
        spread.note(ms(4000), Duration::from_millis(1));
        assert_eq!(
            spread.recent(ms(5000)).unwrap().max,
            Duration::from_millis(9)
        );
        assert_eq!(
            spread.recent(ms(5001)).unwrap().max,
            Duration::from_millis(1)
        );
        assert_eq!(spread.recent(ms(4001) + WINDOW), None);
        assert_eq!(spread.run().unwrap().p50, Duration::from_millis(1));
        assert!(spread.run().unwrap().max >= Duration::from_millis(9));
        spread.note(ms(0), Duration::MAX);
    }

    fn fill(totals: &mut Totals, table: &mut Table, seconds: i64) {
        for n in 1..=u32::try_from(seconds * 60).unwrap() {
            let now = Instant(1_030 * MS + i64::from(n) * 16_666_667);
            for (session, role, name) in [
                (1, Role::Player, "desk"),
                (2, Role::Observer, "a very long name of a client"),
            ] {
                let record = match n % 20 {
                    7 => dropped(session, n, Stage::Converted, DropCause::Superseded),
                    13 => dropped(session, n, Stage::FirstReceived, DropCause::Lost),
                    _ => whole(session, n),
                };
                totals.count(now, &record, role, name);
                table.note(now, &record);
            }
            table.draw(now, totals).unwrap();
        }
    }

    #[test]
    fn the_table_fits_eighty_columns_and_stays_in_place() {
        let paper = Paper::default();
        let mut table = Table::new(Box::new(paper.clone()), true);
        let mut totals = Totals::default();
        fill(&mut totals, &mut table, 3);
        let shown = paper.take();
        assert_eq!(
            shown.matches("A\r").count(),
            1,
            "the second covers the first"
        );
        assert_eq!(shown.matches("\x1b[J").count(), 1);
        assert_eq!(
            shown.matches("desk (player)").count(),
            2,
            "once a second: {shown}"
        );
        table.finish(&totals).unwrap();
        let last = paper.take();
        let up = last.split("A\r").next().unwrap();
        let drawn_before = up.trim_start_matches("\x1b[").parse::<usize>().unwrap();
        assert_eq!(
            drawn_before,
            shown.rsplit("A\r").next().unwrap().matches('\n').count()
        );
        let plain = last.replace("\x1b[K", "").replace("\x1b[J", "");
        let plain = plain.split_once('\r').unwrap().1;
        for line in plain.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let row = |label: &str| {
            let line = plain.lines().find(|line| line.starts_with(label));
            line.unwrap_or_else(|| panic!("{label} in {plain}"))
                .to_owned()
        };
        let figures = |label: &str| {
            let line = row(label);
            let fields = line[label.len()..].split_whitespace();
            fields.map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            figures("Captured→Converted"),
            "1.00 1.00 1.00 1.00 1.00 1.00 1.00 1.00"
        );
        assert_eq!(
            figures("FirstSent→FirstReceived"),
            "7.00 7.00 7.00 7.00 7.00 7.00 7.00 7.00 ±0.03",
            "one way, with its bound"
        );
        assert_eq!(
            figures("Captured→Submitted"),
            "13.0 13.0 13.0 13.0 13.0 13.0 13.0 13.0 ±0.03"
        );
        assert!(
            row("motion-to-photon ≥").contains("21.5"),
            "a lower bound says so"
        );
        assert!(
            !plain.contains("\nmotion-to-photon  "),
            "nothing exact was measured"
        );
        assert!(!plain.contains("Presented"), "nor was this");
        assert!(plain.contains("54.0 whole frames/s"), "{plain}");
        assert!(
            plain.contains(
                "180 captured = 162 whole + 0 concealed + 0 tainted + 18 dropped (Lost 9,"
            ),
            "{plain}"
        );
        assert!(plain.contains("a very long name (observer)"));
    }

    #[test]
    fn without_a_terminal_there_are_plain_lines() {
        let paper = Paper::default();
        let mut table = Table::new(Box::new(paper.clone()), false);
        let mut totals = Totals::default();
        fill(&mut totals, &mut table, 11);
        let text = paper.take();
        assert!(!text.contains('\x1b'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "two clients, each 5 s: {text}");
        assert!(lines[0].starts_with("desk: 54.0 whole frames/s"), "{text}");
        assert!(
            lines[0].contains("Captured→Submitted p50 13.0 p95 13.0 p99 13.0 max 13.0 ms ±0.03")
        );
        assert!(lines[0].contains("motion-to-photon ≥ p50 21.5"));
        assert!(lines[1].starts_with("a very long name of a client (observer): "));
    }

    #[test]
    fn a_client_shows_what_it_knows() {
        let paper = Paper::default();
        let mut table = Table::new(Box::new(paper.clone()), false);
        let mut totals = Totals::default();
        let mut record = whole(1, 1);
        record.host = Stamps::default();
        record.client.first_received_here = None;
        record.cost = FrameCost::default();
        totals.count(ms(0), &record, Role::Player, "host");
        table.note(ms(0), &record);
        table.finish(&totals).unwrap();
        let text = paper.take();
        assert!(text.contains("FirstReceived→Recoverable"), "{text}");
        assert!(
            !text.contains("Captured→") && !text.contains("Mb/s") && !text.contains('±'),
            "{text}"
        );
    }
}

mod sums {
    use super::*;

    #[test]
    fn each_captured_frame_is_counted_once_for_each_subscriber() {
        let mut totals = Totals::default();
        let concealed = FrameRecord {
            outcome: Outcome::Displayed(Fidelity::Concealed),
            ..whole(1, 3)
        };
        let tainted = FrameRecord {
            outcome: Outcome::Displayed(Fidelity::Tainted),
            ..whole(1, 4)
        };
        let lost = dropped(1, 2, Stage::FirstReceived, DropCause::Lost);
        let late = dropped(1, 5, Stage::Converted, DropCause::Superseded);
        for record in [whole(1, 1), concealed, lost, tainted, late, whole(1, 7)] {
            totals.count(ms(0), &record, Role::Player, "de\x1bsk");
        }
        totals.count(ms(0), &whole(2, 5), Role::Observer, "attic");
        let summary = totals.into_summary();
        assert!(summary.adds_up());
        let [desk, attic] = &summary.subscribers[..] else {
            panic!("{summary}")
        };
        assert_eq!((desk.name.as_str(), attic.name.as_str()), ("desk", "attic"));
        let count = &desk.count;
        assert_eq!(
            (count.captured, count.whole, count.concealed, count.tainted),
            (6, 2, 1, 1)
        );
        assert_eq!(count.all_dropped(), 2);
        assert_eq!(desk.unaccounted(), 1, "frame 6 never ended");
        assert_eq!((attic.count.captured, attic.unaccounted()), (1, 0));
        assert_eq!(
            summary.to_string(),
            "desk (player): 6 captured = 2 whole + 1 concealed + 1 tainted + 2 dropped \
             (Lost 1, Superseded 1)\nattic (observer): 1 captured = 1 whole + 0 concealed + \
             0 tainted + 0 dropped\n"
        );
    }

    #[test]
    fn of_very_many_subscribers_the_silent_are_added_up() {
        let mut totals = Totals::default();
        let many = u32::try_from(MOST).unwrap() + 20;
        for session in 1..=many {
            totals.count(
                ms(i64::from(session)),
                &whole(session, 1),
                Role::Observer,
                "x",
            );
        }
        assert!(totals.of(SessionId(20)).is_none() && totals.of(SessionId(21)).is_some());
        let summary = totals.into_summary();
        assert_eq!(summary.subscribers.len(), MOST);
        assert_eq!((summary.earlier.captured, summary.earlier.whole), (20, 20));
        assert!(summary.adds_up());
    }
}

mod files {
    use super::*;

    #[test]
    fn a_run_leaves_both_files_and_a_summary() {
        let folder = Folder::new("recorder");
        let options = Options {
            csv: Some(folder.0.join("run.csv")),
            trace: Some(folder.0.join("run.json")),
            table: TableMode::Off,
        };
        let mut recorder = Recorder::new(&options).unwrap();
        for n in 1..=120 {
            let now = Instant(i64::from(n) * 16_666_667);
            recorder.record(now, &whole(1, n), Role::Player, "desk");
            recorder.tick(now);
        }
        let summary = recorder.finish();
        assert_eq!(summary.subscribers[0].count.whole, 120);
        let csv = std::fs::read_to_string(options.csv.unwrap()).unwrap();
        assert_eq!(csv.lines().count(), 121);
        let json = std::fs::read_to_string(options.trace.unwrap()).unwrap();
        let events: Vec<Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(
            events
                .iter()
                .filter(|e| e["cat"] == "Decoded→Submitted")
                .count(),
            120
        );
    }

    #[test]
    fn a_file_that_can_not_be_made_is_said_at_once() {
        let options = Options {
            csv: Some("/nonexistent/run.csv".into()),
            trace: None,
            table: TableMode::Off,
        };
        let Err(error) = Recorder::new(&options) else {
            panic!("it was made")
        };
        assert!(format!("{error:#}").starts_with("can't write to /nonexistent/run.csv: "));
    }

    /// Takes a little, and is full then.
    struct FillsUp {
        room: usize,
        full: std::fs::File,
    }

    impl Write for FillsUp {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.room == 0 {
                return self.full.write(bytes);
            }
            let taken = self.room.min(bytes.len());
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// /dev/full is a disk without room (full(4)).
    #[test]
    fn a_full_disk_ends_the_file_and_nothing_else() {
        let folder = Folder::new("full");
        let warnings = Paper::default();
        let for_log = warnings.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || for_log.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let options = Options {
                csv: None,
                trace: Some(folder.0.join("run.json")),
                table: TableMode::Off,
            };
            let mut recorder = Recorder::new(&options).unwrap();
            // Room for the header, as on a disk that fills up later.
            let full = std::fs::OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .unwrap();
            let content = Csv::new(Box::new(FillsUp { room: 1000, full })).unwrap();
            recorder.csv = Some(super::super::File {
                content,
                path: "/dev/full".into(),
            });
            for n in 1..=1200 {
                let now = Instant(i64::from(n) * 16_666_667);
                recorder.record(now, &whole(1, n), Role::Player, "desk");
                recorder.tick(now);
            }
            assert!(recorder.csv.is_none());
            let summary = recorder.finish();
            assert_eq!(summary.subscribers[0].count.captured, 1200);
            let json = std::fs::read_to_string(folder.0.join("run.json")).unwrap();
            assert!(json.ends_with("]\n"));
        });
        let said = warnings.text();
        assert_eq!(
            said.matches("can't write to /dev/full: No space left")
                .count(),
            1,
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
