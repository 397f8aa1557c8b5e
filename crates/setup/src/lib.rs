//! `openuvr setup`: changes a machine's settings for OpenUVR, and reverses these changes.
//!
//! `steps` has one file per step, which compares the system with its goal and plans the missing changes. `changes` has
//! one file per kind of change, with its reversal. A change is written to the record (`record`) before it is made.
#![forbid(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod changes;
mod plan;
mod record;
mod steps;
mod system;
mod target;
#[cfg(test)]
mod tests;
mod work;

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValuesParser;
use openuvr_terminal::{out, shell, signals};

use self::plan::Examined;
use self::record::Record;
use self::steps::{Context, State};
use self::system::{Installed, System};
use self::target::{Target, account};

/// Give OpenUVR the rights and settings that `openuvr doctor` finds missing on this machine
///
/// Prints the commands and files of all missing steps, asks for consent, makes the changes as root,
/// and records them. With --undo, reverses the recorded changes, except settings that were changed
/// again after setup. Without root, prints the steps and changes nothing.
///
/// Steps:
///   scheduling    real-time threads and locked memory
///   uinput        game pads at `openuvr host`
///   buffers       larger buffers of UDP sockets
///   firewall      the host's port in firewalld or ufw
///   raw-ethernet  raw Ethernet (`--link raw`) without root; only with --only raw-ethernet
#[derive(clap::Args, Debug)]
// clap does not wrap this text, so its lines have the width of the help.
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Do only these steps
    #[arg(long, value_name = "STEP", value_delimiter = ',', value_parser = PossibleValuesParser::new(steps::names()))]
    only: Vec<String>,
    /// Account that runs openuvr [default: the account that runs this command, directly or through sudo]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["undo", "restore"])]
    user: Option<String>,
    /// Role of this machine; a client needs neither `uinput` nor `firewall`
    #[arg(long, value_enum, default_value_t)]
    role: Role,
    /// Print the steps; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Make the changes without asking
    #[arg(long, short = 'y')]
    yes: bool,
    /// Reverse the changes of the recorded steps
    #[arg(long)]
    undo: bool,
    /// Repeat the recorded steps that an upgrade of the program has undone. The packages' install scripts use this
    /// option
    #[arg(long, conflicts_with_all = ["undo", "only"])]
    restore: bool,
}

/// The role of a machine.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Role {
    /// Run and stream an application
    Host,
    /// Show a stream
    Client,
    /// Both at once
    #[default]
    Both,
}

/// Runs `openuvr setup`. The exit status is 1 if a step that `--only` names cannot be made on this machine, or if a
/// step has no effect after it was made.
///
/// # Errors
/// Returns an error if a step fails. The changes of the failed step are then reversed as far as possible. The changes
/// of earlier steps stay. One exception is a step that was made only for the failed step: its changes are reversed,
/// too, if no recorded step requires it.
pub fn run(args: &Args) -> Result<ExitCode> {
    let is_root = rustix::process::geteuid().is_root();
    let system = System::new(Path::new("/"), &Installed, is_root);
    let program = std::env::current_exe().context("can't find the path of this program")?;
    let variable = |name: &str| std::env::var(name).ok();
    let mut target = Target {
        user: None,
        program,
        role: args.role,
    };
    // Neither `--undo` nor `--restore` needs the account.
    if !args.undo && !args.restore {
        target.user = account(&system, args.user.as_deref(), variable)?;
    }
    let dialogue = Dialogue {
        ask: &answer_at_terminal,
        // Signals are caught only after the questions, so that Ctrl-C ends the program while it waits for an answer.
        catch_signals: &signals::stop_on_signals,
    };
    perform(&system, args, &target, &dialogue)
}

/// The terminal of the user.
struct Dialogue<'a> {
    /// Returns the user's answer to a question.
    ask: &'a dyn Fn(&str) -> Result<String>,
    /// Starts to catch signals. Returns a flag that a signal sets.
    catch_signals: &'a dyn Fn() -> Result<Arc<AtomicBool>>,
}

