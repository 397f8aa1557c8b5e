//! Whole runs of `openuvr setup` on a machine in a temporary folder.

mod faults;
mod machine;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use clap::{Args as _, Command, FromArgMatches as _};

use self::machine::{Machine, PROGRAM};
use crate::record::{FILE, Record};
use crate::steps::STEPS;
use crate::system::System;
use crate::target::{Target, account};
use crate::{Args, Dialogue, Role, perform, plan, steps};

const LIMITS: &str = "/etc/security/limits.d/60-openuvr.conf";
const RULES: &str = "/etc/udev/rules.d/70-openuvr.rules";
const MODULES: &str = "/etc/modules-load.d/openuvr.conf";
const SYSCTL: &str = "/etc/sysctl.d/60-openuvr.conf";

fn args(words: &[&str]) -> Args {
    let command = Args::augment_args(Command::new("setup"));
    let matches = command.try_get_matches_from([&["setup"][..], words].concat());
    Args::from_arg_matches(&matches.unwrap()).unwrap()
}

fn target(user: Option<&str>, role: Role) -> Target {
    Target {
        user: user.map(str::to_owned),
        program: PathBuf::from(PROGRAM),
        role,
    }
}

/// Runs the command. The command fails if it asks a question. With `interrupts`, the command behaves as if it had
/// received a signal.
fn perform_with(
    system: &System<'_>,
    words: &[&str],
    target: &Target,
    interrupts: bool,
) -> Result<ExitCode> {
    let dialogue = Dialogue {
        ask: &|_: &str| bail!("no answer"),
        catch_signals: &|| Ok(AtomicBool::new(interrupts).into()),
    };
    perform(system, &args(words), target, &dialogue)
}

fn run_on(system: &System<'_>, words: &[&str], user: &str) -> Result<ExitCode> {
    let target = target(Some(user), args(words).role);
    perform_with(system, words, &target, false)
}

fn run(machine: &Machine, words: &[&str]) -> Result<ExitCode> {
    run_on(&machine.system(), words, "ada")
}

fn succeeds(machine: &Machine, words: &[&str]) {
    let code = run(machine, words).unwrap();
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
}

fn is_failure(code: ExitCode) -> bool {
    format!("{code:?}") == format!("{:?}", ExitCode::FAILURE)
}

fn steps_of(machine: &Machine) -> Vec<String> {
    let record = Record::read(&machine.system()).unwrap();
    let entries = record.entries().iter();
    entries.map(|entry| entry.step.clone()).collect()
}

/// A machine with both firewalls.
fn machine() -> Machine {
    let machine = Machine::bare();
    machine.put("/etc/ufw/ufw.conf", "# settings\nENABLED=yes\n");
    let mut state = machine.state.borrow_mut();
    state.ufw = Some(BTreeSet::new());
    state.firewalld = Some(BTreeSet::new());
    state.services = "http mdns\n";
    drop(state);
    machine
}

#[test]
fn all_default_steps_are_made_and_taken_back() {
    let machine = machine();
    let before = machine.snapshot();
    succeeds(&machine, &["--yes"]);
    assert_eq!(
        *machine.commands.borrow(),
        [
            "groupadd --system openuvr",
            "usermod --append --groups openuvr ada",
            "udevadm control --reload",
            "modprobe uinput",
            "firewall-cmd --permanent --zone=public --add-port=4710/udp",
            "firewall-cmd --zone=public --add-port=4710/udp",
            "firewall-cmd --permanent --zone=public --add-service=mdns",
            "firewall-cmd --zone=public --add-service=mdns",
            "ufw allow 4710/udp",
        ]
    );
    let limits = machine.text(LIMITS).unwrap();
    assert!(
        limits.ends_with("@openuvr - rtprio 49\n@openuvr - memlock unlimited\n"),
        "{limits}"
    );
    let rules = machine.text(RULES).unwrap();
    assert!(
        rules.contains("KERNEL==\"uinput\", SUBSYSTEM==\"misc\", GROUP=\"openuvr\""),
        "{rules}"
    );
    assert!(machine.text(MODULES).unwrap().ends_with("\nuinput\n"));
    let sysctl = machine.text(SYSCTL).unwrap();
    assert!(
        sysctl.ends_with("net.core.rmem_max = 4194304\nnet.core.wmem_max = 2097152\n"),
        "{sysctl}"
    );
    assert_eq!(
        machine.text("/proc/sys/net/core/rmem_max").unwrap(),
        "4194304\n"
    );
    assert_eq!(
        steps_of(&machine),
        ["group", "scheduling", "uinput", "buffers", "firewall"]
    );

    // A second run has nothing to do.
    let made = machine.snapshot();
    machine.commands.borrow_mut().clear();
    succeeds(&machine, &["--yes"]);
    assert_eq!(made, machine.snapshot());
    assert!(machine.commands.borrow().is_empty());

    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(before, machine.snapshot());
    assert_eq!(
        *machine.commands.borrow(),
        [
            "ufw delete allow 4710/udp",
            "firewall-cmd --zone=public --remove-service=mdns",
            "firewall-cmd --permanent --zone=public --remove-service=mdns",
            "firewall-cmd --zone=public --remove-port=4710/udp",
            "firewall-cmd --permanent --zone=public --remove-port=4710/udp",
            "modprobe --remove uinput",
            "udevadm control --reload",
            "gpasswd --delete ada openuvr",
            "groupdel openuvr",
        ]
    );
    succeeds(&machine, &["--undo", "--yes"]);
}

