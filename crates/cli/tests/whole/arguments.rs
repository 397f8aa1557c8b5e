//! Invalid arguments. Each gives one error line that states the problem and a remedy, before any other action.

use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use crate::support::{Folder, Program, openuvr};

/// Arguments, and texts that the error contains. `@` stands for a folder that contains an empty file `file`, a folder
/// `folder`, a FIFO `pipe`, and two input scripts, one of them invalid.
const CASES: &[(&[&str], &[&str])] = &[
    // Addresses that do not belong to a single machine.
    (
        &["host", "--source", "pattern", "--bind", "224.0.0.1:4710"],
        &["224.0.0.1 is a multicast address"],
    ),
    (
        &["host", "--source", "pattern", "--bind", "[ff02::1%1]:4710"],
        &["ff02::1 is a multicast address"],
    ),
    (
        &[
            "host",
            "--source",
            "pattern",
            "--bind",
            "255.255.255.255:4710",
        ],
        &["is a broadcast address"],
    ),
    (
        &["host", "--source", "pattern", "--bind", "127.255.255.255:0"],
        &["is a broadcast address"],
    ),
    (
        &["host", "--source", "pattern", "--bind", "[fe80::1]:4710"],
        &["is ambiguous (link-local)", "%2]:4710"],
    ),
    (
        &["host", "--source", "pattern", "--bind", "192.0.2.1:0"],
        &["192.0.2.1:0"],
    ),
    (
        &["host", "--source", "pattern", "--bind", "localhost:4710"],
        &["--bind must be an address and a port"],
    ),
    (
        &["run", "--bind", "224.0.0.1:4710", "--", "true"],
        &["multicast"],
    ),
    (
        &["client", "[fe80::1]"],
        &["HOST[:PORT] must be", "[fe80::1%eth0]", "not `[fe80::1]`"],
    ),
    (
        &["client", "fe80::1"],
        &["HOST[:PORT] must be", "[fe80::1%eth0]"],
    ),
    (&["client", "[ff02::1%lo]"], &["of a host"]),
    (&["client", "239.1.2.3:4710"], &["of a host"]),
    (&["client", "255.255.255.255"], &["of a host"]),
    (
        &[
            "client",
            "[fe80::1%nosuch]",
            "--present",
            "null",
            "--pin",
            "1234",
        ],
        &["fe80::1%nosuch"],
    ),
    (
        &["scene", "--fps", "0"],
        &["--fps must be 0.1 to 1000, not 0"],
    ),
    (
        &["scene", "--speed", "NaN"],
        &["--speed must be 0 to 100, not NaN"],
    ),
    // Numbers out of range. Some are negative. For a repeated option, the last value counts.
    (
        &["host", "--fps", "-5"],
        &["--fps must be a number of frames/s from 1 to 240, not `-5`"],
    ),
    (&["host", "--fps=-0"], &["from 1 to 240, not `-0`"]),
    (&["host", "--fps", "1e400"], &["from 1 to 240, not `1e400`"]),
    (
        &["host", "--fps", "60", "--fps", "0"],
        &["from 1 to 240, not `0`"],
    ),
    (
        &["host", "--bitrate", "-5M"],
        &["--bitrate must be", "from 100K to 1G", "not `-5M`"],
    ),
    (
        &["host", "--bitrate", "99999999999999999999999G"],
        &["--bitrate must be"],
    ),
    (&["host", "--slices", "-1"], &["from 1 to 64, not `-1`"]),
    (&["host", "--slices", "8.0"], &["a whole number of slices"]),
    (
        &["host", "--duration", "-2s"],
        &["--duration must be a time", "not `-2s`"],
    ),
    (
        &["host", "--duration", "99999999999h"],
        &["--duration must be a time"],
    ),
    (
        &["host", "--pairing-timeout", "1e9s"],
        &["--pairing-timeout must be a time"],
    ),
    (
        &["host", "--region", "-1x5+0+0"],
        &["--region must be", "not `-1x5+0+0`"],
    ),
    (&["host", "--size", "-320x200"], &["--size must be a size"]),
    (
        &["host", "--fps", "--bitrate", "5M"],
        &["a value is required for '--fps"],
    ),
    (
        &["demo", "--duration", "-5s"],
        &["invalid value '-5s'", "--duration"],
    ),
    (
        &["doctor", "--port", "-1"],
        &["invalid value '-1'", "--port"],
    ),
    (
        &["doctor", "--port", "65536"],
        &["invalid value '65536'", "--port"],
    ),
    // Strings.
    (
        &["host", "--name", "a\nb"],
        &["--name must be", "not `a\\nb`"],
    ),
    (
        &["host", "--name", "\u{1b}[2J"],
        &["--name must be", "not `\\u{1b}[2J`"],
    ),
    (
        &["client", "a\r\nb"],
        &["HOST[:PORT] must be", "not `a\\r\\nb`"],
    ),
    (&["host", "--name", ""], &["--name must be"]),
    (&["host", "--pin", "１２３４"], &["--pin must be"]),
    (&["host", "--display", ":0\n"], &["--display must be"]),
    (&["host", "--display", "nonsense"], &["nonsense"]),
    (&["host", "--window", "0x"], &["--window must be"]),
    // Files.
    (
        &["host", "--csv", "@/x", "--trace", "@/x"],
        &["csv and trace are the same file", "@/x"],
    ),
    (
        &["host", "--csv", "@/file", "--trace", "@/./file"],
        &["csv and trace are the same file"],
    ),
    (
        &["run", "--csv", "@/x", "--trace", "@/x", "--", "true"],
        &["csv and trace are the same file"],
    ),
    (
        &["host", "--source", "pattern", "--csv", "@/folder"],
        &["@/folder", "directory"],
    ),
    (
        &["host", "--source", "pattern", "--csv", "@/no/x"],
        &["@/no/x", "No such file"],
    ),
    (
        &["host", "--source", "pattern", "--csv", "/dev/full"],
        &["/dev/full", "No space"],
    ),
    (
        &["host", "--source", "clip", "--clip", "@/folder"],
        &["@/folder"],
    ),
    (
        &["host", "--source", "clip", "--clip", "/dev/zero"],
        &["/dev/zero"],
    ),
    (&["host", "--config", "@/folder"], &["@/folder"]),
    (&["run", "--hook", "@/none", "--", "true"], &["@/none"]),
    (&["run", "--", "@/none"], &["can't start @/none"]),
    (
        &["run", "--", "@/file"],
        &["can't start @/file", "ermission denied"],
    ),
    // A client's options for input and pictures. They are checked before it connects or prompts for a PIN.
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input",
            "evdev:@/folder",
        ],
        &["@/folder is a folder"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input",
            "evdev:@/file",
        ],
        &["@/file is a file"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input",
            "evdev:/dev/zero",
        ],
        &["is not an input device"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input",
            "evdev:/dev/urandom",
        ],
        &["is not an input device"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input",
            "evdev:@/none",
        ],
        &["@/none", "No such file"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input-script",
            "@/none",
        ],
        &["@/none", "No such file"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input-script",
            "@/folder",
        ],
        &["is not a file, pipe"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input-script",
            "/dev/zero",
        ],
        &["is not a file, pipe"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "null",
            "--input-script",
            "@/wrong",
        ],
        &["@/wrong:2: "],
    ),
    (
        &["client", "h", "--present", "headless", "--output", "@/file"],
        &["@/file", "can't be written"],
    ),
    (
        &[
            "client",
            "h",
            "--present",
            "headless",
            "--output",
            "/proc/x",
        ],
        &["/proc/x"],
    ),
    (
        &[
            "client",
            "h",
            "--input-script",
            "@/right",
            "--csv",
            "@/right",
        ],
        &["are the same file"],
    ),
    (
        &["client", "h", "--present", "null", "--csv", "@/folder"],
        &["@/folder"],
    ),
    // No host is running there.
    (
        &[
            "client",
            "127.0.0.1:9",
            "--present",
            "null",
            "--pin",
            "1234",
            "--duration",
            "10ms",
        ],
        &["127.0.0.1:9"],
    ),
    // Unknown arguments.
    (
        &["host", "--port", "4711"],
        &["unexpected argument '--port' found; see `openuvr host --help`"],
    ),
    (&["host", "--bitrat", "5M"], &["did you mean --bitrate?"]),
    // Options that only a host outside the application's process supports.
    (
        &["run", "--scene-fps", "30", "--", "true"],
        &["unexpected argument '--scene-fps' found"],
    ),
    (
        &["xr", "--scheduling-trace", "folder", "--", "true"],
        &["unexpected argument '--scheduling-trace' found"],
    ),
    (
        &["xr", "--pads", "off", "--", "true"],
        &["unexpected argument '--pads' found"],
    ),
    (&["host", "surplus"], &["unexpected argument 'surplus'"]),
    (&["hots"], &["unrecognized subcommand 'hots'"]),
    (
        &["devices", "list", "--no-such"],
        &["unexpected argument '--no-such'"],
    ),
    (&["devices", "--config-dir", "@/file", "list"], &["@/file"]),
    (
        &["devices", "--config-dir", "@/folder", "forbid", ""],
        &["no device"],
    ),
    (&["run"], &["required", "<GAME>"]),
];

