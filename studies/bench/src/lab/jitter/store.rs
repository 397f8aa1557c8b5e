//! Stores each measured cell in its own file, so that it persists if a later cell fails.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::cells::{self, Cell};
use super::probe::Measured;

pub(super) struct Store(PathBuf);

impl Store {
    pub(super) fn open(folder: &Path) -> Result<Store> {
        let path = folder.join("cells");
        std::fs::create_dir_all(&path)
            .with_context(|| format!("can't make the folder {}", path.display()))?;
        Ok(Store(path))
    }

    pub(super) fn save(&self, measured: &Measured) -> Result<()> {
        let path = self.file(&measured.cell);
        std::fs::write(&path, serde_json::to_vec(measured)?)
            .with_context(|| format!("can't write {}", path.display()))
    }

    /// Whether the folder has a complete measurement of this cell by this command line.
    pub(super) fn has(&self, cell: Cell, line: Option<&str>) -> bool {
        let bytes = std::fs::read(self.file(&cell.to_string()));
        let kept = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        kept.is_some_and(|kept: Measured| {
            kept.error.is_none() && line == Some(kept.command.as_str())
        })
    }

    /// All stored cells, in the order of the study.
    pub(super) fn read(&self) -> Result<Vec<Measured>> {
        let mut all = Vec::new();
        for cell in cells::all() {
            let path = self.file(&cell.to_string());
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            let measured = serde_json::from_slice(&bytes).with_context(|| {
                format!(
                    "{} is not a cell of this version (delete the file)",
                    path.display()
                )
            })?;
            all.push(measured);
        }
        Ok(all)
    }

    fn file(&self, cell: &str) -> PathBuf {
        self.0.join(cell.replace('/', "-") + ".json")
    }
}
