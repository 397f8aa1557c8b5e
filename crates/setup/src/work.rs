//! Makes and reverses the changes of steps.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::changes::{Change, Reversal, Reversible as _};
use crate::record::Record;
use crate::steps::Plan;
use crate::system::System;

/// Makes the changes of a step. If one of them fails, or if `stop` is set, reverses those that were made.
///
/// # Errors
/// Returns the error of the change that failed.
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
            // An earlier run has recorded the other changes. They are reversed only by `--undo`.
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
    println!("  {step}: taking back the changes of this step");
    match reverse(system, record, step, &made) {
        true => Err(why).with_context(|| format!("{step} failed and was taken back")),
        false => Err(why).with_context(|| {
            format!(
                "{step} failed and was taken back in part; run openuvr setup --undo --only {step}"
            )
        }),
    }
}

/// Reverses changes of a step, the last one first, and prints the result of each. Returns false if some could not be
/// reversed; they stay in the record.
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
        // Not an error: the program whose files were removed may have been removed, too.
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