impl Dialogue<'_> {
    fn agrees(&self, question: &str) -> Result<bool> {
        let answer = (self.ask)(question)?;
        Ok(matches!(answer.as_str(), "y" | "yes"))
    }
}

/// Runs the command on a system.
fn perform(
    system: &System<'_>,
    args: &Args,
    target: &Target,
    dialogue: &Dialogue<'_>,
) -> Result<ExitCode> {
    if args.undo {
        return undo(system, args, dialogue);
    }
    if args.restore {
        return restore(system, args, target, dialogue);
    }
    let record = Record::read(system)?;
    let context = Context {
        system,
        record: &record,
        target,
    };
    let examined = plan::examine(&context, &args.only);
    print!("{}", plan::text(&examined, target.user.as_deref()));
    let unavailable = examined
        .iter()
        .filter(|one| matches!(one.state, State::Unavailable(_)));
    // If a step that `--only` names cannot be made, the command fails. A default step that cannot be made is skipped.
    let refused = !args.only.is_empty() && unavailable.count() > 0;
    let chosen: Vec<&Examined> = examined.iter().filter(|one| one.plan().is_some()).collect();
    if args.dry_run || chosen.is_empty() {
        return Ok(exit_code(!refused));
    }
    require_root(system, args)?;
    let chosen = select(chosen, args.yes, dialogue)?;
    make(system, &chosen, dialogue)?;
    let record = Record::read(system)?;
    let context = Context {
        record: &record,
        ..context
    };
    Ok(exit_code(verify(&context, &chosen) && !refused))
}

fn exit_code(success: bool) -> ExitCode {
    match success {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// # Errors
/// Without root, returns an error with the command for root.
fn require_root(system: &System<'_>, args: &Args) -> Result<()> {
    if system.is_root {
        return Ok(());
    }
    let program = shell::for_sudo();
    let words = shell::command(std::env::args_os().skip(1));
    let verb = if args.undo { "undone" } else { "changed" };
    bail!("nothing was {verb}, because that needs root: run `sudo {program} {words}`")
}

/// Asks the user which steps to make. Required steps are not offered: they are selected together with the steps that
/// require them.
fn select<'a>(
    all: Vec<&'a Examined>,
    yes: bool,
    dialogue: &Dialogue<'_>,
) -> Result<Vec<&'a Examined>> {
    if yes {
        return Ok(all);
    }
    let answer = match all.len() {
        1 => (dialogue.ask)("Do this step? [y]es or [N]o: ")?,
        _ => (dialogue.ask)("Do these steps? [y]es, [N]o, or [e]ach separately: ")?,
    };
    match answer.as_str() {
        "y" | "yes" => return Ok(all),
        "e" | "each" => {}
        _ => {
            println!("Nothing was changed.");
            return Ok(Vec::new());
        }
    }
    let mut names = Vec::new();
    for examined in &all {
        let step = examined.step;
        let is_chosen = step.choice() != steps::Choice::Implied
            && dialogue.agrees(&format!("{}? [y]es or [N]o: ", step.name()))?;
        if is_chosen {
            names.push(step.name());
            names.extend(step.requires());
        }
    }
    Ok(all
        .into_iter()
        .filter(|one| names.contains(&one.step.name()))
        .collect())
}

fn answer_at_terminal(question: &str) -> Result<String> {
    if !std::io::stdin().is_terminal() {
        bail!(
            "standard input is not a terminal, so nothing was changed: add --yes to do all steps, or --dry-run to print them"
        );
    }
    out::prompt(format_args!("{question}"));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim().to_lowercase())
}

/// Makes the steps in their order, until one fails.
fn make(system: &System<'_>, chosen: &[&Examined], dialogue: &Dialogue<'_>) -> Result<()> {
    if chosen.is_empty() {
        return Ok(());
    }
    let stop = (dialogue.catch_signals)()?;
    let mut record = Record::open(system)?;
    let mut made = Ok(());
    for (i, examined) in chosen.iter().enumerate() {
        let Some(plan) = examined.plan() else {
            continue;
        };
        let name = examined.step.name();
        println!("{name}:");
        made = work::apply(system, &mut record, name, plan, &stop);
        if made.is_err() {
            let rest: Vec<&str> = chosen[i + 1..].iter().map(|one| one.step.name()).collect();
            if !rest.is_empty() {
                println!("not tried: {}", rest.join(", "));
            }
            break;
        }
    }
    // Reverses a required step if the step that requires it has failed.
    let unused: Vec<_> = plan::unused(&record).into_iter().cloned().collect();
    for entry in unused {
        println!("{}:", entry.step);
        work::reverse(system, &mut record, &entry.step, &entry.changes);
    }
    record.close(system);
    made
}

