//! Game pads. A game under `openuvr run` reads the client's pad from its `/dev/input`, and the game's rumble is sent
//! back.
//!
//! Test machines have no pad. Instead, the test serves a device folder through `libopenuvr_pads.so`. The client reads a
//! pad from this folder like a pad of the kernel; the game reads its own pad in the same way.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use openuvr_media::input_sink::pads::server::{PadServer, ReaderEvent};
use openuvr_media::pad::FOLDER;
use openuvr_media::pad::codes::*;
use openuvr_media::pad::description::{Axis, Description};
use openuvr_media::pad::requests::{Effect, Request};
use rustix::process::Signal;

use crate::rig::{Run, build, hook};
use crate::support::sensor::Sensor;
use crate::support::stalls::measured_without_stalls;
use crate::support::{Display, Folder, PIN, Program, eventually, openuvr, port_of};

/// A shell script. It shows pictures, so that the host starts, and runs a program that reads pads.
const GAME: &str = "glxgears >/dev/null 2>&1 & gears=$!; \
    trap 'kill $gears $reader; exit 0' TERM; \
    $READER \"$MARKS/notes\" \"$MARKS/rumble\" $HOW & reader=$!; wait $gears; kill $reader";

/// Like [`GAME`], but the program that reads pads starts first. It looks for pads before the first picture.
const EARLY: &str = "$READER \"$MARKS/notes\" \"$MARKS/rumble\" $HOW & reader=$!; \
    trap 'kill $gears $reader; exit 0' TERM; \
    until grep -q 'event240 is' \"$MARKS/notes\"; do sleep 0.05; done; \
    glxgears >/dev/null 2>&1 & gears=$!; wait $gears; kill $reader";

/// A measurement is repeated if the machine stalled for longer than this.
const STALLED: Duration = Duration::from_millis(100);

/// A pad as the xpad driver presents it, with this name.
fn xbox(name: &str) -> Description {
    let stick = axis(-32_768, 32_767, 128);
    let mut pad = Description::new(name, [3, 0x045e, 0x02ea, 0x0408]);
    for key in [
        0x130, 0x131, 0x133, 0x134, 0x136, 0x137, 0x13a, 0x13b, 0x13c, 0x13d, 0x13e,
    ] {
        pad = pad.with_key(key);
    }
    for code in [ABS_X, ABS_Y, ABS_RX, ABS_RY] {
        pad = pad.with_axis(code, stick);
    }
    pad.with_axis(ABS_Z, axis(0, 1023, 0))
        .with_axis(ABS_RZ, axis(0, 1023, 0))
        .with_axis(ABS_HAT0X, axis(-1, 1, 0))
        .with_axis(ABS_HAT0Y, axis(-1, 1, 0))
        .with_force(FF_RUMBLE, 16)
}

fn axis(minimum: i32, maximum: i32, flat: i32) -> Axis {
    Axis {
        minimum,
        maximum,
        flat,
        ..Axis::default()
    }
}

/// A game that reads pads, and a client with pads that the test controls.
struct Rig {
    run: Run,
    client: Program,
    pads: PadServer,
    files: Folder,
    _display: Display,
}

impl Rig {
    /// Prints a message and returns `None` if a dependency is missing.
    fn start(how: &str, args: &[&str], plug: impl FnOnce(&PadServer)) -> Option<Rig> {
        let reader = build_reader()?;
        let files = Folder::new();
        let pads = PadServer::open(files.path()).expect("a temporary folder");
        plug(&pads);
        let display = Display::start("320x240")?;
        let variables = [("READER", OsStr::new(reader)), ("HOW", OsStr::new(how))];
        // With `--pads 0`, the game's pads appear and disappear with the player's pads, and have the same names.
        let run = Run::with(&display, &["--pads", "0"], &variables, &["sh", "-c", GAME]);
        let client = client(&run, &files, "client", args);
        let rig = Rig {
            run,
            client,
            pads,
            files,
            _display: display,
        };
        rig.wait_for_line("ready");
        Some(rig)
    }

    /// Waits until the game has opened a pad of this name.
    fn wait_for_pad(&self, name: &str) {
        let line = format!(" is {name} at ");
        eventually(&line, || self.notes().contains(&line).then_some(()));
    }

    fn notes(&self) -> String {
        let notes = std::fs::read_to_string(self.run.folder.path().join("notes"));
        notes.unwrap_or_default()
    }

    /// Waits for a line of the reader, without its timestamp.
    fn wait_for_line(&self, line: &str) {
        self.wait_for_lines(&[line]);
    }

