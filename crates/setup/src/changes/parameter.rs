//! A parameter of the running kernel. A file in `/etc/sysctl.d` sets it at the next start.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{Reversal, Reversible};
use crate::system::System;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Parameter {
    /// The parameter's name for sysctl(8), such as `net.core.rmem_max`.
    pub(crate) name: String,
    pub(crate) value: u64,
    pub(crate) before: u64,
}

impl Parameter {
    /// The current value; `None` if this kernel or network namespace has no such parameter.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub(crate) fn current(system: &System<'_>, name: &str) -> Result<Option<u64>> {
        let text = system.read(file(name))?;
        Ok(text.and_then(|text| text.trim().parse().ok()))
    }

    fn set(&self, system: &System<'_>, value: u64) -> Result<()> {
        let file = system.path(file(&self.name));
        fs::write(&file, format!("{value}\n"))
            .with_context(|| format!("can't set {} to {value}", self.name))
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name.replace('.', "/"))
}

impl Reversible for Parameter {
    fn lines(&self) -> Vec<String> {
        let (name, value, before) = (&self.name, self.value, self.before);
        vec![format!("sysctl -w {name}={value}   (now {before})")]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        self.set(system, self.value)
    }

    fn reversal(&self) -> String {
        format!("sysctl -w {}={}", self.name, self.before)
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        match Parameter::current(system, &self.name)? {
            Some(current) if current == self.value => {
                self.set(system, self.before)?;
                Ok(Reversal::Reversed)
            }
            Some(current) if current != self.before => Ok(Reversal::Kept(format!(
                "it has since been set to {current}"
            ))),
            _ => Ok(Reversal::NothingToDo),
        }
    }
}
