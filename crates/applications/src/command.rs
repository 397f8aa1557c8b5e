//! `openuvr applications`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::scan::{Places, scan};
use crate::{Application, to_toml};

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
    let found = scan(&Places::of_process(), args.all);
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

/// The list with instructions.
fn document(found: &[Application]) -> String {
    let note = "# Use this list in `openuvr host --virtual SIZE --moonlight --applications FILE`, or append it to\n\
                # ~/.config/openuvr/host.toml. Remove, rename and add entries as you like.\n\n";
    match found {
        [] => format!("{note}# No application was found.\n"),
        found => format!("{note}{}", to_toml(found)),
    }
}

/// Writes a new file. It never overwrites one, so that an edited list is not lost.
fn write(path: &Path, text: &str) -> Result<()> {
    if path.exists() {
        bail!("{} exists: choose another file", path.display());
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("can't write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("applications.toml");
        write(&path, "first").unwrap();
        let why = write(&path, "second").unwrap_err().to_string();
        assert!(why.contains("exists: choose another file"), "{why}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
    }
}
