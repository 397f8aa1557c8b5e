//! The command line as a whole.

use std::ffi::OsString;

use clap::{ArgAction, Command};
use openuvr_terminal::usage;

use super::command;

fn wrong(words: &[&str]) -> String {
    let words = words.iter().map(OsString::from);
    usage::read(command(), words).unwrap_err().to_string()
}

#[test]
fn usage_errors_have_one_line() {
    let cases = [
        (
            &["openuvr", "host", "--port", "4711"][..],
            "unexpected argument '--port' found; see `openuvr host --help`",
        ),
        (
            &["openuvr", "host", "--bitrat", "5M"],
            "unexpected argument '--bitrat' found; did you mean --bitrate? see `openuvr host --help`",
        ),
        (
            &["openuvr", "run"],
            "the following required arguments were not provided: <GAME>...; see `openuvr run \
             --help`",
        ),
        (
            &["openuvr", "devices", "lits"],
            "unrecognized subcommand 'lits'; did you mean list? see `openuvr devices --help`",
        ),
    ];
    for (words, message) in cases {
        assert_eq!(wrong(words), message);
    }
}

/// Every option of every subcommand, with a value that clap accepts.
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
fn the_last_of_repeated_options_applies() {
    let mut found = Vec::new();
    options(&command(), &["openuvr".to_owned()], &mut found);
    assert!(found.len() > 130, "{}", found.len());
    for words in found {
        if let Err(wrong) = usage::read(command(), words.iter().map(OsString::from)) {
            let wrong = wrong.to_string();
            assert!(!wrong.contains("cannot be used"), "{words:?}: {wrong}");
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
    let matches = usage::read(command(), words.map(OsString::from)).unwrap();
    let (_, host) = matches.subcommand().unwrap();
    let last = |key: &str| host.get_one::<OsString>(key).cloned();
    assert_eq!(last("fps"), Some("60".into()));
    assert_eq!(last("pair"), Some("true".into()));
}
