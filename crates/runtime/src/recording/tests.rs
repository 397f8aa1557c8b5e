use std::fs::read;

use super::*;

#[test]
fn sites_of_one_name_have_files_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = Recording::start(folder.path()).expect("a folder");
    let latencies = recording.scheduling_latencies();
    let (one, two) = (latencies.site("it"), latencies.site("it"));
    one.woke(Instant(1));
    for n in 1..=3 {
        two.woke(Instant(n));
    }
    assert_eq!(recording.finish().expect("written"), 0);
    for (name, count) in [("it", 1_u64), ("it-2", 3)] {
        let bytes = read(folder.path().join(format!("{name}.jitter"))).expect("a file");
        assert_eq!(bytes.len() as u64, 4096 + 24 * count, "{name}");
        assert_eq!(bytes[128..136], count.to_le_bytes());
        assert_eq!(bytes[24..32], count.to_le_bytes());
        assert!(bytes[40..48] != [0; 8], "the end time is set");
    }
}
