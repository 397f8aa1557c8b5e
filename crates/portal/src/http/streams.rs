//! Limits the number of open event streams per log-in. Each stream holds a connection indefinitely.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of streams per log-in; a guess. Browsers open at most six HTTP/1.1 connections to a portal (a limit
/// of browsers; RFC 9112, section 9.4, sets none). Two more streams are permitted, because a page reload can leave
/// streams behind.
const PER_LOG_IN: u32 = 8;

/// The number of open streams of each log-in token.
#[derive(Default)]
pub(crate) struct Streams {
    open: Mutex<HashMap<String, u32>>,
}

/// One open stream. It counts towards the limit until it is dropped.
pub(super) struct Stream {
    streams: Arc<Streams>,
    token: String,
}

impl Streams {
    /// Opens one more stream; `None` if the limit is reached.
    pub(super) fn open(self: &Arc<Streams>, token: &str) -> Option<Stream> {
        let mut open = self.lock();
        let count = open.entry(token.to_owned()).or_default();
        if *count >= PER_LOG_IN {
            return None;
        }
        *count += 1;
        Some(Stream {
            streams: Arc::clone(self),
            token: token.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        if let Some(count) = open.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_in_has_its_own_streams() {
        let streams = Arc::new(Streams::default());
        let mut open: Vec<Stream> = (0..PER_LOG_IN).filter_map(|_| streams.open("a")).collect();
        assert!(streams.open("a").is_none());
        assert!(streams.open("b").is_some());
        open.pop();
        assert!(streams.open("a").is_some());
        open.clear();
        assert!(streams.lock().is_empty());
    }
}
