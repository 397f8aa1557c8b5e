//! A scripted source of input for tests and benchmarks. It is read line by line from a file or
//! standard input.
//!
//! There is one command per line, which may be indented. Empty lines and lines that start with `#` are skipped:
//!
//! ```text
//! key KEY_A down          # names of linux/input-event-codes.h; down, up, or nothing for both
//! text Hello, world       # the rest of the line, as typed on a US keyboard
//! move 0.5 0.5            # absolute: fractions of the picture
//! rel 10 -4               # relative: pixels
//! button left down        # left right middle side extra; down, up, or nothing for both
//! wheel 0 -1              # notches to the right and up, fractions allowed
//! wait 20ms               # or s, us
//! release                 # releases everything
//! ```
//!
//! The source closes at the end of the script.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::time::{Duration, Instant};

use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{InputSource, SourceError, SourceEvent};
use crate::keyboard::codes;

/// Plays a script.
pub struct Script {
    name: String,
    lines: Lines,
    /// The start of a line that has not arrived completely. It is shorter than [`MAX_LINE`].
    partial: Vec<u8>,
    /// Whether the end of a pipe or terminal was read. A terminal reports its end only once.
    ended: bool,
    line: usize,
    ready: VecDeque<InputEvent>,
    wait_until: Option<Instant>,
}

/// The part of a script that has not been read yet.
enum Lines {
    /// A complete script: a read does not wait.
    Complete(Box<dyn BufRead + Send>),
    /// A pipe or terminal to which the script is written while it is played: a read may wait.
    Arriving(BufReader<File>),
}

impl Lines {
    fn reader(&mut self) -> &mut dyn BufRead {
        match self {
            Lines::Complete(reader) => reader,
            Lines::Arriving(reader) => reader,
        }
    }
}

/// Maximum line length in bytes, which limits memory for files that are not scripts.
const MAX_LINE: usize = 4096;

impl Script {
    /// Opens a file; `-` is standard input. A file is first checked completely, so that errors are
    /// reported before any command runs.
    ///
    /// # Errors
    /// [`SourceError`] if the file can't be opened or has an invalid line. The message contains the invalid line.
    pub fn open(path: &str) -> Result<Script, SourceError> {
        match path {
            "-" => {
                let own = std::io::stdin().as_fd().try_clone_to_owned();
                let file = own.map_err(|cause| {
                    SourceError(format!("standard input can't be read: {cause}"))
                })?;
                let lines = Lines::Arriving(BufReader::new(file.into()));
                Ok(Script::of("standard input", lines))
            }
            _ => {
                let refused = |cause: std::io::Error| {
                    SourceError(format!(
                        "the input script {path:?} can't be opened: {cause}"
                    ))
                };
                // A pipe may have no writer yet. Opening it then waits for a writer.
                let kind = std::fs::metadata(path).map_err(refused)?.file_type();
                let file = File::open(path).map_err(refused)?;
                if kind.is_file() {
                    let mut rehearsed = Script::new(path, BufReader::new(file));
                    while rehearsed.read_line()? {
                        rehearsed.ready.clear();
                    }
                    let lines = BufReader::new(File::open(path).map_err(refused)?);
                    return Ok(Script::new(path, lines));
                }
                if !kind.is_fifo() && !rustix::termios::isatty(&file) {
                    return Err(SourceError(format!(
                        "the input script {path:?} is not a file, pipe or terminal"
                    )));
                }
                Ok(Script::of(path, Lines::Arriving(BufReader::new(file))))
            }
        }
    }

    /// Plays `lines`; `name` is for messages.
    pub fn new(name: &str, lines: impl BufRead + Send + 'static) -> Script {
        Script::of(name, Lines::Complete(Box::new(lines)))
    }

    fn of(name: &str, lines: Lines) -> Script {
        Script {
            name: name.to_owned(),
            lines,
            partial: Vec::new(),
            ended: false,
            line: 0,
            ready: VecDeque::new(),
            wait_until: None,
        }
    }

