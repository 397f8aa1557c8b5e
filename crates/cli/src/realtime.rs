//! How urgent host and client are as programs: real-time threads, cores of their own, and memory
//! that is never swapped out.
//!
//! It is for programs only: an application that a session of ours is a guest in keeps its own rules
//! (`docs/adr/0004-locked-memory.md`).

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use openuvr_runtime::recording::Recording;
use openuvr_runtime::sched::{Refused, Scheduler};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::config::kind::Realtime;

/// The scheduler that the configuration asks for; where it is real-time, this program's memory is
/// locked. What the system refuses is in the scheduler's report.
pub(crate) fn scheduler(wanted: Realtime, cores: &BTreeSet<usize>) -> Scheduler {
    let scheduler = match wanted {
        Realtime::Auto => Scheduler::new(),
        Realtime::Off => Scheduler::ordinary(),
    };
    let scheduler = scheduler.pinned_to(cores.clone());
    if wanted == Realtime::Auto
        && let Err(why) = lock_memory()
    {
        scheduler.refused(Refused::Memory, &why);
    }
    scheduler
}

/// The same, whose threads record into a folder how they wake, where one is named.
///
/// # Errors
/// The folder can't be made.
pub(crate) fn recording(
    scheduler: Scheduler,
    folder: Option<&Path>,
) -> Result<(Scheduler, Option<Recording>)> {
    let Some(folder) = folder else {
        return Ok((scheduler, None));
    };
    let recording = Recording::begin(folder)
        .with_context(|| format!("can't record into the folder {}", folder.display()))?;
    let scheduler = scheduler.recording(recording.handoffs());
    Ok((scheduler, Some(recording)))
}

/// Ends it; `who` says what was lost.
///
/// # Errors
/// It could not be written to its end.
pub(crate) fn finish(recording: Option<Recording>, who: &str) -> Result<()> {
    let Some(recording) = recording else {
        return Ok(());
    };
    let lost = recording.finish();
    let lost = lost.context("the recording of hand-offs could not be written to its end")?;
    if lost > 0 {
        eprintln!("openuvr {who}: {lost} hand-offs are not in the recording: it could not keep up");
    }
    Ok(())
}

/// Keeps every page of this program in memory from when it is touched first, now and later: code
/// that runs once a minute must not come from the disk.
fn lock_memory() -> std::result::Result<(), String> {
    // Under a limit, what is mapped later and goes beyond it could not be mapped at all.
    if let Some(bytes) = limit() {
        return Err(format!("the limit memlock is {} KiB", bytes >> 10));
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
        .map_err(|error| error.to_string())
}

/// The most bytes that this program may lock; `None`: as many as it likes.
pub(crate) fn limit() -> Option<u64> {
    let free =
        capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::IPC_LOCK));
    match free {
        true => None,
        false => getrlimit(Resource::Memlock).current,
    }
}
