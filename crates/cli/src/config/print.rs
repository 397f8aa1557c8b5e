//! The configuration as a settings file, to be read by a person or written down.

use std::fmt::Write as _;

use super::kind::Form;
use super::{Default, Given, Origin, Setting, Settings};
use openuvr_terminal::wrap::wrapped;

/// Reading it as a file gives the same configuration here. What nobody has set is a comment: where
/// the file is read, the defaults and the surroundings of that day hold. With `origins`, behind each
/// value stands where it came from.
pub(super) fn toml<C: Settings>(table: &[Setting], given: &Given, origins: bool) -> String {
    let role = C::ROLE;
    let place = match origins {
        true => ", and behind each the place it comes from",
        false => "",
    };
    let mut out = format!(
        "# openuvr {role}: the settings in effect{place}.\n\
         # A line `# name = value` is a default; without its # it is set. Read from\n\
         # $XDG_CONFIG_HOME/openuvr/{role}.toml (or ~/.config/openuvr/{role}.toml), or\n\
         # from --config FILE. Each is a flag, too, and the flag goes before the file.\n"
    );
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
        match given.0.get(setting.key) {
            Some(value) => {
                let text = literal(&value.text, setting.form);
                let comment = match value.origin {
                    Origin::Default | Origin::Surroundings(_) => "# ",
                    Origin::File { .. } | Origin::Flag => "",
                };
                // TOML writes a text of several lines in several lines.
                let text = text.replace('\n', &format!("\n{comment}"));
                push(&mut out, format_args!("{comment}{} = {text}", setting.key));
                if origins {
                    // A path in the comment may hold anything.
                    let origin: String = value.origin.to_string().escape_debug().collect();
                    push(&mut out, format_args!(" # {origin}"));
                }
                out.push('\n');
            }
            None => push(&mut out, format_args!("# {} = … # not set\n", setting.key)),
        }
    }
    out
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = out.write_fmt(what);
}

/// The value as TOML writes it.
fn literal(text: &str, form: Form) -> String {
    let number = || text.parse::<f64>().ok().filter(|n| n.is_finite());
    match (form, number()) {
        (Form::Flag, _) => text.to_owned(),
        // TOML knows no `+.5` and no `007`.
        (Form::Number | Form::NumberOrText, Some(number)) => number.to_string(),
        _ => toml::Value::String(text.to_owned()).to_string(),
    }
}
