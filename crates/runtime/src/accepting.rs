//! A loop that takes connections where the system has no descriptor left for one: the connection stays in the queue, so
//! that the listener is readable all the time, and a loop that asks again at once takes a whole core.

use std::io;
use std::time::{Duration, Instant};

/// The pause after a failure (a guess: short enough for a person that waits, long enough to cost nothing).
pub const PAUSE: Duration = Duration::from_millis(100);

/// For so long it has to go well before another failure is worth a line (a guess).
const SAID_FOR: Duration = Duration::from_secs(60);

/// Says once that no connection can be taken.
#[derive(Debug)]
pub struct Accepting {
    /// The connections, as in "no connections of WHAT can be taken".
    what: &'static str,
    /// The last failure.
    failed: Option<Instant>,
    /// Whether the line has said so.
    said: bool,
}

impl Accepting {
    /// Of a loop that takes connections of these.
    #[must_use]
    pub fn new(what: &'static str) -> Accepting {
        Accepting {
            what,
            failed: None,
            said: false,
        }
    }

    /// A connection could not be taken; how long the loop is to wait.
    pub fn failed(&mut self, error: &io::Error) -> Duration {
        let news = self.fails(Instant::now(), error);
        if let Some(news) = news {
            tracing::warn!("{news}");
        }
        match is_of_one_connection(error) {
            true => Duration::ZERO,
            false => PAUSE,
        }
    }

    /// A connection was taken.
    pub fn succeeded(&mut self) {
        let now = Instant::now();
        if self.said && self.failed.is_none_or(|at| now - at >= SAID_FOR) {
            self.said = false;
        }
    }

    fn fails(&mut self, now: Instant, error: &io::Error) -> Option<String> {
        if is_of_one_connection(error) {
            return None;
        }
        self.failed = Some(now);
        if std::mem::replace(&mut self.said, true) {
            return None;
        }
        let what = self.what;
        let advice = match error.raw_os_error() {
            Some(libc::EMFILE) => {
                "; close connections, or raise the limit of open files (ulimit -n) and start again"
            }
            _ => "",
        };
        Some(format!(
            "no connections of {what} can be taken now: {error}; trying again each {} ms{advice}",
            PAUSE.as_millis()
        ))
    }
}

/// Whether it says something about the one connection alone, which is gone with it (accept(2)).
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_is_said_once_and_waited_for() {
        let mut accepting = Accepting::new("browsers");
        let none_left = || io::Error::from_raw_os_error(libc::EMFILE);
        let now = Instant::now();
        let line = accepting.fails(now, &none_left()).unwrap();
        assert!(
            line.starts_with("no connections of browsers can be taken now: "),
            "{line}"
        );
        assert!(line.contains("ulimit -n"), "{line}");
        for n in 1..1000 {
            let later = now + n * PAUSE;
            assert_eq!(accepting.fails(later, &none_left()), None);
            accepting.succeeded();
        }
        assert_eq!(accepting.failed(&none_left()), PAUSE);
        let gone = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(accepting.failed(&gone), Duration::ZERO);
    }
}