#[test]
fn files_of_the_administrator_stay() {
    let machine = Machine::bare();
    machine.put(LIMITS, "@openuvr - rtprio 10\n");
    let before = machine.text(LIMITS);
    // By default, the other steps are made. If `--only` names the step, the command fails.
    succeeds(&machine, &["--yes"]);
    assert_eq!(steps_of(&machine), ["group", "uinput", "buffers"]);
    assert!(is_failure(
        run(&machine, &["--only", "scheduling", "--yes"]).unwrap()
    ));
    assert_eq!(machine.text(LIMITS), before);
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(machine.text(LIMITS), before);
}

#[test]
fn changes_of_the_administrator_stay_at_an_undo() {
    let machine = machine();
    succeeds(&machine, &["--yes"]);
    let changed = format!("{}# mine\n", machine.text(RULES).unwrap());
    machine.put(RULES, &changed);
    machine.put("/proc/sys/net/core/wmem_max", "8388608\n");
    machine.put("/etc/modules-load.d/other.conf", "loop\n");
    let group = "openuvr".to_owned();
    machine
        .state
        .borrow_mut()
        .groups
        .get_mut(&group)
        .unwrap()
        .insert("bob".to_owned());
    // The administrator has removed one entry already.
    machine.state.borrow_mut().ufw.as_mut().unwrap().clear();

    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(machine.text(RULES).unwrap(), changed);
    assert_eq!(
        machine.text("/proc/sys/net/core/wmem_max").unwrap(),
        "8388608\n"
    );
    assert_eq!(
        machine.text("/proc/sys/net/core/rmem_max").unwrap(),
        "212992\n"
    );
    assert_eq!(
        machine.text("/etc/modules-load.d/other.conf").unwrap(),
        "loop\n"
    );
    assert_eq!(machine.text(MODULES), None);
    let members: Vec<String> = machine.state.borrow().groups[&group]
        .iter()
        .cloned()
        .collect();
    assert_eq!(members, ["bob"]);
    assert_eq!(machine.text(FILE), None);
}

#[test]
fn a_later_text_replaces_an_earlier_one() {
    let machine = Machine::bare();
    let before = machine.snapshot();
    succeeds(&machine, &["--only", "scheduling", "--yes"]);
    // An earlier version of setup has written another text.
    let text = machine.text(LIMITS).unwrap();
    let earlier = text.replace("49", "40");
    machine.put(LIMITS, &earlier);
    machine.put(
        FILE,
        &machine
            .text(FILE)
            .unwrap()
            .replace("rtprio 49", "rtprio 40"),
    );
    succeeds(&machine, &["--only", "scheduling", "--yes"]);
    assert_eq!(machine.text(LIMITS).unwrap(), text);
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(before, machine.snapshot());
}

#[test]
fn a_required_step_stays_with_the_last_that_requires_it() {
    let machine = Machine::bare();
    let before = machine.snapshot();
    succeeds(&machine, &["--only", "scheduling", "--yes"]);
    run_on(&machine.system(), &["--only", "uinput", "--yes"], "bob").unwrap();
    assert_eq!(steps_of(&machine), ["group", "scheduling", "uinput"]);
    succeeds(&machine, &["--undo", "--only", "scheduling", "--yes"]);
    assert_eq!(steps_of(&machine), ["group", "uinput"]);
    assert_eq!(machine.state.borrow().groups["openuvr"].len(), 2);
    succeeds(&machine, &["--undo", "--only", "buffers", "--yes"]);
    assert_eq!(steps_of(&machine), ["group", "uinput"]);
    succeeds(&machine, &["--undo", "--only", "uinput", "--yes"]);
    assert_eq!(before, machine.snapshot());
}

