//! Programs that nobody wrote for this, one after the other, through the screen and the hook: each
//! has to be seen at the client as it is at the host, and to get what the person does there.
//!
//! A tier of its own, for its many packages and minutes: `./dev test-apps [PROGRAM...]`.

#![allow(clippy::print_stdout, reason = "a table for the person who runs it")]

#[path = "../input/hand.rs"]
#[allow(dead_code, reason = "the tests of input do more with it")]
mod hand;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod table;

use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use rig::Trial;
use table::{APPS, App, Door, Kind};

/// What is checked, in this order.
const CHECKS: [&str; 5] = ["starts", "picture", "key", "click", "motion"];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    // The failure of a program is a cell of the table, with its reason.
    static REASON: Mutex<String> = Mutex::new(String::new());
    std::panic::set_hook(Box::new(|panic| {
        let why = panic.payload_as_str().unwrap_or("it panicked");
        let why = why.lines().next().unwrap_or_default();
        *REASON.lock().unwrap_or_else(PoisonError::into_inner) = why.to_owned();
    }));
    println!("| program | package | door | {} |", CHECKS.join(" | "));
    println!("|---|---|---|{}", "---|".repeat(CHECKS.len()));
    let mut failed = 0;
    for app in APPS {
        let program = app.words[0];
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == program) {
            continue;
        }
        for door in app.doors {
            let row = format!("| {program} | {} | {door:?} |", app.package);
            if !is_installed(program) {
                println!("{row} skipped: it is not installed");
                continue;
            }
            let passed = Mutex::new(Vec::new());
            let tried = std::panic::catch_unwind(|| try_it(app, *door, &passed));
            let passed = passed.into_inner().unwrap_or_else(PoisonError::into_inner);
            let mut cells: Vec<String> = passed.to_vec();
            if tried.is_err() {
                failed += 1;
                let why = REASON.lock().unwrap_or_else(PoisonError::into_inner);
                cells.push(format!("FAILED: {why}"));
            }
            cells.resize(CHECKS.len(), "–".to_owned());
            println!("{row} {} |", cells.join(" | "));
        }
    }
    println!("{failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Checks one program through one door; what passed is noted on the way.
fn try_it(app: &App, door: Door, passed: &Mutex<Vec<String>>) {
    let note = |cell: String| {
        let mut passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.push(cell);
    };
    let trial = Trial::start(app, door);
    note(trial.size());
    note(format!("{:.0} dB", trial.picture()));
    trial.key();
    note("yes".to_owned());
    trial.click();
    note("yes".to_owned());
    if app.kind == Kind::Game {
        let trial = trial.grabbed();
        trial.motion();
        note("yes".to_owned());
    }
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .env("PATH", rig::path())
        .output();
    found.is_ok_and(|found| found.status.success())
}
