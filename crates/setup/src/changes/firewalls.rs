//! Entries of firewalld and ufw.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use super::{Reversal, Reversible};
use crate::system::System;

/// The exit status of `firewall-cmd` if firewalld is not running.
const NOT_RUNNING: i32 = 252;

/// A service or port of a zone of firewalld.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Firewalld {
    pub(crate) zone: String,
    /// `service=NAME` or `port=NUMBER/PROTOCOL`.
    pub(crate) entry: String,
    /// Whether the entry is in the files of firewalld, which apply from the next start of firewalld. Otherwise, the
    /// entry is in the running firewall. The files and the running firewall are changed separately: `firewall-cmd
    /// --reload` would apply the files to the running firewall, but would remove entries that an administrator has
    /// added only to the running firewall.
    pub(crate) permanent: bool,
}

impl Firewalld {
    fn words(&self, verb: &str) -> Vec<String> {
        let mut words = vec!["firewall-cmd".to_owned()];
        if self.permanent {
            words.push("--permanent".to_owned());
        }
        words.push(format!("--zone={}", self.zone));
        words.push(format!("--{verb}-{}", self.entry));
        words
    }

    fn run(&self, system: &System<'_>, verb: &str) -> Result<()> {
        let words = self.words(verb);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        system.run(&words).map(drop)
    }

    /// Whether the zone has this entry.
    ///
    /// # Errors
    /// Returns an error if `firewall-cmd` cannot be run, or if the entry is permanent and firewalld is not running.
    pub(crate) fn is_set(&self, system: &System<'_>) -> Result<bool> {
        let words = self.words("query");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match system.status(&words)? {
            // `firewall-cmd` reads and changes the files only through the running firewalld.
            Some(NOT_RUNNING) if self.permanent => {
                bail!("firewalld is not running: run systemctl start firewalld, and try again")
            }
            status => Ok(status == Some(0)),
        }
    }
}

impl Reversible for Firewalld {
    fn lines(&self) -> Vec<String> {
        vec![self.words("add").join(" ")]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        self.run(system, "add")
    }

    fn reversal(&self) -> String {
        self.words("remove").join(" ")
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        if !self.is_set(system)? {
            return Ok(Reversal::NothingToDo);
        }
        self.run(system, "remove")?;
        Ok(Reversal::Reversed)
    }
}

/// A rule of ufw that permits a port or the ports of a profile.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ufw {
    /// The name of a profile, or a port such as `4710/udp`.
    pub(crate) rule: String,
}

impl Ufw {
    /// Whether a user of ufw has added the rule, for packets from and to any address.
    ///
    /// # Errors
    /// Returns an error if ufw cannot be run, or refuses to list its rules: only root may read them.
    pub(crate) fn is_set(&self, system: &System<'_>) -> Result<bool> {
        let added = system.run(&["ufw", "show", "added"])?;
        let rule = format!("ufw allow {}", self.rule);
        Ok(added.lines().any(|line| {
            let line = line.trim().replace('\'', "");
            line == rule || line.starts_with(&format!("{rule} comment "))
        }))
    }
}

impl Reversible for Ufw {
    fn lines(&self) -> Vec<String> {
        vec![format!("ufw allow {}", self.rule)]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        system.run(&["ufw", "allow", &self.rule]).map(drop)
    }

    fn reversal(&self) -> String {
        format!("ufw delete allow {}", self.rule)
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        // After ufw has been removed, there is no rule.
        if !system.has("ufw") || !self.is_set(system)? {
            return Ok(Reversal::NothingToDo);
        }
        system.run(&["ufw", "delete", "allow", &self.rule])?;
        Ok(Reversal::Reversed)
    }
}
