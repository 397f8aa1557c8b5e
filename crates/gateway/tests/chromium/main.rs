//! The page in a real browser, against a real host. `./dev test-web` installs the browser. Without a browser, the tests
//! are skipped with a message.

#![expect(clippy::unwrap_used, reason = "a failure ends the test")]

mod firefox;
mod gcc;
mod ledger;
mod lossy;
mod page;
#[path = "../rtsp/player.rs"]
mod player;
mod real_keys;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod virtual_reality;
mod vp9;
mod world;

use std::sync::{Mutex, MutexGuard, PoisonError};

use openuvr_devtools::{Browser, Tab};
use openuvr_proto::input::event::{Button, InputEvent, KeyCode};
use openuvr_proto::trace::{Fidelity, Outcome};
use openuvr_proto::units::Size;
use openuvr_runtime::host::Notice;
use serde_json::json;
use support::skip::skip;
use support::{PIN, Rig, TIMEOUT};

const SIZE: Size = Size::new(640, 384);

/// Reads the bar code of the displayed picture (crates/media/src/barcode.rs): the frame's number, or null.
const BARCODE: &str = include_str!("barcode.js");

/// Only one browser runs at a time, because each takes more than a core until its page is loaded.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Chromium; `None`, with a message, if it is not installed.
fn chromium() -> Option<&'static str> {
    let program = openuvr_devtools::program();
    if program.is_none() {
        skip("chromium is not installed: apt-get install chromium, or ./dev test-web");
    }
    program
}

/// A browser and the lock, if a browser is installed.
fn start(rig: &Rig) -> Option<(Browser, MutexGuard<'static, ()>)> {
    let turn = turn();
    Some((Browser::start(chromium()?, rig.folder.path()), turn))
}

fn log_in(rig: &Rig, browser: &mut Browser) -> Tab {
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.log_in(&tab, PIN);
    tab
}

