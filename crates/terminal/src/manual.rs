//! `PROGRAM write-manual FOLDER`: writes manual pages and shell completions, which packages contain.
//!
//! The subcommand is hidden: only the build of the packages uses it. Pages and completions come from the same
//! definitions as the command line, so they describe exactly the options of this build.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// The name of the subcommand.
pub(crate) const NAME: &str = "write-manual";

/// The shells with completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes the files into `folder`, which is created if it does not exist.
///
/// If users start this program through another program, which has the name `bin_name`, only the pages of this program's
/// subcommands are written. The completions and the page of the whole command are those of the other program.
///
/// # Errors
/// Returns the error of the file system.
pub(crate) fn write(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let (name, is_sibling) = (name.to_owned(), name != command.get_name());
    // The pages are named after the command that users type.
    let mut command = command.name(&name).disable_help_subcommand(true);
    command.build();
    if !is_sibling {
        pages(&command, folder)?;
        for shell in SHELLS {
            clap_complete::generate_to(shell, &mut command, &name, folder)?;
        }
        return Ok(());
    }
    let mut parts = command.get_subcommands().filter(|part| has_page(part));
    parts.try_for_each(|part| pages(part, folder))
}

/// Writes the pages of a command and of its subcommands.
fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    let mut parts = command.get_subcommands().filter(|part| has_page(part));
    parts.try_for_each(|part| pages(part, folder))?;
    let source = format!("OpenUVR {}", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).source(source).manual("OpenUVR");
    page.generate_to(folder).map(drop)
}

/// Whether this program documents the subcommand. It documents neither hidden subcommands, nor those whose help
/// another program prints.
fn has_page(command: &Command) -> bool {
    !command.is_hide_set() && !command.is_disable_help_flag_set()
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    /// The names of the written files.
    fn written(command: Command) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        write(command, folder.path()).unwrap();
        let files = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn hidden_and_foreign_subcommands_have_no_page() {
        let command = Command::new("openuvr")
            .subcommand(Command::new("host").arg(Arg::new("fps").long("fps")))
            .subcommand(Command::new("confine").hide(true))
            .subcommand(Command::new("portal").disable_help_flag(true));
        let want = [
            "_openuvr",
            "openuvr-host.1",
            "openuvr.1",
            "openuvr.bash",
            "openuvr.fish",
        ];
        assert_eq!(written(command), want);
    }

    #[test]
    fn a_sibling_program_writes_pages_of_its_subcommands() {
        let user = Command::new("user").subcommand(Command::new("add"));
        let command = Command::new("openuvr-portal")
            .bin_name("openuvr")
            .subcommand(Command::new("portal").subcommand(user));
        let want = [
            "openuvr-portal-user-add.1",
            "openuvr-portal-user.1",
            "openuvr-portal.1",
        ];
        assert_eq!(written(command), want);
    }
}
