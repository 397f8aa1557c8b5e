//! The command line behind `--`: a program to start, and its arguments.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use openuvr_terminal::usage::UsageError;

const WORDS: &str = "words";

/// The positional argument that holds a program and its arguments. The usage line shows it as `name`. The caller
/// specifies where it starts: after `--`, or at the first word that is not an option.
pub(super) fn arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(WORDS)
        .value_name(name)
        .help(help)
        .value_parser(value_parser!(OsString))
        .action(ArgAction::Append)
        .num_args(1..)
        .allow_hyphen_values(true)
}

/// Like [`arg`], but starts at the first word that is not an option. It is required unless settings are only printed or
/// saved.
pub(super) fn required(name: &'static str) -> Arg {
    arg(name, "Program to start, with its arguments")
        .trailing_var_arg(true)
        .required_unless_present_any(["print-config", "save"])
}

/// The value of [`required`]; empty if only settings are printed or saved.
///
/// # Errors
/// Returns an error with a one-line message if the first word is an unknown option, which the parser takes for a word.
pub(super) fn program(matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let words = command_line(matches);
    if let Some(option) = words.first()
        && option.as_encoded_bytes().starts_with(b"-")
    {
        let option = option.to_string_lossy();
        anyhow::bail!(UsageError::new(format!(
            "unexpected argument '{option}' found; --help lists the options"
        )));
    }
    Ok(words)
}

/// The value of the argument; empty if there is none.
pub(super) fn command_line(matches: &ArgMatches) -> Vec<OsString> {
    let words = matches.get_many(WORDS).unwrap_or_default();
    words.cloned().collect()
}
