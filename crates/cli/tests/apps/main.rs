//! Third-party programs, one after the other, through screen capture and through the hook. The client must show each
//! program as the host does, and the client's input must arrive.
//!
//! This is a separate tier, because it needs many packages and much time: `./dev test-apps [PROGRAM...]`.

#![allow(clippy::print_stdout, reason = "a table for the user of the tier")]

mod pictures;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod table;
mod watch;
#[path = "../input/xtest.rs"]
#[allow(dead_code, reason = "the tests of input use more of it")]
mod xtest;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use rig::Trial;
use table::{APPS, App, CaptureMethod, Check, Kind};

/// The reason for the most recent failed check, for the table.
static REASON: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    let selected: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = (selected.iter()).find(|word| APPS.iter().all(|app| app.name() != *word))
    {
        let names: Vec<&str> = APPS.iter().map(App::name).collect();
        println!("'{unknown}' is none of the programs: {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    std::panic::set_hook(Box::new(|panic| {
        let why = panic.payload_as_str().unwrap_or("it panicked");
        let why = why.lines().next().unwrap_or_default();
        *REASON.lock().unwrap_or_else(PoisonError::into_inner) = why.to_owned();
    }));
    let names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
    println!("| program | package | method | {} |", names.join(" | "));
    println!("|---|---|---|{}", "---|".repeat(names.len()));
    let mut failed = 0;
    for app in APPS {
        if !selected.is_empty() && !selected.iter().any(|name| name == app.name()) {
            continue;
        }
        for method in app.methods {
            let row = format!("| {} | {} | {} |", app.name(), app.package, method.name());
            if !is_installed(app.args[0]) {
                println!("{row} skipped: it is not installed");
                continue;
            }
            let (cells, bad) = try_it(app, *method);
            failed += bad;
            println!("{row} {} |", cells.join(" | "));
        }
    }
    println!(
        "{failed} failed; the pictures are in {}",
        pictures::folder().display()
    );
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Checks a program with one capture method. Returns a table cell per check, and the number of unexpected results.
fn try_it(app: &App, method: CaptureMethod) -> (Vec<String>, u32) {
    let mut trial = None;
    let mut failed = 0;
    let cell = |check: &Check| {
        if !applies(app, *check) || (trial.is_none() && *check != Check::Starts) {
            return "–".to_owned();
        }
        let name = format!("{}-{}-{}", app.name(), method.name(), check.name());
        let outcome = catch_unwind(AssertUnwindSafe(|| match check {
            Check::Starts => {
                let started = trial.insert(Trial::start(app, method));
                started.size()
            }
            check => {
                let opened = format!("{name}-open");
                run(*check, trial.as_mut().expect("a trial"), app, &opened)
            }
        }));
        let outcome = outcome.map_err(|_| {
            let reason = REASON.lock().unwrap_or_else(PoisonError::into_inner);
            reason.clone()
        });
        if let Some(trial) = &trial {
            // The result is ignored: saving fails if the display has already ended.
            let _ = catch_unwind(AssertUnwindSafe(|| trial.save(&name)));
        }
        let known = app
            .known
            .iter()
            .find(|k| k.method == method && k.check == *check);
        match (outcome, known) {
            (Ok(cell), None) => cell,
            (Ok(_), Some(known)) => {
                failed += 1;
                format!("FAILED: it works despite its known failure: {}", known.why)
            }
            (Err(_), Some(known)) => format!("no: {}", known.why),
            (Err(why), None) => {
                failed += 1;
                format!("FAILED: {why}")
            }
        }
    };
    let cells = Check::ALL.iter().map(cell).collect();
    (cells, failed)
}

fn applies(app: &App, check: Check) -> bool {
    match check {
        Check::Menu => app.menu.is_some(),
        Check::Dialog => app.dialog.is_some(),
        Check::Motion => app.kind == Kind::Game,
        _ => true,
    }
}

/// Runs a check; returns a short result.
fn run(check: Check, trial: &mut Trial, app: &App, opened: &str) -> String {
    match check {
        Check::Starts => unreachable!("it has started"),
        Check::Picture => return format!("{:.0} dB", trial.picture()),
        Check::Key => trial.key(),
        Check::Click => trial.click(),
        Check::Pointer => return trial.pointer().to_owned(),
        Check::Menu | Check::Dialog => {
            let opens = if check == Check::Menu {
                app.menu
            } else {
                app.dialog
            };
            return format!(
                "{:.0} dB",
                trial.opens(opens.expect("a menu or dialog"), opened)
            );
        }
        Check::Motion => {
            trial.grab();
            trial.motion();
        }
    }
    "yes".to_owned()
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .env("PATH", rig::path())
        .output();
    found.is_ok_and(|found| found.status.success())
}