    /// Waits for lines in this order. Other lines may come between them.
    fn wait_for_lines(&self, lines: &[&str]) {
        eventually(&format!("{lines:?}"), || {
            let notes = self.notes();
            let mut lines_left = notes
                .lines()
                .map(|line| line.split(" @").next().unwrap_or(line));
            lines
                .iter()
                .all(|line| lines_left.any(|next| next == *line))
                .then_some(())
        });
    }

    /// Sends events of the first pad as one report.
    fn send(&self, events: &[(u16, u16, i32)]) {
        self.send_to(0, events);
    }

    fn send_to(&self, pad: u32, events: &[(u16, u16, i32)]) {
        let events = [events, &[(EV_SYN, 0, 0)]].concat();
        self.pads.write(pad, &events).expect("it is served");
    }

    /// Waits for a request of the client to its pad.
    fn next_request(&self) -> Request {
        eventually("a request", || {
            match self.pads.next_event(Some(Duration::from_millis(100))) {
                Some((_, _, ReaderEvent::Request(request))) => Some(request),
                _ => None,
            }
        })
    }

    /// Waits for a request of the client to its pad. If it differs from the expected one, returns an error.
    fn expect_request(&self, expected: Request) -> Result<(), String> {
        let request = self.next_request();
        match request == expected {
            true => Ok(()),
            false => Err(format!("{request:?} instead of {expected:?}")),
        }
    }
}

/// Starts a client without a window. It reads its pads from the folder `files`.
fn client(run: &Run, files: &Folder, name: &str, args: &[&str]) -> Program {
    let port = port_of(&run.program.line("openuvr run: streaming"));
    let (address, dir) = (format!("127.0.0.1:{port}"), run.folder.join(name));
    let own = ["client", &address, "--config-dir", &dir, "--name", name];
    let how = ["--realtime", "off", "--present", "null"];
    let mut command = openuvr(&[&own[..], &how, &PIN, args].concat());
    command
        .env("LD_PRELOAD", pads_library())
        .env(FOLDER, files.path());
    Program::start(name, command)
}

fn pads_library() -> std::path::PathBuf {
    hook().with_file_name("libopenuvr_pads.so")
}

