//! `openuvr applications`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::scan::{Places, scan};
use crate::{Application, MAX_APPLICATIONS, to_toml};

/// List the applications of this machine for `openuvr host --moonlight`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Search for games and print them as TOML, for --applications or the settings file of the host
    ///
    /// Finds desktop entries of the category Game, and games of Steam, Lutris and Heroic, without starting anything. Edit
    /// the result: it is a proposal.
    Scan(ScanArgs),
}

#[derive(clap::Args, Debug)]
struct ScanArgs {
    /// All desktop entries, not only games
    #[arg(long)]
    all: bool,
    /// File to write, which must not exist [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Executes the command and prints the result.
///
/// # Errors
/// Returns a one-line error if the file exists or cannot be written.
pub fn run(args: Args) -> Result<()> {
    let Command::Scan(args) = args.command;
    let mut found = scan(&Places::of_process(), args.all);
    if let Some(warning) = shorten(&mut found) {
        eprintln!("openuvr applications: {warning}");
    }
    let text = document(&found);
    match &args.out {
        None => print!("{text}"),
        Some(path) => {
            write(path, &text)?;
            eprintln!("{} applications in {}", found.len(), path.display());
        }
    }
    Ok(())
}

/// Shortens the list to [`MAX_APPLICATIONS`]. Returns a warning if applications are left out.
fn shorten(found: &mut Vec<Application>) -> Option<String> {
    let count = found.len();
    found.truncate(MAX_APPLICATIONS);
    let left_out = count - found.len();
    (left_out > 0).then(|| {
        format!(
            "{count} applications found, but a list has at most {MAX_APPLICATIONS}: the last {left_out} in \
             alphabetical order are left out; to offer one of these, replace another entry"
        )
    })
}

/// The list with instructions.
fn document(found: &[Application]) -> String {
    let note = "# Use this list in `openuvr host --virtual SIZE --moonlight --applications FILE`, or append it to\n\
                # ~/.config/openuvr/host.toml. Remove, rename and add entries as you like.\n\n";
    match found {
        [] => format!("{note}# No application was found.\n"),
        found => format!("{note}{}", to_toml(found)),
    }
}

/// Writes a new file. Never overwrites an existing file, so that an edited list is not lost.
fn write(path: &Path, text: &str) -> Result<()> {
    if path.exists() {
        bail!("{} exists: choose another file", path.display());
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| fill(&mut file, path, text));
    written.with_context(|| format!("can't write {}", path.display()))
}

/// Writes the text into the new file. If that fails, as on a full disk, removes the file, so that the command can be
/// repeated.
fn fill(file: &mut dyn Write, path: &Path, text: &str) -> io::Result<()> {
    let written = file.write_all(text.as_bytes());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_is_shortened_with_a_warning() {
        let numbered = |number: usize| Application {
            name: number.to_string(),
            command: vec!["a".to_owned()],
            icon: None,
        };
        let mut fits: Vec<Application> = (0..MAX_APPLICATIONS).map(numbered).collect();
        assert_eq!(shorten(&mut fits), None);
        let mut many: Vec<Application> = (0..MAX_APPLICATIONS + 3).map(numbered).collect();
        let warning = shorten(&mut many).unwrap();
        assert!(
            warning.contains("the last 3 in alphabetical order"),
            "{warning}"
        );
        assert_eq!(many, fits);
    }

    #[test]
    fn an_existing_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applications.toml");
        write(&path, "first").unwrap();
        let why = write(&path, "second").unwrap_err().to_string();
        assert!(why.contains("exists: choose another file"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
    }

    #[test]
    fn an_incomplete_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applications.toml");
        fs::write(&path, "").unwrap();
        // This file has space for three bytes.
        let mut space = [0_u8; 3];
        assert!(fill(&mut &mut space[..], &path, "[[applications]]").is_err());
        assert!(!path.exists());
    }
}