/// Examines the steps again, and reports each step whose changes have no effect. Returns whether all changes have an
/// effect.
fn verify(context: &Context<'_>, made: &[&Examined]) -> bool {
    let mut effective = true;
    for examined in made {
        let name = examined.step.name();
        let why = match examined.step.examine(context) {
            Ok(State::Present(_)) => continue,
            Ok(State::Unavailable(why)) => format!("have no effect: {why}"),
            Ok(State::Needed(_)) => {
                "have no effect: run openuvr doctor to check the system".to_owned()
            }
            Err(why) => format!("their effect is unknown: {why:#}"),
        };
        eprintln!("openuvr setup: {name}: the changes were made, but {why}");
        effective = false;
    }
    let mut notes: Vec<&str> = Vec::new();
    for note in made.iter().filter_map(|one| one.plan()?.note.as_deref()) {
        if !notes.contains(&note) {
            notes.push(note);
            println!("Note: {note}");
        }
    }
    if effective && !made.is_empty() {
        println!("Done. `openuvr setup --undo` undoes the changes.");
    }
    effective
}

fn undo(system: &System<'_>, args: &Args, dialogue: &Dialogue<'_>) -> Result<ExitCode> {
    let record = Record::read(system)?;
    let entries = plan::reversed(&record, &args.only);
    if entries.is_empty() {
        println!(
            "Nothing to undo: no matching step is recorded in {}.",
            record::FILE
        );
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", plan::reversal_text(&entries));
    if args.dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    require_root(system, args)?;
    if !args.yes && !dialogue.agrees("Undo this? [y]es or [N]o: ")? {
        println!("Nothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    let stop = (dialogue.catch_signals)()?;
    // Another process may have changed the record while this process waited for the answer.
    let mut record = Record::open(system)?;
    let entries: Vec<_> = plan::reversed(&record, &args.only)
        .into_iter()
        .cloned()
        .collect();
    let mut complete = true;
    for entry in entries {
        if stop.load(Ordering::Relaxed) {
            bail!(
                "interrupted: the remaining steps were not undone; run the command again to undo them"
            );
        }
        println!("{}:", entry.step);
        complete &= work::reverse(system, &mut record, &entry.step, &entry.changes);
    }
    record.close(system);
    if !complete {
        bail!(
            "some changes were not undone, see above: remove the cause, and run the command again"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Repeats recorded steps that an upgrade of this program has reversed.
fn restore(
    system: &System<'_>,
    args: &Args,
    target: &Target,
    dialogue: &Dialogue<'_>,
) -> Result<ExitCode> {
    let record = Record::read(system)?;
    let context = Context {
        system,
        record: &record,
        target,
    };
    let lost = record.entries().iter().filter(|entry| {
        let step = steps::named(&entry.step).filter(|step| step.is_lost_at_upgrade());
        // Steps that were made for another installation of openuvr are not repeated.
        step.is_some()
            && entry
                .changes
                .iter()
                .any(|change| change.concerns(&target.program))
    });
    let names: Vec<String> = lost.map(|entry| entry.step.clone()).collect();
    if names.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let examined = plan::examine(&context, &names);
    let chosen: Vec<&Examined> = examined.iter().filter(|one| one.plan().is_some()).collect();
    if args.dry_run {
        print!("{}", plan::text(&examined, None));
        return Ok(ExitCode::SUCCESS);
    }
    if !chosen.is_empty() {
        require_root(system, args)?;
    }
    make(system, &chosen, dialogue)?;
    Ok(ExitCode::SUCCESS)
}
