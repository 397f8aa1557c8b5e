//! Follows one session to its end, either from its start, or from the moment when a restarted portal finds it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Child;
use tokio::time::{self, Instant, MissedTickBehavior};
use tracing::warn;

use super::process::{self, Process};
use super::{Folder, Shared};
use crate::launch::{Endpoint, SessionId};

/// Poll interval for the endpoint. Users do not notice such a delay.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which the length of the session's output files is checked.
const TRIM_INTERVAL: Duration = Duration::from_secs(2);

/// Grace period for a program that has printed something other than an endpoint, or has reached its time limit. The
/// value is a guess; it is long enough for an application to save and to end.
const GRACE: Duration = Duration::from_secs(10);

/// Starts a task that follows a session.
pub(super) fn follow(
    shared: &Arc<Shared>,
    session: SessionId,
    process: Process,
    child: Option<Child>,
) {
    let found = {
        let sessions = shared.lock();
        sessions.get(&session).map(|entry| {
            let limit = entry.spec.max_duration;
            (entry.folder.clone(), Arc::clone(&entry.ordered), limit)
        })
    };
    let Some((folder, ordered, limit)) = found else {
        return;
    };
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let mut ended = pin!(end(&process, child));
        let mut look = time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut runs = false;
        let mut kill_at: Option<Instant> = None;
        let mut why: Option<String> = None;
        let stop = |kill_at: &mut Option<Instant>, grace: Duration| {
            if kill_at.is_none() {
                process.terminate();
                *kill_at = Some(Instant::now() + grace);
            }
        };
        let code = loop {
            tokio::select! {
                code = &mut ended => break code,
                () = ordered.notified() => {
                    let order = shared.lock().get(&session).and_then(|entry| entry.stop.clone());
                    if let Some(order) = order {
                        why.get_or_insert_with(|| order.why.to_owned());
                        stop(&mut kill_at, order.grace);
                    }
                }
                () = time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    process.kill();
                    process::sweep(&session.to_string());
                    // The kill is repeated every second, in case a process is blocked in the kernel.
                    kill_at = Some(Instant::now() + Duration::from_secs(1));
                }
                _ = look.tick() => {
                    if limit.is_some_and(|limit| process.age() >= limit) && why.is_none() {
                        why = Some("time limit reached".to_owned());
                        stop(&mut kill_at, GRACE);
                    }
                    if runs {
                        folder.trim();
                        continue;
                    }
                    match Endpoint::read(&folder.output()) {
                        Ok(None) => {}
                        Ok(Some(endpoint)) => {
                            runs = true;
                            look = time::interval(TRIM_INTERVAL);
                            shared.set_running(session, endpoint);
                        }
                        Err(wrong) if why.is_none() => {
                            why = Some(wrong.to_string());
                            stop(&mut kill_at, GRACE);
                        }
                        Err(_) => {}
                    }
                }
            }
        };
        let why = why.unwrap_or_else(|| describe(&code, &folder));
        let code = code.ok().flatten();
        if let Err(why) = tokio::task::spawn_blocking(move || shared.over(session, code, why)).await
        {
            warn!(%session, "cannot report the session's end: {why}");
        }
    });
}

/// Waits for the end of a process. Returns the exit code of a child, or an error with the signal that ended the child.
/// For a process that is not a child, the exit code is unknown (`None`).
async fn end(process: &Process, child: Option<Child>) -> Result<Option<i32>, i32> {
    use std::os::unix::process::ExitStatusExt as _;
    match child {
        Some(mut child) => match child.wait().await {
            Ok(status) => match status.signal() {
                Some(signal) => Err(signal),
                None => Ok(status.code()),
            },
            Err(_) => Ok(None),
        },
        None => {
            process.ended().await;
            Ok(None)
        }
    }
}

fn describe(end: &Result<Option<i32>, i32>, folder: &Folder) -> String {
    if let Some(why) = folder.last_reason() {
        return why;
    }
    let last = || folder.last_words().map(|line| format!(": {line}"));
    match end {
        Ok(Some(0)) => "the application exited".to_owned(),
        Ok(Some(code)) => format!("failed with exit code {code}{}", last().unwrap_or_default()),
        Ok(None) => format!("exit code unknown{}", last().unwrap_or_default()),
        Err(signal) => format!("killed by signal {signal}{}", last().unwrap_or_default()),
    }
}
