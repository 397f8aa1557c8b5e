//! What is wrong with a command line, in one line; and the texts of `--help` and `--version`.
//!
//! clap finds it; its own words take several lines, and its tips are often far from what was meant.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Error};

use crate::out;

/// As usage errors are told by most programs, and by clap.
const WRONG: u8 = 2;

/// Reads the words that this process was started with.
///
/// # Errors
/// The exit code, where all is said: help was asked for, or the words are wrong.
pub(crate) fn matches(command: Command) -> Result<ArgMatches, ExitCode> {
    let command = lenient(command);
    let words = joined(&command, std::env::args_os());
    let names: Vec<String> = (command.get_subcommands())
        .map(|known| known.get_name().to_owned())
        .collect();
    command.try_get_matches_from(&words).map_err(|error| {
        if !error.use_stderr() {
            match out::is_terminal() {
                true => print!("{}", error.render().ansi()),
                false => print!("{}", error.render()),
            }
            return ExitCode::SUCCESS;
        }
        let role = words.get(1).and_then(|word| word.to_str());
        let role = role.filter(|role| names.iter().any(|name| name == role));
        explain(&error, role);
        ExitCode::from(WRONG)
    })
}

/// Of an option given twice the last counts, as users of aliases expect.
fn lenient(command: Command) -> Command {
    (command.args_override_self(true)).mut_subcommands(lenient)
}

/// Writes an option and a value below zero as one word: clap would take the value for an option that
/// it does not know.
fn joined(command: &Command, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut command = command;
    let mut words = words.peekable();
    // The program.
    let mut all: Vec<OsString> = words.next().into_iter().collect();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let name = text.strip_prefix("--").unwrap_or_default();
        let mut known = command.get_arguments();
        let mut ends = command.get_positionals();
        let taken = known
            .find(|arg| arg.get_long() == Some(name) && arg.get_action().takes_values())
            .filter(|arg| !arg.is_require_equals_set());
        if let Some(below) = command.find_subcommand(text) {
            command = below;
            all.push(word);
        } else if taken.is_some() {
            match words.next_if(is_below_zero) {
                Some(value) => all.push([word, value].join(OsStr::new("="))),
                None => all.extend([Some(word), words.next()].into_iter().flatten()),
            }
        } else {
            let is_game = !text.starts_with('-') && ends.any(Arg::is_trailing_var_arg_set);
            let is_end = text == "--" || is_game;
            all.push(word);
            // What follows is the words of another program.
            if is_end {
                break;
            }
        }
    }
    all.extend(words);
    all
}

/// Whether a word is a number (or a size, or a time) with a minus.
fn is_below_zero(word: &OsString) -> bool {
    let rest = word.to_str().and_then(|text| text.strip_prefix('-'));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

fn explain(error: &Error, role: Option<&str>) {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        out::answer(format_args!("{}", error.render()));
    } else {
        out::answer(format_args!("openuvr: {}", line(error, role)));
    }
}

/// What is wrong, in one line, and where to look.
fn line(error: &Error, role: Option<&str>) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let what = words.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let help = match role {
        Some(role) => format!("`openuvr {role} --help`"),
        None => "`openuvr --help`".to_owned(),
    };
    match near(error) {
        Some(meant) => format!("{what}; is {meant} meant? {help} names all"),
        None => format!("{what}; {help} names all"),
    }
}

/// The option or subcommand that may have been meant: clap's, if a third of its letters at most are
/// others.
fn near(error: &Error) -> Option<String> {
    let given = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    let given = given.iter().find_map(|kind| error.get(*kind))?;
    let meant = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    let meant = meant.iter().find_map(|kind| error.get(*kind))?;
    let text = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    };
    let (given, meant) = (text(given)?, text(meant)?);
    let bare = |text: &str| text.trim_start_matches('-').to_owned();
    let (from, to) = (bare(&given), bare(&meant));
    (3 * distance(&from, &to) <= from.chars().count()).then_some(meant)
}

