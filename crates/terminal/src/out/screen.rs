//! Screen layout: messages that scroll, and below them table rows that are redrawn in place.
//!
//! The cursor rests on an empty row above the table, where typed characters are echoed. The module owns everything
//! below the cursor and nothing above it, so it need not know how many terminal rows a table occupies. A change of the
//! terminal's width causes a full redraw.
//!
//! Sans-I/O: it produces the bytes (ECMA-48) that the writer sends.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// A terminal's size in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminalSize {
    /// Characters in a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// The screen's content.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The rows of the table.
    table: Vec<String>,
    /// The newest messages above the table, at most [`MAX_KEPT_MESSAGES`].
    messages: VecDeque<String>,
    /// The incomplete last line of a child's output.
    unfinished: String,
    /// The number of rows drawn below the cursor, and the terminal's size at that time. `None` if no rows are drawn.
    drawn: Option<(usize, TerminalSize)>,
    /// Whether typed lines are reported, so that the input can be preserved.
    tracks_typed_lines: bool,
}

/// Autowrap off (DECAWM), so that rows are cut at the edge even before a narrower size is known.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Erases the cursor's row, and then all rows below it. If one step erased the whole screen from its first row, some
/// terminals would move the screen into the scrollback.
const ERASE: &str = "\r\x1b[K\x1b[1B\x1b[J\x1b[1A";

/// `TOP` moves to the first row. `ERASE_ROW` erases a row and moves to the next one. Rows are erased one at a time for
/// the reason given at [`ERASE`].
const TOP: &str = "\x1b[H";
const ERASE_ROW: &str = "\x1b[K\x1b[1B";

/// Maximum number of messages that are printed again after a change of width: one screen.
const MAX_KEPT_MESSAGES: usize = 64;

/// Maximum length of an incomplete line, in bytes. A longer one is split.
const MAX_UNFINISHED: usize = 4096;

impl Screen {
    pub(super) fn set_table(&mut self, rows: Vec<String>) {
        self.table = rows;
    }

    /// Declares that the caller reports each typed line with [`Screen::line_typed`] from now on.
    pub(super) fn track_typed_lines(&mut self) {
        self.tracks_typed_lines = true;
    }

    /// Takes output of a child. Returns the complete lines.
    pub(super) fn take_output(&mut self, text: &str) -> String {
        self.unfinished.push_str(text);
        let whole = match self.unfinished.rfind('\n') {
            Some(end) => end + 1,
            None if self.unfinished.len() > MAX_UNFINISHED => self.unfinished.len(),
            None => 0,
        };
        let rest = self.unfinished.split_off(whole);
        let mut lines = std::mem::replace(&mut self.unfinished, rest);
        if !lines.is_empty() && !lines.ends_with('\n') {
            lines.push('\n');
        }
        lines
    }

    /// The bytes that print `above` (complete lines) above the table and redraw the table.
    pub(super) fn draw(&mut self, above: &str, size: TerminalSize) -> String {
        let rows = self.rows(size);
        if let Some(bytes) = self.draw_around_typed(above, &rows, size) {
            self.remember(above);
            self.drawn = Some((rows.len(), size));
            return bytes;
        }
        let mut bytes = String::new();
        match self.drawn {
            // The terminal may have rewrapped its rows, so the cursor's position is unknown.
            Some((_, before)) if before.columns != size.columns => {
                bytes.push_str(TOP);
                bytes.push_str(&ERASE_ROW.repeat(size.rows));
                bytes.push_str(TOP);
                for line in &self.messages {
                    push(&mut bytes, format_args!("{line}\r\n"));
                }
            }
            Some(_) => bytes.push_str(ERASE),
            None => {}
        }
        for line in above.lines() {
            push(&mut bytes, format_args!("{line}\r\n"));
        }
        self.remember(above);
        self.drawn = None;
        if !rows.is_empty() {
            bytes.push_str(NO_WRAP);
            for row in &rows {
                push(&mut bytes, format_args!("\r\n{row}"));
            }
            push(&mut bytes, format_args!("{WRAP}\r\x1b[{}A", rows.len()));
            self.drawn = Some((rows.len(), size));
        }
        bytes
    }

    fn remember(&mut self, above: &str) {
        for line in above.lines() {
            if self.messages.len() == MAX_KEPT_MESSAGES {
                self.messages.pop_front();
            }
            self.messages.push_back(line.to_owned());
        }
    }

