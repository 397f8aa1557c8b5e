//! Command-line parsing: one-line usage errors, and the texts of `--help` and `--version`.
//!
//! clap's own messages take several lines, and its suggestions are often far-fetched.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Error};

use crate::manual;
use crate::out;

/// The exit code for usage errors, as in clap and most programs.
pub const EXIT_CODE: u8 = 2;

/// Arguments that clap accepts but that are invalid, such as a value out of range or contradictory options.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// `line` names the error and a valid value.
    #[must_use]
    pub fn new(line: impl Into<String>) -> UsageError {
        UsageError(line.into())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Returns an error with the text `line` if `right` is false.
///
/// # Errors
/// [`UsageError`] with `line` if `right` is false.
pub fn check(right: bool, line: impl FnOnce() -> String) -> Result<(), UsageError> {
    match right {
        true => Ok(()),
        false => Err(UsageError::new(line())),
    }
}

/// The exit code of a program that ends with this error: 2 for [`UsageError`], 1 otherwise.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    match error.chain().any(|cause| cause.is::<UsageError>()) {
        true => EXIT_CODE,
        false => 1,
    }
}

/// Parses the arguments of this process.
///
/// # Errors
/// Prints the help or the usage error, or writes the manual, and returns the exit code.
pub fn matches(command: Command) -> Result<ArgMatches, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let [_, name, folder] = &*words
        && name == manual::NAME
    {
        let folder = Path::new(folder);
        return Err(written(folder, manual::write(command, folder)));
    }
    read(command, words).map_err(|wrong| {
        if !wrong.error.use_stderr() {
            match out::is_terminal() {
                true => print!("{}", wrong.error.render().ansi()),
                false => print!("{}", wrong.error.render()),
            }
            return ExitCode::SUCCESS;
        }
        if wrong.error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            out::unlimited_message(format_args!("{}", wrong.error.render()));
        } else {
            out::unlimited_message(format_args!("openuvr: {wrong}"));
        }
        ExitCode::from(EXIT_CODE)
    })
}

/// Reports an error of [`manual::write`], and returns the exit code.
fn written(folder: &Path, result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let folder = folder.display();
            out::unlimited_message(format_args!(
                "openuvr: can't write the manual to {folder}: {error}; use another folder"
            ));
            ExitCode::FAILURE
        }
    }
}

/// Parses `words`, the first of which is the program name.
///
/// # Errors
/// Returns a usage error, or a request for help.
pub fn read(
    command: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, ParseError> {
    let command = last_option_wins(command);
    let NormalizedArgs { words, renamed } = normalize(&command, words.into_iter());
    if let Some(line) = renamed {
        out::unlimited_message(format_args!("openuvr: {line}"));
    }
    let role = words.get(1).and_then(|word| word.to_str());
    let role = role.filter(|role| command.find_subcommand(role).is_some());
    let role = role.map(str::to_owned);
    (command.try_get_matches_from(words)).map_err(|error| ParseError { error, role })
}

/// An invalid command line. Its text is one line, with the help command to run.
#[derive(Debug)]
pub struct ParseError {
    error: Error,
    /// The subcommand, if any.
    role: Option<String>,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_line(&self.error, self.role.as_deref()))
    }
}

/// The last of repeated options wins, as users of shell aliases expect.
fn last_option_wins(command: Command) -> Command {
    (command.args_override_self(true)).mut_subcommands(last_option_wins)
}

/// Arguments in the form that clap parses.
struct NormalizedArgs {
    words: Vec<OsString>,
    /// A notice about an option that was renamed.
    renamed: Option<String>,
}

