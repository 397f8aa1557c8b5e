//! Standard output: what the whole program prints goes through here, by `print!` and `println!` of
//! its own.
//!
//! Who reads may have had enough (`openuvr bench link | head -1`). Then the program ends where it
//! stands and takes with it what it has started, without a word, as others do. Not for standard
//! error: messages that nobody reads are no reason to end.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

/// As a shell tells of a program that SIGPIPE (13) has ended.
const NOBODY_READS: u8 = 128 + 13;

/// Why nothing more can be said; unwinds to [`guarded`].
struct Mute(io::Error);

/// Prints. Without anybody to hear it, does not return.
pub(crate) fn say(words: Arguments<'_>) {
    if let Err(why) = io::stdout().lock().write_fmt(words) {
        // Not a panic: no hook is asked, and nothing is written about it.
        resume_unwind(Box::new(Mute(why)));
    }
}

/// Runs the program, and says how it has ended also if its output broke. On the main thread.
pub(crate) fn guarded(program: impl FnOnce() -> ExitCode) -> ExitCode {
    let unwound = match catch_unwind(AssertUnwindSafe(program)) {
        Ok(code) => return code,
        Err(unwound) => unwound,
    };
    match unwound.downcast::<Mute>() {
        Ok(mute) if mute.0.kind() == ErrorKind::BrokenPipe => ExitCode::from(NOBODY_READS),
        Ok(mute) => {
            eprintln!("openuvr: can't write to standard output: {}", mute.0);
            ExitCode::FAILURE
        }
        Err(panic) => resume_unwind(panic),
    }
}

macro_rules! print {
    ($($words:tt)*) => { $crate::out::say(::std::format_args!($($words)*)) };
}

macro_rules! println {
    () => { $crate::out::say(::std::format_args!("\n")) };
    ($($words:tt)*) => {
        $crate::out::say(::std::format_args!("{}\n", ::std::format_args!($($words)*)))
    };
}
