//! Makes and reverses the changes of steps.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::changes::{Change, Reversal, Reversible as _};
use crate::record::Record;
use crate::steps::Plan;
use crate::system::System;

/// Makes the changes of a step. If a change fails, or if `stop` is set, reverses the changes that this call has made.
/// Changes that an earlier run has recorded stay.
///
/// # Errors
/// Returns the error of the change that failed, or an error if `stop` is set.
pub(crate) fn apply(
    system: &System<'_>,
    record: &mut Record,
    step: &str,
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<()> {
    let mut made = Vec::new();
    let mut all = || -> Result<()> {
        for change in &plan.changes {
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let (change, is_new) = record.add(system, step, change)?;
            // An earlier run has recorded the other changes. Only `--undo` reverses them.
            if is_new {
                made.push(change.clone());
            }
            change.apply(system)?;
            for line in change.lines() {
                println!("  {line}");
            }
        }
        Ok(())
    };
    let Err(why) = all() else { return Ok(()) };
    println!("  {step}: undoing the changes of this step");
    match reverse(system, record, step, &made) {
        true => Err(why).with_context(|| format!("{step} failed and was undone")),
        false => Err(why).with_context(|| {
            format!("{step} failed and was partly undone; run openuvr setup --undo --only {step}")
        }),
    }
}

/// Reverses changes of a step in reverse order, and prints the result of each. Returns false if some changes could not
/// be reversed. These changes stay in the record.
pub(crate) fn reverse(
    system: &System<'_>,
    record: &mut Record,
    step: &str,
    changes: &[Change],
) -> bool {
    let (reloads, others): (Vec<&Change>, Vec<&Change>) =
        changes.iter().rev().partition(|change| change.is_reload());
    let mut complete = true;
    for change in others {
        let reversed = change.undo(system);
        let words = change.reversal();
        let removed = reversed.and_then(|reversal| {
            match reversal {
                Reversal::Reversed => println!("  {words}"),
                Reversal::NothingToDo => println!("  {words}: nothing to do"),
                Reversal::Kept(why) => println!("  {words}: left as it is: {why}"),
            }
            record.remove(system, step, change)
        });
        if let Err(why) = removed {
            eprintln!("openuvr setup: `{words}` failed: {why:#}");
            complete = false;
        }
    }
    for change in reloads {
        // A failure to reload is not an error of the reversal, because the program may have been removed.
        match change.undo(system) {
            Ok(_) => println!("  {}", change.reversal()),
            Err(why) => eprintln!("openuvr setup: {why:#}"),
        }
        if complete && let Err(why) = record.remove(system, step, change) {
            eprintln!("openuvr setup: {why:#}");
            complete = false;
        }
    }
    complete
}