#[test]
fn the_page_shows_the_hosts_picture() {
    let rig = Rig::new("shows", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.run(&tab, BARCODE);
    let mut last = 0;
    for _ in 0..20 {
        browser.until(&tab, &format!("(readBarcode() ?? 0) > {last}"));
        last = browser.run(&tab, "readBarcode()").as_u64().unwrap();
    }
}

/// Keys by position, their characters on the layouts us, de and fr, and Linux key codes.
const KEYS: [(&str, [&str; 3], u16); 6] = [
    ("KeyQ", ["q", "q", "a"], 16),
    ("KeyY", ["y", "z", "y"], 21),
    ("Semicolon", [";", "ö", "m"], 39),
    ("Digit2", ["2", "2", "é"], 3),
    ("Minus", ["-", "ß", ")"], 12),
    ("BracketRight", ["]", "+", "$"], 27),
];

/// The next key or button event; pointer movements are skipped.
fn next_press(rig: &Rig) -> InputEvent {
    loop {
        let event = rig.input();
        if !matches!(event, InputEvent::PointerAbsolute { .. }) {
            return event;
        }
    }
}

#[test]
fn keys_arrive_letter_for_letter() {
    let rig = Rig::new("keys", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    for layout in 0..3 {
        for (code, types, number) in KEYS {
            for pressed in [true, false] {
                browser.key(&tab, code, types[layout], pressed);
                let text = types[layout].chars().next().filter(|_| pressed);
                let code = KeyCode(number);
                let event = InputEvent::Key {
                    code,
                    text,
                    pressed,
                };
                assert_eq!(next_press(&rig), event);
            }
        }
    }
}

#[test]
fn the_mouse_points_clicks_and_turns_its_wheel() {
    let rig = Rig::new("mouse", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    let box_ = "(() => { const b = document.querySelector('#video').getBoundingClientRect(); \
                return [b.left + b.width / 2, b.top + b.height / 2]; })()";
    let middle = browser.run(&tab, box_);
    let (x, y) = (&middle[0], &middle[1]);
    let mut mouse = |kind: &str, more: serde_json::Value| {
        let mut params = json!({ "type": kind, "x": x, "y": y });
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        browser.call(Some(&tab), "Input.dispatchMouseEvent", &params);
    };
    mouse("mouseMoved", json!({}));
    let InputEvent::PointerAbsolute { x: across, y: down } = rig.input() else {
        panic!("it did not move");
    };
    assert!(
        across.abs_diff(32768) < 200 && down.abs_diff(32768) < 200,
        "{across} {down}"
    );
    for (kind, pressed) in [("mousePressed", true), ("mouseReleased", false)] {
        mouse(kind, json!({ "button": "left", "clickCount": 1 }));
        let button = Button::LEFT;
        assert_eq!(next_press(&rig), InputEvent::Button { button, pressed });
    }
    mouse("mouseWheel", json!({ "deltaX": 0, "deltaY": -120 }));
    assert_eq!(next_press(&rig), InputEvent::Wheel { dx: 0, dy: 120 });
}

#[test]
fn a_phone_that_is_turned_looks_around() {
    let rig = Rig::new("look", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    let touched = json!({ "enabled": true, "maxTouchPoints": 1 });
    browser.call(Some(&tab), "Emulation.setTouchEmulationEnabled", &touched);
    browser.log_in(&tab, PIN);
    browser.until(&tab, "!document.querySelector('#look').hidden");
    let turn = |browser: &mut Browser, alpha: f64, beta: f64| {
        let angles = json!({ "alpha": alpha, "beta": beta, "gamma": 0.0 });
        let method = "DeviceOrientation.setDeviceOrientationOverride";
        browser.call(Some(&tab), method, &angles);
    };
    turn(&mut browser, 100.0, 80.0);
    let look = "{ const look = document.querySelector('#look');
        if (look.getAttribute('aria-pressed') !== 'true') look.click(); }";
    let half = |degrees: f64| (degrees / 2.0).to_radians();
    // The phone's initial heading is straight ahead, whatever the compass shows. The first pose looks slightly
    // downwards, because a level pose would be sent even without the phone's orientation. The next poses are level, 30
    // degrees to the left and then 30 degrees to the right.
    for (alpha, beta, expected) in [
        (100.0, 80.0, [-half(10.0).sin(), 0.0, 0.0, half(10.0).cos()]),
        (130.0, 90.0, [0.0, half(30.0).sin(), 0.0, half(30.0).cos()]),
        (70.0, 90.0, [0.0, -half(30.0).sin(), 0.0, half(30.0).cos()]),
        // Up.
        (100.0, 135.0, [half(45.0).sin(), 0.0, 0.0, half(45.0).cos()]),
    ] {
        support::eventually("a turned head", || {
            // The phone's orientation is enabled only once, with the first pose, because enabling it again would change
            // the direction that counts as straight ahead.
            if alpha == 100.0 && beta == 80.0 {
                browser.run(&tab, look);
            }
            turn(&mut browser, alpha, beta);
            let posed = rig.host.pose()?.pose.orientation();
            let near = |(is, wanted): (&f32, &f64)| (f64::from(*is) - wanted).abs() < 0.01;
            posed.iter().zip(&expected).all(near).then_some(())
        });
    }
}

#[test]
fn a_tab_that_is_closed_in_mid_press_holds_nothing() {
    let rig = Rig::new("tab", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    browser.key(&tab, "KeyQ", "q", true);
    let held = next_press(&rig);
    assert!(
        matches!(held, InputEvent::Key { pressed: true, .. }),
        "{held:?}"
    );
    browser.close(&tab);
    assert_eq!(next_press(&rig), InputEvent::ReleaseAll);
}

#[test]
fn the_host_gets_the_result_of_each_frame() {
    let rig = Rig::new("learns", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    log_in(&rig, &mut browser);
    let mut whole = 0;
    let mut on_one_clock = 0;
    while whole < 60 {
        let Notice::Record(record) = rig.notices.next(TIMEOUT).expect("a record") else {
            continue;
        };
        if record.outcome != Outcome::Displayed(Fidelity::Complete) {
            continue;
        }
        whole += 1;
        assert!(record.client.submitted.is_some(), "{record:?}");
        on_one_clock += usize::from(record.client.first_received_here.is_some());
    }
    assert!(on_one_clock > 0, "the clocks were never synchronized");
}

#[test]
fn a_known_browser_needs_no_pin() {
    let rig = Rig::new("back", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.close(&tab);
    let tab = browser.open(&format!("https://127.0.0.1:{}/", rig.address().port()));
    browser.until(&tab, "document.querySelector('#video').videoWidth > 0");
    assert_eq!(
        browser.run(&tab, "document.querySelector('#login').hidden"),
        json!(true)
    );
    // The page's second tab has the statistics.
    browser.run(&tab, "document.querySelector('#tab-figures').click(); true");
    browser.until(
        &tab,
        "document.querySelector('#figures').innerText.includes('Submitted')",
    );
}

#[test]
fn a_page_in_the_background_reports_each_frame() {
    let rig = Rig::new("background", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    let (_noting, ledger) = ledger::listen(rig.host.notices());
    let ended = |outcome: Outcome| {
        let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = ledger.records.values().flat_map(|frames| frames.values());
        ends.filter(|ends| ends.contains(&outcome)).count()
    };
    let whole = Outcome::Displayed(Fidelity::Complete);
    support::eventually("pictures are shown", || (ended(whole) > 30).then_some(()));
    // Another tab covers the page.
    let other = browser.open("about:blank");
    browser.until(&tab, "document.hidden");
    let before = ended(Outcome::SentUnacknowledged);
    support::eventually("frames only sent", || {
        (ended(Outcome::SentUnacknowledged) > before + 60).then_some(())
    });
    browser.close(&other);
    browser.until(&tab, "!document.hidden");
    let before = ended(whole);
    support::eventually("pictures are shown again", || {
        (ended(whole) > before + 30).then_some(())
    });
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(ledger.wrong.is_empty(), "{:?}", ledger.wrong);
}

/// The content of the file that the page would save.
const SAVED: &str = "(async () => { \
    let blob = null; \
    URL.createObjectURL = (given) => { blob = given; return location.href + '#saved'; }; \
    HTMLAnchorElement.prototype.click = () => {}; \
    document.querySelector('#save').click(); \
    return await blob.text(); })()";

#[test]
fn the_browsers_statistics_are_saved_as_lines() {
    let rig = Rig::new("lines", SIZE);
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    browser.until(
        &tab,
        &format!("{SAVED}.then((t) => t.split('\\n').length > 3)"),
    );
    let text = browser.run(&tab, SAVED);
    let mut decoded = Vec::new();
    for line in text.as_str().unwrap().lines() {
        let second: serde_json::Value = serde_json::from_str(line).unwrap();
        let all = second["statistics"].as_array().unwrap();
        let video =
            |entry: &&serde_json::Value| entry["type"] == "inbound-rtp" && entry["kind"] == "video";
        let video = all.iter().find(video);
        decoded.extend(video.and_then(|entry| entry["framesDecoded"].as_u64()));
    }
    assert!(decoded.len() >= 2 && decoded.is_sorted(), "{decoded:?}");
    assert!(decoded.last() > decoded.first(), "{decoded:?}");
}

/// A TURN server that ends with the test.
struct Relay(std::process::Child);

impl Relay {
    /// Starts it at this port; `None` if it is not installed.
    fn start(port: u16, log: &std::path::Path) -> Option<Relay> {
        let file = || std::fs::File::create(log).unwrap();
        let port = port.to_string();
        let child = std::process::Command::new("turnserver")
            .args(["-n", "--no-cli", "--no-tls", "--no-dtls", "--lt-cred-mech"])
            .args([
                "--allow-loopback-peers",
                "--realm",
                "test",
                "--user",
                "me:secret",
            ])
            .args(["--listening-ip", "127.0.0.1", "--relay-ip", "127.0.0.1"])
            .args([
                "--listening-port",
                &port,
                "--log-file",
                "stdout",
                "--verbose",
            ])
            .stdin(std::process::Stdio::null())
            .stdout(file())
            .stderr(std::process::Stdio::null())
            .spawn();
        child.ok().map(Relay)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_browser_reaches_the_host_by_a_relay() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = format!("turn:me:secret@127.0.0.1:{port}").parse();
    let rig = Rig::reached_by("relay", SIZE, vec![server.unwrap()], |_| ());
    let log = rig.folder.path().join("turn.log");
    let Some(_relay) = Relay::start(port, &log) else {
        return skip("turnserver is not installed: apt-get install coturn, or ./dev test-web");
    };
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let port = rig.address().port();
    let tab = browser.open(&format!("https://127.0.0.1:{port}/?path=relay"));
    browser.log_in(&tab, PIN);
    browser.run(&tab, BARCODE);
    browser.until(&tab, "(readBarcode() ?? 0) > 0");
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("ALLOCATE processed, success"), "{said}");
}

/// The loudest frequency of the page's sound in hertz, measured with Web Audio.
const PITCH: &str = "(async () => { \
    const context = new AudioContext(); \
    const analyser = new AnalyserNode(context, { fftSize: 8192 }); \
    const heard = document.querySelector('#audio').srcObject; \
    context.createMediaStreamSource(heard).connect(analyser); \
    await context.resume(); \
    await new Promise((done) => setTimeout(done, 500)); \
    const levels = new Float32Array(analyser.frequencyBinCount); \
    analyser.getFloatFrequencyData(levels); \
    await context.close(); \
    const loudest = levels.indexOf(Math.max(...levels)); \
    return levels[loudest] > -80 ? (loudest * context.sampleRate) / 8192 : 0; })()";

#[test]
fn a_tone_is_played_at_its_pitch() {
    let rig = Rig::with("tone", SIZE, |config| {
        config.sound = openuvr_runtime::sound_choice::SoundChoice::parse("tone:440")
    });
    let Some((mut browser, _turn)) = start(&rig) else {
        return;
    };
    let tab = log_in(&rig, &mut browser);
    // A bin is 5.9 Hz wide.
    let near = format!("{PITCH}.then((pitch) => Math.abs(pitch - 440) < 8)");
    browser.until(&tab, &near);
}
