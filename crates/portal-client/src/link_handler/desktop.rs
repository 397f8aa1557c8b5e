//! The desktop file that registers the handler of `openuvr://` links (Desktop Entry Specification 1.5) for this user.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::allowed::Allowed;

/// The file's name, which is also its desktop file id.
const FILE: &str = "openuvr-link.desktop";

/// The MIME type of the links.
const KIND: &str = "x-scheme-handler/openuvr";

/// Writes the file, and registers it with xdg-utils, if installed. Returns the file's path.
///
/// # Errors
/// Returns a one-line error if there is no folder for the file, the file cannot contain this program's path, or the
/// file cannot be written.
pub(super) fn install(only: &[Allowed]) -> Result<PathBuf> {
    let program = std::env::current_exe().context("can't determine this program's executable")?;
    let text = entry(&program, only)?;
    let file = file()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
    written.with_context(|| format!("can't write {}", file.display()))?;
    if !run_tool("xdg-mime", &["default", FILE, KIND]) {
        eprintln!(
            "openuvr link: xdg-mime is missing (package xdg-utils) or failed: if links don't open, select OpenUVR for {KIND} in the desktop's settings"
        );
    }
    // Some desktops read only the list that `update-desktop-database` writes.
    run_tool(
        "update-desktop-database",
        &["--quiet", &folder.to_string_lossy()],
    );
    Ok(file)
}

/// Removes the file. Returns whether it existed.
///
/// # Errors
/// Returns a one-line error if the file cannot be removed.
pub(super) fn uninstall() -> Result<bool> {
    let file = file()?;
    match fs::remove_file(&file) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e).with_context(|| format!("can't remove {}", file.display())),
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    run_tool(
        "update-desktop-database",
        &["--quiet", &folder.to_string_lossy()],
    );
    Ok(true)
}

/// The file by which a package registers the handler for all users; `None` if there is none. This user's file replaces
/// it, because both have the same name.
pub(super) fn of_all_users() -> Option<PathBuf> {
    let folders = std::env::var_os("XDG_DATA_DIRS").filter(|folders| !folders.is_empty());
    // The default of the XDG Base Directory Specification 0.8.
    let folders = folders.unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    let mut files =
        std::env::split_paths(&folders).map(|data| data.join("applications").join(FILE));
    files.find(|file| file.is_absolute() && file.exists())
}

/// Runs the program. Returns whether it exists and has succeeded.
fn run_tool(program: &str, words: &[&str]) -> bool {
    let done = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}

/// The path of the user's desktop file. A relative path in an environment variable counts as unset (XDG Base Directory
/// Specification 0.8).
fn file() -> Result<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME");
    let data = data.or_else(|| Some(absolute("HOME")?.join(".local/share")));
    let Some(data) = data else {
        bail!("no folder for the desktop file: HOME is not set");
    };
    Ok(data.join("applications").join(FILE))
}

fn entry(program: &Path, only: &[Allowed]) -> Result<String> {
    // Paths with characters that the key `Exec` must escape are not supported.
    let awkward = |c: char| c.is_control() || "\"`$\\%".contains(c);
    let path = program.to_str().filter(|path| !path.contains(awkward));
    let Some(path) = path else {
        bail!(
            "a desktop file can't contain the path {}: move the program",
            program.display()
        );
    };
    // The path is quoted only if necessary, because xdg-open(1) treats quotes as a part of the name.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let program = match path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("\"{path}\""),
    };
    let only = only.iter().map(|one| format!(" --only={one}"));
    let only: String = only.collect();
    Ok(format!(
        "[Desktop Entry]\nType=Application\nName=OpenUVR\nComment=Play a session of an OpenUVR portal\n\
         Exec={program} link open{only} -- %u\nTerminal=false\nNoDisplay=true\nMimeType={KIND};\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_names_the_program_and_one_link() {
        let only = ["desk".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
        let text = entry(Path::new("/usr/my bin/openuvr"), &only).unwrap();
        let exec = "Exec=\"/usr/my bin/openuvr\" link open --only=desk --only=10.0.0.0/8 -- %u\n";
        assert!(text.contains(exec), "{text}");
        let text = entry(Path::new("/usr/bin/openuvr"), &[]).unwrap();
        assert!(
            text.contains("Exec=/usr/bin/openuvr link open -- %u\n"),
            "{text}"
        );
        for bad in ["/a\"b", "/a%u", "/a$b", "/a\nb"] {
            assert!(entry(Path::new(bad), &[]).is_err(), "{bad}");
        }
    }
}
