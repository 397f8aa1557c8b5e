//! `./dev`, the entry script: commands that need no build, and messages about missing dependencies on a new machine.
//!
//! The script finds only the programs that a test provides.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Folder, install};

/// Tools that the script itself uses.
const TOOLS: [&str; 15] = [
    "awk", "basename", "bash", "cat", "cut", "dirname", "env", "getent", "head", "id", "readlink",
    "realpath", "sed", "sh", "sort",
];

/// A machine with only [`TOOLS`] and the test's programs.
struct Machine(Folder);

impl Machine {
    fn new() -> Machine {
        let folder = Folder::new();
        std::fs::create_dir(folder.path().join("bin")).expect("a temporary folder");
        std::fs::create_dir(folder.path().join("cargo")).expect("a temporary folder");
        for tool in TOOLS {
            let there = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(tool));
            let there = there.iter().find(|path| path.exists());
            let there = there.unwrap_or_else(|| panic!("there is no {tool}"));
            symlink(there, folder.path().join("bin").join(tool)).expect("a temporary folder");
        }
        Machine(folder)
    }

    /// Creates a program that logs its start in the file `called` and runs this script.
    fn program(&self, name: &str, script: &str) {
        let draft = self.0.path().join("draft");
        let called = self.0.join("called");
        let text = format!("#!/bin/sh\necho {name} >> {called}\n{script}\n");
        std::fs::write(&draft, text).expect("a temporary folder");
        install(&draft, &self.0.path().join("bin").join(name), 0o755);
    }

    /// Simulates a distribution with all dependencies installed, and with packages of rustup and of Rust in this
    /// version, but without access to rustup's server. The packaged cargo logs its start as `packaged-cargo`. Its
    /// installation removes no packages except `cargo` and `rustc`.
    fn without_rustups_server(&self, version: &str) {
        self.program("dpkg-query", "echo installed");
        self.program("curl", "echo 'curl: (6) no such host' >&2\nexit 6");
        self.program("sudo", "exec \"$@\"");
        self.program("packaged-cargo", &format!("echo cargo {version}"));
        let known = format!("echo 'Filename: rust.deb'\necho 'Version: {version}'");
        self.program(
            "apt-cache",
            &format!("case \"$*\" in\n*cargo-web | *rustup) {known} ;;\n*) exit 100 ;;\nesac"),
        );
        let cargo = self.0.join("bin/cargo");
        let simulated = format!("[ ! -e {cargo} ] || printf 'Remv cargo [1]\\nRemv rustc [1]\\n'");
        let install = format!(
            "case \"$*\" in\n*--remove\\ *) ;;\n*) [ ! -e {cargo} ] || exit 100 ;;\nesac\n\
             /bin/ln -sf packaged-cargo {cargo}"
        );
        self.program(
            "apt-get",
            &format!(
                "case \"$*\" in\n\"-s \"*) {simulated} ;;\n*cargo-web) {install} ;;\n\
                 *update*) ;;\n*) exit 100 ;;\nesac"
            ),
        );
    }

    /// The log of started programs, one per line.
    fn invocations(&self) -> String {
        std::fs::read_to_string(self.0.path().join("called")).unwrap_or_default()
    }

    /// The command that runs `./dev` with these arguments.
    fn dev(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.0.path().join("bin/bash"));
        command
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev"))
            .args(args)
            .env_clear()
            .env("PATH", self.0.path().join("bin"))
            .env("CARGO_TARGET_DIR", self.0.path().join("target"))
            .env("CARGO_HOME", self.0.path().join("cargo"))
            .env("HOME", self.0.path());
        command
    }
}

/// Exit code, stdout and stderr.
fn output_of(mut command: Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("bash runs");
    (status.code(), text(&stdout), text(&stderr))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_entry_script_helps_without_a_home() {
    let machine = Machine::new();
    let mut help = machine.dev(&["help"]);
    help.env_remove("HOME").env_remove("CARGO_HOME");
    let (code, printed, error) = output_of(help);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(
        printed.starts_with("./dev build [--target aarch64]\n"),
        "{printed}"
    );
    assert!(printed.contains("\n./dev demo [ARGS]  "), "{printed}");
}

#[test]
fn the_entry_script_rejects_usage_errors_first() {
    let machine = Machine::new();
    for program in ["apt-get", "apt-cache", "cargo", "rustup", "curl", "sudo"] {
        machine.program(program, "");
    }
    // All dependencies are present. The next step would be the build.
    machine.program("dpkg-query", "echo installed");
    let cases: [(&[&str], &str); 9] = [
        (&["demo", "--wrong"], "demo: unknown option '--wrong'"),
        (
            &["demo", "--duration", "3s", "--wrong=1"],
            "unknown option '--wrong=1'",
        ),
        (&["demo", "--seconds"], "--seconds requires a value"),
        (&["install", "--wrong"], "unknown option '--wrong'"),
        (&["install", "--prefix"], "--prefix requires a folder"),
        (&["install", "--prefix", "/a b"], "does not support blanks"),
        (&["test-cluster", "nosuch"], "unknown engine 'nosuch'"),
        (
            &["test-fuzz", "--minutes", "0"],
            "--minutes requires a number",
        ),
        (&["test-fuzz", "--hours"], "unknown option '--hours'"),
    ];
    for (args, why) in cases {
        let (code, _, error) = output_of(machine.dev(args));
        assert_eq!(code, Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.contains(why), "{args:?}: {error}");
        assert_eq!(machine.invocations(), "", "{args:?}");
    }
    // A relative prefix lies in the current folder.
    let folder = machine.0.path().join("a b");
    std::fs::create_dir(&folder).expect("a temporary folder");
    let mut relative = machine.dev(&["install", "--prefix", "here"]);
    relative.current_dir(folder);
    let (code, _, error) = output_of(relative);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("does not support blanks"), "{error}");
    // With valid arguments, the script starts the build.
    let (_, _, error) = output_of(machine.dev(&["demo", "--headless"]));
    assert!(machine.invocations().contains("cargo\n"), "{error}");
}

