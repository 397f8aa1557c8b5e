//! Availability and versions of a peer's programs.

use std::path::Path;
use std::process::{Command, Stdio};

use super::table::{Need, PYTHON, Peer, Proof};

/// The missing Debian packages, without duplicates, in the order of `needs`.
pub(in crate::bench) fn missing(needs: &[Need]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for Need { package, proof } in needs {
        let there = match proof {
            Proof::Program(name, _) => is_on_path(name),
            Proof::Element(name) => knows_element(name),
            Proof::Typelib(name) => knows_typelib(name),
            Proof::Built(variable, name) => is_in_named_folder(variable, name),
        };
        if !there && !packages.contains(package) {
            packages.push(*package);
        }
    }
    packages
}

/// The version of each program that the peer needs.
pub(in crate::bench) fn versions(peer: &Peer) -> Vec<String> {
    let programs = peer.needs.iter().filter_map(|need| match need.proof {
        Proof::Program(name, word) => Some((name, version(name, word))),
        Proof::Built(_, name) => Some((name, None)),
        Proof::Element(_) | Proof::Typelib(_) => None,
    });
    programs
        .map(|(name, version)| version.unwrap_or_else(|| format!("{name}, unknown version")))
        .collect()
}

pub(in crate::bench) fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether the program is in the folder that the environment variable names.
fn is_in_named_folder(variable: &str, program: &str) -> bool {
    std::env::var_os(variable).is_some_and(|folder| Path::new(&folder).join(program).is_file())
}

fn knows_element(name: &str) -> bool {
    let mut inspect = Command::new("gst-inspect-1.0");
    // Accept any version: the element of libnice has its own version number, which is below the default minimum.
    inspect.args(["--exists", "--atleast-version=0.0", name]);
    succeeds(inspect)
}

/// Whether Debian's Python can load the typelib with this name, such as `GstSdp-1.0`.
fn knows_typelib(name: &str) -> bool {
    let Some((name, version)) = name.rsplit_once('-') else {
        return false;
    };
    let mut python = Command::new(PYTHON);
    let line = format!("import gi; gi.require_version('{name}', '{version}')");
    python.args(["-c", &line]);
    succeeds(python)
}

pub(super) fn succeeds(mut command: Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The first line of a program's output that contains a digit. Some programs exit with an error when they print their
/// version, or print it to stderr.
fn version(program: &str, word: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg(word).stdin(Stdio::null());
    let out = command.output().ok()?;
    let text = [out.stdout, out.stderr].concat();
    first_with_digit(&String::from_utf8_lossy(&text))
}

fn first_with_digit(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains(|c: char| c.is_ascii_digit()))?;
    // Drop the rest of the line, such as a date or a copyright notice.
    let ends = [", built", " Copyright"]
        .iter()
        .filter_map(|end| line.find(end));
    let line = &line[..ends.min().unwrap_or(line.len())];
    Some(line.trim().chars().take(60).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_shortened_to_its_number() {
        for (said, version) in [
            (
                "\nTigerVNC Server version 1.12.0, built 2023",
                "TigerVNC Server version 1.12.0",
            ),
            (
                "ffmpeg version 5.1.9 Copyright (c) 2000",
                "ffmpeg version 5.1.9",
            ),
            ("usage\ngst version 1.22", "gst version 1.22"),
        ] {
            assert_eq!(first_with_digit(said).as_deref(), Some(version));
        }
        assert_eq!(first_with_digit("no\nnumber"), None);
    }

    #[test]
    fn a_missing_program_is_named_by_its_package_once() {
        let absent = |package| Need {
            package,
            proof: Proof::Program("openuvr-is-not-called-so", "--version"),
        };
        let needs: &'static [Need] = Box::leak(Box::new([absent("a"), absent("b"), absent("a")]));
        let peer = Peer {
            name: "it",
            what: "",
            needs,
            files: &[],
            sender: "",
            receiver: "",
            transport: super::super::table::Transport::Udp,
            takes_input: false,
        };
        assert_eq!(missing(needs), ["a", "b"]);
        assert_eq!(
            versions(&peer)[0],
            "openuvr-is-not-called-so, unknown version"
        );
    }
}