    /// Like `draw`, but the bytes preserve the input in the cursor's row: they insert `above` before the input, and
    /// draw `rows` after it. `None` if the input cannot be preserved: if typed lines are not tracked, after a change of
    /// size, on a terminal with too few rows, or if the width of `above` is unknown.
    fn draw_around_typed(
        &self,
        above: &str,
        rows: &[String],
        size: TerminalSize,
    ) -> Option<String> {
        let (before, _) = (self.drawn).filter(|(_, drawn_in)| *drawn_in == size)?;
        let countable = |c: char| c == '\n' || (' '..='~').contains(&c);
        if !self.tracks_typed_lines || !above.chars().all(countable) {
            return None;
        }
        let taken = |line: &str| line.len().div_ceil(size.columns.max(1)).max(1);
        let inserted: usize = above.lines().map(taken).sum();
        let below = inserted + rows.len().max(1);
        if below >= size.rows {
            return None;
        }
        let mut bytes = String::new();
        if inserted > 0 || rows.len() != before {
            // Makes room below. IND scrolls at the last row and keeps the column.
            bytes.push_str(&"\x1bD".repeat(below));
            push(&mut bytes, format_args!("\x1b[{below}A"));
        }
        bytes.push_str("\x1b7");
        if inserted > 0 {
            push(&mut bytes, format_args!("\x1b[{inserted}L\r"));
            for line in above.lines() {
                push(&mut bytes, format_args!("{line}\r\n"));
            }
        }
        if inserted > 0 || rows.len() != before {
            bytes.push_str("\x1b[1B\r\x1b[J\x1b[1A");
        }
        bytes.push_str(NO_WRAP);
        for row in rows {
            push(&mut bytes, format_args!("\x1b[1B\r{row}\x1b[K"));
        }
        push(&mut bytes, format_args!("{WRAP}\x1b8"));
        if inserted > 0 {
            push(&mut bytes, format_args!("\x1b[{inserted}B"));
        }
        Some(bytes)
    }

    /// Records that a line was typed, so the cursor is on the next row.
    pub(super) fn line_typed(&mut self) {
        if let Some((_, size)) = &mut self.drawn {
            // Forces a full redraw.
            size.rows = 0;
        }
    }

    /// The final bytes, which erase the table and print the incomplete line of the child.
    pub(super) fn close(&mut self, size: TerminalSize) -> String {
        self.table.clear();
        let mut rest = std::mem::take(&mut self.unfinished);
        if !rest.is_empty() {
            rest.push('\n');
        }
        match self.drawn.is_some() || !rest.is_empty() {
            true => self.draw(&rest, size),
            false => String::new(),
        }
    }

    /// The rows, clipped to the terminal's width and to two rows less than its height.
    fn rows(&self, size: TerminalSize) -> Vec<String> {
        // A carriage return restarts the line.
        let unfinished = self.unfinished.rsplit('\r').find(|part| !part.is_empty());
        let rows = unfinished
            .into_iter()
            .chain(self.table.iter().map(String::as_str));
        rows.take(size.rows.saturating_sub(2))
            .map(|row| clipped(row, size.columns))
            .collect()
    }
}

fn push(bytes: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = bytes.write_fmt(what);
}

/// The start of a row, at most `columns` wide. Control sequences have no width and are kept.
fn clipped(row: &str, columns: usize) -> String {
    let mut text = String::new();
    let (mut taken, mut styled) = (0, false);
    let mut chars = row.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            styled = true;
            text.push(c);
            text.push_str(&sequence(&mut chars));
            continue;
        }
        taken += width(c);
        if taken > columns {
            break;
        }
        text.push(c);
    }
    if styled {
        text.push_str("\x1b[m");
    }
    text
}

/// The rest of a control sequence (ECMA-48, 5.4): CSI up to its final byte, or otherwise one character.
fn sequence(chars: &mut std::str::Chars<'_>) -> String {
    let mut rest = String::new();
    for c in chars {
        rest.push(c);
        if rest.len() == 1 && c != '[' || rest.len() > 1 && ('\x40'..='\x7e').contains(&c) {
            break;
        }
    }
    rest
}

/// The width of a character in columns, by blocks of wide and zero-width characters (Unicode Standard Annex 11).
/// Exceptions inside the blocks are ignored.
fn width(c: char) -> usize {
    match u32::from(c) {
        0..0x20 | 0x7f..0xa0 | 0x300..0x370 | 0x200b..0x2010 | 0xfe00..0xfe10 => 0,
        0x1100..0x1160
        | 0x2e80..0xa4d0
        | 0xac00..0xd7a4
        | 0xf900..0xfb00
        | 0xfe30..0xfe70
        | 0xff00..0xff61
        | 0xffe0..0xffe7
        | 0x1f300..0x1f650
        | 0x1f680..0x1f700
        | 0x1f900..0x1fa00
        | 0x20000..0x3fffe => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests;