/// How many letters have to be put in, taken out or changed, or two neighbours exchanged (F. J. Damerau,
/// 1964, in the form of the optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut costs = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            costs[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let changed = costs[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                    let best = changed.min(costs[i - 1][j] + 1).min(costs[i][j - 1] + 1);
                    let exchanged =
                        i > 1 && j > 1 && (from[i - 1], from[i - 2]) == (to[j - 2], to[j - 1]);
                    match exchanged {
                        true => best.min(costs[i - 2][j - 2] + 1),
                        false => best,
                    }
                }
            };
        }
    }
    costs[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use clap::ArgAction;

    use super::*;

    fn wrong(words: &[&str]) -> String {
        let command = lenient(crate::command());
        let given = joined(&command, words.iter().map(OsString::from));
        let error = command.try_get_matches_from(given).unwrap_err();
        line(&error, words.get(1).copied())
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let cases = [
            (
                &["openuvr", "host", "--port", "4711"][..],
                "unexpected argument '--port' found; `openuvr host --help` names all",
            ),
            (
                &["openuvr", "host", "--bitrat", "5M"],
                "unexpected argument '--bitrat' found; is --bitrate meant? `openuvr host --help` \
                 names all",
            ),
            (
                &["openuvr", "run"],
                "the following required arguments were not provided: <GAME>...; `openuvr run \
                 --help` names all",
            ),
            (
                &["openuvr", "demo", "--seconds", "-5"],
                "invalid value '-5' for '--seconds <SECONDS>': -5 is not in 0..=4294967295; \
                 `openuvr demo --help` names all",
            ),
            (
                &["openuvr", "devices", "lits"],
                "unrecognized subcommand 'lits'; is list meant? `openuvr devices --help` names all",
            ),
        ];
        for (words, said) in cases {
            assert_eq!(wrong(words), said);
        }
    }

    #[test]
    fn a_value_below_zero_is_no_option() {
        let command = lenient(crate::command());
        for (words, after) in [
            ("openuvr host --fps -5", "openuvr host --fps=-5"),
            ("openuvr host --fps --pair", "openuvr host --fps --pair"),
            ("openuvr client h --for -.5s", "openuvr client h --for=-.5s"),
            ("openuvr host --pair -5", "openuvr host --pair -5"),
            ("openuvr demo --seconds -5", "openuvr demo --seconds=-5"),
            (
                "openuvr run --fps -5 -- g --fps -5",
                "openuvr run --fps=-5 -- g --fps -5",
            ),
            (
                "openuvr run --fps 9 g --fps -5",
                "openuvr run --fps 9 g --fps -5",
            ),
            ("openuvr lab hop --seed -1", "openuvr lab hop --seed=-1"),
        ] {
            let given = words.split(' ').map(OsString::from);
            let joined = joined(&command, given).join(OsStr::new(" "));
            assert_eq!(joined, after);
        }
    }

    #[test]
    fn letters_that_differ_are_counted() {
        for (from, to, count) in [
            ("", "", 0),
            ("for", "port", 2),
            ("fps", "fsp", 1),
            ("bitrat", "bitrate", 1),
            ("abc", "", 3),
        ] {
            assert_eq!(distance(from, to), count, "{from} {to}");
            assert_eq!(distance(to, from), count, "{to} {from}");
        }
    }

    /// Every option of every subcommand, with a value that clap takes.
    fn options(command: &Command, path: &[String], found: &mut Vec<Vec<String>>) {
        for arg in command.get_arguments() {
            let Some(long) = arg.get_long() else { continue };
            let set = matches!(arg.get_action(), ArgAction::Set | ArgAction::SetTrue);
            if !set || ["help", "version"].contains(&long) {
                continue;
            }
            let word = if arg.get_action().takes_values() {
                let possible = arg.get_possible_values();
                let default = arg.get_default_values().first();
                let default = default.map(|value| value.to_string_lossy().into_owned());
                let value = possible.first().map(|value| value.get_name().to_owned());
                format!("--{long}={}", value.or(default).unwrap_or("1".to_owned()))
            } else {
                format!("--{long}")
            };
            found.push([path, &[word.clone(), word]].concat());
        }
        for sub in command.get_subcommands() {
            let path = [path, &[sub.get_name().to_owned()]].concat();
            options(sub, &path, found);
        }
    }

    #[test]
    fn of_an_option_given_twice_the_last_counts() {
        let mut found = Vec::new();
        options(&crate::command(), &["openuvr".to_owned()], &mut found);
        assert!(found.len() > 150, "{}", found.len());
        for words in found {
            let command = lenient(crate::command());
            if let Err(error) = command.try_get_matches_from(&words) {
                assert_ne!(
                    error.kind(),
                    ErrorKind::ArgumentConflict,
                    "{words:?}: {error}"
                );
            }
        }
        let words = [
            "openuvr",
            "host",
            "--fps",
            "30",
            "--pair=false",
            "--fps=60",
            "--pair",
        ];
        let matches = lenient(crate::command()).try_get_matches_from(words);
        let matches = matches.unwrap();
        let (_, host) = matches.subcommand().unwrap();
        let last = |key: &str| host.get_one::<OsString>(key).cloned();
        assert_eq!(last("fps"), Some("60".into()));
        assert_eq!(last("pair"), Some("true".into()));
    }
}
