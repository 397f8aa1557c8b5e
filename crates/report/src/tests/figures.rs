use super::*;
use crate::table::{Drawing, IdleText};
use openuvr_proto::control::transport_probe::TransportKind;
use openuvr_proto::control_event::{ControlEvent, RateChange};
use openuvr_proto::ecn::EcnCounts;
use openuvr_proto::units::Bitrate;
use openuvr_terminal::out::TerminalSize;

pub(super) const IDLE_TEXT: IdleText = IdleText {
    yet: "no client yet",
    now: "no client now",
};

const ROOM: TerminalSize = TerminalSize {
    columns: 80,
    rows: 60,
};

fn naive(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    // The smallest value for which at least `percent` % of all values are less than or equal to it.
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
            spread.add(ms(0), Duration::from_micros(*value));
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
    spread.add(ms(0), Duration::from_millis(9));
    spread.add(ms(4000), Duration::from_millis(1));
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
    spread.add(ms(0), Duration::MAX);
}

/// Fills `totals` and `table` with frames. Returns the table's output.
fn fill(totals: &mut Totals, table: &mut Table, seconds: i64) -> Vec<Drawing> {
    let mut shown = Vec::new();
    for n in 1..=u32::try_from(seconds * 60).unwrap() {
        let now = Instant(1_030 * MS + i64::from(n) * 16_666_667);
        for (session, role, name) in [
            (1, Role::Player, "desk"),
            (2, Role::Observer, "a very long name of a client"),
        ] {
            let record = match n % 20 {
                7 => dropped(session, n, Stage::Converted, DropCause::Superseded),
                13 => dropped(session, n, Stage::FirstReceived, DropCause::Lost),
                _ => complete_frame(session, n),
            };
            totals.count(now, &record, role, name);
            table.joined(SessionId(session).into(), role, name);
            table.add(now, &record);
        }
        shown.extend(table.draw(now, totals, ROOM));
    }
    shown
}

fn rows_of(drawing: Option<&Drawing>) -> Vec<String> {
    match drawing {
        Some(Drawing::Rows(rows)) => rows.clone(),
        _ => panic!("no rows"),
    }
}

fn lines_of(drawings: &[Drawing]) -> String {
    let text = drawings.iter().map(|drawing| match drawing {
        Drawing::Rows(_) => panic!("rows"),
        Drawing::Lines(text) => text.as_str(),
    });
    text.collect()
}

#[test]
fn the_table_fits_eighty_columns_once_a_second() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    let shown = fill(&mut totals, &mut table, 3);
    assert_eq!(shown.len(), 2, "once a second");
    let rows = rows_of(shown.last());
    assert!(
        rows[0].starts_with("desk (player)  54.0 complete"),
        "{rows:?}"
    );
    let plain = table.finish(&totals, ROOM.columns);
    for line in plain.lines().chain(rows.iter().map(String::as_str)) {
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
        "a lower bound is marked"
    );
    assert!(
        !plain.contains("\nmotion-to-photon  "),
        "nothing exact was measured"
    );
    assert!(!plain.contains("Presented"), "nor was this");
    assert!(
        !plain.contains("Recoverable→Submitted"),
        "its two steps have rows"
    );
    assert!(plain.contains("54.0 complete frames/s"), "{plain}");
    assert!(
        plain.contains(
            "180 captured = 162 complete + 0 concealed + 0 tainted + 18 dropped (Lost 9,"
        ),
        "{plain}"
    );
    assert!(plain.contains("a very long name (observer)"));
}

#[test]
fn without_decoded_there_is_one_row_to_submitted() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    for n in 1..=60 {
        let now = Instant(1_030 * MS + i64::from(n) * 16_666_667);
        let mut record = complete_frame(1, n);
        record.client.decoded = None;
        totals.count(now, &record, Role::Player, "Chromium");
        table.add(now, &record);
    }
    let shown = table.finish(&totals, 80);
    let row = |label: &str| shown.lines().find(|line| line.starts_with(label));
    let bridge = row("Recoverable→Submitted").expect("the row");
    assert!(bridge.contains("2.00"), "{bridge}");
    assert!(!shown.contains("Decoded"), "{shown}");
}

