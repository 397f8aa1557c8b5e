//! Moonlight's own clients, as their users run them: a program that was built elsewhere, on its own display.
//!
//! This is a separate tier, because no package of the distribution contains the clients: `./dev test-moonlight --client
//! PATH`. The path of the client is in the variable `OPENUVR_MOONLIGHT_CLIENT`, the length of the long stream in
//! `OPENUVR_MOONLIGHT_MINUTES`.

#[path = "../input/app.rs"]
#[allow(dead_code, reason = "the tests of input use more of it")]
mod app;
mod client;
#[path = "../games/loudness.rs"]
mod loudness;
mod openarena;
#[path = "../apps/pictures.rs"]
#[allow(dead_code, reason = "the programs' tests use more of it")]
mod pictures;
#[path = "../input/rig.rs"]
#[allow(dead_code, reason = "the tests of input use more of it")]
mod rig;
#[path = "../support/mod.rs"]
mod support;
#[path = "../input/terminal.rs"]
mod terminal;
#[path = "../input/xtest.rs"]
#[allow(dead_code, reason = "the tests of input use more of it")]
mod xtest;

use std::process::Command;
use std::time::Duration;

use openuvr_testbed::reader::Reader;

use app::{App, Received};
use client::{Moonlight, PIN};
use rig::Rig;
use support::pulse_server::PulseServer;
use support::sound::{LEVEL, Recorder, samples, tenths_at};
use support::{
    Host, Program, ScreenCapture, TIMEOUT, eventually, openuvr, port_of, psnr, scene, skip,
};
use terminal::{terminal, wait_for};
use xtest::{ALT, CONTROL, SHIFT, XTest};

/// The size of both displays, the scene and the stream.
const SIZE: &str = "1280x720";

/// Frames of the scene per second.
const RATE: u32 = 60;

/// X key codes of A and Q. Q ends the client if it is pressed together with three modifiers.
const Q: u8 = 16 + 8;
const A: u8 = 30 + 8;

/// A host and a client that are not paired yet.
struct Table {
    client: Moonlight,
    host: Host,
    server: PulseServer,
    rig: Rig,
}

impl Table {
    /// Prints a message and returns `None` if a dependency is missing.
    fn set_up(sound: &str) -> Option<Table> {
        let program = client::program()?;
        let rig = Rig::new(SIZE, SIZE)?;
        let server = PulseServer::start()?;
        let host = rig.host(&["--moonlight", "127.0.0.1:0", "--sound", sound]);
        let port = port_of(&host.program.line("Moonlight clients: add the host"));
        let client = Moonlight::new(program, &rig, &server.address, port);
        Some(Table {
            client,
            host,
            server,
            rig,
        })
    }

    /// Pairs the client.
    fn pair(&self) {
        let before = self.host.program.count("wants to pair");
        let pairing = self.client.pair();
        self.host.program.nth_line(before + 1, "wants to pair");
        let said = self
            .host
            .devices(&["pair", "--moonlight", PIN, "--name", "foreign"]);
        assert!(said.starts_with("paired with foreign ("), "{said}");
        self.client.was_paired(&pairing);
    }

    /// A paired client and host, with this sound.
    fn paired_with_sound(sound: &str) -> Option<Table> {
        let table = Table::set_up(sound)?;
        table.pair();
        Some(table)
    }

    /// A paired client and host, with a tone as the sound.
    fn paired() -> Option<Table> {
        Table::paired_with_sound("tone:440")
    }

    /// Starts a stream, and waits until the client's display shows a frame of the scene.
    fn play(&self) -> (Program, Reader) {
        let client = self.client.stream();
        let reader = Reader::start(&self.rig.client_side.name).expect("a display");
        let seen = reader.wait(0, TIMEOUT, |_| true).expect("a display");
        assert!(seen.is_some(), "the client shows no frame of the scene");
        (client, reader)
    }
}

