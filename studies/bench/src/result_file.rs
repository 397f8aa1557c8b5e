//! Writes result files for the reporter (`studies/report`): JSON with a common header, and beside it CSV files for
//! large amounts of data.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use openuvr_terminal::shell;
use serde::Serialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;

use crate::machine::Machine;

/// Version of the header and of the contents of all result files. The reporter reads only this version.
const SCHEMA_VERSION: u32 = 1;

/// The environment variable that marks result files as those of a quick run. `openuvr bench report` sets it when it
/// runs the short version of a bench or study, because some of them have no option for a smoke test.
pub(crate) const QUICK: &str = "OPENUVR_QUICK_RUN";

/// Writes the header and `content`, a JSON object, into a file. Creates the folder if it does not exist. `name` is the
/// bench or study, such as `bench.latency` or `lab.wifi`. With [`QUICK`] in the environment, the file has the field
/// `quick`, which is true.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write(path: &Path, name: &str, content: &impl Serialize) -> Result<()> {
    let is_quick = std::env::var_os(QUICK).is_some();
    let file = with_header(name, content, is_quick)?;
    write_bytes(path, serde_json::to_string_pretty(&file)?.as_bytes())
}

/// The header and `content`.
fn with_header(name: &str, content: &impl Serialize, is_quick: bool) -> Result<Value> {
    let mut file = serde_json::to_value(content)?;
    let fields = file.as_object_mut();
    let fields = fields.with_context(|| format!("the content of {name} is not an object"))?;
    fields.extend(header(name));
    if is_quick {
        fields.insert("quick".to_owned(), true.into());
    }
    Ok(file)
}

/// Writes a CSV table. Its first line contains the column names.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write_csv<R>(path: &Path, heads: &[&str], rows: R) -> Result<()>
where
    R: IntoIterator<Item = Vec<String>>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(heads)?;
    for row in rows {
        writer.write_record(row)?;
    }
    write_bytes(path, &writer.into_inner()?)
}

/// Writes a file. Creates its folder if it does not exist.
fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("can't make the folder {}", folder.display()))?;
    }
    std::fs::write(path, bytes).with_context(|| format!("can't write {}", path.display()))
}

/// The data needed to judge and to repeat a measurement.
fn header(name: &str) -> Map<String, Value> {
    let fields = [
        ("schema", format!("openuvr.{name}").into()),
        ("schema_version", SCHEMA_VERSION.into()),
        ("openuvr_version", env!("CARGO_PKG_VERSION").into()),
        ("commit", json!(commit())),
        ("command", command().into()),
        ("date", json!(date())),
        ("machine", json!(Machine::this())),
    ];
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The commit of the source folder, with `-dirty` if files were changed. `None` without the folder or without git.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["-C", env!("CARGO_MANIFEST_DIR"), "describe"]);
    git.args(["--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let commit = String::from_utf8(output.stdout).ok()?;
    Some(commit.trim().to_owned())
}

/// The current time in UTC (RFC 3339).
fn date() -> Option<String> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seconds = i64::try_from(since.ok()?.as_secs()).ok()?;
    let now = OffsetDateTime::from_unix_timestamp(seconds).ok()?;
    let (hour, minute, second) = now.to_hms();
    let day = now.date();
    Some(format!("{day}T{hour:02}:{minute:02}:{second:02}Z"))
}

/// The command line, quoted for a shell. The program's name has no path.
pub(crate) fn command() -> String {
    format!("openuvr {}", shell::command(std::env::args_os().skip(1)))
}

#[cfg(test)]
mod tests {
    use openuvr_testbed::pair::TemporaryDir;

    use super::*;

    #[test]
    fn a_result_file_has_the_header() {
        let folder = TemporaryDir::new().unwrap();
        let path = folder.path().join("new/sync.json");
        write(&path, "bench.sync", &json!({"quick": true})).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file["schema"], "openuvr.bench.sync");
        assert_eq!(
            (&file["schema_version"], &file["quick"]),
            (&json!(1), &json!(true))
        );
        assert!(file["machine"]["cores"].as_u64() > Some(0));
        assert_eq!(file["date"].as_str().map(str::len), Some(20), "{file}");
        assert!(write(&path, "bench.sync", &json!([])).is_err());
    }

    #[test]
    fn a_quick_run_is_marked_in_the_file() {
        let quick = |content: Value, is_quick: bool| {
            let file = with_header("bench.encoder", &content, is_quick).unwrap();
            file.get("quick").cloned()
        };
        assert_eq!(quick(json!({"frames": 60}), true), Some(json!(true)));
        assert_eq!(quick(json!({"frames": 300}), false), None);
        // The bench itself has an option for a smoke test.
        assert_eq!(quick(json!({"quick": true}), false), Some(json!(true)));
        assert_eq!(quick(json!({"quick": false}), true), Some(json!(true)));
    }

    #[test]
    fn a_table_quotes_commas() {
        let folder = TemporaryDir::new().unwrap();
        let path = folder.path().join("table.csv");
        write_csv(
            &path,
            &["name", "ms"],
            [vec!["a, b".to_owned(), "1".to_owned()]],
        )
        .unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "name,ms\n\"a, b\",1\n"
        );
    }
}
