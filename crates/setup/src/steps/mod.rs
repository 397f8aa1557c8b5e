//! The steps, one file each. A step compares the system with its goal, and plans the changes that are missing.

mod buffers;
mod firewall;
mod group;
mod raw_ethernet;
mod scheduling;
mod uinput;

use std::path::Path;

use anyhow::Result;

use crate::changes::Change;
use crate::changes::files::{Folder, TextFile};
use crate::record::Record;
use crate::system::System;
use crate::target::Target;

/// All steps. A step comes after those that it requires.
pub(crate) static STEPS: [&dyn Step; 6] = [
    &group::Group,
    &scheduling::Scheduling,
    &uinput::Uinput,
    &buffers::Buffers,
    &firewall::Firewall,
    &raw_ethernet::RawEthernet,
];

/// A set of changes that is made and reversed as a whole.
pub(crate) trait Step: Sync {
    /// The step's name for `--only`, the record and the messages of `openuvr doctor`.
    fn name(&self) -> &'static str;

    /// The step's effect, in a few words.
    fn about(&self) -> &'static str;

    /// Two texts for the plan: the disadvantage without the step, and the consequences of the step.
    fn reasons(&self) -> [&'static str; 2];

    /// When the step is made.
    fn choice(&self) -> Choice {
        Choice::Default
    }

    /// Names of the steps that must be made before this step.
    fn requires(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether an upgrade of the program reverses the step.
    fn is_lost_at_upgrade(&self) -> bool {
        false
    }

    /// Compares the system with the goal. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if the system cannot be examined.
    fn examine(&self, context: &Context<'_>) -> Result<State>;
}

/// When a step is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// The step is made only if another step requires it.
    Implied,
    /// The step is made by default; if `--only` is used, the step is made if `--only` names it.
    Default,
    /// The step is made only if `--only` names it.
    OnRequest,
}

/// The input for the examination of a step.
pub(crate) struct Context<'a> {
    pub(crate) system: &'a System<'a>,
    pub(crate) record: &'a Record,
    pub(crate) target: &'a Target,
}

/// The result of an examination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The step has nothing to do, for this reason.
    Present(String),
    /// These changes are missing.
    Needed(Plan),
    /// The step cannot be made on this machine, for this reason.
    Unavailable(String),
}

/// The missing changes of a step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    /// A note to the user, if any.
    pub(crate) note: Option<String>,
}

/// The step with this name.
pub(crate) fn named(name: &str) -> Option<&'static dyn Step> {
    STEPS.iter().find(|step| step.name() == name).copied()
}

/// The names for `--only`.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let chosen = STEPS.iter().filter(|step| step.choice() != Choice::Implied);
    chosen.map(|step| step.name())
}

impl Context<'_> {
    /// Plans a file. Returns false if the file already has this text.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read. Returns an inner error, which is the reason why the step is
    /// unavailable, if the file has a text that setup did not write.
    fn plan_file(
        &self,
        plan: &mut Plan,
        path: &str,
        text: String,
    ) -> Result<std::result::Result<bool, String>> {
        let current = self.system.read(path)?;
        if current.as_ref() == Some(&text) {
            return Ok(Ok(false));
        }
        if let Some(current) = current
            && !self.record.texts(Path::new(path)).contains(&current)
        {
            return Ok(Err(format!(
                "{path} already exists with other content: move it away, or keep it and do this step by hand"
            )));
        }
        if let Some(folder) = Path::new(path).parent()
            && !self.system.path(folder).exists()
        {
            plan.changes.push(Change::Folder(Folder {
                path: folder.to_owned(),
            }));
        }
        plan.changes.push(Change::File(TextFile::new(path, text)));
        Ok(Ok(true))
    }

    /// The account that runs openuvr. If that account is unknown or is root, returns the state of a step that grants
    /// rights to it.
    fn user(&self) -> std::result::Result<&str, State> {
        match self.target.user.as_deref() {
            None => Err(State::Unavailable(
                "specify the account that runs openuvr: --user NAME".to_owned(),
            )),
            Some("root") => Err(State::Present("root has all privileges".to_owned())),
            Some(user) => Ok(user),
        }
    }

    /// The words of a command that runs as `user`. If setup runs as root, the command runs in a new session with the
    /// user's current groups and limits. Otherwise, it runs in the session of this process.
    fn as_user<'a>(&self, user: &'a str, words: &[&'a str]) -> Vec<&'a str> {
        match self.system.is_root {
            true => [&["runuser", "-u", user, "--"][..], words].concat(),
            false => words.to_vec(),
        }
    }
}