#[test]
fn a_stage_that_always_overlaps_has_a_word() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    for n in 1..=120 {
        let mut record = complete_frame(1, n);
        let first = record.host.at(Stage::FirstSent).unwrap();
        // Every slice was sent before the encoder returned.
        record.host.clear(Stage::LastSent);
        record.host.stamp(Stage::LastSent, first);
        let now = Instant(1_030 * MS + i64::from(n) * 16_666_667);
        totals.count(now, &record, Role::Player, "desk");
        table.add(now, &record);
    }
    let shown = table.finish(&totals, 80);
    let row = shown.lines().find(|line| line.contains("Encoded→LastSent"));
    let words = Vec::from_iter(row.unwrap().split_whitespace());
    assert_eq!(words, ["Encoded→LastSent", "overlapping", "overlapping"]);
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
}

#[test]
fn the_table_shows_the_share_of_marks_after_the_loss() {
    let shown = |ecn: Option<EcnCounts>| {
        let mut table = Table::new(true, IDLE_TEXT);
        let mut totals = Totals::default();
        for n in 1..=60 {
            let now = Instant(1_030 * MS + i64::from(n) * 16_666_667);
            let mut record = complete_frame(1, n);
            record.ecn = ecn;
            totals.count(now, &record, Role::Player, "desk");
            table.add(now, &record);
        }
        table.finish(&totals, 200)
    };
    let marked = EcnCounts {
        ect1: 14,
        ce: 2,
        ..EcnCounts::default()
    };
    let text = shown(Some(marked));
    assert!(text.contains("loss 0.00 %  L4S, CE 12.5 %"), "{text}");
    let bleached = EcnCounts {
        not_ect: 16,
        ..EcnCounts::default()
    };
    for without in [Some(bleached), None] {
        let text = shown(without);
        assert!(!text.contains("L4S"), "{text}");
    }
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let mut table = Table::new(false, IDLE_TEXT);
    let mut totals = Totals::default();
    let text = lines_of(&fill(&mut totals, &mut table, 11));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "two clients, each 5 s: {text}");
    assert!(
        lines[0].starts_with("desk: 54.0 complete frames/s"),
        "{text}"
    );
    assert!(lines[0].contains("Captured→Submitted p50 13.0 p95 13.0 p99 13.0 max 13.0 ms ±0.03"));
    assert!(lines[0].contains("motion-to-photon ≥ p50 21.5"));
    assert!(lines[1].starts_with("a very long name of a client (observer): "));

    let mut totals = Totals::default();
    let mut table = Table::new(false, IDLE_TEXT);
    table.link(complete_frame(1, 1).subscriber, TransportKind::Raw);
    let text = lines_of(&fill(&mut totals, &mut table, 6));
    assert!(text.contains(" %  raw; "), "a line: {text}");
    let text = table.finish(&totals, ROOM.columns);
    assert!(text.contains("\nover raw, in ms  "), "the table: {text}");
}

#[test]
fn a_still_picture_keeps_its_subscribers_in_the_table() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    let mut at = 0;
    let mut look = |table: &mut Table, totals: &Totals, room| {
        at += 20_000;
        let drawing = table.draw(ms(at), totals, room);
        (ms(at), rows_of(drawing.as_ref()))
    };
    assert!(table.draw(ms(0), &totals, ROOM).is_none());
    assert_eq!(look(&mut table, &totals, ROOM).1, ["no client yet"]);
    table.joined(SessionId(1).into(), Role::Player, "desk");
    let (now, rows) = look(&mut table, &totals, ROOM);
    assert_eq!(rows, ["desk (player)  no picture yet"]);
    totals.count(now, &complete_frame(1, 1), Role::Player, "desk");
    table.add(now, &complete_frame(1, 1));
    table.joined(SessionId(2).into(), Role::Observer, "attic");
    let rows = look(&mut table, &totals, ROOM).1;
    let still = "desk (player)  no new picture for 20 s";
    assert_eq!(rows, [still, "attic (observer)  no picture yet"]);
    table.left(SessionId(1).into());
    table.left(SessionId(2).into());
    assert_eq!(look(&mut table, &totals, ROOM).1, ["no client now"]);
}

