//! `openuvr setup` with the system's own programs, in a mount namespace with a copy of `/etc` and an empty `/var/lib`.
//!
//! The tests of the crate `setup` run all steps and faults on an imitated machine. `./dev test-package` runs the steps
//! for firewalls in a bare system.

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::{Folder, install, openuvr, skip};

/// The start of each script. It mounts a copy of `/etc` and an empty `/var/lib`, adds an account, and stores the output
/// of `state`.
const START: &str = r#"
set -eu
cp -a /etc "$work/etc"
mount --bind "$work/etc" /etc
mount -t tmpfs tmpfs /var/lib
useradd --no-create-home ada
# Prints the files with their owners, modes and texts. The account tools keep the previous version of a file as FILE-.
state() {
  find /etc /var/lib ! -name '*-' -printf '%p %m %U %G\n' | sort
  find /etc /var/lib -type f ! -name '*-' -exec sha256sum {} + | sort -k 2
  getcap "$program"
}
state >"$work/before"
"#;

/// Runs a script as root in a separate mount namespace, with the variables `$program` and `$work`. `None` if the test
/// is skipped.
fn run(script: &str) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        skip("a mount namespace needs root");
        return None;
    }
    if !support::skip::has_program("setcap", "libcap2-bin") {
        return None;
    }
    let folder = Folder::new();
    let program = folder.path().join("openuvr");
    install(Path::new(env!("CARGO_BIN_EXE_openuvr")), &program, 0o755);
    // Other accounts run the program.
    let open = Command::new("chmod").arg("755").arg(folder.path()).status();
    assert!(open.expect("chmod runs").success());
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation=private", "bash", "-c"])
        .arg(format!("{START}{script}"))
        .env("program", &program)
        .env("work", folder.path())
        .env_remove("SUDO_USER");
    let output = command.output().expect("unshare runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("unshare failed") {
        skip(&format!("mount namespace: {errors}"));
        return None;
    }
    Some(output)
}

/// The standard output of a script that succeeds.
fn succeeds(script: &str) -> Option<String> {
    let output = run(script)?;
    let (text, errors) = texts(&output);
    assert!(output.status.success(), "{text}\n{errors}");
    Some(text)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn limits_and_capability_are_granted_and_taken_back() {
    let script = r#"
"$program" setup --only scheduling,raw-ethernet --user ada --yes
echo "== granted"
getent group openuvr | cut -d: -f4
# In a container, root may lack CAP_SYS_RESOURCE, without which pam_limits raises no limit.
if prlimit --memlock=unlimited:unlimited --rtprio=49:49 true 2>/dev/null; then
  runuser -u ada -- prlimit --rtprio --memlock --noheadings --raw --output=SOFT
fi
getcap "$program" | grep -o cap_net_raw.*
grep '"step"' /var/lib/openuvr/setup.json
"$program" setup --only scheduling,raw-ethernet --user ada --yes >"$work/again"
grep -c 'Nothing to do' "$work/again"
# An upgrade replaces the file.
cp "$program" "$work/new" && mv "$work/new" "$program"
[ -z "$(getcap "$program")" ]
"$program" setup --restore >/dev/null
getcap "$program" | grep -o cap_net_raw.*
echo "== undone"
"$program" setup --undo --yes >/dev/null
state >"$work/after"
diff "$work/before" "$work/after"
getent group openuvr || echo "no group"
"#;
    let Some(text) = succeeds(script) else { return };
    let (plan, rest) = text.split_once("== granted\n").expect("the first part");
    assert!(
        plan.starts_with("3 steps to do, for the account ada:\n"),
        "{plan}"
    );
    for line in ["groupadd --system openuvr", "@openuvr - rtprio 49"] {
        // Printed in the plan, and again when the change is made.
        let lines = plan.lines().filter(|found| found.trim() == line);
        assert_eq!(lines.count(), 2, "{plan}");
    }
    assert!(
        plan.ends_with("Done. `openuvr setup --undo` undoes the changes.\n"),
        "{plan}"
    );
    let mut lines: Vec<&str> = rest.lines().map(str::trim).collect();
    if let Some(at) = lines.iter().position(|line| *line == "49") {
        assert_eq!(
            lines.drain(at..at + 2).collect::<Vec<_>>(),
            ["49", "unlimited"]
        );
    }
    assert_eq!(
        lines,
        [
            "ada",
            "cap_net_raw=ep",
            "\"step\": \"group\",",
            "\"step\": \"scheduling\",",
            "\"step\": \"raw-ethernet\",",
            "1",
            "cap_net_raw=ep",
            "== undone",
            "no group",
        ]
    );
}

#[test]
fn a_full_disk_changes_nothing() {
    // At first, no file can be created in the folder of the record. Later, no file can be created in the folder of the
    // limits.
    let script = r#"
mount -t tmpfs -o nr_inodes=2 tmpfs /var/lib
! "$program" setup --only scheduling --user ada --yes >/dev/null 2>"$work/record" || exit 1
umount /var/lib
cat "$work/record"
cp -a /etc/security/limits.d "$work/limits.d"
mount -t tmpfs -o nr_inodes=1,mode=755 tmpfs /etc/security/limits.d
! "$program" setup --only scheduling --user ada --yes >"$work/text" 2>"$work/file" || exit 1
umount /etc/security/limits.d
cat "$work/file"
state >"$work/after"
diff "$work/before" "$work/after"
"#;
    let Some(text) = succeeds(script) else { return };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].contains("can't write /var/lib/openuvr/setup.json"),
        "{text}"
    );
    assert!(
        lines[1].contains(
            "scheduling failed and was undone: can't write /etc/security/limits.d/60-openuvr.conf"
        ),
        "{text}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.contains("No space left on device")),
        "{text}"
    );
}

#[test]
fn an_account_without_privileges_gets_the_plan() {
    let script = r#"
runuser -u ada -- "$program" setup --only scheduling || echo "status $?"
state >"$work/after"
diff "$work/before" "$work/after"
"#;
    let Some(output) = run(script) else { return };
    let (text, errors) = texts(&output);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(
        text.starts_with("2 steps to do, for the account ada:\n"),
        "{text}"
    );
    assert!(
        text.contains("    write /etc/security/limits.d/60-openuvr.conf:\n"),
        "{text}"
    );
    assert!(text.ends_with("status 1\n"), "{text}");
    assert!(errors.contains("that needs root: run `sudo "), "{errors}");
    assert!(
        errors.contains("/openuvr setup --only scheduling`"),
        "{errors}"
    );
}

#[test]
fn without_a_terminal_setup_does_not_wait() {
    let script = r#"
"$program" setup --only scheduling --user ada </dev/null >/dev/null || echo "status $?"
"$program" setup --only nothing || echo "status $?"
state >"$work/after"
diff "$work/before" "$work/after"
"#;
    let Some(output) = run(script) else { return };
    let (text, errors) = texts(&output);
    assert_eq!(text, "status 1\nstatus 2\n", "{errors}");
    assert!(
        errors.contains("standard input is not a terminal"),
        "{errors}"
    );
    let unknown = openuvr(&["setup", "--user", "no-such-account"]).output();
    let (_, errors) = texts(&unknown.expect("it runs"));
    assert!(
        errors.contains("there is no account no-such-account"),
        "{errors}"
    );
}
