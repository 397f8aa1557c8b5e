use super::*;

/// A terminal emulator: the visible rows, and those that have scrolled off.
struct Terminal {
    size: TerminalSize,
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
            size: TerminalSize { columns, rows },
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
        self.top = self.top.max((self.at.0 + 1).saturating_sub(self.size.rows));
    }

    fn put(&mut self, c: char) {
        if self.at.1 >= self.size.columns {
            match self.wraps {
                true => {
                    self.at.1 = 0;
                    self.down();
                }
                false => self.at.1 = self.size.columns - 1,
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
                self.rows.truncate(self.top + self.size.rows);
                self.at.1 = 0;
            }
            "[?7l" => self.wraps = false,
            "[?7h" => self.wraps = true,
            up if up.ends_with('A') => self.at.0 = (row - number()).max(self.top),
            down if down.ends_with('B') => {
                self.at.0 = (row + number()).min(self.top + self.size.rows - 1);
                self.rows
                    .resize(self.rows.len().max(self.at.0 + 1), String::new());
            }
            other => panic!("the terminal does not support {other:?}"),
        }
    }

    /// All rows, including the scrollback, without empty ones.
    fn text(&self) -> Vec<&str> {
        let rows = self.rows.iter().map(|row| row.trim_end());
        rows.filter(|row| !row.is_empty()).collect()
    }

    /// The visible rows, without empty ones.
    fn visible(&self) -> Vec<&str> {
        let rows = self.rows.iter().skip(self.top).take(self.size.rows);
        rows.map(|row| row.trim_end())
            .filter(|row| !row.is_empty())
            .collect()
    }

    /// A change of width on a terminal that rewraps its lines. The cursor stays with its character.
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
        self.size.columns = columns;
        self.top = self.rows.len().saturating_sub(self.size.rows).min(at.0);
    }
}

