//! Killed, failing and interrupted runs: `--undo` restores the machine.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::machine::{Fault, Machine};
use super::{machine, perform_with, run, steps_of, succeeds, target};
use crate::record::Record;
use crate::steps::{STEPS, State};
use crate::{Role, steps};

#[test]
fn a_run_killed_at_any_command_is_taken_back() {
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        for number in 0.. {
            let machine = machine();
            let before = machine.snapshot();
            machine.fault.set(Some((number, fault)));
            let run_to_kill = || {
                run(
                    &machine,
                    &["--only", "uinput,buffers,firewall,raw-ethernet", "--yes"],
                )
            };
            let ended = catch_unwind(AssertUnwindSafe(run_to_kill));
            machine.fault.set(None);
            succeeds(&machine, &["--undo", "--yes"]);
            assert_eq!(before, machine.snapshot(), "{fault:?} at command {number}");
            if let Ok(ended) = ended {
                ended.unwrap();
                assert_eq!(number, 10, "each command was a point of the test");
                break;
            }
        }
    }
}

#[test]
fn an_undo_killed_at_any_command_continues() {
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        for number in 0.. {
            let machine = machine();
            let before = machine.snapshot();
            succeeds(&machine, &["--yes"]);
            machine.commands.borrow_mut().clear();
            machine.fault.set(Some((number, fault)));
            let undo = || run(&machine, &["--undo", "--yes"]);
            let ended = catch_unwind(AssertUnwindSafe(undo));
            machine.fault.set(None);
            succeeds(&machine, &["--undo", "--yes"]);
            assert_eq!(before, machine.snapshot(), "{fault:?} at command {number}");
            if ended.is_ok() {
                assert_eq!(number, 9);
                break;
            }
        }
    }
}

#[test]
fn changes_that_were_only_recorded_are_taken_back() {
    let machine = machine();
    let before = machine.snapshot();
    let system = machine.system();
    let mut record = Record::open(&system).unwrap();
    let target = target(Some("ada"), Role::Both);
    for step in STEPS {
        let context = steps::Context {
            system: &system,
            record: &record,
            target: &target,
        };
        let State::Needed(plan) = step.examine(&context).unwrap() else {
            panic!("{} is needed", step.name());
        };
        for change in &plan.changes {
            record.add(&system, step.name(), change).unwrap();
        }
    }
    drop(record);
    assert_eq!(steps_of(&machine).len(), STEPS.len());
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(before, machine.snapshot());
    assert_eq!(*machine.commands.borrow(), ["udevadm control --reload"]);
}

#[test]
fn a_failing_step_is_taken_back_and_the_earlier_ones_stay() {
    // A folder has the name of the file that setup writes first, so writing fails as on a full disk.
    let machine = machine();
    machine.put("/etc/security/limits.d/.60-openuvr.conf.openuvr-new/x", "");
    let before = machine.snapshot();
    let why = format!("{:#}", run(&machine, &["--yes"]).unwrap_err());
    assert!(
        why.starts_with("scheduling failed and was undone: can't write "),
        "{why}"
    );
    assert_eq!(before, machine.snapshot());
    // A folder that cannot be read prevents only its step.
    let machine = super::machine();
    fs::remove_file(machine.path("/etc/udev/rules.d/README")).unwrap();
    fs::remove_dir(machine.path("/etc/udev/rules.d")).unwrap();
    machine.put("/etc/udev/rules.d", "");
    succeeds(&machine, &["--yes"]);
    assert_eq!(
        steps_of(&machine),
        ["group", "scheduling", "buffers", "firewall"]
    );

    // A command that fails after files were written.
    let machine = Machine::bare();
    succeeds(&machine, &["--only", "scheduling", "--yes"]);
    let before = machine.snapshot();
    let reload = machine.commands.borrow().len();
    machine.fault.set(Some((reload, Fault::Fails)));
    let why = format!("{:#}", run(&machine, &["--yes"]).unwrap_err());
    assert!(why.starts_with("uinput failed and was undone: "), "{why}");
    assert!(
        why.contains("`udevadm control --reload` failed: a fault of the test"),
        "{why}"
    );
    assert_eq!(before, machine.snapshot());
    assert_eq!(steps_of(&machine), ["group", "scheduling"]);
}

#[test]
fn a_reversal_that_fails_stays_in_the_record() {
    let machine = Machine::bare();
    let before = machine.snapshot();
    // The account cannot be added to the group, and then the group cannot be removed.
    machine.fault.set(Some((1, Fault::Fails)));
    let why = format!("{:#}", run(&machine, &["--yes"]).unwrap_err());
    assert!(
        why.starts_with("group failed and was partly undone; "),
        "{why}"
    );
    assert_eq!(steps_of(&machine), ["group"]);
    let why = run(&machine, &["--undo", "--yes"]).unwrap_err().to_string();
    assert!(why.contains("run the command again"), "{why}");
    machine.fault.set(None);
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(before, machine.snapshot());
}

#[test]
fn an_interrupted_step_is_taken_back() {
    let machine = machine();
    let before = machine.snapshot();
    let target = target(Some("ada"), Role::Both);
    let why = perform_with(&machine.system(), &["--yes"], &target, true);
    assert!(format!("{:#}", why.unwrap_err()).contains("interrupted"));
    assert_eq!(before, machine.snapshot());
}

#[test]
fn a_stopped_firewall_keeps_its_part_of_the_record() {
    let machine = machine();
    succeeds(&machine, &["--only", "firewall", "--yes"]);
    let entries = machine.state.borrow_mut().firewalld.take();
    assert!(run(&machine, &["--undo", "--yes"]).is_err());
    assert_eq!(steps_of(&machine), ["firewall"]);
    // The running firewall forgets its entries when it stops.
    let stored = entries.unwrap().into_iter();
    let stored = stored
        .filter(|entry| entry.starts_with("permanent "))
        .collect();
    machine.state.borrow_mut().firewalld = Some(stored);
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(machine.state.borrow().firewalld, Some(BTreeSet::new()));
}
