//! Backoff for accept loops, for example when the process is out of file descriptors. The pending connection stays in
//! the queue and the listener stays readable, so a loop that retries at once would use a whole core.

use std::io;
use std::time::{Duration, Instant};

/// Pause after a failure (a guess: users do not notice it, and retries at this interval cost almost nothing).
pub const PAUSE: Duration = Duration::from_millis(100);

/// When a connection is accepted and there has been no failure for this long, the next failure is logged again (a
/// guess).
const QUIET_AFTER: Duration = Duration::from_secs(60);

/// Determines the pauses, and logs once that no connection can be accepted.
#[derive(Debug)]
pub struct AcceptBackoff {
    /// The name of the peers, as in "can't accept connections of WHAT".
    what: &'static str,
    /// The last failure.
    failed: Option<Instant>,
    /// Whether the failure was logged.
    reported: bool,
}

impl AcceptBackoff {
    /// Creates the state of a loop that accepts connections of `what`.
    #[must_use]
    pub fn new(what: &'static str) -> AcceptBackoff {
        AcceptBackoff {
            what,
            failed: None,
            reported: false,
        }
    }

    /// Records a failed accept and returns how long the loop must wait.
    pub fn failed(&mut self, error: &io::Error) -> Duration {
        let warning = self.warning(Instant::now(), error);
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        match concerns_one_connection(error) {
            true => Duration::ZERO,
            false => PAUSE,
        }
    }

    /// Records a successful accept.
    pub fn succeeded(&mut self) {
        let now = Instant::now();
        if self.reported && self.failed.is_none_or(|at| now - at >= QUIET_AFTER) {
            self.reported = false;
        }
    }

    fn warning(&mut self, now: Instant, error: &io::Error) -> Option<String> {
        if concerns_one_connection(error) {
            return None;
        }
        self.failed = Some(now);
        if std::mem::replace(&mut self.reported, true) {
            return None;
        }
        let what = self.what;
        let advice = match error.raw_os_error() {
            Some(libc::EMFILE) => {
                "; close connections, or raise the limit of open files (ulimit -n) and restart"
            }
            _ => "",
        };
        Some(format!(
            "can't accept connections of {what}: {error}; retrying every {} ms{advice}",
            PAUSE.as_millis()
        ))
    }
}

/// Whether the loop may retry at once: the pending connection no longer exists (accept(2)), or a signal interrupted the
/// call.
fn concerns_one_connection(error: &io::Error) -> bool {
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
    fn descriptor_exhaustion_is_reported_once_and_waited_out() {
        let mut backoff = AcceptBackoff::new("browsers");
        let no_descriptor = || io::Error::from_raw_os_error(libc::EMFILE);
        let now = Instant::now();
        let line = backoff.warning(now, &no_descriptor()).unwrap();
        assert!(
            line.starts_with("can't accept connections of browsers: "),
            "{line}"
        );
        assert!(line.contains("ulimit -n"), "{line}");
        for n in 1..1000 {
            let later = now + n * PAUSE;
            assert_eq!(backoff.warning(later, &no_descriptor()), None);
            backoff.succeeded();
        }
        assert_eq!(backoff.failed(&no_descriptor()), PAUSE);
        let gone = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(backoff.failed(&gone), Duration::ZERO);
    }
}
