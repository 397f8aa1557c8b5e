//! A program that runs a real-time loop on each core. Tests under load run it in the background.
//!
//! ```sh
//! cargo run -p openuvr-runtime --example real_time_loops -- 40 100 10    # 40 ms in each 100 ms, for 10 s
//! ```

#![expect(clippy::print_stderr, reason = "a command-line program")]

#[allow(dead_code, reason = "tests define further patterns")]
#[path = "../tests/support/real_time_loops.rs"]
mod real_time_loops;

use std::process::ExitCode;
use std::time::Duration;

use real_time_loops::{Pattern, RealTimeLoops};

fn main() -> ExitCode {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|n| n.parse()).collect();
    let Ok([spin, period, seconds @ ..]) = numbers.as_deref() else {
        return usage();
    };
    if *spin == 0 || spin >= period || seconds.len() > 1 {
        return usage();
    }
    let pattern = Pattern {
        spin: Duration::from_millis(*spin),
        period: Duration::from_millis(*period),
    };
    let Some(loops) = RealTimeLoops::start(pattern) else {
        return ExitCode::FAILURE;
    };
    match seconds {
        [seconds] => std::thread::sleep(Duration::from_secs(*seconds)),
        // Runs until a signal ends the program.
        _ => loop {
            std::thread::park();
        },
    }
    eprintln!("cores were stopped {} times", loops.stops());
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: real_time_loops SPIN_MS PERIOD_MS [SECONDS], the spin shorter than the period"
    );
    ExitCode::from(2)
}
