//! Samples with a known distribution.

use proptest::prelude::*;
use tempfile::NamedTempFile;

use crate::jitter::analysis::{Analysis, Rule, analyse};
use crate::jitter::pauses::{Covered, Kind, Pause};
use crate::jitter::samples::{self, Header, Pattern, Sample, Samples, SamplesError};

fn header(samples: &[Sample]) -> Header {
    Header {
        name: "test".into(),
        pattern: Pattern::Paced,
        capacity: 0,
        begin: 1_000,
        end: samples.iter().map(|sample| sample.received).max(),
        rate_millihertz: 240_000,
        counts: Vec::new(),
    }
}

fn analysed(all: &[Sample], pauses: Option<&[Pause]>) -> Analysis {
    let file = NamedTempFile::new().unwrap().into_temp_path();
    samples::write(&file, &header(all), all).unwrap();
    analyse(&mut Samples::open(&file).unwrap(), pauses).unwrap()
}

/// Samples of one message per millisecond, with these latencies in ns.
fn each_millisecond(latencies: impl Iterator<Item = u64>) -> Vec<Sample> {
    let at = (1..).map(|n| n * 1_000_000);
    let all = at.zip(latencies).map(|(sent, latency)| Sample {
        intended: sent,
        sent,
        received: sent + latency,
    });
    all.collect()
}

fn near(value: f64, wanted: f64) {
    assert!(
        (value / wanted - 1.0).abs() < 0.002,
        "{value}, not {wanted}"
    );
}

#[test]
fn known_quantiles_are_found() {
    // The latencies are the numbers from 1 to 100 000 ns, shuffled.
    let latencies = (0..100_000_u64).map(|n| n * 7_919 % 100_000 + 1);
    let found = analysed(&each_millisecond(latencies), None).sent;
    assert_eq!(found.count, 100_000);
    near(found.median, 50_000.0);
    near(found.mean, 50_000.5);
    near(found.sd, 100_000.0 / 12_f64.sqrt());
    near(found.p99.unwrap(), 99_000.0);
    near(found.p999.unwrap(), 99_900.0);
    near(found.p9999.unwrap(), 99_990.0);
    assert_eq!(found.max, 100_000.0);
    let tenth = found
        .beyond
        .iter()
        .find(|(_, share)| (share - 0.1).abs() < 1e-9);
    near(tenth.unwrap().0, 90_000.0);
}

#[test]
fn a_tail_of_single_samples_is_not_reported() {
    let found = analysed(&each_millisecond((0..1_500).map(|n| n + 1)), None).sent;
    assert!(found.p99.is_some());
    assert_eq!((found.p999, found.p9999), (None, None));
}

#[test]
fn a_stall_of_the_sender_shows_by_the_intended_clock() {
    // The sender sends at 240 Hz for 10 s. Meanwhile, it stalls for 100 ms, and then catches up.
    let period = 1_000_000_000 / 240;
    let stall = 5_000_000_000..5_100_000_000_u64;
    let all: Vec<Sample> = (1..=2_400)
        .map(|n| {
            let intended = n * period;
            let sent = if stall.contains(&intended) {
                stall.end
            } else {
                intended
            };
            Sample {
                intended,
                sent,
                received: sent + 5_000,
            }
        })
        .collect();
    let found = analysed(&all, None);
    assert_eq!(found.sent.max, 5_000.0);
    assert!(found.intended.max > 95e6 && found.intended.max <= 100_005_000.0);
    // Of 2400 messages, 24 waited for 50 ms on average.
    near(found.intended.mean, 5_000.0 + all_waited(&all));
}

fn all_waited(all: &[Sample]) -> f64 {
    let waited: u64 = all.iter().map(|sample| sample.sent - sample.intended).sum();
    waited as f64 / all.len() as f64
}

#[test]
fn both_rules_find_the_outliers_they_define() {
    // Of 10 000 messages, 100 take 100 µs, and one takes 10 ms. The others take 1000 to 1009 ns.
    let latencies = (0..10_000_u64).map(|n| match n {
        0 => 10_000_000,
        n if n % 100 == 50 => 100_000,
        n => 1_000 + n % 10,
    });
    let found = analysed(&each_millisecond(latencies), None);
    let [slides, z] = &found.outliers[..] else {
        panic!("{:?}", found.outliers)
    };
    assert_eq!(
        (slides.rule, z.rule),
        (Rule::MedianAndTwoSd, Rule::ModifiedZ)
    );
    near(slides.above, found.sent.median + 2.0 * found.sent.sd);
    // By the first rule, the longest sample masks the hundred others, because it dominates the standard deviation.
    assert_eq!((slides.count, z.count), (1, 101));
    assert_eq!((slides.at_the_beginning, slides.in_pauses), (1, None));
    assert_eq!(found.scatter.len(), 1);
    // The latency is exact within a cell of the plot, which is a thirtieth of a decade.
    assert!((found.scatter[0].1.log10() - 7.0).abs() < 0.04);
}

