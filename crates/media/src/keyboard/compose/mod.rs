//! Dead keys and compose sequences: maps sequences of key symbols to text.
//!
//! A composer consists of a table and a position in the table. It does no I/O; module `file` finds the locale's table.
//! A composer is not an input method: incomplete sequences are not displayed.
//!
//! Spec: Compose(5); unknown sequences are discarded, as in Xlib.

mod file;
mod names;
mod parse;

use std::collections::HashMap;

use super::keymap::character_of;

/// The initial position.
const START: u32 = 0;

/// A table of sequences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The transition of a symbol at a position.
    steps: HashMap<(u32, u32), Transition>,
    /// Number of positions other than [`START`].
    places: u32,
}

#[derive(Clone, Debug)]
enum Transition {
    /// To this position.
    Node(u32),
    /// The end: types this text.
    Text(Box<str>),
}

impl Table {
    /// Adds a sequence that types `text`; removes conflicting sequences.
    fn insert(&mut self, symbols: &[u32], text: &str) {
        let Some((last, before)) = symbols.split_last() else {
            return;
        };
        let mut at = START;
        for symbol in before {
            at = match self.steps.get(&(at, *symbol)) {
                Some(Transition::Node(place)) => *place,
                Some(Transition::Text(_)) | None => {
                    self.places += 1;
                    self.steps
                        .insert((at, *symbol), Transition::Node(self.places));
                    self.places
                }
            };
        }
        self.steps
            .insert((at, *last), Transition::Text(text.into()));
    }
}

/// The result of a key symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ComposeStep {
    /// The symbol is not part of a sequence, so the key has its ordinary effect.
    Alone,
    /// The symbol has started or continued a sequence; there is no text yet.
    Waiting,
    /// The symbol has completed a sequence with this text.
    Typed(String),
    /// The symbol has ended an unknown sequence without text.
    Discarded,
}

/// A position in a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Composer {
    table: Table,
    at: u32,
}

impl Composer {
    /// A composer with the table of this process's user and locale.
    pub(crate) fn of_locale() -> Composer {
        Composer {
            table: file::of_locale(),
            at: START,
        }
    }

    /// A composer with a table in text form.
    #[cfg(test)]
    pub(crate) fn from_text(text: &str) -> Composer {
        Composer {
            table: parse::table(text, &mut |_| None),
            at: START,
        }
    }

    /// Handles a key press with `symbol`.
    pub(crate) fn press(&mut self, symbol: u32) -> ComposeStep {
        if is_modifier(symbol) {
            return ComposeStep::Alone;
        }
        let before = std::mem::replace(&mut self.at, START);
        match self.table.steps.get(&(before, symbol)) {
            Some(Transition::Node(place)) => {
                self.at = *place;
                ComposeStep::Waiting
            }
            Some(Transition::Text(text)) => ComposeStep::Typed(text.to_string()),
            None if is_dead(symbol) && before == START => spacing(symbol)
                .map_or(ComposeStep::Discarded, |ch| {
                    ComposeStep::Typed(ch.to_string())
                }),
            None if before == START => ComposeStep::Alone,
            // Backspace, Escape and arrows abort the sequence and keep their effect.
            None if character_of(symbol).is_none() && !is_dead(symbol) => ComposeStep::Alone,
            None => ComposeStep::Discarded,
        }
    }

    /// Aborts an incomplete sequence.
    pub(crate) fn reset(&mut self) {
        self.at = START;
    }
}

/// Whether a symbol is ignored within sequences: `XK_Shift_L` to `XK_Hyper_R`, `XK_Mode_switch`, `XK_Num_Lock`, and
/// `XK_ISO_Lock` to `XK_ISO_Level5_Lock` of `keysymdef.h`.
fn is_modifier(symbol: u32) -> bool {
    matches!(symbol, 0xffe1..=0xffee | 0xff7e | 0xff7f | 0xfe01..=0xfe13)
}