#[test]
fn a_second_account_becomes_a_member_of_the_group() {
    let machine = Machine::bare();
    let before = machine.snapshot();
    let words = ["--role", "client", "--yes"];
    succeeds(&machine, &words);
    run_on(&machine.system(), &words, "bob").unwrap();
    let members: Vec<String> = machine.state.borrow().groups["openuvr"]
        .iter()
        .cloned()
        .collect();
    assert_eq!(members, ["ada", "bob"]);
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(before, machine.snapshot());
}

#[test]
fn raw_ethernet_is_made_on_request_and_survives_an_upgrade() {
    let machine = Machine::bare();
    machine.state.borrow_mut().capabilities = "cap_sys_nice=ep".to_owned();
    let before = machine.snapshot();
    succeeds(&machine, &["--only", "raw-ethernet", "--yes"]);
    let granted = "cap_sys_nice=ep cap_net_raw=ep";
    assert_eq!(machine.state.borrow().capabilities, granted);
    succeeds(&machine, &["--restore"]);
    assert_eq!(machine.commands.borrow().len(), 1);
    // An upgrade replaces the file.
    machine.state.borrow_mut().capabilities.clear();
    succeeds(&machine, &["--restore"]);
    assert_eq!(machine.state.borrow().capabilities, "cap_net_raw=ep");
    succeeds(&machine, &["--undo", "--yes"]);
    assert_eq!(machine.state.borrow().capabilities, "");
    // Nothing is restored without a record.
    succeeds(&machine, &["--restore"]);
    assert_eq!(machine.state.borrow().capabilities, "");
    machine.state.borrow_mut().capabilities = "cap_sys_nice=ep".to_owned();
    assert_eq!(before, machine.snapshot());
}

#[test]
fn shipped_services_and_present_rules_are_used() {
    let machine = machine();
    machine.put(
        "/etc/ufw/applications.d/openuvr",
        "[OpenUVR]\nports=4710/udp\n",
    );
    machine.state.borrow_mut().services = "http mdns openuvr\n";
    let entries = ["permanent service=mdns", "runtime service=mdns"];
    machine.state.borrow_mut().firewalld = Some(entries.map(str::to_owned).into());
    succeeds(&machine, &["--only", "firewall", "--yes"]);
    assert_eq!(
        *machine.commands.borrow(),
        [
            "firewall-cmd --permanent --zone=public --add-service=openuvr",
            "firewall-cmd --zone=public --add-service=openuvr",
            "ufw allow OpenUVR",
        ]
    );
    // Rules of the administrator suffice.
    let machine = self::machine();
    let entries = [
        entries[0],
        entries[1],
        "permanent port=4710/udp",
        "runtime service=openuvr",
    ];
    machine.state.borrow_mut().firewalld = Some(entries.map(str::to_owned).into());
    let rule = "ufw allow 4710/udp comment 'games'".to_owned();
    machine.state.borrow_mut().ufw = Some([rule].into());
    succeeds(&machine, &["--only", "firewall", "--yes"]);
    assert!(machine.commands.borrow().is_empty());
}

#[test]
fn without_root_only_the_plan_is_printed() {
    let machine = machine();
    let before = machine.snapshot();
    let why = run_on(&machine.unprivileged(), &["--yes"], "ada")
        .unwrap_err()
        .to_string();
    assert!(
        why.starts_with("nothing was changed, because that needs root: run `sudo "),
        "{why}"
    );
    run_on(&machine.unprivileged(), &["--dry-run"], "ada").unwrap();
    run(&machine, &["--dry-run"]).unwrap();
    assert_eq!(before, machine.snapshot());
    succeeds(&machine, &["--yes"]);
    let made = machine.snapshot();
    assert!(run_on(&machine.unprivileged(), &["--undo", "--yes"], "ada").is_err());
    succeeds(&machine, &["--undo", "--dry-run"]);
    assert_eq!(made, machine.snapshot());
}

#[test]
fn the_user_chooses_the_steps() {
    let answered = |machine: &Machine, answers: &[&str]| {
        let answers = RefCell::new(answers.iter());
        let questions = RefCell::new(Vec::new());
        let dialogue = Dialogue {
            ask: &|question: &str| {
                questions.borrow_mut().push(question.to_owned());
                Ok((*answers.borrow_mut().next().expect("an answer")).to_owned())
            },
            catch_signals: &|| Ok(AtomicBool::new(false).into()),
        };
        let target = target(Some("ada"), Role::Both);
        perform(&machine.system(), &args(&[]), &target, &dialogue).unwrap();
        assert_eq!(answers.borrow_mut().next(), None);
        questions.into_inner()
    };
    let machine = Machine::bare();
    let before = machine.snapshot();
    assert_eq!(answered(&machine, &[""]).len(), 1);
    assert_eq!(before, machine.snapshot());
    let questions = answered(&machine, &["e", "n", "y", ""]);
    assert!(questions[1].starts_with("scheduling?"), "{questions:?}");
    assert_eq!(questions.len(), 4);
    assert_eq!(steps_of(&machine), ["group", "uinput"]);
    answered(&machine, &["y"]);
    assert_eq!(
        steps_of(&machine),
        ["group", "uinput", "scheduling", "buffers"]
    );
}

