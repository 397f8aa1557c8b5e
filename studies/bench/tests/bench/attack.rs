//! `openuvr lab attack`: tests that it attacks only the user's own host, and checks the contents of its table. The
//! effect of attacks on a stream depends on the machine and is not checked.

use openuvr_xserver::fixture::has_xvfb;

use super::openuvr_bench;

/// Runs the attacks. Returns whether they succeeded, the standard output, and the standard error.
fn attack(args: &[&str]) -> (bool, String, String) {
    let mut command = openuvr_bench();
    command.args(["lab", "attack"]).args(args);
    let out = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.success(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn only_a_host_of_this_machine_is_attacked() {
    for (args, why) in [
        (&["--host", "192.0.2.1:4710"][..], "is not on this machine"),
        (
            &["--host", "255.255.255.255:4710"],
            "is not on this machine",
        ),
        (
            &["--host", "127.0.0.1:4710", "--only", "paths"],
            "needs an honest client",
        ),
        (
            &["--host", "127.0.0.1:4710", "--only", "displays"],
            "starts its own target",
        ),
    ] {
        let (succeeded, _, text) = attack(args);
        assert!(!succeeded && text.lines().count() == 1, "{text}");
        assert!(text.contains(why), "{text}");
    }
}

/// The numbers in a row's result column.
fn numbers(text: &str, name: &str) -> Vec<u64> {
    let start = format!("| {name} |");
    let row = text.lines().find(|line| line.starts_with(&start));
    let row = row.unwrap_or_else(|| panic!("no row {name}: {text}"));
    let result = row.split('|').nth(6).expect("seven columns");
    let numbers = result.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn attacks_get_no_amplification_and_no_pin() {
    let (_, text, _) = attack(&["--quick", "--only", "paths,probes,pins"]);
    let [sent, caused] = numbers(&text, "paths")[..] else {
        panic!("{text}");
    };
    assert!(sent > 0 && caused <= 3 * sent, "{text}");
    let [probes, bursts] = numbers(&text, "probes")[..] else {
        panic!("{text}");
    };
    assert!(probes > 100 && (1..=48).contains(&bursts), "{text}");
    let [taken, tried] = numbers(&text, "pins")[..] else {
        panic!("{text}");
    };
    assert!(taken == 0 && tried > 0, "{text}");
}

#[test]
fn attacks_lock_out_no_browser_or_video_player() {
    let (_, text, _) = attack(&["--quick", "--only", "logins,places,descriptors"]);
    for name in ["logins", "places"] {
        assert_eq!(numbers(&text, name), [10, 10, 10, 10], "{text}");
    }
    // The first number is the CPU use of the host's accept threads in percent of a core: 0 on a fast machine. If the
    // two threads ran in a busy loop, they would take all the time that they get.
    let [share, rest @ ..] = &numbers(&text, "descriptors")[..] else {
        panic!("{text}");
    };
    assert!(*share < 50, "{text}");
    assert_eq!(rest, [10, 10, 10, 10], "{text}");
}

#[test]
fn no_display_of_another_session_is_reached() {
    if !has_xvfb() {
        return;
    }
    let (_, text, _) = attack(&["--quick", "--only", "displays"]);
    let [refused, tried] = numbers(&text, "displays")[..] else {
        panic!("{text}");
    };
    // There are 6 attempts outside a sandbox and, if a sandbox is available, 6 inside it. In each group of 6, 4
    // attempts use the two sockets of the other display, without and with a cookie, and 2 attempts use the two sockets
    // of the session's own display, without a cookie.
    assert!(refused == tried && [6, 12].contains(&tried), "{text}");
    assert!(!text.contains("inconclusive"), "{text}");
}
