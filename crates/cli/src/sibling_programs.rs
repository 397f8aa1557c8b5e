//! Sibling programs: `openuvr-bench` (benchmarks and studies) and `openuvr-portal`. This program executes them.
//!
//! Each sibling program handles its own subcommands. `openuvr bench latency` executes `openuvr-bench bench latency` in
//! the same process (execve(2)), so the sibling program receives Ctrl-C, and determines the exit code and the output.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use anyhow::{Context as _, Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

const BENCH: Program = Program {
    file: "openuvr-bench",
    package: "openuvr-studies",
    option: "--bench",
};

const PORTAL: Program = Program {
    file: "openuvr-portal",
    package: "openuvr-portal",
    option: "--portal",
};

/// A sibling program.
struct Program {
    /// The name of its executable.
    file: &'static str,
    /// Its Debian package.
    package: &'static str,
    /// The option of `./dev install` that installs it.
    option: &'static str,
}

/// The subcommands of the sibling programs, each with a description and its program.
const COMMANDS: [(&str, &str, &Program); 3] = [
    (
        "bench",
        "Benchmark streaming on this machine, mostly by reading displayed pixels (program openuvr-bench)",
        &BENCH,
    ),
    (
        "lab",
        "Emulate links, and study Wi-Fi, scheduling, traffic and attacks (program openuvr-bench)",
        &BENCH,
    ),
    (
        "portal",
        "Serve a web portal: users log in, pick an application and play a session of it (program openuvr-portal)",
        &PORTAL,
    ),
];

/// The name of the arguments that are passed to the sibling program.
const WORDS: &str = "words";

/// The subcommands of the sibling programs, for the help of this program.
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
            // The sibling program prints its own help.
            .disable_help_flag(true)
            .arg(words)
    })
}

/// Whether a sibling program has this subcommand.
pub(crate) fn is_command(name: &str) -> bool {
    COMMANDS.iter().any(|(command, ..)| *command == name)
}

/// Executes the sibling program with the subcommand `name` and its arguments.
///
/// # Errors
/// Returns an error if the program is not installed or cannot be started.
pub(crate) fn run(name: &str, matches: &ArgMatches) -> Result<ExitCode> {
    let of = COMMANDS.iter().find(|(command, ..)| *command == name);
    let Program {
        file,
        package,
        option,
    } = of.map_or(&BENCH, |(.., program)| program);
    let program = find(file).ok_or_else(|| {
        anyhow!(
            "`openuvr {name}` requires the program {file}, which is neither next to this program nor on \
             $PATH; \
             install the package {package}, or run `./dev install {option}`"
        )
    })?;
    let words = matches.get_many::<OsString>(WORDS).unwrap_or_default();
    let mut command = process::Command::new(&program);
    command.arg(name).args(words);
    // Returns only on an error.
    let why = command.exec();
    Err(why).with_context(|| format!("can't start {}", program.display()))
}

/// Searches for the program `file` in the folder of this program, where `./dev install` and cargo install it, then on
/// `$PATH`.
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
