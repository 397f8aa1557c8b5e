//! The kinds of changes, each with its reversal. The record stores the changes, so that later versions of setup can
//! reverse them.
//!
//! A change is recorded before it is made. Therefore, a reversal must also succeed if the change was never made. A
//! reversal does not touch anything that was changed again after setup changed it.

pub(crate) mod accounts;
pub(crate) mod capabilities;
pub(crate) mod devices;
pub(crate) mod files;
pub(crate) mod firewalls;
pub(crate) mod parameter;

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use self::accounts::{Group, Member};
use self::capabilities::Capabilities;
use self::devices::{Module, Node};
use self::files::{Folder, TextFile};
use self::firewalls::{Firewalld, Ufw};
use self::parameter::Parameter;
use crate::system::System;

/// A change of the system.
pub(crate) trait Reversible {
    /// The lines that describe the change in the printed plan: commands, or a file's path and text.
    fn lines(&self) -> Vec<String>;

    /// Makes the change.
    ///
    /// # Errors
    /// Returns a one-line error. The change may have been made in part.
    fn apply(&self, system: &System<'_>) -> Result<()>;

    /// The command that describes the reversal in the printed plan.
    fn reversal(&self) -> String;

    /// Reverses the change, if the system is still in the state that the change produced.
    ///
    /// # Errors
    /// Returns a one-line error if the reversal fails. The reversal can be repeated.
    fn undo(&self, system: &System<'_>) -> Result<Reversal>;
}

/// The result of a reversal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reversal {
    /// The system is as before the change.
    Reversed,
    /// There was nothing to reverse.
    NothingToDo,
    /// The change was not reversed, for this reason.
    Kept(String),
}

/// A recorded change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    Folder(Folder),
    File(TextFile),
    Group(Group),
    Member(Member),
    Module(Module),
    Node(Node),
    Parameter(Parameter),
    Capabilities(Capabilities),
    Firewalld(Firewalld),
    Ufw(Ufw),
    /// A command that makes a program read its configuration files again. The change and its reversal both run this
    /// command.
    Reload(Vec<String>),
}

impl Change {
    pub(crate) const fn is_reload(&self) -> bool {
        matches!(self, Change::Reload(_))
    }

    /// Whether the change applies to this program file.
    pub(crate) fn concerns(&self, program: &Path) -> bool {
        matches!(self, Change::Capabilities(capabilities) if capabilities.program == program)
    }

    fn reversible(&self) -> &dyn Reversible {
        match self {
            Change::Folder(folder) => folder,
            Change::File(file) => file,
            Change::Group(group) => group,
            Change::Member(member) => member,
            Change::Module(module) => module,
            Change::Node(node) => node,
            Change::Parameter(parameter) => parameter,
            Change::Capabilities(capabilities) => capabilities,
            Change::Firewalld(entry) => entry,
            Change::Ufw(rule) => rule,
            Change::Reload(words) => words,
        }
    }
}

impl Reversible for Change {
    fn lines(&self) -> Vec<String> {
        self.reversible().lines()
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        self.reversible().apply(system)
    }

    fn reversal(&self) -> String {
        self.reversible().reversal()
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        self.reversible().undo(system)
    }
}

impl Reversible for Vec<String> {
    fn lines(&self) -> Vec<String> {
        vec![self.join(" ")]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        let words: Vec<&str> = self.iter().map(String::as_str).collect();
        system.run(&words).map(drop)
    }

    fn reversal(&self) -> String {
        self.join(" ")
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        self.apply(system).map(|()| Reversal::Reversed)
    }
}
