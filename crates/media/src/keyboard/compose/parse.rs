//! Parses compose tables.
//!
//! Spec: Compose(5). Lines with modifiers (`! Ctrl <x>`) are skipped, because a modified character
//! is a command here. Invalid lines are skipped, as in Xlib.

use std::iter::Peekable;
use std::str::Bytes;

use super::Table;
use super::names::Names;
use crate::keyboard::keymap::character_of;

/// Maximum depth of includes; Xlib's limit is 100.
const DEPTH: usize = 8;

/// Maximum number of symbols in a sequence; the longest sequences in Xlib's tables have five.
const MAX_LENGTH: usize = 16;

/// Limit on the number of transitions in a table; Xlib's longest table has 5700 sequences.
const MAX_SEQUENCES: usize = 50_000;

/// Parses the table in `text`; `include` reads an included file by name.
pub(super) fn table(text: &str, include: &mut dyn FnMut(&str) -> Option<String>) -> Table {
    let mut table = Table::default();
    add(&mut table, &Names::new(), text, include, DEPTH);
    table
}

fn add(
    table: &mut Table,
    names: &Names,
    text: &str,
    include: &mut dyn FnMut(&str) -> Option<String>,
    depth: usize,
) {
    for line in text.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("include") {
            let file = rest.trim_start().strip_prefix('"');
            let file = file.and_then(|rest| rest.split('"').next());
            let other = file.filter(|_| depth > 0).and_then(&mut *include);
            if let Some(other) = other {
                add(table, names, &other, include, depth - 1);
            }
        } else if let Some((symbols, text)) = sequence(names, line)
            && table.steps.len() < MAX_SEQUENCES
        {
            table.insert(&symbols, &text);
        }
    }
}

/// `<dead_grave> <A> : "À" Agrave # comment`
fn sequence(names: &Names, line: &str) -> Option<(Vec<u32>, String)> {
    // A key may be named `colon`, but not `:`.
    let (keys, result) = line.split_once(':')?;
    let mut symbols = Vec::new();
    let mut keys = keys.trim();
    while !keys.is_empty() {
        let (name, rest) = keys.strip_prefix('<')?.split_once('>')?;
        symbols.push(names.symbol(name)?);
        keys = rest.trim_start();
    }
    let fits = (1..=MAX_LENGTH).contains(&symbols.len());
    let text = match result.trim_start().strip_prefix('"') {
        Some(quoted) => unquoted(quoted)?,
        None => {
            let name = result.split_whitespace().next()?;
            character_of(names.symbol(name)?)?.to_string()
        }
    };
    let printable = !text.is_empty() && !text.chars().any(char::is_control);
    (fits && printable).then_some((symbols, text))
}

/// The text up to the closing quotation mark.
fn unquoted(quoted: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = quoted.bytes().peekable();
    loop {
        match rest.next()? {
            b'"' => return String::from_utf8(bytes).ok(),
            b'\\' if rest.peek().is_some_and(|b| (b'0'..=b'7').contains(b)) => {
                bytes.push(number(&mut rest, 8, 3));
            }
            b'\\' => match rest.next()? {
                b'x' | b'X' => bytes.push(number(&mut rest, 16, 2)),
                other => bytes.push(other),
            },
            byte => bytes.push(byte),
        }
    }
}

/// Reads up to `most` digits; overflow beyond a byte is dropped.
fn number(rest: &mut Peekable<Bytes<'_>>, radix: u32, most: usize) -> u8 {
    let mut value = 0;
    for _ in 0..most {
        let digit = rest.peek().and_then(|b| char::from(*b).to_digit(radix));
        let Some(digit) = digit else { break };
        value = value * radix + digit;
        rest.next();
    }
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyboard::compose::{ComposeStep, Composer, START};
    use crate::keyboard::keymap::symbol_of;

    fn typed(table: &Table, symbols: &[u32]) -> Option<ComposeStep> {
        let mut composer = Composer {
            table: table.clone(),
            at: START,
        };
        let mut last = None;
        for symbol in symbols {
            last = Some(composer.press(*symbol));
        }
        last
    }

    #[test]
    fn lines_of_every_kind() {
        let text = r#"
# a comment: with a colon
include "%L"
<Multi_key> <colon> <U2260>  : "\\\"\x41\102" # \\ " A B
<dead_acute> <e> : eacute
! Ctrl <a> : "no"
<nonsense> <a> : "no"
<Multi_key> <a> : "\001"
<Multi_key> <b> : "without an end
<a> <b>
"#;
        let mut asked = Vec::new();
        let table = table(text, &mut |name| {
            asked.push(name.to_owned());
            Some("<Multi_key> <x> : \"X\"\ninclude \"%H/self\"\n".to_owned())
        });
        assert_eq!(asked.first().map(String::as_str), Some("%L"));
        assert_eq!(asked.len(), DEPTH, "a recursive include terminates");
        let text = |text: &str| Some(ComposeStep::Typed(text.to_owned()));
        assert_eq!(table.steps.len(), 6, "{table:?}");
        let odd = [0xff20, 0x3a, symbol_of('≠')];
        assert_eq!(typed(&table, &odd), text("\\\"AB"));
        assert_eq!(typed(&table, &[0xfe51, 0x65]), text("é"));
        assert_eq!(typed(&table, &[0xff20, 0x78]), text("X"));
    }
}