#[test]
fn a_rate_of_zero_has_no_sign() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    table.joined(SessionId(1).into(), Role::Player, "desk");
    // The only frame starts the first interval, and so does not count.
    totals.count(ms(0), &complete_frame(1, 1), Role::Player, "desk");
    table.add(ms(0), &complete_frame(1, 1));
    let rows = rows_of(table.draw(ms(1000), &totals, ROOM).as_ref());
    assert_eq!(rows[0], "desk (player)  0.0 complete frames/s");
}

#[test]
fn a_small_terminal_has_room_for_messages() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    fill(&mut totals, &mut table, 3);
    for rows in 0..40 {
        let room = TerminalSize { columns: 40, rows };
        let at = ms(100_000 + i64::try_from(rows).unwrap() * 1000);
        let shown = rows_of(table.draw(at, &totals, room).as_ref());
        assert!(shown.len() <= rows.saturating_sub(2), "{rows}: {shown:?}");
    }
}

#[test]
fn a_client_shows_what_it_knows() {
    let mut table = Table::new(false, IDLE_TEXT);
    let mut totals = Totals::default();
    let mut record = complete_frame(1, 1);
    record.host = Stamps::default();
    record.client.first_received_here = None;
    record.cost = FrameCost::default();
    totals.count(ms(0), &record, Role::Player, "host");
    table.add(ms(0), &record);
    let text = table.finish(&totals, ROOM.columns);
    assert!(text.contains("FirstReceived→Recoverable"), "{text}");
    assert!(text.contains("\nFirstReceived→Submitted"), "{text}");
    record.frame = FrameId(2);
    totals.count(ms(3_000), &record, Role::Player, "host");
    table.add(ms(3_000), &record);
    let drawn: Vec<_> = table.draw(ms(6_000), &totals, ROOM).into_iter().collect();
    let line = lines_of(&drawn);
    assert!(line.contains("; FirstReceived→Submitted p50"), "{line}");
    assert!(!line.contains('±'), "one clock: {line}");
    assert!(
        !text.contains("Captured→") && !text.contains("Mb/s") && !text.contains('±'),
        "{text}"
    );
}

#[test]
fn the_last_control_event_is_shown_with_its_cause() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    let mut at = 1_000;
    let mut last = |table: &mut Table, totals: &Totals| {
        at += 1_000;
        rows_of(table.draw(ms(at), totals, ROOM).as_ref()).pop()
    };
    table.joined(SessionId(1).into(), Role::Player, "desk");
    totals.count(ms(0), &complete_frame(1, 1), Role::Player, "desk");
    table.add(ms(0), &complete_frame(1, 1));
    let row = last(&mut table, &totals).unwrap();
    assert!(!row.contains("decision"), "no control event yet: {row}");
    let by = Duration::from_millis(63);
    let to = Bitrate::from_mbps(8);
    for (of, change, words) in [
        (
            None,
            RateChange::Stall { by },
            "last control event: rate unchanged: frames arrived 63 ms late in a burst after a stall",
        ),
        (
            Some(RenditionId(2)),
            RateChange::Reverted { to },
            "last control event: rendition 2: rate back to 8.0 Mb/s: the capacity was underestimated",
        ),
    ] {
        table.decision(of, &ControlEvent::Rate(change));
        assert_eq!(last(&mut table, &totals).as_deref(), Some(words));
    }
    // The table also shows the event for a subscriber with a still picture, but not without subscribers.
    at += 20_000;
    let rows = rows_of(table.draw(ms(at), &totals, ROOM).as_ref());
    assert!(rows[0].contains("no new picture for"), "{rows:?}");
    assert!(rows[1].starts_with("last control event: "), "{rows:?}");
    table.left(SessionId(1).into());
    let rows = rows_of(table.draw(ms(at + 1_000), &totals, ROOM).as_ref());
    assert_eq!(rows, ["no client now"]);
}

