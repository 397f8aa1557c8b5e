//! A source without events.

use std::time::{Duration, Instant};

use super::{InputSource, SourceError, SourceEvent};

/// The source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl InputSource for Null {
    fn next(&mut self, timeout: Option<Duration>) -> Result<SourceEvent, SourceError> {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Ok(SourceEvent::TimedOut),
                Some(left) => std::thread::park_timeout(left),
                None => std::thread::park(),
            }
        }
    }
}
