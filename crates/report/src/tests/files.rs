use super::figures::IDLE_TEXT;
use super::*;

#[test]
fn a_run_leaves_both_files_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        csv: Some(folder.path().join("run.csv")),
        trace: Some(folder.path().join("run.json")),
        table: TableMode::Off,
        idle_text: IDLE_TEXT,
    };
    let mut recorder = Recorder::new(&options).unwrap();
    for n in 1..=120 {
        let now = Instant(i64::from(n) * 16_666_667);
        recorder.record(now, &complete_frame(1, n), Role::Player, "desk");
        recorder.tick(now);
    }
    let (summary, failed) = recorder.finish();
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(summary.subscribers[0].count.complete, 120);
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
fn a_file_that_cannot_be_created_is_reported_at_once() {
    let options = Options {
        csv: Some("/dev/null/run.csv".into()),
        trace: None,
        table: TableMode::Off,
        idle_text: IDLE_TEXT,
    };
    let Err(error) = Recorder::new(&options) else {
        panic!("the file was created")
    };
    assert!(format!("{error:#}").starts_with("can't write to /dev/null/run.csv: "));
}

/// A writer that is full after a given number of bytes.
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

/// /dev/full is a disk without space (full(4)).
#[test]
fn a_full_disk_ends_the_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = SharedBuffer::default();
    let for_log = warnings.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || for_log.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        let options = Options {
            csv: None,
            trace: Some(folder.path().join("run.json")),
            table: TableMode::Off,
            idle_text: IDLE_TEXT,
        };
        let mut recorder = Recorder::new(&options).unwrap();
        // The writer has room for the header, as on a disk that fills up later.
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let content = Csv::new(Box::new(FillsUp { room: 1000, full })).unwrap();
        recorder.csv = Some(crate::File {
            content,
            path: "/dev/full".into(),
        });
        for n in 1..=1200 {
            let now = Instant(i64::from(n) * 16_666_667);
            recorder.record(now, &complete_frame(1, n), Role::Player, "desk");
            recorder.tick(now);
        }
        assert!(recorder.csv.is_none());
        let (summary, failed) = recorder.finish();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].starts_with("can't write to /dev/full: "));
        assert_eq!(summary.subscribers[0].count.captured, 1200);
        let json = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
        assert!(json.ends_with("]\n"));
    });
    let log = warnings.text();
    assert_eq!(
        log.matches("can't write to /dev/full: No space left")
            .count(),
        1,
        "{log}"
    );
    assert_eq!(log.lines().count(), 1, "{log}");
}