fn table(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A screen and the terminal on which it is drawn.
struct Fixture {
    screen: Screen,
    terminal: Terminal,
}

impl Fixture {
    fn new(columns: usize, rows: usize) -> Fixture {
        Fixture {
            screen: Screen::default(),
            terminal: Terminal::new(columns, rows),
        }
    }

    fn print(&mut self, above: &str) {
        let bytes = self.screen.draw(above, self.terminal.size);
        self.terminal.write(&bytes);
    }

    fn table(&mut self, rows: &[&str]) {
        self.screen.set_table(table(rows));
        self.print("");
    }

    fn type_keys(&mut self, keys: &str) {
        self.terminal.write(keys);
        if keys.ends_with('\n') {
            self.screen.line_typed();
        }
    }

    fn output(&mut self, text: &str) {
        let lines = self.screen.take_output(text);
        self.print(&lines);
    }
}

#[test]
fn messages_stay_above_the_table() {
    let mut fixture = Fixture::new(40, 8);
    fixture.print("streaming\n");
    fixture.table(&["t1", "t2"]);
    fixture.print("desk joins\n");
    fixture.table(&["u1", "u2", "u3"]);
    fixture.print("the PIN is 123456\n");
    fixture.table(&["v1", "v2", "v3"]);
    let messages = ["streaming", "desk joins", "the PIN is 123456"];
    assert_eq!(
        fixture.terminal.text(),
        [&messages[..], &["v1", "v2", "v3"]].concat()
    );
    for n in 0..50 {
        fixture.print(&format!("message {n}\n"));
        fixture.table(&["w1", "w2"]);
    }
    let text = fixture.terminal.text();
    assert_eq!(
        text.len(),
        3 + 50 + 2,
        "each message and one table: {text:?}"
    );
    let last = ["message 47", "message 48", "message 49", "w1", "w2"];
    assert!(fixture.terminal.visible().ends_with(&last), "{text:?}");
}

#[test]
fn a_message_that_is_wrapped_moves_nothing() {
    let mut fixture = Fixture::new(10, 8);
    fixture.table(&["t1", "t2"]);
    fixture.print("a message of more than two rows\n");
    fixture.table(&["u1", "u2"]);
    let text = fixture.terminal.text();
    assert_eq!(
        text,
        ["a message", "of more th", "an two row", "s", "u1", "u2"]
    );
}

#[test]
fn a_row_that_is_too_long_is_cut_and_not_wrapped() {
    let mut fixture = Fixture::new(10, 6);
    for _ in 0..3 {
        fixture.table(&["0123456789abc", "日本語日本語日本語", "t3"]);
    }
    assert_eq!(fixture.terminal.text(), ["0123456789", "日本語日本", "t3"]);
    // A table with more rows than the terminal.
    let rows: Vec<String> = (0..20).map(|n| format!("row {n}")).collect();
    fixture.screen.set_table(rows);
    fixture.print("said\n");
    fixture.print("");
    assert_eq!(
        fixture.terminal.text(),
        ["said", "row 0", "row 1", "row 2", "row 3"]
    );
}

#[test]
fn after_a_change_of_size_there_is_one_table() {
    for tracks_typed_lines in [false, true] {
        resize(tracks_typed_lines);
    }
}

fn resize(tracks_typed_lines: bool) {
    let mut fixture = Fixture::new(40, 12);
    fixture.screen.tracks_typed_lines = tracks_typed_lines;
    fixture.print("a message that stays where it is\n");
    for columns in [20, 7, 33, 12, 40] {
        fixture.table(&["a row that is as long as that", "another such row"]);
        // The program detects the new size later.
        let before = fixture.terminal.size;
        fixture.terminal.resize(columns);
        fixture
            .screen
            .set_table(table(&["a row that is as long as that", "another one"]));
        let bytes = fixture.screen.draw("", before);
        fixture.terminal.write(&bytes);
        fixture.table(&["a row that is as long as that", "another such row"]);
        let row = |text: &str| text.chars().take(columns).collect::<String>();
        let (first, second) = (
            row("a row that is as long as that"),
            row("another such row"),
        );
        // Rewrapped rows may have scrolled off.
        let text = fixture.terminal.visible();
        let table = [first.trim_end(), second.trim_end()];
        assert!(text.ends_with(&table), "{columns}: {text:?}");
        let said: String = text[..text.len() - 2].concat();
        let said = said.replace(' ', "");
        assert_eq!(said, "amessagethatstayswhereitis", "{columns}: {text:?}");
    }
}

#[test]
fn input_is_preserved_while_the_table_is_drawn() {
    let mut fixture = Fixture::new(30, 8);
    fixture.screen.track_typed_lines();
    fixture.table(&["t1", "t2"]);
    fixture.type_keys("b 1");
    fixture.table(&["u1", "u2"]);
    fixture.type_keys("0M");
    assert_eq!(fixture.terminal.text(), ["b 10M", "u1", "u2"]);
    fixture.type_keys("\r\n");
    fixture.print("the bitrate is 10 Mb/s\n");
    fixture.table(&["v1", "v2"]);
    let text = fixture.terminal.text();
    assert_eq!(text, ["b 10M", "the bitrate is 10 Mb/s", "v1", "v2"]);
}

#[test]
fn input_is_preserved_below_messages() {
    let mut fixture = Fixture::new(20, 7);
    fixture.screen.track_typed_lines();
    fixture.table(&["t1", "t2"]);
    fixture.type_keys("b 1");
    // More messages than terminal rows, each two rows long, and a table of varying size.
    let mut said = Vec::new();
    for n in 0..9 {
        let line = format!("message {n} of many, many more");
        fixture.print(&format!("{line}\n"));
        said.extend([line[..20].to_owned(), line[20..].to_owned()]);
        let rows: Vec<String> = (0..=n % 3).map(|row| format!("u{row}")).collect();
        fixture.screen.set_table(rows.clone());
        let bytes = fixture.screen.draw("", fixture.terminal.size);
        fixture.terminal.write(&bytes);
        let typed = "b 1".to_owned();
        let expected: Vec<&String> = said.iter().chain([&typed]).chain(&rows).collect();
        assert_eq!(fixture.terminal.text(), expected, "{n}");
    }
    fixture.type_keys("0M");
    assert!(fixture.terminal.visible().contains(&"b 10M"));
}

#[test]
fn an_unread_input_line_leaves_one_table() {
    let mut fixture = Fixture::new(20, 8);
    fixture.table(&["t1", "t2", "t3"]);
    // The user presses Enter, but the program does not read its input.
    fixture.terminal.write("\r\n");
    fixture.table(&["t1", "t2", "t3"]);
    assert_eq!(fixture.terminal.text(), ["t1", "t2", "t3"]);
    fixture.print("said\n");
    fixture.table(&["u1", "u2", "u3"]);
    assert_eq!(fixture.terminal.text(), ["said", "u1", "u2", "u3"]);
}

#[test]
fn an_unfinished_line_is_not_cut_into() {
    let mut fixture = Fixture::new(30, 8);
    fixture.table(&["t1"]);
    fixture.output("Loading ");
    fixture.print("desk joins\n");
    fixture.output("maps\nready");
    assert_eq!(
        fixture.terminal.text(),
        ["desk joins", "Loading maps", "ready", "t1"]
    );
    // A progress display overwrites itself.
    fixture.output("\r10 %\r20 %");
    fixture.table(&["t2"]);
    assert_eq!(
        fixture.terminal.text(),
        ["desk joins", "Loading maps", "20 %", "t2"]
    );
    let bytes = fixture.screen.close(fixture.terminal.size);
    fixture.terminal.write(&bytes);
    let text = fixture.terminal.text();
    assert!(text.ends_with(&["Loading maps", "20 %y"]), "{text:?}");
}

#[test]
fn at_the_end_the_rows_are_gone() {
    let mut fixture = Fixture::new(30, 6);
    fixture.print("said\n");
    fixture.table(&["t1", "t2"]);
    let bytes = fixture.screen.close(fixture.terminal.size);
    fixture.terminal.write(&bytes);
    assert_eq!(fixture.terminal.text(), ["said"]);
    assert_eq!(fixture.terminal.at, (1, 0), "the next output starts there");
    assert_eq!(fixture.screen.close(fixture.terminal.size), "", "once");
}

#[test]
fn colours_of_a_row_end_with_it() {
    assert_eq!(clipped("\x1b[31mred and more", 3), "\x1b[31mred\x1b[m");
    assert_eq!(clipped("plain", 9), "plain");
}
