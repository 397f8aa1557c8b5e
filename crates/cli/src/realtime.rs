//! The scheduling of the programs `openuvr host` and `openuvr client`: real-time threads, dedicated cores, and locked
//! memory.
//!
//! For a host inside an application, the application's memory is not locked (`docs/adr/0004-locked-memory.md`).

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use openuvr_runtime::recording::Recording;
use openuvr_runtime::sched::{Refused, Scheduler, locked_memory_limit};
use rustix::mm::{MlockAllFlags, mlockall};

use crate::config::kind::Realtime;

/// Creates the configured scheduler. With real-time scheduling, also locks this program's memory. The scheduler's
/// report lists the settings that the system has denied.
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

/// Returns the scheduler. If a folder is given, starts to record the scheduling latency of the scheduler's threads in
/// this folder.
///
/// # Errors
/// Returns an error if the folder cannot be created.
pub(crate) fn recording(
    scheduler: Scheduler,
    folder: Option<&Path>,
) -> Result<(Scheduler, Option<Recording>)> {
    let Some(folder) = folder else {
        return Ok((scheduler, None));
    };
    let recording = Recording::start(folder)
        .with_context(|| format!("can't record into the folder {}", folder.display()))?;
    let scheduler = scheduler.with_latency_recording(recording.scheduling_latencies());
    Ok((scheduler, Some(recording)))
}

/// Completes the recording and prints the number of lost records, with the prefix `subcommand`.
///
/// # Errors
/// Returns an error if the recording cannot be completed.
pub(crate) fn finish(recording: Option<Recording>, subcommand: &str) -> Result<()> {
    let Some(recording) = recording else {
        return Ok(());
    };
    let lost = recording.finish();
    let lost = lost.context("can't complete the records of scheduling latency")?;
    if lost > 0 {
        eprintln!(
            "openuvr {subcommand}: {lost} records of scheduling latency lost: writing them was too slow"
        );
    }
    Ok(())
}

/// Locks each page of this program in memory when the page is first touched, including pages that are mapped later.
/// Rarely used code then need not be loaded from the disk again.
fn lock_memory() -> std::result::Result<(), String> {
    // With a limit, locking all future pages would make mappings beyond the limit fail.
    if let Some(bytes) = locked_memory_limit() {
        return Err(format!(
            "the limit memlock is {} KiB, not unlimited",
            bytes >> 10
        ));
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
        .map_err(|error| error.to_string())
}