#[test]
fn ages_from_the_hosts_clock_stand_with_their_bound() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    let span = |ms| Some(Duration::from_millis(ms));
    let aged = FrameRecord {
        age: DisplayLatency {
            imu_to_display: span(24),
            predict_to_display: span(22),
            render_to_display: span(17),
            bound: Some(Duration::from_micros(250)),
        },
        ..complete_frame(1, 1)
    };
    // A record without an age does not affect the bound.
    for record in [aged, complete_frame(1, 2)] {
        totals.count(ms(0), &record, Role::Player, "head");
        table.add(ms(0), &record);
    }
    let text = table.finish(&totals, ROOM.columns);
    let figures = |label: &str| {
        let line = text.lines().find(|line| line.starts_with(label));
        let line = line.unwrap_or_else(|| panic!("{label} in {text}"));
        let fields = line[label.len()..].split_whitespace();
        fields.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let all = |figure: &str| [figure; 8].join(" ");
    // Both ends of this span are on the client's clock.
    assert_eq!(figures("imu_to_display"), all("24.0"));
    assert_eq!(
        figures("predict_to_display"),
        format!("{} ±0.25", all("22.0"))
    );
    assert_eq!(
        figures("render_to_display"),
        format!("{} ±0.25", all("17.0"))
    );
}

#[test]
fn percentiles_of_few_values_stand_with_their_number() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    for frame in 1..=100 {
        let label = match frame {
            ..100 => format!("\nmotion-to-photon ≥ ({frame}) "),
            _ => "\nmotion-to-photon ≥  ".to_owned(),
        };
        let record = complete_frame(1, frame);
        totals.count(ms(0), &record, Role::Player, "desk");
        table.add(ms(0), &record);
        let text = table.finish(&totals, 80);
        assert!(text.contains(&label), "{label:?} in {text}");
    }
}

#[test]
fn a_client_that_left_early_keeps_its_rates() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    for (client, name, start) in [(1, "desk", 0), (2, "attic", 60_000)] {
        for frame in 0..=60 {
            let record = complete_frame(client, frame + 1);
            let at = ms(start + i64::from(frame) * 20);
            totals.count(at, &record, Role::Player, name);
            table.add(at, &record);
        }
    }
    let text = table.finish(&totals, 80);
    for name in ["desk", "attic"] {
        let headline =
            format!("{name} (player)  whole run: 50.0 complete frames/s\nlast 5 s: 50.0 ");
        assert!(text.contains(&headline), "{text}");
    }
}

#[test]
fn a_still_picture_at_the_end_does_not_hide_the_rate() {
    let mut table = Table::new(true, IDLE_TEXT);
    let mut totals = Totals::default();
    let mut frame_at = |frame: u32, at: i64| {
        let record = complete_frame(1, frame);
        totals.count(ms(at), &record, Role::Player, "desk");
        table.add(ms(at), &record);
    };
    for frame in 0..=500 {
        frame_at(frame, i64::from(frame) * 20);
    }
    // One refresh of the unchanged picture.
    frame_at(501, 50_000);
    let text = table.finish(&totals, 80);
    let headline =
        "desk (player)  whole run: 10.0 complete frames/s\nlast 5 s: 0.2 complete frames/s";
    assert!(text.starts_with(headline), "{text}");
}
