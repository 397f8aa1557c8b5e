//! Causes of missing pictures and unreachable hosts, determined from the state of the game's processes.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use rustix::process::Pid;

use crate::descendants;

/// The variable that loads the hook (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// A shell's exit code is this number plus the number of the signal, if a signal has ended the shell's program.
const SHELL: i32 = 128;

/// Signals with which the kernel or the C library ends a faulty program.
const CRASHES: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
];

/// Describes the first descendant that runs without `hook`, because its launcher has removed the variable that loads
/// the hook. `earlier` holds the children that this process had before it started the game: a shell that replaces itself
/// with this program (`exec`) passes its children on. They and their descendants do not belong to the game.
pub fn without_hook(hook: &Path, earlier: &[u32]) -> Option<String> {
    let hook = hook.to_str()?;
    let program = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let ours = program("self");
    let lacks = |pid: &Pid| {
        // Skips the stand-in, which is a process of this program and needs no hook.
        if program(&pid.as_raw_nonzero().to_string()) == ours {
            return None;
        }
        let of = |file: &str| fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
        // An ended process has an empty environment.
        let environment = of("environ").ok().filter(|all| !all.is_empty())?;
        let (name, maps) = (of("comm").ok()?, of("maps").ok()?);
        let has = |text: &[u8]| text.windows(hook.len()).any(|part| part == hook.as_bytes());
        (!preloads(&environment, hook) && !has(&maps)).then(|| {
            let name = String::from_utf8_lossy(&name);
            format!("{} (process {})", name.trim(), pid.as_raw_nonzero())
        })
    };
    let found = descendants::running_except(earlier)
        .iter()
        .find_map(lacks)?;
    Some(format!(
        "{found} was started without {PRELOAD}: its launcher has removed the variable from the environment, as env -i \
             does; start that program directly with `openuvr run`"
    ))
}

/// Whether an environment (proc(5), `/proc/PID/environ`) loads `hook`.
fn preloads(environment: &[u8], hook: &str) -> bool {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        let variable = String::from_utf8_lossy(variable);
        let libraries = variable.strip_prefix(PRELOAD);
        let libraries = libraries.and_then(|rest| rest.strip_prefix('='));
        libraries.is_some_and(|all| all.split([' ', ':']).any(|one| one == hook))
    })
}

/// Whether the process is in its own network namespace with only a loopback interface, so that no client can reach it.
pub fn has_no_network(process: Pid) -> bool {
    let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let id = process.as_raw_nonzero().to_string();
    let (Ok(its), Ok(ours)) = (of(&id), of("self")) else {
        return false;
    };
    let devices = fs::read_to_string(format!("/proc/{id}/net/dev"));
    its != ours && devices.is_ok_and(|table| only_loopback(&table))
}

/// Whether a table of interfaces (proc(5), `/proc/net/dev`) has only the loopback interface.
fn only_loopback(table: &str) -> bool {
    let names = table.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim()).all(|name| name == "lo")
}

/// How the process ended, and whether that explains missing pictures.
pub fn end(status: ExitStatus) -> (String, bool) {
    let crashed = |signal: i32| CRASHES.contains(&signal);
    match (status.signal(), status.code()) {
        (Some(signal), _) if crashed(signal) => (format!("it crashed ({status})"), true),
        (Some(_), _) => (format!("it was killed ({status})"), true),
        (None, Some(code)) if crashed(code - SHELL) => {
            let signal = ExitStatus::from_raw(code - SHELL);
            let words = format!("a child process crashed ({signal}; {status})");
            (words, true)
        }
        (None, Some(0)) => ("it exited normally".to_owned(), false),
        (None, _) => (format!("it failed ({status}); see its messages"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_told_from_other_ends() {
        let of_shell = |code: i32| end(ExitStatus::from_raw(code << 8));
        for (status, words, explains) in [
            (
                end(ExitStatus::from_raw(11)),
                "it crashed (signal: 11",
                true,
            ),
            (
                end(ExitStatus::from_raw(15)),
                "it was killed (signal: 15",
                true,
            ),
            (of_shell(139), "a child process crashed (signal: 11", true),
            (of_shell(130), "it failed (exit status: 130)", false),
            (of_shell(1), "it failed (exit status: 1)", false),
            (of_shell(0), "it exited normally", false),
        ] {
            assert!(status.0.starts_with(words), "{status:?}");
            assert_eq!(status.1, explains, "{status:?}");
        }
    }

    #[test]
    fn an_environment_is_searched_for_the_hook() {
        let hook = "/opt/libopenuvr_hook.so";
        let of = |text: &str| preloads(text.as_bytes(), hook);
        assert!(of("A=1\0LD_PRELOAD=/opt/libopenuvr_hook.so:/other.so\0"));
        assert!(of("LD_PRELOAD=/other.so /opt/libopenuvr_hook.so\0B=2\0"));
        assert!(!of("A=/opt/libopenuvr_hook.so\0LD_PRELOAD=/other.so\0"));
        assert!(!of(""));
    }

    #[test]
    fn a_loopback_interface_is_no_network() {
        let head = "Inter-|   Receive\n face |bytes\n";
        assert!(only_loopback(&format!("{head}    lo: 0 0 0\n")));
        assert!(only_loopback(head));
        assert!(!only_loopback(&format!("{head}    lo: 0 0\n  eth0: 1 2\n")));
    }
}
