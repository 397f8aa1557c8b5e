//! The terminal's picture: messages that stay, and below them rows that are drawn anew in place.
//!
//! The cursor rests on an empty row above the rows that change, where what a person types is echoed.
//! So nobody has to know how many rows of the terminal a drawing takes: all below the cursor is ours, and
//! nothing above it. On a terminal of another width everything is written anew.
//!
//! A value: it makes the bytes (ECMA-48), and another writes them.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// A terminal's size in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Characters in a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// What is drawn.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// The rows of the table.
    table: Vec<String>,
    /// The newest messages above it, at most [`KEPT`].
    said: VecDeque<String>,
    /// What another program has written of a line that it has not finished.
    unfinished: String,
    /// The rows on the terminal, and its size then.
    drawn: Option<(usize, Room)>,
    /// Whether the ends of typed lines are told, so that what is being typed can stay.
    keeps_typed: bool,
}

/// A row is cut at the edge, also where the terminal is narrower than it has said so far (DECAWM).
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// Erases the row of the cursor and all below. Not in one go: some terminals take what is erased from
/// the first row on for something to scroll back to.
const ERASE: &str = "\r\x1b[K\x1b[1B\x1b[J\x1b[1A";

/// The first row, and what erases one and goes to the next. See [`ERASE`].
const TOP: &str = "\x1b[H";
const ERASE_ROW: &str = "\x1b[K\x1b[1B";

/// Messages that are written once more on a terminal of another width: a screen full.
const KEPT: usize = 64;

/// The longest unfinished line that is shown as one; a longer one is shown in parts.
const LONGEST: usize = 4096;

impl Screen {
    /// Puts these rows in the place of those before.
    pub(super) fn set_table(&mut self, rows: Vec<String>) {
        self.table = rows;
    }

    /// From now on each typed line is told by [`Screen::line_typed`].
    pub(super) fn keep_typed(&mut self) {
        self.keeps_typed = true;
    }

    /// Takes what another program has written; the lines that are whole now.
    pub(super) fn take_output(&mut self, text: &str) -> String {
        self.unfinished.push_str(text);
        let whole = match self.unfinished.rfind('\n') {
            Some(end) => end + 1,
            None if self.unfinished.len() > LONGEST => self.unfinished.len(),
            None => 0,
        };
        let rest = self.unfinished.split_off(whole);
        let mut lines = std::mem::replace(&mut self.unfinished, rest);
        if !lines.is_empty() && !lines.ends_with('\n') {
            lines.push('\n');
        }
        lines
    }

    /// The bytes that put `above` (whole lines) above the rows, and draw these.
    pub(super) fn draw(&mut self, above: &str, room: Room) -> String {
        let rows = self.rows(room);
        if let Some(bytes) = self.draw_around_typed(above, &rows, room) {
            self.remember(above);
            self.drawn = Some((rows.len(), room));
            return bytes;
        }
        let mut bytes = String::new();
        match self.drawn {
            // A terminal of another width may have wrapped its rows anew, and nobody knows where the
            // cursor is among them then.
            Some((_, before)) if before.columns != room.columns => {
                bytes.push_str(TOP);
                bytes.push_str(&ERASE_ROW.repeat(room.rows));
                bytes.push_str(TOP);
                for line in &self.said {
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
            self.drawn = Some((rows.len(), room));
        }
        bytes
    }

    fn remember(&mut self, above: &str) {
        for line in above.lines() {
            if self.said.len() == KEPT {
                self.said.pop_front();
            }
            self.said.push_back(line.to_owned());
        }
    }

    /// The bytes that leave alone what is being typed in the row of the cursor: `above` gets rows of its
    /// own in front of it, and `rows` are drawn behind. `None` where it is not known to stay in place: on
    /// a terminal of another size, or without room, or for text of which nobody knows how many rows it takes.
    fn draw_around_typed(&self, above: &str, rows: &[String], room: Room) -> Option<String> {
        let (before, _) = (self.drawn).filter(|(_, drawn_in)| *drawn_in == room)?;
        let countable = |c: char| c == '\n' || (' '..='~').contains(&c);
        if !self.keeps_typed || !above.chars().all(countable) {
            return None;
        }
        let taken = |line: &str| line.len().div_ceil(room.columns.max(1)).max(1);
        let inserted: usize = above.lines().map(taken).sum();
        let below = inserted + rows.len().max(1);
        if below >= room.rows {
            return None;
        }
        let mut bytes = String::new();
        if inserted > 0 || rows.len() != before {
            // Room below: IND scrolls at the last row and keeps the column.
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

    /// A line was typed to its end: the cursor has gone on to the next row.
    pub(super) fn line_typed(&mut self) {
        if let Some((_, room)) = &mut self.drawn {
            // Nothing is as it was drawn.
            room.rows = 0;
        }
    }

    /// The bytes that end it: nothing that was drawn stays, but what another program has written.
    pub(super) fn close(&mut self, room: Room) -> String {
        self.table.clear();
        let mut rest = std::mem::take(&mut self.unfinished);
        if !rest.is_empty() {
            rest.push('\n');
        }
        match self.drawn.is_some() || !rest.is_empty() {
            true => self.draw(&rest, room),
            false => String::new(),
        }
    }

    /// The rows as they fit: one is never wrapped, and never all of the terminal's are taken.
    fn rows(&self, room: Room) -> Vec<String> {
        // A line that is written over from its beginning.
        let unfinished = self.unfinished.rsplit('\r').find(|part| !part.is_empty());
        let rows = unfinished
            .into_iter()
            .chain(self.table.iter().map(String::as_str));
        rows.take(room.rows.saturating_sub(2))
            .map(|row| clipped(row, room.columns))
            .collect()
    }
}

fn push(bytes: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = bytes.write_fmt(what);
}

/// As much of a row as `columns` hold. Control sequences take none, and are kept.
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

/// The rest of a control sequence (ECMA-48, 5.4): CSI up to its final byte, else one character.
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

/// How many columns a character takes: the blocks of wide characters and of those without a width
/// (Unicode Standard Annex 11), not each exception in them.
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
