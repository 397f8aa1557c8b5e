//! Files and folders of the configuration.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::{Reversal, Reversible};
use crate::system::System;

/// A change that creates a folder. The folder did not exist before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Reversible for Folder {
    fn lines(&self) -> Vec<String> {
        vec![format!("mkdir {}", self.path.display())]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        let made = system.make_folder(&self.path);
        made.with_context(|| format!("can't create {}", self.path.display()))
    }

    fn reversal(&self) -> String {
        format!("rmdir {}", self.path.display())
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        match fs::remove_dir(system.path(&self.path)) {
            Ok(()) => Ok(Reversal::Reversed),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(Reversal::NothingToDo),
            Err(why) if why.kind() == ErrorKind::DirectoryNotEmpty => {
                Ok(Reversal::Kept("it contains other files".to_owned()))
            }
            Err(why) => Err(why).with_context(|| format!("can't remove {}", self.path.display())),
        }
    }
}

/// A file with known text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TextFile {
    pub(crate) path: PathBuf,
    /// All texts that versions of setup have written into this file, oldest first. The last text is the current one.
    pub(crate) texts: Vec<String>,
}

impl TextFile {
    pub(crate) fn new(path: &str, text: impl Into<String>) -> TextFile {
        TextFile {
            path: PathBuf::from(path),
            texts: vec![text.into()],
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.texts.last().map_or("", String::as_str)
    }
}

impl Reversible for TextFile {
    fn lines(&self) -> Vec<String> {
        let text = self.text().lines().map(|line| format!("    {line}"));
        let first = format!("write {}:", self.path.display());
        [first].into_iter().chain(text).collect()
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        // The plan has already checked that the file has no other text, but the administrator may have changed the file
        // since then.
        if let Some(text) = system.read(&self.path)?
            && !self.texts.contains(&text)
        {
            bail!(
                "the content of {} is not what setup wrote: move the file away, and run setup again",
                self.path.display()
            );
        }
        system.write(&self.path, self.text())
    }

    fn reversal(&self) -> String {
        format!("rm {}", self.path.display())
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        match system.read(&self.path)? {
            Some(text) if !self.texts.contains(&text) => Ok(Reversal::Kept(
                "the file has been changed since; remove it if nothing else needs it".to_owned(),
            )),
            // This call also removes the rest of an interrupted write, so it is made even if the file does not exist.
            text => system.remove(&self.path).map(|()| match text {
                Some(_) => Reversal::Reversed,
                None => Reversal::NothingToDo,
            }),
        }
    }
}
