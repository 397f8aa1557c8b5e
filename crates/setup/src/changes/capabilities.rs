//! Capabilities of a program file (capabilities(7)).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use openuvr_terminal::shell;
use serde::{Deserialize, Serialize};

use super::{Reversal, Reversible};
use crate::system::System;

/// The capabilities of a program, in the form of `getcap`, such as `cap_net_raw=ep`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Capabilities {
    pub(crate) program: PathBuf,
    pub(crate) after: String,
    /// The capabilities before the change; empty if there were none.
    pub(crate) before: String,
}

impl Capabilities {
    /// The capabilities of a program; empty if it has none.
    ///
    /// # Errors
    /// Returns an error if `getcap` is missing or fails.
    pub(crate) fn current(system: &System<'_>, program: &Path) -> Result<String> {
        let name = program.to_string_lossy();
        let text = system.run(&["getcap", &name])?;
        // `FILE cap_net_raw=ep`, and before libcap 2.41 `FILE = cap_net_raw+ep`.
        let rest = text.trim().strip_prefix(&*name).unwrap_or_default();
        let rest = rest.trim().trim_start_matches("= ").replace('+', "=");
        Ok(rest)
    }

    fn set(&self, system: &System<'_>, text: &str) -> Result<()> {
        let program = self.program.to_string_lossy();
        system.run(&words(text, &program)).map(drop)
    }

    /// The command that sets the capabilities, in a form that users can copy into a shell.
    fn line(&self, text: &str) -> String {
        shell::command(words(text, &self.program.to_string_lossy()))
    }
}

/// The words of the command that sets the capabilities of a program.
fn words<'a>(text: &'a str, program: &'a str) -> [&'a str; 3] {
    let text = if text.is_empty() { "-r" } else { text };
    ["setcap", text, program]
}

/// The flags of each capability in a text such as `cap_net_raw,cap_sys_nice=ep cap_kill=p`.
pub(crate) fn flags_of(text: &str) -> BTreeMap<&str, &str> {
    let clauses = text
        .split_whitespace()
        .filter_map(|clause| clause.split_once('='));
    clauses
        .flat_map(|(names, flags)| names.split(',').map(move |name| (name, flags)))
        .collect()
}

impl Reversible for Capabilities {
    fn lines(&self) -> Vec<String> {
        vec![self.line(&self.after)]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        self.set(system, &self.after)
    }

    fn reversal(&self) -> String {
        self.line(&self.before)
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        if !system.path(&self.program).exists() {
            return Ok(Reversal::NothingToDo);
        }
        let current = Capabilities::current(system, &self.program)?;
        if flags_of(&current) == flags_of(&self.after) {
            self.set(system, &self.before)?;
            return Ok(Reversal::Reversed);
        }
        // An upgrade replaces the program, and removes its capabilities.
        let is_before = flags_of(&current) == flags_of(&self.before);
        Ok(match is_before || current.is_empty() {
            true => Reversal::NothingToDo,
            false => Reversal::Kept(format!("it has since been set to {current}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_commands_can_be_copied() {
        let change = |before: &str| Capabilities {
            program: PathBuf::from("/opt/my games/openuvr"),
            after: "cap_kill=p cap_net_raw=ep".to_owned(),
            before: before.to_owned(),
        };
        assert_eq!(
            change("").lines(),
            ["setcap 'cap_kill=p cap_net_raw=ep' '/opt/my games/openuvr'"]
        );
        assert_eq!(change("").reversal(), "setcap -r '/opt/my games/openuvr'");
        assert_eq!(
            change("cap_kill=p").reversal(),
            "setcap cap_kill=p '/opt/my games/openuvr'"
        );
    }

    #[test]
    fn the_order_of_capabilities_does_not_matter() {
        let two = flags_of("cap_net_raw,cap_sys_nice=ep");
        assert_eq!(two, flags_of("cap_sys_nice=ep cap_net_raw=ep"));
        assert_ne!(two, flags_of("cap_sys_nice=ep cap_net_raw=p"));
        assert_eq!(two["cap_net_raw"], "ep");
        assert!(flags_of("").is_empty());
    }
}