#[test]
fn a_failed_rustup_download_has_a_hint() {
    let machine = Machine::new();
    machine.program("dpkg-query", "echo installed");
    machine.program("curl", "echo 'curl: (60) no such authority' >&2\nexit 60");
    let (code, _, error) = output_of(machine.dev(&["build"]));
    assert_eq!(code, Some(1), "{error}");
    let last = error.lines().last().expect("it says why");
    for part in [
        "rustup could not be fetched",
        "check the network",
        "set https_proxy",
        "CURL_CA_BUNDLE",
        "or install Rust ",
    ] {
        assert!(last.contains(part), "{part:?} is not in: {error}");
    }
    assert!(machine.invocations().contains("curl\n"));
}

#[test]
fn a_packaged_rust_serves_without_rustups_server() {
    let machine = Machine::new();
    machine.without_rustups_server("9.0.0+dfsg1-1");
    let (code, _, error) = output_of(machine.dev(&["build"]));
    assert_eq!(code, Some(0), "{error}");
    let line = "dev: installing Rust 9.0.0+dfsg1-1 from the distribution\n";
    assert!(error.contains(line), "{error}");
    let invocations = machine.invocations();
    assert!(invocations.ends_with("packaged-cargo\n"), "{invocations}");
}

#[test]
fn a_packaged_rust_that_is_too_old_is_refused() {
    let machine = Machine::new();
    machine.without_rustups_server("1.63.0+dfsg1-1");
    let (code, _, error) = output_of(machine.dev(&["build"]));
    assert_eq!(code, Some(1), "{error}");
    let last = error.lines().last().expect("it says why");
    for part in [
        "rustup could not be fetched",
        "or install Rust ",
        "cargo-web is too old: 1.63.0+dfsg1-1",
    ] {
        assert!(last.contains(part), "{part:?} is not in: {error}");
    }
    let invocations = machine.invocations();
    assert!(!invocations.contains("packaged-cargo"), "{invocations}");
}

#[test]
fn a_packaged_rust_replaces_an_old_cargo() {
    let machine = Machine::new();
    machine.without_rustups_server("9.0.0+dfsg1-1");
    machine.program("cargo", "echo cargo 1.63.0");
    let (code, _, error) = output_of(machine.dev(&["build"]));
    assert_eq!(code, Some(0), "{error}");
    let invocations = machine.invocations();
    assert!(invocations.ends_with("packaged-cargo\n"), "{invocations}");

    // If the archive has no newer cargo, a message names both versions.
    let machine = Machine::new();
    machine.without_rustups_server("1.64.0+dfsg1-1");
    machine.program("cargo", "echo cargo 1.63.0");
    let (code, _, error) = output_of(machine.dev(&["build"]));
    assert_eq!(code, Some(1), "{error}");
    let last = error.lines().last().expect("it says why");
    assert!(
        last.contains("cargo is 1.63.0, but OpenUVR needs Rust "),
        "{error}"
    );
}

#[test]
fn rustup_without_its_server_has_a_hint() {
    let machine = Machine::new();
    machine.without_rustups_server("9.0.0+dfsg1-1");
    machine.program("cargo", "");
    // The list of toolchains is empty, and no toolchain can be installed.
    machine.program("rustup", "[ \"$2\" = list ]");
    let (code, _, error) = output_of(machine.dev(&["build"]));
    assert_eq!(code, Some(1), "{error}");
    let last = error.lines().last().expect("it says why");
    for part in [
        "rustup could not install Rust ",
        "check the network",
        "remove rustup, so that ./dev installs the distribution's Rust 9.0.0+dfsg1-1",
    ] {
        assert!(last.contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn no_install_lists_missing_packages_and_starts_nothing() {
    let machine = Machine::new();
    for program in ["apt-get", "cargo", "rustup", "curl", "sudo"] {
        machine.program(program, "");
    }
    machine.program("dpkg-query", "echo not-installed");
    let (code, _, error) = output_of(machine.dev(&["test", "--no-install"]));
    assert_eq!(code, Some(0), "{error}");
    assert!(error.starts_with("dev: missing packages:\n"), "{error}");
    let all = include_str!("../../../../packages.txt");
    let rows = |purpose: &str| {
        let section = all
            .split(&format!("[{purpose}]\n"))
            .nth(1)
            .expect("a section");
        section.lines().take_while(|line| !line.is_empty()).count()
    };
    let listed = error.lines().count() - 1;
    let wanted: usize = ["build", "run", "test", "report"].map(rows).iter().sum();
    assert_eq!(listed, wanted, "{error}");
    assert!(
        error.contains("  xvfb  for run: an X server without a screen"),
        "{error}"
    );
    let started = machine.invocations();
    assert!(
        started.lines().all(|program| program == "dpkg-query"),
        "{started}"
    );
    // All dependencies are installed.
    machine.program("dpkg-query", "echo installed");
    let (code, _, error) = output_of(machine.dev(&["check", "--no-install"]));
    assert_eq!(
        (code, error.as_str()),
        (Some(0), "dev: no package is missing\n")
    );
}