#[test]
fn a_client_gets_only_its_steps() {
    let machine = machine();
    succeeds(&machine, &["--role", "client", "--yes"]);
    assert_eq!(steps_of(&machine), ["group", "scheduling", "buffers"]);
}

#[test]
fn the_account_is_that_of_the_caller() {
    let machine = Machine::bare();
    let (root, user) = (machine.system(), machine.unprivileged());
    let variables = |known: &'static [(&str, &str)]| {
        move |name: &str| {
            let found = known.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    };
    let found = |system, named, known| account(system, named, variables(known)).unwrap();
    assert_eq!(
        found(&root, None, &[("SUDO_USER", "bob")]),
        Some("bob".to_owned())
    );
    assert_eq!(
        found(&root, None, &[("PKEXEC_UID", "1000")]),
        Some("ada".to_owned())
    );
    assert_eq!(found(&root, None, &[("SUDO_USER", "root")]), None);
    assert_eq!(found(&root, None, &[]), None);
    assert_eq!(found(&root, Some("root"), &[]), Some("root".to_owned()));
    assert_eq!(
        found(&user, None, &[("SUDO_USER", "bob")]),
        Some("ada".to_owned())
    );
    assert_eq!(found(&user, Some("ada"), &[]), Some("ada".to_owned()));
    assert_eq!(found(&user, Some("root"), &[]), Some("root".to_owned()));
    let why = account(&user, Some("bob"), variables(&[])).unwrap_err();
    assert!(why.to_string().contains("with sudo"), "{why}");
    for name in ["eve", "-G"] {
        let why = account(&root, Some(name), variables(&[])).unwrap_err();
        assert!(why.to_string().contains("--user NAME"), "{why}");
    }
    // Without an account, steps that grant rights to an account are unavailable.
    let examined = {
        let system = machine.system();
        let record = Record::read(&system).unwrap();
        let target = target(None, Role::Both);
        let context = steps::Context {
            system: &system,
            record: &record,
            target: &target,
        };
        plan::examine(&context, &[])
    };
    let text = plan::text(&examined, None);
    assert!(text.contains("1 step to do:\n\nbuffers "), "{text}");
    assert!(
        text.contains("scheduling    specify the account that runs openuvr: --user NAME"),
        "{text}"
    );
}

#[test]
fn the_plan_states_each_command_and_file() {
    let machine = machine();
    let system = machine.system();
    let record = Record::read(&system).unwrap();
    let target = target(Some("ada"), Role::Both);
    let context = steps::Context {
        system: &system,
        record: &record,
        target: &target,
    };
    let text = plan::text(&plan::examine(&context, &[]), Some("ada"));
    let starts = [
        "5 steps to do, for the account ada:",
        "group  ",
        "scheduling  ",
        "uinput  ",
        "buffers  ",
        "firewall  ",
    ];
    let mut lines = text.lines();
    for start in starts {
        assert!(lines.any(|line| line.starts_with(start)), "{start}: {text}");
    }
    for line in [
        "groupadd --system openuvr",
        "write /etc/security/limits.d/60-openuvr.conf:",
        "@openuvr - memlock unlimited",
        "mkdir /etc/modules-load.d",
        "chmod 660 /dev/uinput",
        "sysctl -w net.core.rmem_max=4194304   (now 212992)",
        "ufw allow 4710/udp",
    ] {
        assert!(
            text.lines().any(|found| found.trim() == line),
            "{line}: {text}"
        );
    }
    assert!(
        text.ends_with(
            "raw-ethernet  raw Ethernet (`--link raw`) without root: --only raw-ethernet\n"
        ),
        "{text}"
    );
    let prose = text.lines().filter(|line| !line.starts_with("        "));
    assert!(
        prose.clone().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn the_help_lists_the_steps() {
    let mut command = Args::augment_args(Command::new("setup"));
    let help = command.render_long_help().to_string();
    let names: Vec<&str> = steps::names().collect();
    assert_eq!(
        names,
        [
            "scheduling",
            "uinput",
            "buffers",
            "firewall",
            "raw-ethernet"
        ]
    );
    for step in STEPS.iter().filter(|step| names.contains(&step.name())) {
        let line = format!("  {:14}{}", step.name(), step.about());
        assert!(help.contains(&line), "{line}: {help}");
    }
}