    /// Waits until the next line has arrived completely or the script ends, but not longer than until `end`. Returns
    /// `false` if neither has happened; a signal ends the wait early.
    fn wait(&mut self, end: Option<Instant>) -> std::io::Result<bool> {
        let Lines::Arriving(reader) = &mut self.lines else {
            return Ok(true);
        };
        loop {
            let arrived = reader.buffer();
            let too_long = self.partial.len() + arrived.len() >= MAX_LINE;
            if self.ended || too_long || arrived.contains(&b'\n') {
                return Ok(true);
            }
            self.partial.extend_from_slice(arrived);
            let moved = arrived.len();
            reader.consume(moved);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut polled = [PollFd::new(reader.get_ref(), PollFlags::IN)];
            match rustix::event::poll(&mut polled, left.as_ref()) {
                Ok(0) | Err(Errno::INTR) => return Ok(false),
                Ok(_) => {}
                Err(cause) => return Err(cause.into()),
            }
            match reader.fill_buf() {
                Ok(bytes) => self.ended = bytes.is_empty(),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => return Ok(false),
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Reads the next line. Returns `false` at the end of the script.
    fn read_line(&mut self) -> Result<bool, SourceError> {
        let mut line = std::mem::take(&mut self.partial);
        let bound = u64::try_from(MAX_LINE - line.len()).unwrap_or(u64::MAX);
        let read = if self.ended {
            Ok(0)
        } else {
            std::io::Read::take(self.lines.reader(), bound).read_until(b'\n', &mut line)
        };
        self.line += 1;
        let wrong = |what: String| SourceError(format!("{}:{}: {what}", self.name, self.line));
        read.map_err(|cause| wrong(format!("can't be read: {cause}")))?;
        if line.len() == MAX_LINE && line.last() != Some(&b'\n') {
            return Err(wrong(format!("the line is longer than {MAX_LINE} bytes")));
        }
        let line = str::from_utf8(&line).map_err(|_| wrong("the line is not UTF-8".to_owned()))?;
        let command = line.trim_start_matches([' ', '\t']);
        match parse(command.trim_end_matches(['\n', '\r'])).map_err(wrong)? {
            Step::Events(events) => self.ready.extend(events),
            Step::Wait(span) => self.wait_until = Some(Instant::now() + span),
        }
        Ok(!line.is_empty())
    }
}

impl InputSource for Script {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(until) = self.wait_until {
                let now = Instant::now();
                let stop = end.map_or(until, |end| end.min(until));
                if let Some(left) = stop
                    .checked_duration_since(now)
                    .filter(|left| !left.is_zero())
                {
                    std::thread::sleep(left);
                }
                if stop < until {
                    return Ok(SourceEvent::TimedOut);
                }
                self.wait_until = None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Ok(SourceEvent::Input(event));
            }
            let arrived = self
                .wait(end)
                .map_err(|cause| SourceError(format!("{} can't be read: {cause}", self.name)))?;
            if !arrived {
                return Ok(SourceEvent::TimedOut);
            }
            if !self.read_line()? {
                return Ok(SourceEvent::Closed);
            }
        }
    }
}

/// A line's command.
#[derive(PartialEq, Debug)]
enum Step {
    Events(Vec<InputEvent>),
    Wait(Duration),
}

fn parse(line: &str) -> Result<Step, String> {
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    if command == "text" {
        return Ok(Step::Events(rest.chars().flat_map(typed).collect()));
    }
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let events = match (command, words.as_slice()) {
        ("", _) => Vec::new(),
        (comment, _) if comment.starts_with('#') => Vec::new(),
        ("key", [name, how @ ..]) => {
            let code = codes::by_name(name).ok_or_else(|| {
                format!("unknown key {name:?} (use the names of input-event-codes.h)")
            })?;
            strokes(how)?
                .iter()
                .map(|&pressed| key(code, None, pressed))
                .collect()
        }
        ("move", [x, y]) => {
            vec![InputEvent::PointerAbsolute {
                x: fraction(x)?,
                y: fraction(y)?,
            }]
        }
        ("rel", [dx, dy]) => {
            vec![InputEvent::PointerRelative {
                dx: number(dx)?,
                dy: number(dy)?,
            }]
        }
        ("button", [name, how @ ..]) => {
            let button = match *name {
                "left" => Button::LEFT,
                "right" => Button::RIGHT,
                "middle" => Button::MIDDLE,
                "side" => Button::SIDE,
                "extra" => Button::EXTRA,
                _ => return Err(format!("unknown button {name:?}")),
            };
            let press = |&pressed: &bool| InputEvent::Button { button, pressed };
            strokes(how)?.iter().map(press).collect()
        }
        ("wheel", [dx, dy]) => vec![InputEvent::Wheel {
            dx: notches(dx)?,
            dy: notches(dy)?,
        }],
        ("wait", [span]) => return Ok(Step::Wait(duration(span)?)),
        ("release", []) => vec![InputEvent::ReleaseAll],
        _ => return Err(format!("unknown command {line:?}")),
    };
    Ok(Step::Events(events))
}

fn key(code: KeyCode, text: Option<char>, pressed: bool) -> InputEvent {
    InputEvent::Key {
        code,
        text: text.filter(|_| pressed),
        pressed,
    }
}

/// The key strokes of a character on a US keyboard, or only its text if it has no key there.
fn typed(ch: char) -> Vec<InputEvent> {
    const SHIFT: KeyCode = KeyCode(42);
    const UNKNOWN: KeyCode = KeyCode(240);
    let (code, shift) = codes::us_key(ch).unwrap_or((UNKNOWN, false));
    let text = Some(ch).filter(|ch| !ch.is_control());
    let mut events = vec![key(code, text, true), key(code, None, false)];
    if shift {
        events.insert(0, key(SHIFT, None, true));
        events.push(key(SHIFT, None, false));
    }
    events
}

fn strokes(how: &[&str]) -> Result<&'static [bool], String> {
    match how {
        [] => Ok(&[true, false]),
        ["down"] => Ok(&[true]),
        ["up"] => Ok(&[false]),
        other => Err(format!("{:?} is neither down nor up", other.join(" "))),
    }
}