/// Options and configuration keys that were renamed before the first release: old and new name. The error message for
/// an old name contains the new name.
const RENAMED_OPTIONS: [(&str, &str); 16] = [
    ("door", "capture"),
    ("each-its-own", "encoder-per-client"),
    ("for", "duration"),
    ("handoffs", "scheduling-trace"),
    ("head", "head-pose"),
    ("key-frame-every", "key-frame-interval"),
    ("keys", "key-mapping"),
    ("pair-for", "pairing-timeout"),
    ("pixels", "chroma"),
    ("rate-mode", "rate-control"),
    ("refresh-every", "refresh-interval"),
    ("reproject-with", "reproject-backend"),
    ("top-up", "static-refinement"),
    ("web-address", "public-address"),
    ("web-ice", "ice-servers"),
    ("web-ice-file", "ice-servers-file"),
];

/// The new name of an option or configuration key that was renamed.
#[must_use]
pub fn renamed(name: &str) -> Option<&'static str> {
    RENAMED_OPTIONS
        .iter()
        .find_map(|(old, new)| (*old == name).then_some(*new))
}

/// Old and new name of an option. The old name is still accepted. With the old name, the value is a number of seconds.
/// With the new name, it has a unit.
const RENAMED_OPTION: (&str, &str) = ("seconds", "duration");

/// Joins an option and its negative value with `=`, because clap would mistake the value for an unknown option. Also
/// replaces the old name in [`RENAMED_OPTION`] with the new one.
fn normalize(command: &Command, words: impl Iterator<Item = OsString>) -> NormalizedArgs {
    let mut command = command;
    let mut renamed = None;
    let mut words = words.peekable();
    // The first word is the name of the program.
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
        } else if let Some(value) = renamed_option_value(command, name, &mut words) {
            let (old, new) = RENAMED_OPTION;
            let word = format!("--{new}={value}s");
            renamed = Some(format!("--{old} was renamed to --{new}: {word}"));
            all.push(word.into());
        } else if taken.is_some() {
            match words.next_if(is_negative_number) {
                Some(value) => all.push([word, value].join(OsStr::new("="))),
                None => all.extend([Some(word), words.next()].into_iter().flatten()),
            }
        } else {
            let is_game = !text.starts_with('-') && ends.any(Arg::is_trailing_var_arg_set);
            let is_end = text == "--" || is_game;
            all.push(word);
            // The arguments of another program follow.
            if is_end {
                break;
            }
        }
    }
    all.extend(words);
    NormalizedArgs {
        words: all,
        renamed,
    }
}

/// The value given to the old name of [`RENAMED_OPTION`], if this command has only the new name.
fn renamed_option_value(
    command: &Command,
    name: &str,
    words: &mut impl Iterator<Item = OsString>,
) -> Option<String> {
    let (old, new) = RENAMED_OPTION;
    let has = |name| {
        command
            .get_arguments()
            .any(|arg| arg.get_long() == Some(name))
    };
    if has(old) || !has(new) {
        return None;
    }
    match name.strip_prefix(old)?.strip_prefix('=') {
        Some(value) => Some(value.to_owned()),
        None if name == old => Some(words.next()?.to_string_lossy().into_owned()),
        None => None,
    }
}

/// Whether a word is a negative number, size or duration.
fn is_negative_number(word: &OsString) -> bool {
    let rest = word.to_str().and_then(|text| text.strip_prefix('-'));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// The error in one line, with a suggestion and the help command.
fn error_line(error: &Error, role: Option<&str>) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let what = words.join(" ");
    let what = what.strip_prefix("error: ").unwrap_or(&what);
    let help = match role {
        Some(role) => format!("`openuvr {role} --help`"),
        None => "`openuvr --help`".to_owned(),
    };
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
        && let Some(new) = given.strip_prefix("--").and_then(renamed)
    {
        return format!("{given} was renamed to --{new}; see {help}");
    }
    match suggestion(error) {
        Some(meant) => format!("{what}; did you mean {meant}? see {help}"),
        None => format!("{what}; see {help}"),
    }
}

/// The similar option or subcommand that clap suggests, if at most a third of the letters differ.
fn suggestion(error: &Error) -> Option<String> {
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
    (3 * edit_distance(&from, &to) <= from.chars().count()).then_some(meant)
}