#[test]
fn outliers_in_pauses_are_distinguished_from_chance() {
    // There is a pause of 10 ms in each second. Messages sent during a pause wait for its end.
    let pauses: Vec<Pause> = (1..10)
        .map(|second| Pause {
            start: second * 1_000_000_000,
            end: second * 1_000_000_000 + 10_000_000,
            kind: Kind::Young,
        })
        .collect();
    let all: Vec<Sample> = (1..10_000_u64)
        .map(|n| {
            let sent = n * 1_000_000;
            let pause = pauses.iter().find(|p| (p.start..p.end).contains(&sent));
            Sample {
                intended: sent,
                sent,
                received: pause.map_or(sent + 1_000, |pause| pause.end + 1_000),
            }
        })
        .collect();
    let found = analysed(&all, Some(&pauses));
    let outliers = &found.outliers[0];
    assert!(outliers.count >= 72, "{outliers:?}");
    assert_eq!(outliers.in_pauses, Some(1.0));
    // Each outlier is in flight for 1 to 10 ms, and pauses take 10 ms of each second.
    let chance = outliers.by_chance.unwrap();
    assert!((0.012..0.02).contains(&chance), "{chance}");
    assert_eq!((found.pause_count, found.longest_pause), (9, 10e6));
    assert!(found.pauses.iter().all(|shade| !shade.full));
}

#[test]
fn many_tiny_pauses_explain_no_more_than_chance() {
    let pauses: Vec<Pause> = (1..1_000)
        .map(|n| Pause {
            start: n * 10_000_000,
            end: n * 10_000_000 + 20_000,
            kind: Kind::Phase,
        })
        .collect();
    // The outliers take 3 ms. Their times are independent of the pauses.
    let latencies = (0..10_000_u64).map(|n| {
        if n * 7_919 % 101 == 0 {
            3_000_000
        } else {
            1_000
        }
    });
    let found = analysed(&each_millisecond(latencies), Some(&pauses));
    let outliers = &found.outliers[0];
    let (in_pauses, by_chance) = (outliers.in_pauses.unwrap(), outliers.by_chance.unwrap());
    assert!((by_chance - 0.30).abs() < 0.02, "{by_chance}");
    assert!(
        (in_pauses - by_chance).abs() < 0.15,
        "{in_pauses} and {by_chance}"
    );
}

#[test]
fn chance_counts_overlapping_pauses_once() {
    let pause = |start, end| Pause {
        start,
        end,
        kind: Kind::Full,
    };
    let covered = Covered::by(&[pause(100, 300), pause(200, 250), pause(300, 400)]);
    assert_eq!(covered.chance(0, 0, 1_000), 0.3);
    assert_eq!(covered.chance(100, 0, 1_000), 0.4);
    assert_eq!(covered.chance(5_000, 0, 1_000), 0.4);
    assert!(covered.overlaps(50, 100) && covered.overlaps(400, 500) && covered.overlaps(0, 900));
    assert!(!covered.overlaps(0, 99) && !covered.overlaps(401, 500));
}

#[test]
fn decreasing_times_are_counted_separately() {
    let mut all = each_millisecond((0..100).map(|_| 1_000));
    all[7].received = all[7].sent - 1;
    all[9].intended = all[9].sent + 1;
    let found = analysed(&all, None);
    assert_eq!(
        (found.backwards, found.sent.count, found.sent.max),
        (2, 98, 1_000.0)
    );
}

#[test]
fn a_truncated_file_is_read_to_its_end() {
    let file = NamedTempFile::new().unwrap().into_temp_path();
    let all = each_millisecond((0..100).map(|_| 1_000));
    samples::write(&file, &header(&all), &all).unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..4096 + 24 * 60 + 5]).unwrap();
    let found = analyse(&mut Samples::open(&file).unwrap(), None).unwrap();
    assert_eq!((found.sent.count, found.missing), (60, 40));
}

#[test]
fn invalid_sample_files_are_named() {
    let file = NamedTempFile::new().unwrap().into_temp_path();
    let all = each_millisecond((0..3).map(|_| 1_000));
    samples::write(&file, &header(&all), &all).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, says) in [
        (b"GIF89a".to_vec(), "does not start with JITTER01"),
        (whole[..500].to_vec(), "500 bytes"),
        (changed(12, 32), "(4096, 32)"),
        (changed(16, 0), "0 pairs"),
        (changed(18, 1), "65537 pairs"),
        (changed(20, 3), "unknown pattern 3"),
        (changed(31, 255), "impossible"),
        (changed(128, 4), "4 records exceed the capacity of 3"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = Samples::open(&file).unwrap_err();
        assert!(matches!(error, SamplesError::Foreign(..)), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = Samples::open(std::path::Path::new("/nowhere/at/all")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

proptest! {
    #[test]
    fn written_files_are_read(times in prop::collection::vec(any::<[u64; 3]>(), 1..200)) {
        let all: Vec<Sample> = times
            .into_iter()
            .map(|[intended, sent, received]| Sample { intended, sent, received })
            .collect();
        let file = NamedTempFile::new().unwrap().into_temp_path();
        samples::write(&file, &header(&all), &all).unwrap();
        let mut read = Samples::open(&file).unwrap();
        let mut back = Vec::new();
        read.for_each(|sample| back.push(sample)).unwrap();
        prop_assert_eq!(&back, &all);
        prop_assert_eq!(read.header().counts.as_slice(), &[all.len() as u64]);
        prop_assert_eq!(read.header().name.as_str(), "test");
        // The analysis must not overflow for any times.
        analyse(&mut read, None).unwrap();
    }

    #[test]
    fn no_bytes_make_the_reader_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        let file = NamedTempFile::new().unwrap().into_temp_path();
        for forged in [false, true] {
            if forged && bytes.len() >= 16 {
                bytes[..16].copy_from_slice(b"JITTER01\0\x10\0\0\x18\0\0\0");
            }
            std::fs::write(&file, &bytes).unwrap();
            if let Ok(mut samples) = Samples::open(&file) {
                analyse(&mut samples, None).unwrap();
            }
        }
    }
}
