//! The settings file: TOML with one line per setting. Only lists such as `[[applications]]` have sections of their own,
//! at the end of the file.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result as Anyway, bail};
use openuvr_runtime::store::write_whole;
use toml::de::{DeTable, DeValue};

use openuvr_terminal::usage;

use super::kind::Form;
use super::{ConfigError, Default, Origin, Setting, Value};

/// Parses `text`, the content of `path`. Every value is checked, even those that a flag replaces.
pub(super) fn read(
    text: &str,
    path: &Path,
    table: &[Setting],
    role: &str,
) -> Result<HashMap<&'static str, Value>, ConfigError> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|b| *b == b'\n').count();
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(span.start));
        // The parser's message may have several lines.
        let message = error.message().replace('\n', ", ");
        ConfigError(format!("{}:{line}: {message}", path.display()))
    })?;
    let mut values = HashMap::new();
    for (name, value) in document.get_ref() {
        let origin = Origin::File {
            path: path.to_owned(),
            line: line(name.span().start),
        };
        let open = |setting: &&Setting| !setting.fixed && setting.key == name.get_ref();
        let Some(setting) = table.iter().find(open) else {
            let (path, line) = (path.display(), line(name.span().start));
            let name = name.get_ref();
            let cause = match usage::renamed(name) {
                Some(new) => format!("`{name}` was renamed to `{new}`"),
                None => format!("unknown setting `{name}`"),
            };
            return Err(ConfigError(format!(
                "{path}:{line}: {cause}; `openuvr {role} --help` lists all settings"
            )));
        };
        if let Default::OnlyFlag(_) = setting.default {
            let (path, line) = (path.display(), line(name.span().start));
            return Err(ConfigError(format!(
                "{path}:{line}: `{0}` applies to one run and is not read from a file: remove the line, and use --{0} when \
                 needed",
                setting.key
            )));
        }
        let text = words(value.get_ref(), setting.form, path).ok_or_else(|| {
            let span = value.span();
            let instead = text.get(span).unwrap_or_default().lines().next();
            setting.refused(&origin, &format!("`{}`", instead.unwrap_or_default()))
        })?;
        // An empty optional setting counts as absent.
        if setting.optional && text.is_empty() {
            continue;
        }
        values.insert(setting.key, setting.check(Value { text, origin })?);
    }
    Ok(values)
}

/// Writes `text` to the file at `path`, or to its target if `path` is a link, and returns the path of the written file.
/// The text may contain a PIN, so the file and a newly created folder are accessible only to this user.
pub(super) fn write(path: &Path, text: &str) -> Anyway<PathBuf> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.exists() && !path.is_file() {
        bail!("can't write the settings: {} is not a file", path.display());
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        let mut new = DirBuilder::new();
        let made = new.recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("can't create the folder {}", folder.display()))?;
    }
    write_whole(&path, text.as_bytes())?;
    Ok(path)
}

/// The value as the text of a flag; `None` if its form is wrong.
fn words(value: &DeValue<'_>, form: Form, file: &Path) -> Option<String> {
    match (value, form) {
        (DeValue::Boolean(yes), Form::Flag) => Some(yes.to_string()),
        (
            DeValue::String(text),
            Form::Text | Form::NumberOrText | Form::TextOr(_) | Form::TextOrTables,
        ) => Some(text.to_string()),
        (DeValue::String(text), Form::Table) => Some(text.to_string()),
        (DeValue::Table(entries), Form::Table) => {
            let lines = entries.iter().map(|(name, value)| {
                let value = match value.get_ref() {
                    DeValue::Boolean(yes) => u8::from(*yes).to_string(),
                    DeValue::String(text) => text.to_string(),
                    number => words(number, Form::Number, file)?,
                };
                // Each entry is a line, so a line break would start another entry.
                let line = format!("{}={value}", name.get_ref());
                (!line.contains(['\n', '\r'])).then_some(line)
            });
            Some(lines.collect::<Option<Vec<String>>>()?.join("\n"))
        }
        (DeValue::Array(_), Form::TextOrTables) => file.to_str().map(str::to_owned),
        (DeValue::Integer(number), Form::Number | Form::NumberOrText) => {
            let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string())
        }
        (DeValue::Float(number), Form::Number | Form::NumberOrText) => {
            Some(number.as_str().to_owned())
        }
        _ => None,
    }
}
