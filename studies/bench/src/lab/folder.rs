//! A study's output folder: its result file, and CSV files for large amounts of data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::result_file;

/// An output folder that is being written.
pub(super) struct Folder {
    path: PathBuf,
    study: &'static str,
    /// Name of the result file, without its extension.
    file: &'static str,
    data: Map<String, Value>,
}

impl Folder {
    /// Creates the folder if it does not exist. The result file will be `STUDY.json`.
    pub(super) fn make(path: &Path, study: &'static str) -> Result<Folder> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("can't make the folder {}", path.display()))?;
        Ok(Folder {
            path: path.to_owned(),
            study,
            file: study,
            data: Map::new(),
        })
    }

    /// Sets a different name for the result file, so that several modes of a study can share a folder.
    pub(super) fn with_file(self, file: &'static str) -> Folder {
        Folder { file, ..self }
    }

    /// Adds a part of the result file's data.
    pub(super) fn add_data(&mut self, name: &str, value: Value) {
        self.data.insert(name.into(), value);
    }

    /// Writes a table as a CSV file.
    pub(super) fn csv<R>(&self, name: &str, heads: &[&str], rows: R) -> Result<()>
    where
        R: IntoIterator<Item = Vec<String>>,
    {
        result_file::write_csv(&self.path.join(name), heads, rows)
    }

    /// Writes the result file, and prints how to draw it.
    pub(super) fn finish(self) -> Result<()> {
        let (study, folder) = (self.study, self.path.display());
        let file = self.path.join(format!("{}.json", self.file));
        result_file::write(&file, &format!("lab.{study}"), &self.data)?;
        println!(
            "\nthe results are in {folder}; to draw them: openuvr bench report --from {folder}"
        );
        Ok(())
    }
}

/// Prints a table with fitted column widths.
pub(super) fn print_table(heads: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| cell.chars().count());
        cells
            .chain([heads[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, width) in cells.zip(&widths) {
            // Writing to a string doesn't fail.
            let _ = write!(text, "{cell:<width$}  ");
        }
        text.trim_end().to_owned()
    };
    println!("{}", line(&mut heads.iter().copied()));
    for row in rows {
        println!("{}", line(&mut row.iter().map(String::as_str)));
    }
}
