//! The program `openuvr-bench`: benchmarks and studies of OpenUVR.
//!
//! `openuvr bench` and `openuvr lab` execute this program with the same arguments. Most benches observe OpenUVR from
//! outside, with the testbed's instruments: hosts, clients and the scene are processes of `openuvr`, and their pictures
//! are read from displays. Some benches run a part of OpenUVR, such as an encoder, in this process. A stream needs
//! nothing from this crate. For comparison, the crate contains a host with conventional parts (`baseline`).
#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "statistics work in floating point"
)]

// The macros `print!`, `println!` and `eprintln!` of this crate replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod attack;
mod baseline;
mod bench;
mod durations;
mod energy;
mod lab;
mod machine;
mod result_file;
mod soak;

use std::process::ExitCode;

use clap::{Args as _, Command, FromArgMatches as _};
use openuvr_terminal::{out, usage};

fn main() -> ExitCode {
    out::guarded(program)
}

fn program() -> ExitCode {
    let matches = match usage::matches(command()) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let Some((name, words)) = matches.subcommand() else {
        unreachable!("clap asks for one of the subcommands");
    };
    run(name, words).unwrap_or_else(|error| {
        out::unlimited_message(format_args!("openuvr: {error:#}"));
        ExitCode::from(openuvr_cli::exit_code(&error))
    })
}

fn run(name: &str, words: &clap::ArgMatches) -> anyhow::Result<ExitCode> {
    match name {
        name if openuvr_cli::host::is_command(name) => baseline::run(name, words),
        attack::intruder::NAME => {
            attack::intruder::run(&attack::intruder::Args::from_arg_matches(words)?)
        }
        "bench" => bench::run(&bench::Args::from_arg_matches(words)?).map(|()| ExitCode::SUCCESS),
        "lab" => lab::run(&lab::LabArgs::from_arg_matches(words)?),
        _ => unreachable!("clap knows no other subcommand"),
    }
}

fn command() -> Command {
    Command::new("openuvr-bench")
        // The command that users type: `openuvr` executes this program.
        .bin_name("openuvr")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures OpenUVR on this machine; started by openuvr bench and lab")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(baseline::commands())
        .subcommand(attack::intruder::Args::augment_args(Command::new(
            attack::intruder::NAME,
        )))
        .subcommand(bench::Args::augment_args(Command::new("bench")))
        .subcommand(lab::LabArgs::augment_args(Command::new("lab")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of an argument and of its possible values.
    fn help(arg: &clap::Arg) -> String {
        let values = arg.get_possible_values();
        let values = values.iter().filter_map(|value| value.get_help());
        let own = [arg.get_help(), arg.get_long_help()].into_iter().flatten();
        let all: Vec<String> = own.chain(values).map(ToString::to_string).collect();
        all.join(" ")
    }

    /// The same rule as for the settings of the other programs (`crates/cli/src/config/tests.rs`).
    #[test]
    fn help_mentions_no_options_of_other_subcommands() {
        fn check(command: &Command) {
            let has = |name: &str| {
                let mut all = command.get_arguments();
                name == "help" || all.any(|arg| arg.get_long() == Some(name))
            };
            for arg in command.get_arguments() {
                for rest in help(arg).split("--").skip(1) {
                    let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
                    let option = &rest[..end.unwrap_or(rest.len())];
                    let place = format!("{}, {}", command.get_name(), arg.get_id());
                    assert!(
                        option.is_empty() || has(option),
                        "{place}: mentions --{option}"
                    );
                }
            }
            command.get_subcommands().for_each(check);
        }
        let command = command();
        for group in ["bench", "lab"] {
            check(command.find_subcommand(group).expect("a group"));
        }
    }
}
