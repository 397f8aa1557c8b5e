//! Limits log lines about skipped pictures. A reason is logged when it first occurs, and when it recurs after an
//! accepted picture, not for each picture.

use std::time::{Duration, Instant};

/// The minimum time between two lines with the same reason.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of tracked reasons. If there are more, the oldest is forgotten.
const MAX_REASONS: usize = 16;

/// The reasons of one context.
#[derive(Default)]
pub(crate) struct SkipLog(Vec<Reason>);

struct Reason {
    why: String,
    logged: Instant,
    /// Whether no picture has been accepted since `logged`.
    persists: bool,
}

impl SkipLog {
    /// Records that a picture was skipped for this reason. Returns whether to log it.
    pub(crate) fn should_log(&mut self, why: &str, now: Instant) -> bool {
        let Some(known) = self.0.iter_mut().find(|known| known.why == why) else {
            if self.0.len() >= MAX_REASONS {
                self.0.remove(0);
            }
            self.0.push(Reason {
                why: why.to_owned(),
                logged: now,
                persists: true,
            });
            return true;
        };
        if known.persists || now.saturating_duration_since(known.logged) < MIN_INTERVAL {
            return false;
        }
        (known.logged, known.persists) = (now, true);
        true
    }

    /// Like `should_log`, for a reason that occurs in normal operation: it is logged once.
    pub(crate) fn should_log_once(&mut self, why: &str, now: Instant) -> bool {
        self.0.iter().all(|known| known.why != why) && self.should_log(why, now)
    }

    /// Records that a picture was accepted.
    pub(crate) fn on_accepted(&mut self) {
        for reason in &mut self.0 {
            reason.persists = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_logged_when_it_occurs_and_when_it_returns() {
        let mut log = SkipLog::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert!(log.should_log("mapped", at(0)));
        assert!(!log.should_log("mapped", at(5000)), "it persists");
        assert!(log.should_log("too small", at(5000)), "another one");
        log.on_accepted();
        assert!(log.should_log("mapped", at(5001)), "it returns");
        log.on_accepted();
        assert!(!log.should_log("mapped", at(5900)), "too soon");
        assert!(log.should_log("mapped", at(6001)), "later");
    }

    #[test]
    fn a_normal_reason_is_logged_once_and_memory_is_bounded() {
        let mut log = SkipLog::default();
        let start = Instant::now();
        assert!(log.should_log_once("no MUD watches", start));
        log.on_accepted();
        let later = start + MIN_INTERVAL * 10;
        assert!(!log.should_log_once("no MUD watches", later));
        for n in 0..100 {
            assert!(log.should_log(&n.to_string(), later));
        }
        assert_eq!(log.0.len(), MAX_REASONS);
    }
}
