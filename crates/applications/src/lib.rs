//! The applications that a host offers to Moonlight's clients: their list in TOML, and `openuvr applications`, which writes
//! a list from the desktop entries and the games on this machine.
//!
//! ```toml
//! [[applications]]
//! name = "Neverball"
//! command = ["neverball"]
//! icon = "/usr/share/icons/hicolor/128x128/apps/neverball.png"
//! ```
#![forbid(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod command;
mod scan;

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::command::{Args, run};
pub use self::scan::{Places, lutris_game, scan, steam_game, steam_libraries};

/// Maximum number of applications in a list, because clients show all of them.
pub const MAX_APPLICATIONS: usize = 256;

/// Maximum length of a name, in characters.
pub const LONGEST_NAME: usize = 64;

/// The maximum number of bytes that are read from a file. Lists and files of launchers have some kilobytes.
const LONGEST_FILE: u64 = 8 << 20;

/// An application.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// The name that is shown to users.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The path of a picture in PNG format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<PathBuf>,
}

/// The list in a file, which may have settings before it.
#[derive(Serialize, Deserialize)]
struct List {
    applications: Vec<Application>,
}

/// Why a list cannot be used. Each message has one line.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The file cannot be read.
    #[error("can't read the applications in {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// The file does not contain a valid list of applications.
    #[error("{0}: {1}")]
    Form(PathBuf, String),
}

/// Reads the list of applications in a settings file, or in a separate file.
///
/// # Errors
/// [`ListError`] if it cannot be used.
pub fn read(path: &Path) -> Result<Vec<Application>, ListError> {
    let text = read_text(path).map_err(|error| ListError::Read(path.to_owned(), error))?;
    parse(&text).map_err(|why| ListError::Form(path.to_owned(), why))
}

/// Parses a list.
///
/// # Errors
/// Returns a one-line reason if it is not a valid list.
pub fn parse(text: &str) -> Result<Vec<Application>, String> {
    let list: List = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            1 + text
                .bytes()
                .take(span.start)
                .filter(|b| *b == b'\n')
                .count()
        });
        format!("line {line}: {}", error.message().replace('\n', ", "))
    })?;
    let all = list.applications;
    let mut names = HashSet::new();
    for application in &all {
        let Application { name, command, .. } = application;
        let length = name.chars().count();
        if !(1..=LONGEST_NAME).contains(&length) || name.chars().any(char::is_control) {
            return Err(format!(
                "the name {name:?} must have 1 to {LONGEST_NAME} characters"
            ));
        }
        if !names.insert(name.as_str()) {
            return Err(format!(
                "two applications have the name {name:?}: rename one"
            ));
        }
        if command.first().is_none_or(String::is_empty) {
            return Err(format!(
                "{name:?} has no command: set a program, such as command = [\"neverball\"]"
            ));
        }
    }
    match all.len() {
        1..=MAX_APPLICATIONS => Ok(all),
        count => Err(format!(
            "{count} applications: the list must have 1 to {MAX_APPLICATIONS}"
        )),
    }
}

/// The list as TOML.
#[must_use]
pub fn to_toml(applications: &[Application]) -> String {
    let list = List {
        applications: applications.to_vec(),
    };
    // Strings and lists of strings can always be written as TOML.
    toml::to_string(&list).unwrap_or_default()
}

/// Reads a text file, up to a length of [`LONGEST_FILE`].
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let mut file = fs::File::open(path)?.take(LONGEST_FILE);
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written() {
        let text = "fit = true\n\n[[applications]]\nname = \"A game\"\ncommand = [\"game\", \"--full screen\"]\n\n\
                    [[applications]]\nname = \"B\"\ncommand = [\"b\"]\nicon = \"/b.png\"\n";
        let list = parse(text).unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].command, ["game", "--full screen"]);
        assert_eq!(list[1].icon.as_deref(), Some(Path::new("/b.png")));
        assert_eq!(parse(&to_toml(&list)), Ok(list));
    }

    #[test]
    fn unusable_lists_are_refused_with_one_line() {
        let one = |fields: &str| format!("[[applications]]\n{fields}\n");
        let twice = one("name = \"a\"\ncommand = [\"a\"]").repeat(2);
        let many: String = (0..=MAX_APPLICATIONS)
            .map(|n| one(&format!("name = \"{n}\"\ncommand = [\"a\"]")))
            .collect();
        for (text, part) in [
            (String::new(), "applications"),
            ("applications = []".to_owned(), "0 applications"),
            (one("name = \"a\""), "command"),
            (one("name = \"a\"\ncommand = []"), "has no command"),
            (one("name = \"a\"\ncommand = [\"\"]"), "has no command"),
            (one("name = \"\"\ncommand = [\"a\"]"), "must have 1 to 64"),
            (
                one("name = \"a\\u0007\"\ncommand = [\"a\"]"),
                "must have 1 to 64",
            ),
            (one("name = \"a\"\ncommand = \"a\""), "line 3"),
            (one("name = \"a\"\ncommand = [\"a\"]\nicons = 1"), "icons"),
            (twice, "two applications"),
            (many, "257 applications"),
        ] {
            let why = parse(&text).unwrap_err();
            assert!(why.contains(part), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }
}
