//! A client from PyPI (`moonlight-python`), which contains the protocol code of Moonlight's own clients, plays from a
//! real host over real sockets.
//!
//! The test needs a Python interpreter with this package: `python3`, or the program in `OPENUVR_MOONLIGHT_PYTHON`.
#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

#[path = "../../../media/tests/skip/mod.rs"]
mod skip;
#[path = "../support/mod.rs"]
mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::input::pad::PadButton;
use openuvr_runtime::trust_store::DeviceStore;
use serde::Deserialize;

use self::support::{Rig, TIMEOUT, enter};

/// Starts the client `name`, which pairs with `pin`. If `pin` is empty, the client is already paired, and waits for a
/// line before it connects.
fn start_client(rig: &Rig, python: &str, name: &str, pin: &str, frames: usize) -> Client {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/client/client.py");
    let address = rig.door.addresses().http;
    let mut child = Command::new(python)
        .arg(script)
        .args([address.ip().to_string(), address.port().to_string()])
        .arg(rig.client_folder(name))
        .args([pin.to_owned(), frames.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    Client {
        child,
        lines: BufReader::new(lines),
        input,
    }
}

/// A running client. It is killed if the test fails.
struct Client {
    child: Child,
    lines: BufReader<ChildStdout>,
    input: ChildStdin,
}

impl Drop for Client {
    fn drop(&mut self) {
        // Errors are ignored, because the client may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A step that the client reports.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Step {
    step: String,
    name: String,
    paired: bool,
    names: Vec<String>,
    runs: bool,
    seen: Vec<(u32, Option<u32>)>,
    unread: usize,
    keys: u32,
    latency: Vec<u32>,
    shape: Vec<usize>,
    frequency: f64,
    indices: Vec<u64>,
}

impl Client {
    /// The next step, which must have this name.
    fn step(&mut self, name: &str) -> Step {
        loop {
            let mut line = String::new();
            let length = self.lines.read_line(&mut line).unwrap();
            assert!(length > 0, "the client ended before {name}");
            // The client also prints other lines.
            let Ok(step) = serde_json::from_str::<Step>(&line) else {
                continue;
            };
            assert_eq!(step.step, name, "{line}");
            return step;
        }
    }
}

/// The Python interpreter that has the client's package.
fn python() -> Option<String> {
    let named = std::env::var("OPENUVR_MOONLIGHT_PYTHON");
    let python = named.unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python)
        .args(["-c", "import moonlight_python"])
        .stderr(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        skip::skip("moonlight-python is not installed: pip install moonlight-python");
    }
    found.then_some(python)
}

/// Text in the line that states how many of the sent frames were decoded.
const COUNTED: &str = "frames whole of";

#[test]
fn a_client_pairs_and_plays() {
    let Some(python) = python() else { return };
    let rig = Rig::new("moonlight");
    let mut client = start_client(&rig, &python, "client", "2718", 600);
    let found = client.step("found");
    assert_eq!((found.name.as_str(), found.paired), ("the <test>", false));
    client.step("pairs");
    let paired = enter(&rig.trust_folder(), "2718", "a test").unwrap();
    assert!(paired.starts_with("paired with a test ("), "{paired}");
    client.step("paired");
    assert_eq!(client.step("apps").names, ["Pattern & tone"]);
    client.step("plays");
    let frames = client.step("frames");
    assert_eq!(frames.unread, 0, "{:?}", frames.seen);
    assert_eq!(frames.shape, [384, 640, 3]);
    // If the machine stalls for 100 ms, the host sends the last picture again, with more bits.
    let consecutive = |pair: &[(u32, Option<u32>)]| pair[1].0 > pair[0].0 && pair[1].1 >= pair[0].1;
    assert!(frames.seen.windows(2).all(consecutive), "{:?}", frames.seen);
    let sent = frames.seen[599].0 - frames.seen[0].0 + 1;
    println!("600 {COUNTED} {sent} sent; {} key frames", frames.keys);
    // In the header, the unit of the latency is 0.1 ms.
    assert!(frames.latency.iter().all(|latency| *latency > 0));
    let sound = client.step("sound");
    assert!(
        (sound.frequency - 440.0).abs() < 5.0,
        "{} Hz",
        sound.frequency
    );
    client.step("input");
    expect_input(&rig);
    client.input.write_all(b"\n").unwrap();
    client.step("key");
    client.step("quit");
    assert!(!sound.indices.is_empty());
}

/// Expects the input events of `send_input` in `client.py`.
fn expect_input(rig: &Rig) {
    let next = || loop {
        // The client itself moves the mouse at its start.
        match rig.next_input() {
            InputEvent::PointerRelative { dx, .. } if dx != 7 => {}
            event => return event,
        }
    };
    let key = |code, text, pressed| InputEvent::Key {
        code: KeyCode(code),
        text,
        pressed,
    };
    // KEY_A, KEY_ENTER, KEY_LEFTSHIFT, KEY_F1.
    for code in [30, 28, 42, 59] {
        assert_eq!(next(), key(code, None, true));
        assert_eq!(next(), key(code, None, false));
    }
    assert_eq!(next(), key(0, Some('é'), true));
    assert_eq!(next(), key(0, None, false));
    // The client sends x = 319 in a range of 0 to 639.
    let absolute = InputEvent::PointerAbsolute { x: 32_716, y: 0 };
    assert_eq!(next(), absolute);
    assert_eq!(next(), InputEvent::PointerRelative { dx: 7, dy: -5 });
    for pressed in [true, false] {
        let button = Button::RIGHT;
        assert_eq!(next(), InputEvent::Button { button, pressed });
    }
    assert_eq!(next(), InputEvent::Wheel { dx: 0, dy: 120 });
    assert_eq!(next(), InputEvent::Wheel { dx: -60, dy: 0 });
    assert!(matches!(next(), InputEvent::PadConnected { .. }));
    let state = loop {
        match next() {
            // A pad's arrival is followed by its first state.
            InputEvent::Pad { state, .. } if state.buttons != 0 => break state,
            InputEvent::Pad { .. } => {}
            event => panic!("{event:?}"),
        }
    };
    assert!(state.is_down(PadButton::South));
    assert_eq!(
        (state.sticks, state.triggers),
        ([1000, -2000, 0, 0], [u16::MAX, 0])
    );
}

#[test]
fn a_wrong_pin_is_told_to_both_ends() {
    let Some(python) = python() else { return };
    let rig = Rig::new("moonlight-pin");
    let mut client = start_client(&rig, &python, "client", "2718", 1);
    client.step("found");
    client.step("pairs");
    let why = enter(&rig.trust_folder(), "3141", "a test")
        .unwrap_err()
        .to_string();
    assert!(why.contains("not the one that the client shows"), "{why}");
    let mut rest = String::new();
    while client.lines.read_line(&mut rest).unwrap() > 0 {}
    assert!(!rest.contains("\"paired\""), "{rest}");
    assert!(!client.child.wait().unwrap().success());
    let devices = std::fs::read_to_string(rig.trust_folder().join("devices.toml"));
    assert!(devices.is_err(), "{devices:?}");
}

/// More frames than any test waits for.
const ENDLESS: usize = 1_000_000;

/// Waits until the host's subscribers have these roles.
fn expect_roles(rig: &Rig, roles: &[Role]) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let figures = rig.host.figures();
        let mut found: Vec<Role> = figures.iter().map(|figures| figures.role).collect();
        found.sort_by_key(|role| *role as u8);
        if found == roles {
            return;
        }
        assert!(Instant::now() < until, "{found:?} instead of {roles:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Pairs a client, which then plays endlessly.
fn playing(rig: &Rig, python: &str, name: &str, pin: &str) -> Client {
    let mut client = start_client(rig, python, name, pin, ENDLESS);
    client.step("found");
    client.step("pairs");
    enter(&rig.trust_folder(), pin, name).unwrap();
    client.step("paired");
    assert!(!client.step("apps").runs);
    client.step("plays");
    client
}

#[test]
fn clients_share_the_roles_resume_and_are_forbidden() {
    let Some(python) = python() else { return };
    let rig = Rig::new("moonlight-roles");
    let one = playing(&rig, &python, "one", "1111");
    expect_roles(&rig, &[Role::Player]);
    let _two = playing(&rig, &python, "two", "2222");
    expect_roles(&rig, &[Role::Player, Role::Observer]);
    // The first client is killed, as if its network were lost. A new process of the client connects before the host
    // notices. For this, it has loaded its modules in advance.
    let mut again = start_client(&rig, &python, "one", "", ENDLESS);
    again.step("ready");
    drop(one);
    again.input.write_all(b"\n").unwrap();
    again.step("found");
    assert!(again.step("apps").runs);
    again.step("plays");
    expect_roles(&rig, &[Role::Player, Role::Observer]);
    let mut devices = DeviceStore::open(&rig.trust_folder()).unwrap();
    devices.set_allowed("two", false).unwrap();
    expect_roles(&rig, &[Role::Player]);
    // The host ends the session of the killed client, which is silent for longer than a live client would be.
    drop(again);
    expect_roles(&rig, &[]);
}

/// Runs the test of a playing client while video packets are lost with this probability. At least `whole` of sixty
/// frames must be decoded.
#[expect(
    clippy::print_stdout,
    reason = "a person reads how many frames were whole"
)]
fn play_with_losses(probability: &str, whole: usize) {
    if python().is_none()
        || !skip::has_program("iptables", "iptables")
        || !skip::has_program("ip", "iproute2")
    {
        return;
    }
    let own = std::env::current_exe().unwrap();
    // Only video packets have between 1200 and 1500 bytes.
    let script = "ip link set lo up && \
        iptables -A INPUT -p udp -m length --length 1200:1500 -m statistic --mode random --probability $1 -j DROP && \
        \"$0\" --exact a_client_pairs_and_plays --nocapture && \
        iptables -L INPUT -v -x -n | tail -1";
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .arg(own)
        .arg(probability)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        skip::skip("no network namespace: run as root");
        return;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let dropped = text.lines().last().unwrap_or_default();
    let count: u32 = dropped.split_whitespace().next().unwrap().parse().unwrap();
    let counted = text.lines().find(|line| line.contains(COUNTED)).unwrap();
    println!("{probability}: {count} packets lost, {counted}");
    assert!(count > 0, "{text}");
    let numbers: Vec<usize> = counted
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [decoded, sent, _] = numbers[..] else {
        panic!("{counted}")
    };
    assert!(decoded * 60 >= sent * whole, "{counted}");
}

#[test]
#[ignore = "needs iptables: ./dev test-moonlight"]
fn one_lost_packet_in_a_hundred_is_repaired() {
    play_with_losses("0.01", 58);
}

#[test]
#[ignore = "needs iptables: ./dev test-moonlight"]
fn one_lost_packet_in_twenty_is_repaired() {
    // A second loss costs more frames if it occurs before the key frame that repairs the first loss.
    play_with_losses("0.05", 45);
}
