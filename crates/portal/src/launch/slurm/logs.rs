//! Logs of jobs, in a folder that the portal and the nodes share. The script of a job appends its standard error to a
//! file in this folder.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::warn;

use crate::launch::log::{MAX_LOG, tail_of_file};
use crate::launch::{LaunchError, SessionId};

/// Interval at which the length of logs is checked. For each session, a check sends one request to the file server.
const INTERVAL: Duration = Duration::from_secs(60);

/// The folder of logs.
pub(super) struct Logs {
    folder: PathBuf,
    trimmed: Mutex<Option<Instant>>,
}

impl Logs {
    pub(super) fn new(folder: PathBuf) -> Logs {
        Logs {
            folder,
            trimmed: Mutex::default(),
        }
    }

    pub(super) fn path(&self, session: SessionId) -> PathBuf {
        self.folder.join(format!("ouvr-{session}.log"))
    }

    pub(super) fn tail(&self, session: SessionId) -> Result<Option<String>, LaunchError> {
        let path = self.path(session);
        tail_of_file(&path)
            .map_err(|why| LaunchError::Unavailable(format!("{}: {why}", path.display())))
    }

    pub(super) fn remove(&self, session: SessionId) {
        let path = self.path(session);
        if let Err(why) = fs::remove_file(&path)
            && why.kind() != std::io::ErrorKind::NotFound
        {
            warn!("{}: {why}", path.display());
        }
    }

    /// Truncates logs of these sessions that have grown too long. Does nothing if the last check was less than
    /// [`INTERVAL`] ago.
    pub(super) fn trim(&self, sessions: impl Iterator<Item = SessionId>) {
        let now = Instant::now();
        let Ok(mut trimmed) = self.trimmed.lock() else {
            return;
        };
        if trimmed.is_some_and(|at| now.duration_since(at) < INTERVAL) {
            return;
        }
        *trimmed = Some(now);
        drop(trimmed);
        for path in sessions.map(|session| self.path(session)) {
            let long = fs::metadata(&path).is_ok_and(|of| of.len() > MAX_LOG);
            if long && let Ok(file) = OpenOptions::new().write(true).open(&path) {
                // The job opened the file for appending, so it continues at the file's new end.
                let _ = file.set_len(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_too_long_is_emptied_once_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::new(folder.path().to_owned());
        let [long, short] = [SessionId::random(), SessionId::random()];
        let fill = |length: u64| {
            fs::write(logs.path(long), "").unwrap();
            let file = OpenOptions::new().write(true).open(logs.path(long));
            file.unwrap().set_len(length).unwrap();
        };
        fs::write(logs.path(short), "a line\n").unwrap();
        fill(MAX_LOG + 1);
        logs.trim([long, short].into_iter());
        assert_eq!(logs.tail(long).unwrap().as_deref(), Some(""));
        assert_eq!(logs.tail(short).unwrap().as_deref(), Some("a line\n"));
        fill(MAX_LOG + 1);
        logs.trim([long].into_iter());
        assert_eq!(fs::metadata(logs.path(long)).unwrap().len(), MAX_LOG + 1);
        logs.remove(short);
        assert_eq!(logs.tail(short).unwrap(), None);
    }
}
