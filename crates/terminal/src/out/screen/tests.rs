use super::*;

/// A terminal of a few rows: what a person sees, and what has scrolled off.
struct Terminal {
    room: Room,
    rows: Vec<String>,
    /// The row and the column of the cursor.
    at: (usize, usize),
    saved: (usize, usize),
    /// The first row on the screen.
    top: usize,
    wraps: bool,
}

impl Terminal {
    fn new(columns: usize, rows: usize) -> Terminal {
        Terminal {
            room: Room { columns, rows },
            rows: vec![String::new()],
            at: (0, 0),
            saved: (0, 0),
            top: 0,
            wraps: true,
        }
    }

    fn down(&mut self) {
        self.at.0 += 1;
        if self.at.0 == self.rows.len() {
            self.rows.push(String::new());
        }
        self.top = self.top.max((self.at.0 + 1).saturating_sub(self.room.rows));
    }

    fn put(&mut self, c: char) {
        if self.at.1 >= self.room.columns {
            match self.wraps {
                true => {
                    self.at.1 = 0;
                    self.down();
                }
                false => self.at.1 = self.room.columns - 1,
            }
        }
        let (row, column) = self.at;
        let mut chars: Vec<char> = self.rows[row].chars().collect();
        chars.resize(chars.len().max(column + 1), ' ');
        chars[column] = c;
        self.rows[row] = chars.into_iter().collect();
        self.at.1 += 1;
    }

    fn write(&mut self, bytes: &str) {
        let mut chars = bytes.chars();
        while let Some(c) = chars.next() {
            match c {
                '\r' => self.at.1 = 0,
                '\n' => self.down(),
                '\x1b' => self.control(&sequence(&mut chars)),
                c => self.put(c),
            }
        }
    }

    fn control(&mut self, sequence: &str) {
        let (row, column) = self.at;
        let number = || {
            let digits = sequence.trim_matches(|c: char| !c.is_ascii_digit());
            digits.parse::<usize>().unwrap_or(1)
        };
        match sequence {
            "7" => self.saved = self.at,
            "8" => self.at = self.saved,
            "[J" => {
                self.rows.truncate(row + 1);
                self.rows[row] = self.rows[row].chars().take(column).collect();
            }
            "[K" => self.rows[row] = self.rows[row].chars().take(column).collect(),
            "[H" => self.at = (self.top, 0),
            "[m" => {}
            "D" => self.down(),
            insert if insert.ends_with('L') => {
                for _ in 0..number() {
                    self.rows.insert(row, String::new());
                }
                self.rows.truncate(self.top + self.room.rows);
                self.at.1 = 0;
            }
            "[?7l" => self.wraps = false,
            "[?7h" => self.wraps = true,
            up if up.ends_with('A') => self.at.0 = (row - number()).max(self.top),
            down if down.ends_with('B') => {
                self.at.0 = (row + number()).min(self.top + self.room.rows - 1);
                self.rows
                    .resize(self.rows.len().max(self.at.0 + 1), String::new());
            }
            other => panic!("the terminal does not know {other:?}"),
        }
    }

    /// What is on the screen and above it, without empty rows.
    fn text(&self) -> Vec<&str> {
        let rows = self.rows.iter().map(|row| row.trim_end());
        rows.filter(|row| !row.is_empty()).collect()
    }

    /// What is on the screen now.
    fn seen(&self) -> Vec<&str> {
        let rows = self.rows.iter().skip(self.top).take(self.room.rows);
        rows.map(|row| row.trim_end())
            .filter(|row| !row.is_empty())
            .collect()
    }

    /// It is made narrower or wider, as terminals are that wrap their lines anew: the cursor stays
    /// with its character.
    fn resize(&mut self, columns: usize) {
        let mut rows = Vec::new();
        let mut at = self.at;
        for (n, row) in self.rows.iter().enumerate() {
            if n == self.at.0 {
                at = (rows.len() + self.at.1 / columns, self.at.1 % columns);
            }
            let chars: Vec<char> = row.chars().collect();
            rows.extend(chars.chunks(columns).map(|part| part.iter().collect()));
            if chars.is_empty() {
                rows.push(String::new());
            }
        }
        self.rows = rows;
        self.at = at;
        self.room.columns = columns;
        self.top = self.rows.len().saturating_sub(self.room.rows).min(at.0);
    }
}

