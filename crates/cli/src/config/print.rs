//! The configuration as a settings file, for display or for saving.

use std::fmt::Write as _;

use super::kind::Form;
use super::{Default, Origin, RawValues, Setting, Settings, Value};
use openuvr_terminal::wrap::wrapped;

/// The file that reproduces this configuration. Unset settings are comments, so that the defaults and the environment apply
/// when the file is read. With `origins`, a comment after each value states its origin.
pub(super) fn toml<C: Settings>(table: &[Setting], values: &RawValues, origins: bool) -> String {
    let role = C::ROLE;
    let place = match origins {
        true => ", each with its origin",
        false => "",
    };
    let mut out = format!(
        "# openuvr {role}: the settings in effect{place}.\n\
          # A line `# name = value` shows a default; remove the # to set the value. The file is read from\n\
          # $XDG_CONFIG_HOME/openuvr/{role}.toml (or ~/.config/openuvr/{role}.toml), or from\n\
          # --config FILE. Each setting is also a flag; flags override the file.\n"
    );
    // In TOML, tables follow all other lines.
    let mut lists = String::new();
    let mut heading = "";
    let kept = |setting: &&Setting| !matches!(setting.default, Default::OnlyFlag(_));
    for setting in table.iter().filter(|setting| !setting.fixed).filter(kept) {
        if setting.heading != heading {
            heading = setting.heading;
            push(&mut out, format_args!("\n# == {heading} ==\n"));
        }
        push(&mut out, format_args!("\n# {}.\n", setting.help));
        for line in wrapped(&setting.more, 97) {
            push(&mut out, format_args!("# {line}\n"));
        }
        let default = match setting.default.words() {
            Some(words) => format!(" Default: {words}."),
            None => String::new(),
        };
        let about = format!("Allowed: {}.{default}", setting.allowed);
        for line in wrapped(&about, 97) {
            push(&mut out, format_args!("# {line}\n"));
        }
        match values.0.get(setting.key) {
            Some(value) if keeps_tables(setting, value, &mut lists) => {
                let key = setting.key;
                push(
                    &mut out,
                    format_args!("# {key} = … # see the end of this file\n"),
                );
            }
            Some(value) => {
                let text = literal(&value.text, setting.form);
                let comment = match value.origin {
                    Origin::Default | Origin::Environment(_) => "# ",
                    Origin::File { .. } | Origin::Flag => "",
                };
                // TOML writes multi-line text in several lines.
                let text = text.replace('\n', &format!("\n{comment}"));
                push(&mut out, format_args!("{comment}{} = {text}", setting.key));
                if origins {
                    // A path in the comment may contain any character.
                    let origin: String = value.origin.to_string().escape_debug().collect();
                    push(&mut out, format_args!(" # {origin}"));
                }
                out.push('\n');
            }
            None => push(&mut out, format_args!("# {} = … # not set\n", setting.key)),
        }
    }
    out.push_str(&lists);
    out
}

/// If the settings file itself has a list of tables for this setting, adds the list to `lists`. Returns whether there is
/// one.
fn keeps_tables(setting: &Setting, value: &Value, lists: &mut String) -> bool {
    let list = tables(setting, value);
    lists.extend(list.as_deref());
    list.is_some()
}

/// The list of tables that the settings file itself has for this setting.
fn tables(setting: &Setting, value: &Value) -> Option<String> {
    let (Form::TextOrTables, Origin::File { path, .. }) = (setting.form, &value.origin) else {
        return None;
    };
    let text = std::fs::read_to_string(path).ok()?;
    let mut document: toml::Table = text.parse().ok()?;
    let list = document.remove(setting.key)?;
    list.is_array().then(|| {
        let document = toml::Table::from_iter([(setting.key.to_owned(), list)]);
        format!("\n{document}")
    })
}

fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = out.write_fmt(arguments);
}

/// The value as a TOML literal.
fn literal(text: &str, form: Form) -> String {
    let number = || text.parse::<f64>().ok().filter(|n| n.is_finite());
    match (form, number()) {
        (Form::Flag, _) => text.to_owned(),
        (Form::Table, _) => {
            let entry = |line: &str| {
                let (name, value) = line.split_once('=')?;
                Some(format!("{name} = {}", toml::Value::from(value)))
            };
            let entries: Vec<String> = text.lines().filter_map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        // TOML does not allow `+.5` or `007`.
        (Form::Number | Form::NumberOrText, Some(number)) => number.to_string(),
        _ => toml::Value::String(text.to_owned()).to_string(),
    }
}
