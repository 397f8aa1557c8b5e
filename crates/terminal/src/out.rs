//! Output: all that the whole program prints goes through here, by `print!`, `println!`, `eprint!` and
//! `eprintln!` of its own, and so do logs and the words of a panic. No output ever panics.
//!
//! Standard output is what was asked for. Who reads it may have had enough (`openuvr bench link |
//! head -1`). Then the program ends where it stands and takes with it what it has started, without a
//! word, as others do. Standard error is messages: that nobody reads them, or that they can't be
//! written, is no reason to end. A thread of its own writes them, and the table that is drawn in place
//! below them: nobody else waits for a slow terminal. What repeats is merged (see `out::limit`).

mod limit;
mod screen;
mod writer;

use std::any::Any;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use openuvr_proto::printable::is_printable;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

pub use self::screen::Room;
use self::writer::{Job, WRITER};

/// As a shell tells of a program that SIGPIPE (13) has ended.
const NOBODY_READS: u8 = 128 + 13;

/// Why nothing more can be printed; unwinds to [`guarded`].
struct Mute(io::Error);

/// Prints to standard output. Without anybody to hear it, does not return. On the main thread.
pub fn say(words: Arguments<'_>) {
    // What was said before comes first.
    WRITER.flush();
    if let Err(why) = stdout().lock().write_fmt(words) {
        // Not a panic: no hook is asked, and nothing is written about it.
        resume_unwind(Box::new(Mute(why)));
    }
}

/// Writes a message to standard error, unless there were too many like it. From any thread; waits for
/// nobody.
pub fn tell(words: Arguments<'_>) {
    WRITER.tell(&harmless(&words.to_string()), "");
}

/// The same for what the person has asked for and must see, however much else is told.
pub fn answer(words: Arguments<'_>) {
    WRITER.put(Job::Message(harmless(&words.to_string())));
}

/// Asks on standard error; what is typed comes behind it on the same line.
pub fn ask(words: Arguments<'_>) {
    WRITER.put(Job::Question(harmless(&words.to_string())));
    WRITER.flush();
}

/// Draws these rows below the messages, in the place of those before.
pub fn table(rows: Vec<String>) {
    let rows = rows.iter().map(|row| harmless(row));
    WRITER.put(Job::Table(rows.collect()));
}

/// Takes the rows away that [`table`] has drawn, for good.
pub fn end_table() {
    WRITER.put(Job::EndTable);
}

/// Prints lines that nobody has to read to standard output; from any thread, waits for nobody.
pub fn lines(text: String) {
    WRITER.put(Job::Lines(harmless(&text)));
}

/// Shows what another program has written, which shares the terminal. Waits while too much of it is
/// unwritten.
pub fn pass_on(text: String) {
    WRITER.put_patiently(Job::Output(text));
}

/// Each line that is typed is told by [`line_typed`] from now on.
pub fn keep_typed() {
    WRITER.put(Job::KeepTyped);
}

/// Somebody has typed a line to its end.
pub fn line_typed() {
    WRITER.put(Job::LineTyped);
}

/// The size of the terminal that the table is drawn on; 24 rows of 80 characters if it does not say,
/// as those of a VT100.
pub fn room() -> Room {
    writer::room()
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub fn error_is_terminal() -> bool {
    stderr().is_terminal()
}

/// Runs the program, and says how it has ended also if its output broke. On the main thread.
pub fn guarded(program: impl FnOnce() -> ExitCode) -> ExitCode {
    WRITER.start();
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("without a name").to_owned();
        answer(format_args!(
            "openuvr: a bug, please report it: the thread {thread} {panic}"
        ));
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            answer(format_args!("{trace}"));
        }
        WRITER.flush();
    }));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let code = program();
        // What standard output still holds may be more than there is room for.
        match stdout().flush() {
            Ok(()) => code,
            Err(why) => resume_unwind(Box::new(Mute(why))),
        }
    }));
    let code = match ended {
        Ok(code) => Ok(code),
        Err(unwound) => broken(unwound),
    };
    WRITER.finish();
    code.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The exit code where it was the output that ended the program.
fn broken(unwound: Box<dyn Any + Send>) -> Result<ExitCode, Box<dyn Any + Send>> {
    let mute = unwound.downcast::<Mute>()?;
    if mute.0.kind() == ErrorKind::BrokenPipe {
        return Ok(ExitCode::from(NOBODY_READS));
    }
    answer(format_args!(
        "openuvr: can't write to standard output: {}",
        mute.0
    ));
    Ok(ExitCode::FAILURE)
}

/// Where logs go: the same way as other messages. What somebody asked to see, by `--log debug` or
/// `trace`, is not limited.
pub struct Log;

/// One line of a log.
pub struct Entry {
    limited: bool,
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Entry;

    fn make_writer(&'a self) -> Entry {
        Entry { limited: true }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Entry {
        Entry {
            limited: *of.level() <= Level::INFO,
        }
    }
}

impl io::Write for Entry {
    /// A line comes as a whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = harmless(String::from_utf8_lossy(bytes).trim_end());
        let mut time = String::new();
        // Writing into a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        time.push(' ');
        match self.limited {
            true => WRITER.tell(&line, &time),
            false => WRITER.put(Job::Message(time + &line)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text with what may not be shown as it is written as an escape sequence of Rust.
fn harmless(text: &str) -> String {
    let harms = |c: char| !is_printable(c) && c != '\n' && c != '\t';
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match harms(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

#[expect(clippy::disallowed_methods, reason = "the one place for output")]
fn stdout() -> io::Stdout {
    io::stdout()
}

#[expect(clippy::disallowed_methods, reason = "the one place for output")]
fn stderr() -> io::Stderr {
    io::stderr()
}

/// Prints to standard output ([`out::say`](crate::out::say)).
#[macro_export]
macro_rules! print {
    ($($words:tt)*) => { $crate::out::say(::std::format_args!($($words)*)) };
}

/// Prints a line to standard output ([`out::say`](crate::out::say)).
#[macro_export]
macro_rules! println {
    () => { $crate::out::say(::std::format_args!("\n")) };
    ($($words:tt)*) => {
        $crate::out::say(::std::format_args!("{}\n", ::std::format_args!($($words)*)))
    };
}

/// Writes a message to standard error ([`out::tell`](crate::out::tell)).
#[macro_export]
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::out::tell(::std::format_args!($($words)*)) };
}
