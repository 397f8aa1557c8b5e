use openuvr_proto::ecn::EcnCounts;

use super::*;

fn rows(records: &[FrameRecord]) -> Vec<HashMap<String, String>> {
    let buffer = SharedBuffer::default();
    let mut csv = Csv::new(Box::new(buffer.clone())).unwrap();
    for record in records {
        csv.row(record, Some(RenditionId(2))).unwrap();
    }
    csv.finish().unwrap();
    let text = buffer.text();
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
    let rows = rows(&[FrameRecord {
        missing: 3,
        runs: 2,
        repaired: 1,
        resent: 4,
        ecn: Some(EcnCounts {
            not_ect: 1,
            ect1: 9,
            ect0: 2,
            ce: 5,
        }),
        ..complete_frame(7, 1)
    }]);
    let row = |name: &str| rows[0][name].as_str();
    assert_eq!(
        (row("subscriber"), row("frame"), row("outcome")),
        ("7", "1", "complete")
    );
    assert_eq!((row("stage"), row("cause")), ("", ""));
    assert_eq!(row("Captured_ns"), "1016666667");
    assert_eq!(row("LastSent_ns"), "1021666667");
    assert_eq!(row("FirstReceived_ns"), "3601026666667");
    assert_eq!(row("Submitted_ns"), "3601029666667");
    for unmeasured in [
        "Presented_ns",
        "InputSampled_ns",
        "InputReceived_ns",
        "RenderBegun_ns",
    ] {
        assert_eq!(row(unmeasured), "", "{unmeasured}");
    }
    let cost = ["key_frame", "qp", "datagrams", "fec_datagrams", "bytes"].map(row);
    assert_eq!(cost, ["1", "23", "16", "2", "20000"]);
    assert_eq!(row("FirstReceived_host_clock_ns"), "1026666667");
    assert_eq!(row("clock_error_bound_ns"), "30000");
    assert_eq!(
        (row("motion_to_photon_ns"), row("input_echo")),
        ("21500000", "injected")
    );
    let losses = [
        "fragments_lost",
        "loss_runs",
        "fec_recovered",
        "retransmitted",
    ]
    .map(row);
    assert_eq!(losses, ["3", "2", "1", "4"]);
    let ecn = ["ecn_not_ect", "ecn_ect1", "ecn_ect0", "ecn_ce"].map(row);
    assert_eq!(ecn, ["1", "9", "2", "5"]);
    assert_eq!((row("rendition"), row("repeats")), ("2", "0"));
}

#[test]
fn a_repetition_is_marked_in_its_row() {
    let dropped = dropped(7, 4, Stage::Converted, DropCause::Superseded);
    let rows = rows(&[complete_frame(7, 2), complete_frame(7, 3), dropped]);
    let repeats = rows.iter().map(|row| row["repeats"].as_str());
    assert_eq!(repeats.collect::<Vec<_>>(), ["0", "1", ""]);
}

#[test]
fn a_frame_for_a_recorder_is_sent_unacknowledged() {
    let rows = rows(&[unacknowledged_frame(2)]);
    let row = |name: &str| rows[0][name].as_str();
    let ended = ["subscriber", "frame", "outcome", "stage", "cause"].map(row);
    assert_eq!(ended, ["other-3", "2", "sent_unacknowledged", "", ""]);
    let cost = ["qp", "datagrams", "bytes", "FirstReceived_ns"].map(row);
    assert_eq!(cost, ["23", "0", "20000", ""]);
}

#[test]
fn a_dropped_frame_has_its_stage_and_cause() {
    let rows = rows(&[dropped(7, 2, Stage::Converted, DropCause::Superseded)]);
    let row = |name: &str| rows[0][name].as_str();
    assert_eq!(
        (row("outcome"), row("stage"), row("cause")),
        ("dropped", "Converted", "Superseded")
    );
    assert_ne!(row("Captured_ns"), "");
    for unmeasured in [
        "Converted_ns",
        "FirstReceived_ns",
        "clock_error_bound_ns",
        "qp",
        "bytes",
        "motion_to_photon_ns",
    ] {
        assert_eq!(
            row(unmeasured),
            "",
            "{unmeasured}: a missing measurement is never zero"
        );
    }
    assert_eq!(row("input_echo"), "none");
}

#[test]
fn the_header_names_all_stages_in_order() {
    let buffer = SharedBuffer::default();
    drop(Csv::new(Box::new(buffer.clone())).unwrap());
    let stages: Vec<String> = (Stage::ALL.iter())
        .map(|stage| format!("{}_ns", stage.name()))
        .collect();
    assert!(
        buffer
            .text()
            .starts_with("subscriber,frame,outcome,stage,cause,InputSampled_ns,")
    );
    assert!(buffer.text().contains(&stages.join(",")));
    assert_eq!(buffer.text().lines().count(), 1);
}

#[test]
fn rows_reach_the_disk_within_a_second() {
    let buffer = SharedBuffer::default();
    let mut csv = Csv::new(Box::new(buffer.clone())).unwrap();
    csv.tick(ms(0)).unwrap();
    csv.row(&complete_frame(1, 1), None).unwrap();
    csv.tick(ms(999)).unwrap();
    assert_eq!(buffer.text().lines().count(), 1);
    csv.tick(ms(1000)).unwrap();
    assert_eq!(buffer.text().lines().count(), 2);
}
