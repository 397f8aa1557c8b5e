//! The keyboard layout of the console, from the environment or otherwise from the distribution's files.

use openuvr_media::keyboard::XkbKeyboard;
use openuvr_wayland::session_keyboard;

use super::keyboard::without_layout;

/// Rules, model, layouts, variants and options.
type Names = [Option<String>; 5];

/// The variables of libxkbcommon, in this order.
const VARIABLES: [&str; 5] = [
    "XKB_DEFAULT_RULES",
    "XKB_DEFAULT_MODEL",
    "XKB_DEFAULT_LAYOUT",
    "XKB_DEFAULT_VARIANT",
    "XKB_DEFAULT_OPTIONS",
];

/// Debian's file (keyboard(5)) and systemd's (vconsole.conf(5)). Both files use the variable names in `IN_FILES`.
const FILES: [&str; 2] = ["/etc/default/keyboard", "/etc/vconsole.conf"];
const IN_FILES: [&str; 4] = ["XKBMODEL", "XKBLAYOUT", "XKBVARIANT", "XKBOPTIONS"];

/// The layout to use. Without libxkbcommon, keys are sent by position.
pub(super) fn keyboard() -> XkbKeyboard {
    let names = names();
    let given = names.each_ref().map(|name| name.as_deref());
    let keyboard = session_keyboard::named(given).or_else(|why| {
        tracing::warn!(
            "the keyboard layout {:?} can't be used: {why}; using the layout us",
            names[2]
        );
        session_keyboard::named([None, None, Some("us"), None, None])
    });
    keyboard.unwrap_or_else(|why| {
        tracing::warn!("no keyboard layout: {why}; keys are sent by position");
        without_layout()
    })
}

fn names() -> Names {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if VARIABLES.iter().any(|name| set(name)) {
        // libxkbcommon reads the variables.
        return Names::default();
    }
    let texts = FILES
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok());
    let mut found = texts.map(|text| from_file(&text));
    found.find(|names| names[2].is_some()).unwrap_or_default()
}

/// Reads `NAME=VALUE` lines of a shell script, with or without quotes.
fn from_file(text: &str) -> Names {
    let value = |name: &str| {
        let mut lines = text.lines().rev();
        let value = lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
        let value = value.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let [model, layout, variant, options] = IN_FILES.map(value);
    [None, model, layout, variant, options]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_both_distributions_are_read() {
        let debian = "# KEYBOARD\nXKBMODEL=\"pc105\"\nXKBLAYOUT=\"de,us\"\nXKBVARIANT=\"\"\n\
                      XKBOPTIONS='caps:escape'\nBACKSPACE=\"guess\"\n";
        let [rules, model, layout, variant, options] = from_file(debian);
        assert_eq!((rules, variant), (None, None));
        assert_eq!(model.as_deref(), Some("pc105"));
        assert_eq!(layout.as_deref(), Some("de,us"));
        assert_eq!(options.as_deref(), Some("caps:escape"));
        assert_eq!(
            from_file("KEYMAP=us\nXKBLAYOUT=fr\n")[2].as_deref(),
            Some("fr")
        );
        assert_eq!(from_file(""), Names::default());
    }
}
