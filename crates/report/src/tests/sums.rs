use super::*;

#[test]
fn each_captured_frame_is_counted_once_for_each_subscriber() {
    let mut totals = Totals::default();
    let concealed = FrameRecord {
        outcome: Outcome::Displayed(Fidelity::Concealed),
        ..complete_frame(1, 3)
    };
    let tainted = FrameRecord {
        outcome: Outcome::Displayed(Fidelity::Tainted),
        ..complete_frame(1, 4)
    };
    let lost = dropped(1, 2, Stage::FirstReceived, DropCause::Lost);
    let late = dropped(1, 5, Stage::Converted, DropCause::Superseded);
    for record in [
        complete_frame(1, 1),
        concealed,
        lost,
        tainted,
        late,
        complete_frame(1, 7),
    ] {
        totals.count(ms(0), &record, Role::Player, "de\x1bsk");
    }
    totals.count(ms(0), &complete_frame(2, 5), Role::Observer, "attic");
    let summary = totals.into_summary();
    assert!(summary.adds_up());
    let [desk, attic] = &summary.subscribers[..] else {
        panic!("{summary}")
    };
    assert_eq!((desk.name.as_str(), attic.name.as_str()), ("desk", "attic"));
    let count = &desk.count;
    assert_eq!(
        (
            count.captured,
            count.complete,
            count.concealed,
            count.tainted
        ),
        (6, 2, 1, 1)
    );
    assert_eq!(count.all_dropped(), 2);
    assert_eq!(desk.unaccounted(), 1, "frame 6 never ended");
    assert_eq!((attic.count.captured, attic.unaccounted()), (1, 0));
    assert_eq!(
        summary.to_string(),
        "desk (player): 6 captured = 2 complete + 1 concealed + 1 tainted + 2 dropped \
         (Lost 1, Superseded 1)\nattic (observer): 1 captured = 1 complete + 0 concealed + \
         0 tainted + 0 dropped\n"
    );
}

#[test]
fn a_recorder_has_its_rows_like_a_client() {
    let mut totals = Totals::default();
    let mut table = Table::new(true, super::figures::IDLE_TEXT);
    let recorder = SubscriberId::Other(3);
    table.joined(recorder, Role::Observer, "film.mkv");
    for n in 1..=120 {
        let now = Instant(1_030 * MS + i64::from(n) * 16_666_667);
        totals.count(now, &unacknowledged_frame(n), Role::Observer, "film.mkv");
        table.add(now, &unacknowledged_frame(n));
    }
    let missed = FrameRecord {
        subscriber: recorder,
        ..dropped(1, 121, Stage::FirstSent, DropCause::SendBufferFull)
    };
    totals.count(ms(3_100), &missed, Role::Observer, "film.mkv");
    let shown = table.finish(&totals, 80);
    let headlines = "film.mkv (observer)  whole run: 60.0 frames/s sent\nlast 5 s: 60.0 frames/s sent  9.6 Mb/s\n";
    assert!(shown.starts_with(headlines), "{shown}");
    assert!(shown.contains("Encoded→LastSent"), "{shown}");
    let ends = "121 captured = 0 complete + 0 concealed + 0 tainted + 120 sent + 1 dropped";
    assert!(shown.contains(ends), "{shown}");
    assert!(totals.into_summary().adds_up());
}

#[test]
fn records_of_too_many_subscribers_are_added_up() {
    let mut totals = Totals::default();
    let many = u32::try_from(MAX_SUBSCRIBERS).unwrap() + 20;
    for session in 1..=many {
        totals.count(
            ms(i64::from(session)),
            &complete_frame(session, 1),
            Role::Observer,
            "x",
        );
    }
    assert!(totals.of(SessionId(20).into()).is_none() && totals.of(SessionId(21).into()).is_some());
    let summary = totals.into_summary();
    assert_eq!(summary.subscribers.len(), MAX_SUBSCRIBERS);
    assert_eq!(
        (summary.earlier.captured, summary.earlier.complete),
        (20, 20)
    );
    assert!(summary.adds_up());
}
