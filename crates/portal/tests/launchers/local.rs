//! The local launcher on this machine, with capacity for two sessions and one GPU.

use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;

use openuvr_portal::launch::local::{Local, LocalConfig};
use openuvr_portal::launch::{Launcher, SessionId};
use tempfile::TempDir;

use super::suite::{Engine, kill, program, wait};

pub(crate) struct Machine {
    folder: TempDir,
}

impl Machine {
    pub(crate) fn start() -> Machine {
        Machine {
            folder: tempfile::tempdir().unwrap(),
        }
    }
}

impl Engine for Machine {
    fn launcher(&mut self) -> Arc<dyn Launcher> {
        let config = LocalConfig {
            folder: self.folder.path().join("sessions"),
            program: vec![program().into()],
            places: 2,
            gpus: 1,
            queue: 1,
            environment: Vec::new(),
        };
        let mut opened = None;
        // A process that another test is starting holds the folder's lock until it calls execve(2).
        wait("the folder's lock", || {
            match Local::open(config.clone()) {
                Ok(local) => opened = Some(local),
                Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock, "{why}"),
            }
            opened.is_some()
        });
        Arc::new(opened.unwrap())
    }

    /// Ends the session's process while no portal runs.
    fn lose(&mut self, _: SessionId, pid: i32) -> bool {
        kill(pid);
        // If the next portal found the process alive, it would follow the process and detect its end. Nothing waits for
        // the killed process, so it stays a zombie.
        wait("the end of the process", || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat
                .rsplit_once(") ")
                .map(|(_, rest)| rest.starts_with('Z'));
            state.unwrap_or(true)
        });
        true
    }

    fn fail(&mut self) -> bool {
        // There is no engine that could stop responding.
        false
    }
}