fn number(word: &str) -> Result<i16, String> {
    word.parse()
        .map_err(|_| format!("{word:?} is not an integer from -32768 to 32767"))
}

fn fraction(word: &str) -> Result<u16, String> {
    let value: f64 = word.parse().unwrap_or(f64::NAN);
    if !(0.0..=1.0).contains(&value) {
        return Err(format!("{word:?} is not a number from 0 to 1"));
    }
    // The value is in range by the check above.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok((value * 65_535.0).round() as u16)
}

fn notches(word: &str) -> Result<i16, String> {
    let value: f64 = word.parse().unwrap_or(f64::NAN);
    if !(-273.0..=273.0).contains(&value) {
        return Err(format!(
            "{word:?} is not a number of notches from -273 to 273"
        ));
    }
    // 273 notches are 32 760 units.
    #[allow(clippy::cast_possible_truncation)]
    Ok((value * 120.0).round() as i16)
}

fn duration(word: &str) -> Result<Duration, String> {
    let at = word
        .find(|ch: char| ch.is_ascii_alphabetic())
        .unwrap_or(word.len());
    let (count, unit) = word.split_at(at);
    let wrong = || format!("{word:?} is not a duration such as 20ms, 1s or 500us");
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let count = u64::from(count);
    match unit {
        "us" => Ok(Duration::from_micros(count)),
        "ms" => Ok(Duration::from_millis(count)),
        "s" => Ok(Duration::from_secs(count)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(text: &'static str) -> Result<Vec<InputEvent>, SourceError> {
        let mut script = Script::new("test", text.as_bytes());
        let mut events = Vec::new();
        loop {
            match script.next(None)? {
                SourceEvent::Input(event) => events.push(event),
                SourceEvent::Closed => return Ok(events),
                SourceEvent::TimedOut
                | SourceEvent::ToggleOverlay
                | SourceEvent::NextEyes
                | SourceEvent::Recentre
                | SourceEvent::Grabbed(_)
                | SourceEvent::Sound(_)
                | SourceEvent::Keys(_)
                | SourceEvent::Resized(_)
                | SourceEvent::Focused(_)
                | SourceEvent::Sampled(..) => {}
            }
        }
    }

    #[test]
    fn every_command_in_order() {
        let events = play(
            "# a comment\n\nkey KEY_A down # held\nmove 0.5 1\nrel 10 -4\nbutton left\n\
             wheel 0 -1.5\nwait 1us\nrelease\ntext #\u{20ac}",
        );
        let a = KeyCode(30);
        let (shift, three, unknown) = (KeyCode(42), KeyCode(4), KeyCode(240));
        let expected = [
            key(a, None, true),
            InputEvent::PointerAbsolute {
                x: 32_768,
                y: 65_535,
            },
            InputEvent::PointerRelative { dx: 10, dy: -4 },
            InputEvent::Button {
                button: Button::LEFT,
                pressed: true,
            },
            InputEvent::Button {
                button: Button::LEFT,
                pressed: false,
            },
            InputEvent::Wheel { dx: 0, dy: -180 },
            InputEvent::ReleaseAll,
            key(shift, None, true),
            key(three, Some('#'), true),
            key(three, None, false),
            key(shift, None, false),
            key(unknown, Some('\u{20ac}'), true),
            key(unknown, None, false),
        ];
        assert_eq!(events.expect("valid"), expected);
    }

    #[test]
    fn an_indented_command_is_played() {
        let events = play("  release\n\trel 1 2\n  # a comment\n  \n").expect("valid");
        let moved = InputEvent::PointerRelative { dx: 1, dy: 2 };
        assert_eq!(events, [InputEvent::ReleaseAll, moved]);
        let error = play("release\n  jump").expect_err("no command").to_string();
        assert!(error.starts_with("test:2: "), "{error}");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line, what) in [
            ("release\nkey KEY_NONE", 2, "unknown key"),
            ("move 2 0", 1, "from 0 to 1"),
            ("wait 20", 1, "not a duration"),
            ("jump", 1, "unknown command"),
            ("button left sideways", 1, "neither down nor up"),
            ("rel 99999 0", 1, "not an integer"),
        ] {
            let error = play(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("test:{line}: ")), "{error}");
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_wait_longer_than_the_timeout_times_out() {
        let mut script = Script::new("test", "wait 1000s\nrelease".as_bytes());
        let event = script.next(Some(Duration::from_millis(1))).expect("valid");
        assert_eq!(event, SourceEvent::TimedOut);
    }

    /// Without the timeout, a client could not end while a line is missing or incomplete.
    #[test]
    fn an_idle_pipe_times_out_until_a_line_arrives() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut script = Script::of("pipe", Lines::Arriving(BufReader::new(file)));
        let mut next = |millis| {
            script
                .next(Some(Duration::from_millis(millis)))
                .expect("valid")
        };
        assert_eq!(next(1), SourceEvent::TimedOut);
        let mut write = |bytes: &[u8]| {
            std::io::Write::write_all(&mut writer, bytes).expect("a reader");
        };
        write(b"rel");
        assert_eq!(next(1), SourceEvent::TimedOut);
        write(b"ease\nmove 0 0\nrelea");
        assert_eq!(next(10_000), SourceEvent::Input(InputEvent::ReleaseAll));
        let moved = InputEvent::PointerAbsolute { x: 0, y: 0 };
        assert_eq!(next(10_000), SourceEvent::Input(moved));
        assert_eq!(next(1), SourceEvent::TimedOut);
        write(b"se");
        drop(writer);
        assert_eq!(next(10_000), SourceEvent::Input(InputEvent::ReleaseAll));
        assert_eq!(next(10_000), SourceEvent::Closed);
    }
}
