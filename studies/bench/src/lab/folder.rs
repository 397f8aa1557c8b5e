//! A study's output folder: tables, plots, a page, and the data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value};

use crate::bench::html::{HEAD, escaped, figure, section, table};
use crate::bench::machine::Machine;
use crate::bench::plot::{self, Plot};

/// An output folder in progress, and its page.
pub(super) struct Folder {
    path: PathBuf,
    /// The name of the data file.
    name: &'static str,
    page: String,
    data: Map<String, Value>,
}

impl Folder {
    /// Creates it, if it does not exist. Data goes into the file `name`; `said` is the page's introduction.
    pub(super) fn make(
        path: &Path,
        title: &str,
        name: &'static str,
        introduction: &str,
    ) -> Result<Folder> {
        std::fs::create_dir_all(path)
            .with_context(|| format!("can't make the folder {}", path.display()))?;
        let machine = Machine::this();
        let command = std::env::args().collect::<Vec<_>>();
        // The program's name without its path.
        let command = format!("openuvr {}", shown(command.get(1..).unwrap_or_default()));
        let mut page = HEAD.replace("OpenUVR: what was measured", &escaped(title));
        let _ = write!(
            page,
            "<h1>{}</h1><p><code>{}</code></p><p>openuvr {} on {}. {}</p>",
            escaped(title),
            escaped(&command),
            env!("CARGO_PKG_VERSION"),
            escaped(&machine.to_string()),
            escaped(introduction),
        );
        let mut data = Map::new();
        data.insert("study".into(), title.into());
        data.insert("command".into(), command.into());
        data.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        data.insert("machine".into(), serde_json::to_value(&machine)?);
        Ok(Folder {
            path: path.to_owned(),
            name,
            page,
            data,
        })
    }

    /// Adds a part of the data.
    pub(super) fn add_data(&mut self, name: &str, value: Value) {
        self.data.insert(name.into(), value);
    }

    /// Adds a heading to the page.
    pub(super) fn section(&mut self, title: &str) {
        self.page.push_str(&section(title));
    }

    /// Adds a paragraph to the page.
    pub(super) fn paragraph(&mut self, words: &str) {
        let _ = write!(self.page, "<p>{}</p>", escaped(words));
    }

    /// Adds a table to the page, and writes it as a file if it has a name.
    pub(super) fn table(
        &mut self,
        name: Option<&str>,
        heads: &[&str],
        rows: &[Vec<String>],
    ) -> Result<()> {
        let cells = rows
            .iter()
            .map(|row| row.iter().map(|cell| escaped(cell)).collect());
        self.page.push_str(&table(heads, cells));
        match name {
            Some(name) => self.csv(name, heads, rows),
            None => Ok(()),
        }
    }

    /// Writes a table as a CSV file.
    pub(super) fn csv(&self, name: &str, heads: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(heads)?;
        for row in rows {
            writer.write_record(row)?;
        }
        self.write(name, &writer.into_inner()?)
    }

    /// Adds a plot to the page, and writes it as a file.
    pub(super) fn plot(&mut self, name: &str, plot: &impl Plot) -> Result<()> {
        let svg = plot::svg(plot)?;
        self.write(name, svg.as_bytes())?;
        self.page.push_str(&figure(&svg));
        Ok(())
    }

    /// Writes the page, and the data as the file `name`.
    pub(super) fn finish(mut self) -> Result<()> {
        self.page.push_str("</body></html>\n");
        self.write("index.html", self.page.as_bytes())?;
        let data = serde_json::to_string_pretty(&Value::Object(self.data.clone()))?;
        self.write(self.name, data.as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("can't write {}", path.display()))
    }
}

/// Quotes arguments for a shell.
fn shown(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,/%:+".contains(c);
        match word.chars().all(plain) && !word.is_empty() {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
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

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_command_can_be_typed_again() {
        let words = ["lab", "wifi", "signal=40|30,4", "it's"].map(String::from);
        assert_eq!(shown(&words), r"lab wifi 'signal=40|30,4' 'it'\''s'");
    }
}