/// Whether this is a usage error, independent of the machine.
fn is_wrong_usage(text: &str) -> bool {
    let refusals = [
        " must be ",
        "invalid value",
        "a value is required",
        "required arguments",
        "unexpected argument",
        "unrecognized subcommand",
        " are the same file",
        "is ambiguous (link-local)",
        "a multicast address",
        "a broadcast address",
    ];
    refusals.iter().any(|refusal| text.contains(refusal))
}

#[test]
fn invalid_arguments_give_one_error_line() {
    let folder = Folder::new();
    let at = folder.path();
    std::fs::create_dir(at.join("folder")).expect("a temporary folder");
    for (name, text) in [
        ("file", ""),
        ("right", "key KEY_A\n"),
        ("wrong", "key KEY_A\nsing\n"),
    ] {
        std::fs::write(at.join(name), text).expect("a temporary folder");
    }
    let here = folder.path().to_str().expect("text");
    let mut wrong = Vec::new();
    for (args, parts) in CASES {
        let args: Vec<String> = args.iter().map(|word| word.replace('@', here)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let dir = folder.join("keys");
        // Defaults of the tests come first, so that arguments of the case override them.
        let mut all = args.clone();
        if let ["host" | "run" | "client", ..] = args[..] {
            all.splice(1..1, ["--config-dir", &dir]);
        }
        if let ["host" | "run", ..] = args[..] {
            all.splice(1..1, ["--bind", "127.0.0.1:0"]);
        }
        let mut program = Program::start("it", openuvr(&all));
        let (status, text) = program.wait();
        let names_all = parts
            .iter()
            .all(|part| text.contains(&part.replace('@', here)));
        let line = text.lines().count() == 1 && text.starts_with("openuvr: ");
        let code = status.code() == Some(if is_wrong_usage(&text) { 2 } else { 1 });
        if !(names_all && line && code) {
            wrong.push(format!("{args:?} {status}: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let left = std::fs::read_to_string(at.join("right")).expect("the script");
    assert_eq!(left, "key KEY_A\n", "nothing was overwritten");
}

#[test]
fn non_utf8_arguments_give_one_error_line() {
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    for args in [&["host", "--name"][..], &["client"], &["hots"], &[]] {
        let mut command: Command = openuvr(args);
        command.arg(odd);
        let mut program = Program::start("it", command);
        let (status, text) = program.wait();
        assert!(
            matches!(status.code(), Some(1 | 2)),
            "{args:?} {status}: {text}"
        );
        assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    }
}
