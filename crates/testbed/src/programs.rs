//! The programs that measurements start: the calling program itself, and `openuvr`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

/// A command that runs a subcommand of the calling program.
pub fn own(command: &str) -> Result<Command> {
    let program = std::env::current_exe().context("can't find the path of this executable")?;
    let mut own = Command::new(program);
    own.arg(command);
    Ok(own)
}

/// A command that runs a subcommand of `openuvr`.
pub fn openuvr(command: &str) -> Result<Command> {
    let mut openuvr = Command::new(program()?);
    openuvr.arg(command);
    Ok(openuvr)
}

/// The path of the program `openuvr`, next to this program or otherwise on `$PATH`.
///
/// # Errors
/// Returns an error if the program is in neither place.
pub fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("can't find the path of this executable")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = own.parent().map(PathBuf::from).into_iter();
    let mut files = beside
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("openuvr"));
    files.find(|file| file.is_file()).with_context(|| {
        format!(
            "the program openuvr is neither next to {} nor on $PATH: build it with `cargo build \
             --release`",
            own.display()
        )
    })
}

/// Whether a program is on `$PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
