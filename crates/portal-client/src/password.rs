//! The account's name, from the terminal; and its password, from a file or from the terminal without echo.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use openuvr_terminal::out;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::address::PortalAddress;

/// The environment variable with the path of the password file. It is used if no option gives this path.
pub(super) const FILE: &str = "OPENUVR_PORTAL_PASSWORD_FILE";

/// The maximum length of a password in bytes. Portals have the same limit.
const LONGEST: usize = 1024;

/// Prompts for the account's name.
///
/// # Errors
/// Returns a one-line error if there is no terminal.
pub(super) fn prompt_name(portal: &PortalAddress) -> Result<String> {
    if !io::stdin().is_terminal() {
        bail!("{portal} requires an account: use --portal-user NAME");
    }
    out::prompt(format_args!("Account at {portal}: "));
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    match line.trim() {
        "" => bail!("no account given"),
        name => Ok(name.to_owned()),
    }
}

/// Reads the password from the first line of `file`, from the file set in the environment, or from a prompt.
///
/// # Errors
/// Returns a one-line error if the file cannot be read or there is no terminal.
pub(super) fn password(file: Option<&Path>, user: &str) -> Result<String> {
    let named = std::env::var_os(FILE).filter(|file| !file.is_empty());
    if let Some(file) = file.or(named.as_deref().map(Path::new)) {
        return from_file(file);
    }
    if !io::stdin().is_terminal() {
        bail!("a password for {user} is required: use --portal-password-file FILE, or set {FILE}");
    }
    typed(user)
}

fn from_file(file: &Path) -> Result<String> {
    let shown = file.display();
    let mut text = String::new();
    let opened =
        File::open(file).and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text));
    opened.with_context(|| format!("can't read the password in {shown}"))?;
    let line = text.lines().next().unwrap_or_default();
    match line.len() {
        0 => bail!("the password in {shown} is empty: put it into the first line"),
        length if length > LONGEST => {
            bail!("the password in {shown} is too long (at most {LONGEST} bytes)")
        }
        _ => Ok(line.to_owned()),
    }
}

/// Disables the terminal's echo, line editing and signal characters. Dropping this restores the terminal.
struct EchoOff {
    before: Termios,
}

impl EchoOff {
    fn new() -> io::Result<EchoOff> {
        let before = tcgetattr(io::stdin())?;
        let mut now = before.clone();
        // Signal characters (such as Ctrl-C) are read as input, so that no key can end this program before the terminal
        // has been restored.
        now.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(io::stdin(), OptionalActions::Flush, &now)?;
        Ok(EchoOff { before })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn typed(user: &str) -> Result<String> {
    out::prompt(format_args!("Password of {user} (not shown): "));
    let echo_off = EchoOff::new().context("can't disable the terminal's echo")?;
    let line = line_of(io::stdin().lock());
    drop(echo_off);
    // The return key has not been echoed.
    out::prompt(format_args!("\n"));
    match line? {
        Some(line) if !line.is_empty() => Ok(line),
        _ => bail!("no password given"),
    }
}

/// Reads a line from typed keys; `None` if the user cancelled, or if the line does not end or is not UTF-8.
fn line_of(keys: impl io::BufRead) -> io::Result<Option<String>> {
    const INTERRUPT: u8 = 0x03;
    const END: u8 = 0x04;
    const BACKSPACE: u8 = 0x08;
    const KILL_LINE: u8 = 0x15;
    const DELETE: u8 = 0x7f;
    let mut line: Vec<u8> = Vec::new();
    for key in keys.bytes().take(4 * LONGEST) {
        match key? {
            INTERRUPT | END => return Ok(None),
            b'\r' | b'\n' => return Ok(String::from_utf8(line).ok()),
            KILL_LINE => line.clear(),
            BACKSPACE | DELETE => {
                // Removes all bytes of a character. Its bytes after the first are 10xxxxxx (RFC 3629).
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_keys_make_a_password_or_cancel() {
        let line = |keys: &str| line_of(keys.as_bytes()).unwrap();
        assert_eq!(line("secret\n").as_deref(), Some("secret"));
        assert_eq!(line("wrong\x15sü\x7f\x7fsix\r").as_deref(), Some("six"));
        assert_eq!(line("secr\x03et\n"), None);
        assert_eq!(line("secret"), None);
    }
}
