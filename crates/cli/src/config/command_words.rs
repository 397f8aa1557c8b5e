//! The words behind `--`: a program that is to be started, and its arguments.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use openuvr_terminal::usage::WrongUsage;

const WORDS: &str = "words";

/// The argument that takes them, `name` in the usage line. Whoever asks says where it may stand.
pub(super) fn arg(name: &'static str, help: &'static str) -> Arg {
    Arg::new(WORDS)
        .value_name(name)
        .help(help)
        .value_parser(value_parser!(OsString))
        .action(ArgAction::Append)
        .num_args(1..)
        .allow_hyphen_values(true)
}

/// The same, which begins with the first word that is no option, and must be there unless settings are only
/// printed or saved.
pub(super) fn required(name: &'static str) -> Arg {
    arg(name, "The program to start, with its arguments")
        .trailing_var_arg(true)
        .required_unless_present_any(["print-config", "save"])
}

/// What was given for [`required`]; empty if only settings are printed or saved.
///
/// # Errors
/// One line: the first is an option that the subcommand doesn't have. The parser takes it for a word.
pub(super) fn program(matches: &ArgMatches) -> anyhow::Result<Vec<OsString>> {
    let words = given(matches);
    if let Some(option) = words.first()
        && option.as_encoded_bytes().starts_with(b"-")
    {
        let option = option.to_string_lossy();
        anyhow::bail!(WrongUsage::new(format!(
            "unexpected argument '{option}' found; --help lists the options"
        )));
    }
    Ok(words)
}

/// What was given; empty without any.
pub(super) fn given(matches: &ArgMatches) -> Vec<OsString> {
    let words = matches.get_many(WORDS).unwrap_or_default();
    words.cloned().collect()
}