/// Ends the client by its key combination, and returns its output.
fn quit_by_keys(table: &Table, client: &mut Program) -> String {
    XTest::open(&table.rig.client_side).chord(&[CONTROL, ALT, SHIFT, Q]);
    let (_, output) = client.wait();
    table.host.program.line("foreign left");
    output
}

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight"]
fn a_wrong_pin_is_told_to_both_ends_and_the_right_one_pairs() {
    let Some(table) = Table::set_up("off") else {
        return;
    };
    let pairing = table.client.pair();
    table.host.program.line("wants to pair");
    let folder = table.host.folder.join("host");
    let args = ["devices", "--config-dir", &folder, "pair"];
    let wrong = openuvr(&[&args[..], &["--moonlight", "3141"]].concat()).output();
    let wrong = wrong.expect("the program runs");
    assert!(!wrong.status.success());
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("not the one that the client shows"), "{said}");
    table.client.was_refused(&pairing);
    drop(pairing);
    assert!(!table.client.applications().contains("Desktop"));

    table.pair();
    assert!(table.client.applications().contains("Desktop"));
}

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight"]
fn picture_sound_keys_and_mouse_arrive() {
    let Some(table) = Table::paired() else { return };
    let rig = &table.rig;
    let mut scene = scene(&rig.host_side, SIZE, &RATE.to_string());
    let (mut client, reader) = table.play();
    let seen = reader.wait(reader.mark() + 100, TIMEOUT, |_| true);
    assert!(seen.expect("a display").is_some(), "the picture stands");
    drop(reader);

    let recording = rig.folder.path().join("heard");
    let recorder = Recorder::start(&table.server.address, "usual", &recording);
    eventually("two seconds of the host's tone", || {
        (tenths_at(&samples(&recording), 440.0, LEVEL) >= 20).then_some(())
    });
    drop(recorder);

    scene.kill();
    let Some(_xterm) = terminal(rig) else { return };
    let (here, there) = (
        ScreenCapture::open(&rig.host_side),
        ScreenCapture::open(&rig.client_side),
    );
    // The limit is low, because 4:2:0 blurs the edges in the terminal's picture.
    eventually("the same picture at both ends", || {
        (psnr(&here.shot(), &there.shot()) > 30.0).then_some(())
    });
    let xtest = XTest::open(&rig.client_side);
    let text = "The quick brown fox: ~!@#$%^&*()_+`-={}|[]\\:\";'<>?,./ 0123456789 yz YZ";
    // Letters are typed one by one: if a key is released and pressed again within 2 ms, SDL regards this as a repeat.
    for (start, letter) in text.char_indices() {
        xtest.type_text(letter.encode_utf8(&mut [0; 4]));
        wait_for(rig, &text[..start + letter.len_utf8()]);
    }

    let mut app = App::open(&rig.host_side, "app", (0, 0, 1280, 720));
    for number in [1, 2, 3, 4, 5, 6, 7, 8, 9] {
        xtest.button(number, true);
        xtest.button(number, false);
        let expected = [Received::ButtonDown(number), Received::ButtonUp(number)];
        assert_eq!(app.wait_for(Received::ButtonUp(number)), expected);
    }
    assert_eq!(app.turned_by(&xtest), (3100, -700));
    quit_by_keys(&table, &mut client);
    // The host has received the press and the release of each key of the quit combination.
    let host = XTest::open(&rig.host_side);
    eventually("all keys are up", || {
        host.pressed().0.is_empty().then_some(())
    });
}

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight"]
fn a_killed_client_holds_no_key_and_comes_back() {
    let Some(table) = Table::paired() else { return };
    let rig = &table.rig;
    let _scene = scene(&rig.host_side, SIZE, &RATE.to_string());
    let (mut client, _) = table.play();
    let (here, there) = (XTest::open(&rig.client_side), XTest::open(&rig.host_side));
    here.key(A, true);
    eventually("the key is down at the host", || {
        there.pressed().0.contains(&A).then_some(())
    });
    client.kill();
    here.key(A, false);
    eventually("no key is down at the host", || {
        there.pressed().0.is_empty().then_some(())
    });
    // A new client process connects before the host detects that the killed one has ended, so the session is resumed.
    let (client, _reader) = table.play();
    let quitting = table.client.quit();
    table.host.program.nth_line(2, "foreign left");
    drop((quitting, client));
    // A new session.
    let (mut client, _reader) = table.play();
    quit_by_keys(&table, &mut client);
}

