//! The file by which a desktop knows who opens `openuvr://` links (Desktop Entry Specification 1.5), of this person
//! alone.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::allowed::Allowed;

/// The file's name, by which desktops call it, too.
const FILE: &str = "openuvr-link.desktop";

/// What a desktop looks for.
const KIND: &str = "x-scheme-handler/openuvr";

/// Writes the file, and has the desktop take it, where it has xdg-utils. The file.
///
/// # Errors
/// One line: there is no place for it, or this program's own path can't stand in it.
pub(super) fn install(only: &[Allowed]) -> Result<PathBuf> {
    let program = std::env::current_exe().context("this program has no file")?;
    let text = entry(&program, only)?;
    let file = file()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&file, text));
    written.with_context(|| format!("can't write {}", file.display()))?;
    if !tell("xdg-mime", &["default", FILE, KIND]) {
        eprintln!(
            "openuvr link: there is no xdg-mime (package xdg-utils): if links don't open, choose OpenUVR for {KIND}"
        );
    }
    // Some desktops read the list that it makes alone.
    tell(
        "update-desktop-database",
        &["--quiet", &folder.to_string_lossy()],
    );
    Ok(file)
}

/// Removes it; whether it was there.
///
/// # Errors
/// One line: it can't be removed.
pub(super) fn uninstall() -> Result<bool> {
    let file = file()?;
    match fs::remove_file(&file) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e).with_context(|| format!("can't remove {}", file.display())),
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    tell(
        "update-desktop-database",
        &["--quiet", &folder.to_string_lossy()],
    );
    Ok(true)
}

/// Whether the program is there and did it.
fn tell(program: &str, words: &[&str]) -> bool {
    let done = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}

/// Where this person's desktop looks (XDG Base Directory Specification 0.8: a relative path counts as unset).
fn file() -> Result<PathBuf> {
    let absolute = |name| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME");
    let data = data.or_else(|| Some(absolute("HOME")?.join(".local/share")));
    let Some(data) = data else {
        bail!("there is no folder for it: HOME is not set");
    };
    Ok(data.join("applications").join(FILE))
}

fn entry(program: &Path, only: &[Allowed]) -> Result<String> {
    // What would have to be quoted twice there is left to who installs it elsewhere.
    let awkward = |c: char| c.is_control() || "\"`$\\%".contains(c);
    let path = program.to_str().filter(|path| !path.contains(awkward));
    let Some(path) = path else {
        bail!(
            "a desktop file can't name {}: put the program elsewhere",
            program.display()
        );
    };
    // Quoted only where it must be: xdg-open(1) takes quotes for a part of the name.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let program = match path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("\"{path}\""),
    };
    let only = only.iter().map(|one| format!(" --only={one}"));
    let only: String = only.collect();
    Ok(format!(
        "[Desktop Entry]\nType=Application\nName=OpenUVR\nComment=Plays a session of a portal\n\
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
