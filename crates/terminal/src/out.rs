//! Output. The program prints only through this module, with its own `print!`, `println!` and `eprintln!`. Log lines
//! and panic messages also pass through it. Output never panics.
//!
//! Standard output carries results. A closed pipe (`openuvr bench link | head -1`) ends the program silently, after it
//! has stopped its children. Standard error carries messages; a closed or failing stderr is not an error. A writer
//! thread prints the messages and redraws the table below them, so that no other thread waits for a slow terminal.
//! Repeated messages are merged (see `out::limit`).

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

pub use self::screen::TerminalSize;
use self::writer::{Job, WRITER};

/// The exit status that a shell reports for a program killed by SIGPIPE (13).
const SIGPIPE_EXIT_CODE: u8 = 128 + 13;

/// A write error on standard output; unwinds to [`guarded`].
struct OutputError(io::Error);

/// Prints to standard output, after all queued messages. Waits at most two seconds for the messages. If standard output
/// cannot be written to, unwinds to [`guarded`] instead of returning. Call it on the main thread.
pub fn print(args: Arguments<'_>) {
    WRITER.flush();
    if let Err(why) = stdout().lock().write_fmt(args) {
        // Unlike a panic, this runs no hook and prints nothing.
        resume_unwind(Box::new(OutputError(why)));
    }
}

/// Writes a rate-limited message to standard error. Callable from any thread. Does not wait for the terminal, unless
/// the writer thread could not be started.
pub fn message(args: Arguments<'_>) {
    WRITER.limited_message(&escape_control_characters(&args.to_string()), "");
}

/// Writes a message to standard error without the rate limit, for answers to a request and fatal errors.
pub fn unlimited_message(args: Arguments<'_>) {
    WRITER.put(Job::Message(escape_control_characters(&args.to_string())));
}

/// Prints a prompt on standard error without a line break, so that the input follows on the same line. Waits until the
/// prompt is shown, at most two seconds.
pub fn prompt(args: Arguments<'_>) {
    WRITER.put(Job::Prompt(escape_control_characters(&args.to_string())));
    WRITER.flush();
}

/// Draws these rows below the messages. They replace the previous rows.
pub fn table(rows: Vec<String>) {
    let rows = rows.iter().map(|row| escape_control_characters(row));
    WRITER.put(Job::Table(rows.collect()));
}

/// Erases the rows of [`table`].
pub fn end_table() {
    WRITER.put(Job::EndTable);
}

/// Prints optional lines to standard output. A closed standard output is not an error. Callable from any thread. Does
/// not wait for the terminal, unless the writer thread could not be started.
pub fn print_lines(text: String) {
    WRITER.put(Job::Lines(escape_control_characters(&text)));
}

/// Shows the output of a child process that shares the terminal. Blocks while the queue is full.
pub fn passthrough(text: String) {
    WRITER.put_blocking(Job::ChildOutput(text));
}

/// Declares that the caller reports each typed line with [`line_typed`] from now on.
pub fn track_typed_lines() {
    WRITER.put(Job::TrackTypedLines);
}

/// Reports that a line was typed and its Enter key pressed.
pub fn line_typed() {
    WRITER.put(Job::LineTyped);
}

/// The size of the terminal on which the table is drawn; 24 rows of 80 characters (VT100) if unknown.
pub fn terminal_size() -> TerminalSize {
    writer::terminal_size()
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub fn error_is_terminal() -> bool {
    stderr().is_terminal()
}

/// Runs the program and returns its exit code, even after a write error on standard output. Call it on the main thread.
pub fn guarded(program: impl FnOnce() -> ExitCode) -> ExitCode {
    WRITER.start();
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("(unnamed)").to_owned();
        unlimited_message(format_args!(
            "openuvr: internal error, please report it: thread {thread} {panic}"
        ));
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            unlimited_message(format_args!("{trace}"));
        }
        WRITER.flush();
    }));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let code = program();
        // Flushing the buffer may fail, for example on a full disk.
        match stdout().flush() {
            Ok(()) => code,
            Err(why) => resume_unwind(Box::new(OutputError(why))),
        }
    }));
    let code = match ended {
        Ok(code) => Ok(code),
        Err(unwound) => exit_code(unwound),
    };
    WRITER.finish();
    code.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The exit code after a write error on standard output. Any other panic is returned as the error.
fn exit_code(unwound: Box<dyn Any + Send>) -> Result<ExitCode, Box<dyn Any + Send>> {
    let error = unwound.downcast::<OutputError>()?;
    if error.0.kind() == ErrorKind::BrokenPipe {
        return Ok(ExitCode::from(SIGPIPE_EXIT_CODE));
    }
    unlimited_message(format_args!(
        "openuvr: can't write to standard output: {}",
        error.0
    ));
    Ok(ExitCode::FAILURE)
}

/// The log writer. Log lines are messages. The rate limit does not apply to the levels `debug` and `trace`, which users
/// request with `--log`.
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
    /// Each call carries one complete line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = escape_control_characters(String::from_utf8_lossy(bytes).trim_end());
        let mut time = String::new();
        // Writing into a string does not fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        time.push(' ');
        match self.limited {
            true => WRITER.limited_message(&line, &time),
            false => WRITER.put(Job::Message(time + &line)),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The text with unprintable characters, except line breaks and tabs, replaced by Rust escape sequences.
fn escape_control_characters(text: &str) -> String {
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

/// Prints to standard output ([`out::print`](crate::out::print)).
#[macro_export]
macro_rules! print {
    ($($args:tt)*) => { $crate::out::print(::std::format_args!($($args)*)) };
}

/// Prints a line to standard output ([`out::print`](crate::out::print)).
#[macro_export]
macro_rules! println {
    () => { $crate::out::print(::std::format_args!("\n")) };
    ($($args:tt)*) => {
        $crate::out::print(::std::format_args!("{}\n", ::std::format_args!($($args)*)))
    };
}

/// Writes a message to standard error ([`out::message`](crate::out::message)).
#[macro_export]
macro_rules! eprintln {
    ($($args:tt)*) => { $crate::out::message(::std::format_args!($($args)*)) };
}