/// The length of the long stream.
fn minutes() -> u32 {
    let minutes = std::env::var("OPENUVR_MOONLIGHT_MINUTES").unwrap_or_default();
    minutes.parse().unwrap_or(1)
}

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight"]
fn a_long_stream_shows_its_frames_in_order() {
    let Some(table) = Table::paired() else { return };
    let _scene = scene(&table.rig.host_side, SIZE, &RATE.to_string());
    let (mut client, reader) = table.play();
    let (mark, unreadable) = (reader.mark(), reader.unreadable());
    let first = reader.latest().expect("a frame was seen").frame;
    let last = first + minutes() * 60 * RATE;
    let mut next = first;
    while next < last {
        next += RATE;
        let recent = reader.mark().saturating_sub(1);
        let seen = reader.wait(recent, TIMEOUT, |seen| seen.frame >= next);
        client.assert_running();
        assert!(seen.expect("a display").is_some(), "stands before {next}");
    }
    let frames: Vec<u32> = reader.since(mark).iter().map(|seen| seen.frame).collect();
    let unreadable = reader.unreadable() - unreadable;
    let gaps = frames
        .windows(2)
        .map(|pair| i64::from(pair[1]) - i64::from(pair[0]));
    let (shortest, longest) = (gaps.clone().min(), gaps.max());
    let drawn = frames.last().expect("some") - first;
    let output = quit_by_keys(&table, &mut client);
    println!(
        "{drawn} frames drawn, {} seen, {unreadable} pictures without a frame's number; largest step {longest:?}; {}",
        frames.len(),
        table.client.figures(&output)
    );
    assert!(shortest > Some(0), "a picture went back: {shortest:?}");
    // On one core, a client that decodes and displays in software shows most frames. A slow or loaded machine shows
    // fewer, and this test reads more of them while they are painted.
    assert!(frames.len() * 20 >= drawn as usize, "{}", frames.len());
    assert!(unreadable * 4 <= frames.len(), "{unreadable}");
    assert!(longest < Some(i64::from(10 * RATE)), "{longest:?}");
}

/// Runs a test of this program in its own network namespace, after these shell commands. Skips it if the permission is
/// missing.
#[expect(
    clippy::print_stdout,
    reason = "the counts of lost packets are read by a person"
)]
fn run_in_namespace(test: &str, commands: &str) {
    if client::program().is_none()
        || !skip::has_program("iptables", "iptables")
        || !skip::has_program("ip", "iproute2")
    {
        return;
    }
    let own = std::env::current_exe().expect("this program's own file");
    let script = format!(
        "ip link set lo up && {commands} \"$0\" --ignored --exact {test} --nocapture && \
         iptables -L INPUT -v -x -n"
    );
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .arg(own)
        .env(NAMESPACE, "yes")
        .output()
        .expect("unshare, of the package util-linux");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.is_empty() {
        return skip::skip("no network namespace: run as root");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    println!("{text}");
}

/// Environment variable that is set in the network namespace of a test.
const NAMESPACE: &str = "OPENUVR_MOONLIGHT_NAMESPACE";

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight, and network namespaces"]
fn a_long_stream_survives_losses() {
    let losses =
        "iptables -A INPUT -p udp -m statistic --mode random --probability 0.01 -j DROP &&";
    run_in_namespace("a_long_stream_shows_its_frames_in_order", losses);
}

/// How long the link is down: longer than the refinement of a still picture takes, and shorter than the silence after
/// which clients give up.
const OUTAGE: Duration = Duration::from_secs(3);

/// Runs `iptables` in this network namespace; returns its output.
fn iptables(words: &str) -> String {
    let output = Command::new("iptables").args(words.split(' ')).output();
    let output = output.expect("it was found");
    assert!(output.status.success(), "iptables {words}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "tier moonlight: needs a client of Moonlight, and network namespaces"]
fn a_lost_change_of_a_still_picture_is_repaired() {
    if std::env::var_os(NAMESPACE).is_none() {
        return run_in_namespace("a_lost_change_of_a_still_picture_is_repaired", "");
    }
    let Some(table) = Table::paired_with_sound("off") else {
        return;
    };
    let rig = &table.rig;
    let _before = App::open(&rig.host_side, "before", (0, 0, 640, 720));
    let _client = table.client.stream();
    let (here, there) = (
        ScreenCapture::open(&rig.host_side),
        ScreenCapture::open(&rig.client_side),
    );
    let is_same = || (psnr(&here.shot(), &there.shot()) > 40.0).then_some(());
    eventually("the same picture at both ends", is_same);
    // This rule counts video packets. Each frame has packets of this length, because its repair packets have full
    // length.
    iptables("-A INPUT -p udp -m length --length 900:1500");
    iptables("-A INPUT -p udp -j DROP");
    let _after = App::open(&rig.host_side, "after", (640, 0, 640, 720));
    eventually("a frame was sent and lost", || {
        let rules = iptables("-L INPUT -v -x -n");
        let counted = rules.lines().nth(2)?.split_whitespace().next()?;
        (counted != "0").then_some(())
    });
    // Meanwhile, the refinement of the still picture also ends.
    std::thread::sleep(OUTAGE);
    assert!(is_same().is_none(), "the change was not lost");
    iptables("-D INPUT -p udp -j DROP");
    // The picture no longer changes, and the client cannot detect that it has missed a frame.
    eventually("the same picture at both ends again", is_same);
}
