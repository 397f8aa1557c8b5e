//! What is wrong with a command line, in one line; and the texts of `--help` and `--version`.
//!
//! clap finds it; its own words take several lines, and its tips are often far from what was meant.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Error};

use crate::out;

/// As usage errors are told by most programs, and by clap.
pub const WRONG: u8 = 2;

/// Words that clap takes and that are wrong all the same: a value out of its range, settings that contradict
/// each other.
#[derive(Debug)]
pub struct WrongUsage(String);

impl WrongUsage {
    /// In one line: what is wrong, and what would do.
    #[must_use]
    pub fn new(line: impl Into<String>) -> WrongUsage {
        WrongUsage(line.into())
    }
}

impl fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// Refuses words unless `right`, with `line`.
///
/// # Errors
/// [`WrongUsage`].
pub fn check(right: bool, line: impl FnOnce() -> String) -> Result<(), WrongUsage> {
    match right {
        true => Ok(()),
        false => Err(WrongUsage::new(line())),
    }
}

/// The exit code of a program that ends with this error: 2 for [`WrongUsage`], 1 otherwise.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    match error.chain().any(|cause| cause.is::<WrongUsage>()) {
        true => WRONG,
        false => 1,
    }
}

/// Reads the words that this process was started with.
///
/// # Errors
/// The exit code, where all is said: help was asked for, or the words are wrong.
pub fn matches(command: Command) -> Result<ArgMatches, ExitCode> {
    read(command, std::env::args_os()).map_err(|wrong| {
        if !wrong.error.use_stderr() {
            match out::is_terminal() {
                true => print!("{}", wrong.error.render().ansi()),
                false => print!("{}", wrong.error.render()),
            }
            return ExitCode::SUCCESS;
        }
        if wrong.error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            out::answer(format_args!("{}", wrong.error.render()));
        } else {
            out::answer(format_args!("openuvr: {wrong}"));
        }
        ExitCode::from(WRONG)
    })
}

/// Reads these words, of which the first is the program.
///
/// # Errors
/// What is wrong with them, or that help was asked for.
pub fn read(
    command: Command,
    words: impl IntoIterator<Item = OsString>,
) -> Result<ArgMatches, Wrong> {
    let command = lenient(command);
    let Joined { words, renamed } = joined(&command, words.into_iter());
    if let Some(line) = renamed {
        out::answer(format_args!("openuvr: {line}"));
    }
    let role = words.get(1).and_then(|word| word.to_str());
    let role = role.filter(|role| command.find_subcommand(role).is_some());
    let role = role.map(str::to_owned);
    (command.try_get_matches_from(words)).map_err(|error| Wrong { error, role })
}

/// Words that are no command; its text is one line, which says where to look.
#[derive(Debug)]
pub struct Wrong {
    error: Error,
    /// The subcommand, if one is named.
    role: Option<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.error, self.role.as_deref()))
    }
}

/// Of an option given twice the last counts, as users of aliases expect.
fn lenient(command: Command) -> Command {
    (command.args_override_self(true)).mut_subcommands(lenient)
}

/// Words as clap is to read them.
struct Joined {
    words: Vec<OsString>,
    /// What is to be said of one that has another name now.
    renamed: Option<String>,
}

/// How long something lasts was a number of seconds in some commands, and a time in others.
const RENAMED: (&str, &str) = ("seconds", "for");

/// Writes an option and a value below zero as one word: clap would take the value for an option that
/// it does not know. An option that was [`RENAMED`] gets its new name.
fn joined(command: &Command, words: impl Iterator<Item = OsString>) -> Joined {
    let mut command = command;
    let mut renamed = None;
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
        } else if let Some(value) = old_name(command, name, &mut words) {
            let (old, new) = RENAMED;
            let word = format!("--{new}={value}s");
            renamed = Some(format!("--{old} is called --{new} now: {word}"));
            all.push(word.into());
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
    Joined {
        words: all,
        renamed,
    }
}

/// The number that an option has that was [`RENAMED`] in this command.
fn old_name(
    command: &Command,
    name: &str,
    words: &mut impl Iterator<Item = OsString>,
) -> Option<String> {
    let (old, new) = RENAMED;
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

/// Whether a word is a number (or a size, or a time) with a minus.
fn is_below_zero(word: &OsString) -> bool {
    let rest = word.to_str().and_then(|text| text.strip_prefix('-'));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
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
    use clap::{ArgAction, value_parser};

    use super::*;

    /// Options with a value, flags that may have one, and the words of another program.
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
                    .arg(option("for")),
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
            assert_eq!(distance(from, to), count, "{from} {to}");
            assert_eq!(distance(to, from), count, "{to} {from}");
        }
    }

    #[test]
    fn a_value_below_zero_is_no_option() {
        let command = sample();
        for (words, after) in [
            ("openuvr host --fps -5", "openuvr host --fps=-5"),
            ("openuvr host --fps --pair", "openuvr host --fps --pair"),
            ("openuvr client h --for -.5s", "openuvr client h --for=-.5s"),
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
            ("openuvr client h --seconds 5", "openuvr client h --for=5s"),
            ("openuvr client h --seconds=5", "openuvr client h --for=5s"),
            ("openuvr host --seconds 5", "openuvr host --seconds 5"),
        ] {
            let given = words.split(' ').map(OsString::from);
            let joined = joined(&command, given).words.join(OsStr::new(" "));
            assert_eq!(joined, after);
        }
    }

    #[test]
    fn an_old_name_is_told_with_the_new_one() {
        let given = "openuvr client h --seconds 5"
            .split(' ')
            .map(OsString::from);
        let told = joined(&sample(), given).renamed;
        let want = "--seconds is called --for now: --for=5s";
        assert_eq!(told.as_deref(), Some(want));
    }

    #[test]
    fn wrong_usage_has_an_exit_code_of_its_own() {
        let wrong = anyhow::Error::from(check(false, || "--fps 0: at least 1".into()).unwrap_err());
        assert_eq!(exit_code(&wrong.context("bench")), 2);
        assert_eq!(exit_code(&anyhow::anyhow!("no display")), 1);
    }

    #[test]
    fn of_an_option_given_twice_the_last_counts() {
        let given = ["openuvr", "lab", "hop", "--seed", "1", "--seed=2"].map(OsString::from);
        let matches = read(sample(), given).unwrap();
        let (_, lab) = matches.subcommand().unwrap();
        let (_, hop) = lab.subcommand().unwrap();
        assert_eq!(hop.get_one::<u64>("seed"), Some(&2));
    }
}