#[test]
fn a_game_reads_the_clients_pad() {
    let Some(mut rig) = Rig::start("", &[], |pads| {
        pads.plug(0, xbox("My Pad (1)")).expect("a folder");
    }) else {
        return;
    };
    rig.client.line("game pad My Pad (1)");
    rig.wait_for_line(
        "event240 is My Pad (1) at openuvr/pad0 0003:045e:028e:0110 keys 11 axes 8 x -32768..32767 flat 128 \
         rumble 1 effects 16 device 1 13",
    );
    rig.send(&[(EV_KEY, BTN_SOUTH, 1), (EV_ABS, ABS_X, -12_345)]);
    rig.wait_for_lines(&[
        "event240 1 304 1",
        "event240 3 0 -12345",
        "event240 holds 1 keys x -12345",
    ]);
    rig.send(&[
        (EV_ABS, ABS_Z, 512),
        (EV_ABS, ABS_HAT0Y, -1),
        (EV_ABS, ABS_RY, 32_767),
    ]);
    rig.wait_for_lines(&["event240 3 4 32767", "event240 3 2 128", "event240 3 17 -1"]);
    // This is within the stick's dead zone.
    rig.send(&[(EV_ABS, ABS_X, 100)]);
    rig.wait_for_line("event240 3 0 0");
    // The pad is unplugged while the button and the d-pad are pressed: both are released first.
    rig.pads.unplug(0);
    rig.wait_for_lines(&[
        "event240 1 304 0",
        "event240 3 17 0",
        "event240 gone No such device",
    ]);
    rig.wait_for_line("folder - event240");
    rig.client.line("game pad My Pad (1) is unplugged");
    // The pad is plugged in again.
    rig.pads.plug(0, xbox("Another")).expect("a folder");
    rig.wait_for_pad("Another");
    rig.send(&[(EV_KEY, BTN_MODE, 1)]);
    rig.wait_for_lines(&["folder - event240", "folder + event240", "event240 1 316 1"]);
    // The client ends while a button is pressed.
    rig.client.signal(Signal::INT);
    rig.wait_for_lines(&[
        "event240 1 316 1",
        "event240 1 316 0",
        "event240 gone No such device",
    ]);
    let notes = rig.notes();
    assert!(
        !notes.contains("odd") && !notes.contains("stamped") && !notes.contains("takes more"),
        "{notes}"
    );
    rig.run.program.signal(Signal::TERM);
    let (code, text) = rig.run.wait();
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_motion_sensor_deflects_a_stick() {
    let mut sensor = Sensor::new();
    let head = sensor.spec();
    let motion = [
        "--head-pose",
        &head,
        "--motion",
        "pad",
        "--motion-dead-zone",
        "0",
    ];
    let Some(mut rig) = Rig::start("", &motion, |_| {}) else {
        return;
    };
    // The client has no pad, so the game gets a separate pad for the motion sensor.
    rig.wait_for_pad("OpenUVR motion sensor");
    sensor.turn_left(0.0);
    sensor.turn_left(-45.0);
    rig.wait_for_line("event240 3 3 32767");
    sensor.turn_left(90.0);
    rig.wait_for_lines(&["event240 3 3 32767", "event240 3 3 -32768"]);
    // The player's pad replaces the sensor's pad, and keeps the deflection of the sensor's pad.
    rig.pads.plug(0, xbox("My Pad")).expect("a folder");
    rig.wait_for_pad("My Pad");
    rig.send(&[(EV_KEY, BTN_SOUTH, 1), (EV_ABS, ABS_RX, 32_767)]);
    // The stick's and the sensor's deflections add up.
    rig.wait_for_lines(&["event240 3 3 -32768", "event240 1 304 1", "event240 3 3 -1"]);
    rig.pads.unplug(0);
    rig.wait_for_lines(&[
        "event240 1 304 1",
        "event240 1 304 0",
        "folder - event240",
        "folder + event240",
    ]);
    sensor.turn_left(-45.0);
    rig.wait_for_lines(&["folder + event240", "event240 3 3 0"]);
    rig.run.program.signal(Signal::TERM);
    let (code, text) = rig.run.wait();
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_permanent_pad_exists_without_a_player() {
    let Some(reader) = build_reader() else { return };
    let files = Folder::new();
    let pads = PadServer::open(files.path()).expect("a temporary folder");
    pads.plug(0, xbox("My Pad")).expect("a folder");
    pads.plug(1, xbox("Second")).expect("a folder");
    let Some(display) = Display::start("320x240") else {
        return;
    };
    let variables = [("READER", OsStr::new(reader)), ("HOW", OsStr::new(""))];
    let run = Run::start(&display, &variables, &["sh", "-c", EARLY]);
    let player = client(&run, &files, "client", &[]);
    let mut rig = Rig {
        run,
        client: player,
        pads,
        files,
        _display: display,
    };
    // The game has opened its permanent pad exactly once, before the host started. Other devices may come before or
    // after it, in any order.
    let seat = "event240 is OpenUVR pad at openuvr/pad0 0003:045e:028e:0110";
    assert_eq!(rig.notes().matches(seat).count(), 1, "{}", rig.notes());
    // The second pad appears as usual, with its own name.
    rig.wait_for_pad("Second");
    rig.send(&[(EV_KEY, BTN_SOUTH, 1), (EV_ABS, ABS_X, -12_345)]);
    rig.send_to(1, &[(EV_KEY, BTN_EAST, 1)]);
    rig.wait_for_lines(&[
        "event240 1 304 1",
        "event240 3 0 -12345",
        "event240 holds 1 keys x -12345",
    ]);
    rig.wait_for_line("event241 1 305 1");
    // The player's pad is unplugged, and later the client ends, each time while a button is pressed. The button is
    // released, and the game keeps its pad.
    rig.pads.unplug(0);
    rig.wait_for_lines(&["event240 1 304 0", "event240 holds 0 keys x 0"]);
    rig.pads.plug(0, xbox("Another")).expect("a folder");
    rig.client.line("game pad Another");
    rig.send(&[(EV_KEY, BTN_MODE, 1)]);
    rig.wait_for_line("event240 1 316 1");
    rig.client.signal(Signal::INT);
    rig.wait_for_lines(&["event240 1 316 1", "event240 1 316 0"]);
    rig.wait_for_line("event241 gone No such device");
    // A new client controls the game's pad at once, and gets the game's rumble.
    rig.client = client(&rig.run, &rig.files, "client", &[]);
    rig.client.line("game pad Another");
    rig.send(&[(EV_KEY, BTN_MODE, 0), (EV_KEY, BTN_START, 1)]);
    rig.wait_for_line("event240 1 315 1");
    rig.play_rumble("40000 7 0");
    assert!(matches!(rig.next_request(), Request::Upload(0, _)));
    assert_eq!(rig.next_request(), Request::Play(0, 1));
    let notes = rig.notes();
    assert!(
        !notes.contains("event240 gone") && !notes.contains("odd"),
        "{notes}"
    );
    rig.run.program.signal(Signal::TERM);
    let (code, text) = rig.run.wait();
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn the_games_rumble_is_sent_to_the_client() {
    // If the host does not repeat a rumble in time, the client stops the motors until the host does.
    measured_without_stalls(3, STALLED, send_rumble_to_the_client);
}

fn send_rumble_to_the_client() -> Result<(), String> {
    let Some(rig) = Rig::start("", &[], |pads| {
        pads.plug(0, xbox("Pad")).expect("a folder");
    }) else {
        return Ok(());
    };
    rig.wait_for_pad("Pad");
    rig.play_rumble("40000 7 0");
    let effect = Effect {
        strong: 40_000,
        weak: 7,
        length: 0,
        delay: 0,
    };
    rig.expect_request(Request::Upload(0, effect))?;
    rig.expect_request(Request::Play(0, 1))?;
    // A stronger effect replaces the uploaded effect while it is played.
    rig.play_rumble("65535 65535 0");
    let harder = Effect {
        strong: 65_535,
        weak: 65_535,
        ..effect
    };
    rig.expect_request(Request::Upload(0, harder))?;
    rig.play_rumble("0 0 0");
    rig.expect_request(Request::Play(0, 0))?;
    // The effect ends after its duration. A stalled host would not report a short one.
    rig.play_rumble("500 0 2000");
    let weaker = Effect {
        strong: 500,
        weak: 0,
        ..effect
    };
    rig.expect_request(Request::Upload(0, weaker))?;
    rig.expect_request(Request::Play(0, 1))?;
    rig.expect_request(Request::Play(0, 0))?;
    // The game ends during an effect, without stopping it.
    rig.play_rumble("1 1 0");
    let weakest = Effect {
        strong: 1,
        weak: 1,
        ..effect
    };
    rig.expect_request(Request::Upload(0, weakest))?;
    rig.expect_request(Request::Play(0, 1))?;
    rig.run.program.signal(Signal::TERM);
    rig.expect_request(Request::Play(0, 0))?;
    let notes = rig.notes();
    assert!(
        !notes.contains("no effect") && !notes.contains("no play"),
        "{notes}"
    );
    Ok(())
}

#[test]
fn two_pads_and_two_readers_of_each() {
    let Some(rig) = Rig::start("twice", &[], |pads| {
        pads.plug(0, xbox("First")).expect("a folder");
        pads.plug(3, xbox("Second")).expect("a folder");
    }) else {
        return;
    };
    rig.wait_for_pad("First");
    rig.wait_for_pad("Second");
    // Waits until the second reader of each pad has printed an event. Its lines contain `again`. Readers print nothing
    // before their first event.
    eventually("all read", || {
        rig.send_to(0, &[(EV_KEY, BTN_TL, 1)]);
        rig.send_to(3, &[(EV_KEY, BTN_TR, 1)]);
        rig.send_to(0, &[(EV_KEY, BTN_TL, 0)]);
        rig.send_to(3, &[(EV_KEY, BTN_TR, 0)]);
        let notes = rig.notes();
        let all = ["event240 again 1 310 1", "event241 again 1 311 1"];
        all.iter().all(|line| notes.contains(line)).then_some(())
    });
    rig.send_to(3, &[(EV_ABS, ABS_RX, -20_000), (EV_ABS, ABS_RZ, 1023)]);
    rig.wait_for_lines(&["event241 3 3 -20000", "event241 3 5 255"]);
    rig.wait_for_lines(&["event241 again 3 3 -20000", "event241 again 3 5 255"]);
    rig.pads.unplug(0);
    rig.wait_for_line("event240 again gone No such device");
    rig.wait_for_line("folder - event240");
    rig.send_to(3, &[(EV_KEY, BTN_SOUTH, 1)]);
    rig.wait_for_line("event241 1 304 1");
    let notes = rig.notes();
    assert!(!notes.contains("event240 1 304 1"), "{notes}");
}

#[test]
fn a_database_maps_the_buttons() {
    let folder = Folder::new();
    let file = folder.join("pads.txt");
    let lines = "# mine\nnonsense here\n\
        030000005e040000ea02000008040000,Mine,a:b1,b:b0,leftx:a3,platform:Linux,\n";
    std::fs::write(&file, lines).expect("a temporary folder");
    let Some(rig) = Rig::start("", &["--pad-db", &file], |pads| {
        pads.plug(0, xbox("Pad")).expect("a folder");
    }) else {
        return;
    };
    let line = rig.client.line("pads.txt, line 2");
    assert!(line.contains("'nonsense here' is not a device"), "{line}");
    rig.wait_for_pad("Pad");
    rig.send(&[
        (EV_KEY, BTN_SOUTH, 1),
        (EV_ABS, ABS_RX, 4321),
        (EV_ABS, ABS_X, 999),
    ]);
    // The database maps the pad's first button to B, and its fourth axis to the left stick.
    rig.wait_for_lines(&["event240 1 305 1", "event240 3 0 4321"]);
}

#[test]
fn disabled_pads_do_not_exist() {
    let Some(rig) = Rig::start("", &["--pads=false"], |pads| {
        pads.plug(0, xbox("Pad")).expect("a folder");
    }) else {
        return;
    };
    rig.client.line("openuvr client: player");
    // A second client with the same key: its session replaces the first session, and sends its pads.
    let other = client(&rig.run, &rig.files, "client", &[]);
    other.line("game pad Pad");
    rig.wait_for_pad("Pad");
    assert_eq!(rig.client.count("game pad"), 0, "{}", rig.client.text());
}

#[test]
fn a_game_of_sdl_finds_the_pad_and_makes_it_rumble() {
    let Some(program) = sdl() else { return };
    let files = Folder::new();
    let pads = PadServer::open(files.path()).expect("a temporary folder");
    pads.plug(0, xbox("My Pad")).expect("a folder");
    let Some(display) = Display::start("320x240") else {
        return;
    };
    let game = [
        "sh",
        "-c",
        "exec $PROGRAM \"$MARKS/notes\" \"$MARKS/rumble\"",
    ];
    let variables = [("PROGRAM", OsStr::new(&program))];
    let run = Run::with(&display, &["--pads", "0"], &variables, &game);
    let client = client(&run, &files, "client", &[]);
    let mut rig = Rig {
        run,
        client,
        pads,
        files,
        _display: display,
    };
    // The pad's name is not compared: SDL has its own name for this vendor and product.
    rig.wait_for_pad_count(1);
    rig.send(&[(EV_KEY, BTN_SOUTH, 1), (EV_ABS, ABS_Y, 32_767)]);
    rig.wait_for_lines(&["0 a 1", "0 lefty 32767"]);
    rig.send(&[
        (EV_KEY, BTN_NORTH, 1),
        (EV_ABS, ABS_HAT0X, -1),
        (EV_ABS, ABS_RZ, 1023),
    ]);
    // SDL scales a trigger's values from 0 to 255 to values from 0 to 32767.
    for expected in ["0 x 1", "0 dpleft 1", "0 righttrigger 32767"] {
        rig.wait_for_line(expected);
    }
    rig.play_rumble("30000 500 1000");
    let Request::Upload(0, effect) = rig.next_request() else {
        panic!("expected an upload of an effect");
    };
    assert_eq!((effect.strong, effect.weak), (30_000, 500));
    assert_eq!(rig.next_request(), Request::Play(0, 1));
    assert_eq!(rig.next_request(), Request::Play(0, 0));
    rig.pads.unplug(0);
    rig.wait_for_lines(&["0 a 0", "removed 0"]);
    rig.pads.plug(0, xbox("Other")).expect("a folder");
    rig.wait_for_pad_count(2);
    rig.client.kill();
}

/// Builds the plain reader; prints a message and returns `None` if there is no C compiler.
fn build_reader() -> Option<&'static str> {
    static BUILT: OnceLock<Option<String>> = OnceLock::new();
    BUILT
        .get_or_init(|| build("pad_reader.c", "pad-reader", &["-pthread"]))
        .as_deref()
}

/// Builds the SDL program; prints a message and returns `None` if SDL's headers are missing.
pub(crate) fn sdl() -> Option<String> {
    if !Path::new("/usr/include/SDL2/SDL.h").is_file() {
        crate::support::skip("the headers of SDL 2 are not installed: apt-get install libsdl2-dev");
        return None;
    }
    build("sdl_pads.c", "sdl-pads", &["-lSDL2"])
}

impl Rig {
    /// Waits until SDL has found a pad for the `n`-th time.
    fn wait_for_pad_count(&self, n: usize) {
        let line = " 045e:028e buttons 11 axes 6 hats 1 rumble 1";
        let enough = |notes: String| (notes.matches(line).count() == n).then_some(());
        eventually(line, || enough(self.notes()));
    }

    /// Makes the game play a rumble, given as "strong weak milliseconds".
    fn play_rumble(&self, strengths: &str) {
        let folder = self.run.folder.path();
        std::fs::write(folder.join("new"), strengths).expect("a temporary folder");
        std::fs::rename(folder.join("new"), folder.join("rumble")).expect("the same folder");
    }
}