fn table(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A screen and what it is written to.
struct Pair {
    screen: Screen,
    terminal: Terminal,
}

impl Pair {
    fn new(columns: usize, rows: usize) -> Pair {
        Pair {
            screen: Screen::default(),
            terminal: Terminal::new(columns, rows),
        }
    }

    fn say(&mut self, above: &str) {
        let bytes = self.screen.draw(above, self.terminal.room);
        self.terminal.write(&bytes);
    }

    fn table(&mut self, rows: &[&str]) {
        self.screen.set_table(table(rows));
        self.say("");
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write(keys);
        if keys.ends_with('\n') {
            self.screen.line_typed();
        }
    }

    fn output(&mut self, text: &str) {
        let lines = self.screen.take_output(text);
        self.say(&lines);
    }
}

#[test]
fn messages_stay_above_the_table() {
    let mut pair = Pair::new(40, 8);
    pair.say("streaming\n");
    pair.table(&["t1", "t2"]);
    pair.say("desk joins\n");
    pair.table(&["u1", "u2", "u3"]);
    pair.say("the PIN is 123456\n");
    pair.table(&["v1", "v2", "v3"]);
    let messages = ["streaming", "desk joins", "the PIN is 123456"];
    assert_eq!(
        pair.terminal.text(),
        [&messages[..], &["v1", "v2", "v3"]].concat()
    );
    for n in 0..50 {
        pair.say(&format!("message {n}\n"));
        pair.table(&["w1", "w2"]);
    }
    let text = pair.terminal.text();
    assert_eq!(
        text.len(),
        3 + 50 + 2,
        "each is there, and one table: {text:?}"
    );
    let last = ["message 47", "message 48", "message 49", "w1", "w2"];
    assert!(pair.terminal.seen().ends_with(&last), "{text:?}");
}

#[test]
fn a_message_that_is_wrapped_moves_nothing() {
    let mut pair = Pair::new(10, 8);
    pair.table(&["t1", "t2"]);
    pair.say("a message of more than two rows\n");
    pair.table(&["u1", "u2"]);
    let text = pair.terminal.text();
    assert_eq!(
        text,
        ["a message", "of more th", "an two row", "s", "u1", "u2"]
    );
}

#[test]
fn a_row_that_is_too_long_is_cut_and_not_wrapped() {
    let mut pair = Pair::new(10, 6);
    for _ in 0..3 {
        pair.table(&["0123456789abc", "日本語日本語日本語", "t3"]);
    }
    assert_eq!(pair.terminal.text(), ["0123456789", "日本語日本", "t3"]);
    // More rows than the terminal has.
    let rows: Vec<String> = (0..20).map(|n| format!("row {n}")).collect();
    pair.screen.set_table(rows);
    pair.say("said\n");
    pair.say("");
    assert_eq!(
        pair.terminal.text(),
        ["said", "row 0", "row 1", "row 2", "row 3"]
    );
}

#[test]
fn after_a_change_of_size_there_is_one_table() {
    for keeps_typed in [false, true] {
        resize(keeps_typed);
    }
}

fn resize(keeps_typed: bool) {
    let mut pair = Pair::new(40, 12);
    pair.screen.keeps_typed = keeps_typed;
    pair.say("a message that stays where it is\n");
    for columns in [20, 7, 33, 12, 40] {
        pair.table(&["a row that is as long as that", "another such row"]);
        // The program is told later.
        let before = pair.terminal.room;
        pair.terminal.resize(columns);
        pair.screen
            .set_table(table(&["a row that is as long as that", "another one"]));
        let bytes = pair.screen.draw("", before);
        pair.terminal.write(&bytes);
        pair.table(&["a row that is as long as that", "another such row"]);
        let row = |text: &str| text.chars().take(columns).collect::<String>();
        let (first, second) = (
            row("a row that is as long as that"),
            row("another such row"),
        );
        // Rows that were wrapped anew may have gone above the screen.
        let text = pair.terminal.seen();
        let table = [first.trim_end(), second.trim_end()];
        assert!(text.ends_with(&table), "{columns}: {text:?}");
        let said: String = text[..text.len() - 2].concat();
        let said = said.replace(' ', "");
        assert_eq!(said, "amessagethatstayswhereitis", "{columns}: {text:?}");
    }
}

#[test]
fn what_is_typed_stays_while_the_table_is_drawn() {
    let mut pair = Pair::new(30, 8);
    pair.screen.keep_typed();
    pair.table(&["t1", "t2"]);
    pair.types("b 1");
    pair.table(&["u1", "u2"]);
    pair.types("0M");
    assert_eq!(pair.terminal.text(), ["b 10M", "u1", "u2"]);
    pair.types("\r\n");
    pair.say("the bitrate is 10 Mb/s\n");
    pair.table(&["v1", "v2"]);
    let text = pair.terminal.text();
    assert_eq!(text, ["b 10M", "the bitrate is 10 Mb/s", "v1", "v2"]);
}

#[test]
fn what_is_typed_stays_below_messages() {
    let mut pair = Pair::new(20, 7);
    pair.screen.keep_typed();
    pair.table(&["t1", "t2"]);
    pair.types("b 1");
    // More than the terminal has rows, one of two rows, and a table of another size each time.
    let mut said = Vec::new();
    for n in 0..9 {
        let line = format!("message {n} of many, many more");
        pair.say(&format!("{line}\n"));
        said.extend([line[..20].to_owned(), line[20..].to_owned()]);
        let rows: Vec<String> = (0..=n % 3).map(|row| format!("u{row}")).collect();
        pair.screen.set_table(rows.clone());
        let bytes = pair.screen.draw("", pair.terminal.room);
        pair.terminal.write(&bytes);
        let typed = "b 1".to_owned();
        let expected: Vec<&String> = said.iter().chain([&typed]).chain(&rows).collect();
        assert_eq!(pair.terminal.text(), expected, "{n}");
    }
    pair.types("0M");
    assert!(pair.terminal.seen().contains(&"b 10M"));
}

#[test]
fn a_line_that_nobody_reads_leaves_one_table() {
    let mut pair = Pair::new(20, 8);
    pair.table(&["t1", "t2", "t3"]);
    // Typed at a program that reads no terminal.
    pair.terminal.write("\r\n");
    pair.table(&["t1", "t2", "t3"]);
    assert_eq!(pair.terminal.text(), ["t1", "t2", "t3"]);
    pair.say("said\n");
    pair.table(&["u1", "u2", "u3"]);
    assert_eq!(pair.terminal.text(), ["said", "u1", "u2", "u3"]);
}

#[test]
fn an_unfinished_line_is_not_cut_into() {
    let mut pair = Pair::new(30, 8);
    pair.table(&["t1"]);
    pair.output("Loading ");
    pair.say("desk joins\n");
    pair.output("maps\nready");
    assert_eq!(
        pair.terminal.text(),
        ["desk joins", "Loading maps", "ready", "t1"]
    );
    // Progress is written over itself.
    pair.output("\r10 %\r20 %");
    pair.table(&["t2"]);
    assert_eq!(
        pair.terminal.text(),
        ["desk joins", "Loading maps", "20 %", "t2"]
    );
    let bytes = pair.screen.close(pair.terminal.room);
    pair.terminal.write(&bytes);
    let text = pair.terminal.text();
    assert!(text.ends_with(&["Loading maps", "20 %y"]), "{text:?}");
}

#[test]
fn at_the_end_the_rows_are_gone() {
    let mut pair = Pair::new(30, 6);
    pair.say("said\n");
    pair.table(&["t1", "t2"]);
    let bytes = pair.screen.close(pair.terminal.room);
    pair.terminal.write(&bytes);
    assert_eq!(pair.terminal.text(), ["said"]);
    assert_eq!(pair.terminal.at, (1, 0), "what comes next begins there");
    assert_eq!(pair.screen.close(pair.terminal.room), "", "once");
}

#[test]
fn colours_of_a_row_end_with_it() {
    assert_eq!(clipped("\x1b[31mred and more", 3), "\x1b[31mred\x1b[m");
    assert_eq!(clipped("plain", 9), "plain");
}