/// `XK_dead_grave` to `XK_dead_longsolidusoverlay`.
fn is_dead(symbol: u32) -> bool {
    (0xfe50..=0xfe93).contains(&symbol)
}

/// The text of a dead key that starts no sequence of the table.
fn spacing(dead: u32) -> Option<char> {
    const CHARACTERS: &str = "`´^~¯˘˙¨˚˝ˇ¸˛";
    CHARACTERS
        .chars()
        .nth(usize::try_from(dead).ok()?.checked_sub(0xfe50)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAVE: u32 = 0xfe50;
    const CIRCUMFLEX: u32 = 0xfe52;
    const MULTI: u32 = 0xff20;

    fn typed(composer: &mut Composer, symbols: &[u32]) -> Vec<ComposeStep> {
        symbols.iter().map(|s| composer.press(*s)).collect()
    }

    #[test]
    fn dead_keys_and_compose_sequences_type_their_character() {
        let table = "<dead_circumflex> <a> : \"â\" acircumflex # LATIN\n\
                     <dead_circumflex> <space> : \"^\" asciicircum\n\
                     <Multi_key> <o> <slash> : \"ø\"\n";
        let mut it = Composer::from_text(table);
        let text = |text: &str| ComposeStep::Typed(text.to_owned());
        assert_eq!(
            typed(&mut it, &[CIRCUMFLEX, 0x61]),
            [ComposeStep::Waiting, text("â")]
        );
        // Shift between the symbols of a sequence is ignored.
        let shifted = [CIRCUMFLEX, 0xffe1, 0x20, 0x61];
        let steps = [
            ComposeStep::Waiting,
            ComposeStep::Alone,
            text("^"),
            ComposeStep::Alone,
        ];
        assert_eq!(typed(&mut it, &shifted), steps);
        let steps = [ComposeStep::Waiting, ComposeStep::Waiting, text("ø")];
        assert_eq!(typed(&mut it, &[MULTI, 0x6f, 0x2f]), steps);
    }

    #[test]
    fn unknown_sequences_type_nothing_and_backspace_works() {
        let mut it = Composer::from_text("<dead_circumflex> <a> : \"â\"");
        assert_eq!(
            typed(&mut it, &[CIRCUMFLEX, 0x71]),
            [ComposeStep::Waiting, ComposeStep::Discarded]
        );
        assert_eq!(
            typed(&mut it, &[CIRCUMFLEX, 0xff08]),
            [ComposeStep::Waiting, ComposeStep::Alone]
        );
        assert_eq!(typed(&mut it, &[0x61]), [ComposeStep::Alone]);
        assert_eq!(
            typed(&mut it, &[GRAVE]),
            [ComposeStep::Typed("`".to_owned())]
        );
        it.press(CIRCUMFLEX);
        it.reset();
        assert_eq!(typed(&mut it, &[0x61]), [ComposeStep::Alone]);
    }

    #[test]
    fn the_table_of_the_locale_is_found_where_xlib_is_installed() {
        let folder = std::path::Path::new("/usr/share/X11/locale/en_US.UTF-8");
        if !folder.is_dir() {
            crate::skip::skip("Xlib's tables are not installed: apt-get install libx11-data");
            return;
        }
        let mut it = Composer {
            table: file::named(folder.join("Compose")),
            at: START,
        };
        assert!(it.table.steps.len() > 4000, "{}", it.table.steps.len());
        let text = |text: &str| ComposeStep::Typed(text.to_owned());
        assert_eq!(
            typed(&mut it, &[CIRCUMFLEX, 0x65]),
            [ComposeStep::Waiting, text("ê")]
        );
        assert_eq!(
            typed(&mut it, &[0xfe51, 0x20]),
            [ComposeStep::Waiting, text("'")]
        );
        let euro = [ComposeStep::Waiting, ComposeStep::Waiting, text("€")];
        assert_eq!(typed(&mut it, &[MULTI, 0x3d, 0x65]), euro);
    }
}
