//! The user, the program and the role for which the machine is set up.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::Role;
use crate::system::System;

#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The account that runs openuvr; `None` if root runs setup directly and names no account.
    pub(crate) user: Option<String>,
    pub(crate) program: PathBuf,
    pub(crate) role: Role,
}

/// Determines the account that runs openuvr. It is `named`, if that is set. Otherwise, it is the account that has
/// become root through sudo, doas or pkexec; without root, it is the account of this process.
///
/// # Errors
/// Returns an error if there is no such account. Also returns an error if it is another user's account and this process
/// does not run as root: programs then run in the session of this process, which has other groups and limits.
pub(crate) fn account(
    system: &System<'_>,
    named: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>> {
    let caller = || {
        let names = ["SUDO_USER", "DOAS_USER", "PKEXEC_UID"];
        names.into_iter().find_map(&variable)
    };
    let name = match named {
        Some(name) => Some(name.to_owned()),
        None if system.is_root => caller(),
        None => Some(system.run(&["id", "-un"])?.trim().to_owned()),
    };
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    // pkexec passes a number. A name that starts with a dash would be an option of `id` and of the programs of the
    // steps.
    if name.starts_with('-') || !system.succeeds(&["id", "-u", &name])? {
        bail!("there is no account {name}: specify the account that runs openuvr: --user NAME");
    }
    let name = system.run(&["id", "-un", &name])?.trim().to_owned();
    // root has all privileges, so its account is not examined.
    if !system.is_root && name != "root" && name != system.run(&["id", "-un"])?.trim() {
        bail!("can't examine the account {name}: that needs root; run the command with sudo");
    }
    // If root has called sudo, doas or pkexec, the user of openuvr is unknown.
    Ok((named.is_some() || name != "root" || !system.is_root).then_some(name))
}
