//! A kernel module, and the access to its device.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::accounts::GroupEntry;
use super::{Reversal, Reversible};
use crate::system::System;

/// A change that loads a kernel module. The module was not loaded before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Module {
    pub(crate) name: String,
}

impl Reversible for Module {
    fn lines(&self) -> Vec<String> {
        vec![format!("modprobe {}", self.name)]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        system.run(&["modprobe", &self.name]).map(drop)
    }

    fn reversal(&self) -> String {
        format!("modprobe --remove {}", self.name)
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        let loaded = system.path("/sys/module").join(&self.name);
        if !loaded.exists() {
            return Ok(Reversal::NothingToDo);
        }
        Ok(match system.run(&["modprobe", "--remove", &self.name]) {
            Ok(_) => Reversal::Reversed,
            // For example, a program uses the module, or the module is built into the kernel.
            Err(why) => Reversal::Kept(format!(
                "the module stays loaded until this machine restarts: {why:#}"
            )),
        })
    }
}

/// The access of a group to a device, until the machine is restarted. After a restart, a udev rule grants the access.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) path: PathBuf,
    pub(crate) group: String,
    /// Group and mode of the device before the change.
    pub(crate) before: (u32, u32),
}

/// The mode of a device that its group may read and write.
const GROUP_MODE: u32 = 0o660;

impl Node {
    /// The change for a device, with the device's current group and mode as `before`. If the device does not exist yet,
    /// `before` is group 0 and mode 600.
    pub(crate) fn new(system: &System<'_>, path: &str, group: &str) -> Node {
        let data = fs::metadata(system.path(path));
        Node {
            path: PathBuf::from(path),
            group: group.to_owned(),
            before: data.map_or((0, 0o600), |data| (data.gid(), data.mode() & 0o7777)),
        }
    }

    fn set(&self, system: &System<'_>, group: u32, mode: u32) -> Result<()> {
        let path = system.path(&self.path);
        chown(&path, None, Some(group))
            .and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(mode)))
            .with_context(|| format!("can't set the group and mode of {}", self.path.display()))
    }
}

impl Reversible for Node {
    fn lines(&self) -> Vec<String> {
        let path = self.path.display();
        vec![
            format!("chgrp {} {path}", self.group),
            format!("chmod {GROUP_MODE:o} {path}"),
        ]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        let group = GroupEntry::find(system, &self.group)?;
        let group = group.ok_or_else(|| anyhow!("there is no group {}", self.group))?;
        self.set(system, group.id, GROUP_MODE)
    }

    fn reversal(&self) -> String {
        let (group, mode) = self.before;
        let path = self.path.display();
        format!("chgrp {group} {path}; chmod {mode:o} {path}")
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        let Ok(data) = fs::metadata(system.path(&self.path)) else {
            return Ok(Reversal::NothingToDo);
        };
        let group = GroupEntry::find(system, &self.group)?;
        let is_set = group.is_some_and(|group| group.id == data.gid());
        if !is_set || data.mode() & 0o7777 != GROUP_MODE {
            return Ok(Reversal::NothingToDo);
        }
        let (group, mode) = self.before;
        self.set(system, group, mode)?;
        Ok(Reversal::Reversed)
    }
}
