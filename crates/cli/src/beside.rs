//! What a stream does not need is in programs of their own, `openuvr-bench` and `openuvr-portal`: here they are
//! found, and take the place of this one.
//!
//! They have the same words: `openuvr bench latency` becomes `openuvr-bench bench latency`, in the same
//! process. So Ctrl-C, the exit code and all that is written are their own.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use anyhow::{Context as _, Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

/// What only measures.
const BENCH: Program = Program {
    file: "openuvr-bench",
    option: "--bench",
};

/// Where people log in and start applications.
const PORTAL: Program = Program {
    file: "openuvr-portal",
    option: "--portal",
};

/// A program beside this one.
struct Program {
    /// Its file.
    file: &'static str,
    /// With this option `./dev install` puts it there.
    option: &'static str,
}

/// Their subcommands, what each is for, and whose it is.
const COMMANDS: [(&str, &str, &Program); 4] = [
    (
        "demo",
        "Stream an application from this machine to this machine, and check the picture",
        &BENCH,
    ),
    (
        "bench",
        "Measure what this program does on this machine, most of it from pixels",
        &BENCH,
    ),
    (
        "lab",
        "The studies: what a link does to a stream, and what time does to host and client",
        &BENCH,
    ),
    (
        "portal",
        "Serve a page where people log in, pick an application and get a session of it",
        &PORTAL,
    ),
];

/// The words that it gets as they are.
const WORDS: &str = "words";

/// Their subcommands, for the help of this program.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    COMMANDS.into_iter().map(|(name, about, _)| {
        let words = Arg::new(WORDS)
            .action(ArgAction::Append)
            .num_args(0..)
            .trailing_var_arg(true)
            .allow_hyphen_values(true)
            .value_parser(value_parser!(OsString));
        Command::new(name)
            .about(about)
            // It has its own.
            .disable_help_flag(true)
            .arg(words)
    })
}

/// Whether one of them has this subcommand.
pub(crate) fn has(name: &str) -> bool {
    COMMANDS.iter().any(|(command, ..)| *command == name)
}

/// Becomes its program, with the subcommand `name` and its words.
///
/// # Errors
/// It is not installed, or can't be started.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> Result<ExitCode> {
    let of = COMMANDS.iter().find(|(command, ..)| *command == name);
    let Program { file, option } = of.map_or(&BENCH, |(.., program)| program);
    let program = find(file).ok_or_else(|| {
        anyhow!(
            "`openuvr {name}` needs the program {file}, which is neither beside this one nor on \
             $PATH; `./dev install {option}` puts it there"
        )
    })?;
    let words = matches.get_many::<OsString>(WORDS).unwrap_or_default();
    let mut command = process::Command::new(&program);
    command.arg(name).args(words);
    // Returns only if it can't be done.
    let why = command.exec();
    Err(why).with_context(|| format!("can't start {}", program.display()))
}

/// Beside this program, as `./dev install` and cargo put it, or else on `$PATH`.
fn find(file: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(|own| own.parent());
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.map(PathBuf::from).into_iter();
    let mut files = folders
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(file));
    files.find(|file| file.is_file())
}
