//! Real logs of each collector.

use std::path::Path;

use crate::jitter::pauses::{self, Kind, Pause};

fn log(name: &str) -> Vec<Pause> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/jitter/tests/logs")
        .join(name);
    pauses::read(&path).unwrap()
}

fn count(pauses: &[Pause]) -> [usize; 3] {
    let of = |kind| pauses.iter().filter(|pause| pause.kind == kind).count();
    [of(Kind::Young), of(Kind::Full), of(Kind::Phase)]
}

#[test]
fn pauses_of_each_collector_are_found() {
    for (name, young_full_phase) in [
        ("cms-11.log", [2, 3, 2]),
        ("g1-11.log", [2, 3, 0]),
        ("parallel-11.log", [2, 3, 0]),
        ("serial-11.log", [2, 3, 0]),
        ("shenandoah-11.log", [0, 2, 6]),
        ("zgc-11.log", [0, 0, 6]),
        ("zgc-25.log", [0, 0, 5]),
    ] {
        let pauses = log(name);
        assert_eq!(count(&pauses), young_full_phase, "{name}");
        assert!(pauses.is_sorted_by_key(|pause| pause.start), "{name}");
        assert!(pauses.iter().all(|pause| pause.end > pause.start), "{name}");
    }
}

#[test]
fn a_pause_ends_when_it_is_logged() {
    // The line is `[7727879488705ns] GC(0) Pause Young (Allocation Failure) … 49.129ms`.
    let first = log("cms-11.log")[0];
    assert_eq!(
        (first.end, first.end - first.start),
        (7_727_879_488_705, 49_129_000)
    );
}

#[test]
fn a_log_without_nanoseconds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gc.log");
    std::fs::write(
        &path,
        "[0.004s] Using G1\n[0.1s] GC(0) Pause Young 3M->1M(9M) 1.0ms\n",
    )
    .unwrap();
    let error = pauses::read(&path).unwrap_err().to_string();
    std::fs::write(&path, "").unwrap();
    let empty = pauses::read(&path).unwrap();
    assert!(
        error.contains("-Xlog:gc*,safepoint:file=NAME:tn"),
        "{error}"
    );
    assert_eq!(empty, []);
}