/// The Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and
/// transpositions of adjacent letters.
fn edit_distance(from: &str, to: &str) -> usize {
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
    use clap::{ArgAction, value_parser};

    use super::*;

    /// Options with a value, flags with an optional value, and trailing arguments of another program.
    fn sample() -> Command {
        let option = |name: &'static str| Arg::new(name).long(name).action(ArgAction::Set);
        let flag = option("pair")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true");
        let words = Arg::new("game").trailing_var_arg(true).num_args(1..);
        let hop = Command::new("hop").arg(option("seed").value_parser(value_parser!(u64)));
        Command::new("openuvr")
            .subcommand(Command::new("host").arg(option("fps")).arg(flag))
            .subcommand(
                Command::new("client")
                    .arg(Arg::new("host"))
                    .arg(option("duration")),
            )
            .subcommand(Command::new("run").arg(option("fps")).arg(words))
            .subcommand(Command::new("lab").subcommand(hop))
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
            assert_eq!(edit_distance(from, to), count, "{from} {to}");
            assert_eq!(edit_distance(to, from), count, "{to} {from}");
        }
    }

    #[test]
    fn a_value_below_zero_is_no_option() {
        let command = sample();
        for (words, after) in [
            ("openuvr host --fps -5", "openuvr host --fps=-5"),
            ("openuvr host --fps --pair", "openuvr host --fps --pair"),
            (
                "openuvr client h --duration -.5s",
                "openuvr client h --duration=-.5s",
            ),
            ("openuvr host --pair -5", "openuvr host --pair -5"),
            (
                "openuvr run --fps -5 -- g --fps -5",
                "openuvr run --fps=-5 -- g --fps -5",
            ),
            (
                "openuvr run --fps 9 g --fps -5",
                "openuvr run --fps 9 g --fps -5",
            ),
            ("openuvr lab hop --seed -1", "openuvr lab hop --seed=-1"),
            (
                "openuvr client h --seconds 5",
                "openuvr client h --duration=5s",
            ),
            (
                "openuvr client h --seconds=5",
                "openuvr client h --duration=5s",
            ),
            ("openuvr host --seconds 5", "openuvr host --seconds 5"),
        ] {
            let given = words.split(' ').map(OsString::from);
            let args = normalize(&command, given).words.join(OsStr::new(" "));
            assert_eq!(args, after);
        }
    }

    #[test]
    fn a_renamed_option_is_reported_with_its_new_name() {
        let given = "openuvr client h --seconds 5"
            .split(' ')
            .map(OsString::from);
        let renamed = normalize(&sample(), given).renamed;
        let want = "--seconds was renamed to --duration: --duration=5s";
        assert_eq!(renamed.as_deref(), Some(want));
    }

    #[test]
    fn wrong_usage_has_an_exit_code_of_its_own() {
        let wrong = anyhow::Error::from(check(false, || "--fps 0: at least 1".into()).unwrap_err());
        assert_eq!(exit_code(&wrong.context("bench")), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("no display")), 1);
    }

    #[test]
    fn the_last_of_repeated_options_wins() {
        let given = ["openuvr", "lab", "hop", "--seed", "1", "--seed=2"].map(OsString::from);
        let matches = read(sample(), given).unwrap();
        let (_, lab) = matches.subcommand().unwrap();
        let (_, hop) = lab.subcommand().unwrap();
        assert_eq!(hop.get_one::<u64>("seed"), Some(&2));
    }

    #[test]
    fn a_renamed_option_is_refused_with_its_new_name() {
        for (old, new) in RENAMED_OPTIONS {
            let words = ["openuvr", &format!("--{old}=5")].map(OsString::from);
            let error = sample().try_get_matches_from(words).unwrap_err();
            let line = error_line(&error, None);
            let want = format!("--{old} was renamed to --{new}; see `openuvr --help`");
            assert_eq!(line, want);
        }
    }
}
