//! Measurements that a stall of the machine has spoiled are repeated.

mod stalls;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use stalls::{measured_without_stalls, repeated_after_stalls};

const LIMIT: Duration = Duration::from_millis(30);
const STALL: Duration = Duration::from_millis(31);

/// Runs measurements with these results. Returns the number of measurements, and the result or the failure's message.
fn run(results: &[(Result<u32, &str>, Duration)]) -> (usize, Result<u32, String>) {
    let mut count = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        repeated_after_stalls(3, LIMIT, || {
            let (result, stall) = results[count];
            count += 1;
            (result.map_err(str::to_owned), stall)
        })
    }));
    let message = |panic: Box<dyn std::any::Any + Send>| {
        let message = panic.downcast::<String>();
        *message.expect("a formatted message")
    };
    (count, outcome.map_err(message))
}

#[test]
fn a_success_counts_despite_a_stall() {
    assert_eq!(run(&[(Ok(7), STALL)]), (1, Ok(7)));
}

#[test]
fn a_failure_without_a_stall_is_final() {
    let (count, outcome) = run(&[(Err("two of three frames"), LIMIT), (Ok(7), LIMIT)]);
    assert_eq!(count, 1);
    let message = outcome.expect_err("it fails");
    assert!(message.starts_with("two of three frames;"), "{message}");
}

#[test]
fn a_failure_with_a_stall_is_repeated() {
    let results = [(Err("late"), STALL), (Err("late"), STALL), (Ok(7), STALL)];
    assert_eq!(run(&results), (3, Ok(7)));
}

#[test]
fn the_last_failure_names_all_stalls() {
    let results = [
        (Err("one"), STALL),
        (Err("two"), 2 * STALL),
        (Err("three"), 3 * STALL),
    ];
    let (count, outcome) = run(&results);
    assert_eq!(count, 3);
    let message = outcome.expect_err("it fails");
    for part in [
        "all 3 measurements",
        "30ms",
        "31ms: one",
        "62ms: two",
        "93ms: three",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_measurement_is_watched() {
    assert_eq!(measured_without_stalls(1, LIMIT, || Ok::<_, String>(7)), 7);
}
