//! Browsers, video players and a recording of a game under `openuvr run`, with gateways outside the
//! game.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use openuvr_devtools::{Browser, Tab};
use serde_json::json;

use crate::pads;
use crate::rig::{Run, displays};
use crate::support::clipboard::{can_copy, copy_text, pasted};
use crate::support::recording::ffprobe_reads;
use crate::support::{Folder, PIN, eventually, skip};

/// The browser for the page; prints a message and returns `None` if it is not installed.
fn program() -> Option<&'static str> {
    let found = openuvr_devtools::program();
    if found.is_none() {
        skip("chromium is not installed: apt-get install chromium, or ./dev test-web");
    }
    found
}

/// The page of the gateway, logged in.
fn log_in(run: &Run, browser: &mut Browser) -> Tab {
    let line = run.program.line("openuvr run: browsers: https://");
    let url = line.split(' ').find(|word| word.starts_with("https://"));
    let url = url.expect("its address").trim_end_matches(',');
    run.program.line("openuvr run: streaming");
    let tab = browser.open(url);
    browser.until(&tab, "!!document.querySelector('#login:not([hidden])')");
    let typed = format!(
        "document.querySelector('#pin').value = '{}'; \
         document.querySelector('#login').requestSubmit(); true",
        PIN[1]
    );
    browser.run(&tab, &typed);
    browser.until(&tab, "document.querySelector('#video').videoWidth > 0");
    tab
}

/// A checksum of the picture that the page shows.
const PICTURE: &str = "(() => { \
    const video = document.querySelector('#video'); \
    const canvas = document.createElement('canvas'); \
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight]; \
    const context = canvas.getContext('2d'); \
    context.drawImage(video, 0, 0); \
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height); \
    let [sum, painted] = [0, 0]; \
    for (let at = 0; at < data.length; at += 4) { \
        sum = (sum * 31 + data[at] + 3 * data[at + 1] + 7 * data[at + 2]) % 1000003; \
        painted += data[at] + data[at + 1] + data[at + 2] > 90; \
    } \
    return painted * 50 > canvas.width * canvas.height ? sum : 0; })()";

/// The page reports the end of the application or of the host, whichever it detects first.
const ENDED: &str =
    "/the application at the host has ended|the host has stopped/.test(document.body.innerText)";

/// Waits until the page has shown this many different non-empty pictures.
fn shows_motion(browser: &mut Browser, tab: &Tab, pictures: usize) {
    let mut seen = std::collections::HashSet::new();
    eventually("moving pictures", || {
        let picture = browser.run(tab, PICTURE).as_u64()?;
        if picture > 0 {
            seen.insert(picture);
        }
        (seen.len() >= pictures).then_some(())
    });
}

#[test]
fn a_browser_plays_an_unmodified_game() {
    let (Some(program), Some((here, _there))) = (program(), displays("640x480")) else {
        return;
    };
    let folder = Folder::new();
    let file = folder.join("game.mp4");
    let args = ["--web", "127.0.0.1:0", "--record", &file];
    let mut run = Run::with(&here, &args, &[], &["glxgears"]);
    let mut browser = Browser::start(program, run.folder.path());
    let tab = log_in(&run, &mut browser);
    assert_eq!(
        browser.run(&tab, "document.querySelector('#video').videoWidth"),
        json!(300)
    );
    shows_motion(&mut browser, &tab, 10);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    // The key that ends glxgears is pressed in the page.
    browser.key(&tab, "Escape", "Escape", true);
    let (code, text) = run.wait();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("recorded in"), "{text}");
    assert!(!text.contains("missing"), "{text}");
    browser.until(&tab, ENDED);
    ffprobe_reads(&file);
}

#[test]
fn the_clipboard_works_both_ways_with_a_browser() {
    let (Some(program), Some((here, _there))) = (program(), displays("640x480")) else {
        return;
    };
    if !can_copy() {
        return;
    }
    let args = ["--web", "127.0.0.1:0", "--clipboard", "both"];
    let run = Run::with(&here, &args, &[], &["glxgears"]);
    let mut browser = Browser::start(program, run.folder.path());
    // The page has the permission for the clipboard, and the focus.
    let permissions = ["clipboardReadWrite", "clipboardSanitizedWrite"];
    browser.call(
        None,
        "Browser.grantPermissions",
        &json!({ "permissions": permissions }),
    );
    let tab = log_in(&run, &mut browser);
    let focused = json!({ "enabled": true });
    browser.call(Some(&tab), "Emulation.setFocusEmulationEnabled", &focused);
    browser.until(&tab, "!document.querySelector('#clipboard').hidden");
    // The text is so long that it is sent in several fragments, whose boundaries split characters.
    let copy = "navigator.clipboard.writeText('Größe ✓ '.repeat(3000)).then(() => true)";
    browser.until(&tab, copy);
    browser.run(&tab, "document.querySelector('#clipboard').click()");
    pasted(&here, &"Größe ✓ ".repeat(3000));
    // No click is needed here: the page reads the clipboard when it gets the focus.
    browser.until(
        &tab,
        "navigator.clipboard.writeText('again').then(() => true)",
    );
    browser.run(&tab, "dispatchEvent(new Event('focus')); true");
    pasted(&here, "again");

    copy_text(&here, &"von dort – ".repeat(2000));
    browser.until(
        &tab,
        "navigator.clipboard.readText().then((text) => text === 'von dort – '.repeat(2000))",
    );
}

#[test]
fn a_killed_game_is_reported_to_the_page() {
    let (Some(program), Some((here, _there))) = (program(), displays("640x480")) else {
        return;
    };
    let args = ["--web", "127.0.0.1:0"];
    let mut run = Run::with(&here, &args, &[], &["sh", "-c", "glxgears & echo $!; wait"]);
    let mut browser = Browser::start(program, run.folder.path());
    let tab = log_in(&run, &mut browser);
    shows_motion(&mut browser, &tab, 3);
    let text = run.program.text();
    let id = text.lines().find_map(|line| line.trim().parse().ok());
    let id = id
        .and_then(rustix::process::Pid::from_raw)
        .expect("its number");
    rustix::process::kill_process(id, rustix::process::Signal::KILL).expect("a child process");
    browser.until(&tab, ENDED);
    run.wait();
}

/// A simulated game pad in the page's browser.
const PAD: &str = "(() => { \
    const buttons = Array.from({ length: 17 }, () => ({ pressed: false, value: 0 })); \
    const id = 'A Pad (STANDARD GAMEPAD Vendor: 045e Product: 028e)'; \
    window.felt = []; \
    const feel = async (...what) => { window.felt.push(what); return 'complete'; }; \
    const vibrationActuator = { playEffect: feel, reset: () => feel('reset') }; \
    window.pad = { id, index: 0, connected: true, mapping: 'standard', timestamp: 0, buttons, axes: [0, 0, 0, 0], \
        vibrationActuator }; \
    navigator.getGamepads = () => [window.pad, null, null, null]; \
    return true; })()";

#[test]
fn a_pad_of_the_browser_is_read_by_a_game_of_sdl() {
    let (Some(program), Some(game), Some((here, _there))) =
        (program(), pads::sdl(), displays("320x240"))
    else {
        return;
    };
    let args = [
        "sh",
        "-c",
        "exec $PROGRAM \"$MARKS/notes\" \"$MARKS/rumble\"",
    ];
    let variables = [("PROGRAM", OsStr::new(&game))];
    let how = ["--pads", "0", "--web", "127.0.0.1:0"];
    let run = Run::with(&here, &how, &variables, &args);
    let mut browser = Browser::start(program, run.folder.path());
    let tab = log_in(&run, &mut browser);
    browser.until(
        &tab,
        "document.querySelector('#state').textContent === 'you play'",
    );
    // A page without the focus sends no pad input.
    let focus = json!({ "enabled": true });
    browser.call(Some(&tab), "Emulation.setFocusEmulationEnabled", &focus);
    let notes = || std::fs::read_to_string(run.folder.path().join("notes")).unwrap_or_default();
    let wait_for_note = |line: &str| eventually(line, || notes().contains(line).then_some(()));
    browser.run(&tab, PAD);
    wait_for_note(" 045e:028e buttons 11 axes 6 hats 1 rumble 1");
    for (done, expected) in [
        ("pad.buttons[0] = { pressed: true, value: 1 }", "0 a 1"),
        ("pad.axes = [0, 1, 0, 0]", "0 lefty 32767"),
        (
            "pad.buttons[7] = { pressed: true, value: 1 }",
            "0 righttrigger 32767",
        ),
    ] {
        browser.run(&tab, &format!("{done}; true"));
        wait_for_note(expected);
    }
    // While the game's rumble lasts, it is sent repeatedly. When it ends, the page resets the pad.
    let folder = run.folder.path();
    std::fs::write(folder.join("new"), "30000 500 1000").expect("a temporary folder");
    std::fs::rename(folder.join("new"), folder.join("rumble")).expect("the same folder");
    browser.until(
        &tab,
        "felt.some(([kind, e]) => kind === 'dual-rumble' \
            && e.strongMagnitude === 30000 / 65535 && e.weakMagnitude === 500 / 65535)",
    );
    browser.until(&tab, "felt.at(-1)[0] === 'reset'");
    // The pad is unplugged with a button pressed: the game sees the button released, and the pad removed.
    browser.run(&tab, "navigator.getGamepads = () => [null]; true");
    wait_for_note("0 a 0");
    wait_for_note("removed 0");
}

#[test]
fn a_video_player_shows_an_unmodified_game() {
    let Some((here, _there)) = displays("640x480") else {
        return;
    };
    let args = ["--rtsp", "127.0.0.1:0"];
    let mut run = Run::with(&here, &args, &[], &["glxgears"]);
    let line = run.program.line("openuvr run: video players: rtsp://");
    let url = line.split(' ').find(|word| word.starts_with("rtsp://"));
    run.program.line("openuvr run: streaming");
    let mut command = Command::new("ffmpeg");
    command
        .args([
            "-v",
            "error",
            "-rtsp_transport",
            "tcp",
            "-i",
            url.expect("its address"),
        ])
        .args([
            "-frames:v",
            "60",
            "-fps_mode",
            "passthrough",
            "-f",
            "framemd5",
            "-",
        ])
        .stdin(Stdio::null());
    let Ok(out) = command.output() else {
        skip("ffmpeg is not installed: apt-get install ffmpeg");
        return;
    };
    let text = String::from_utf8_lossy(&out.stdout);
    let frames: std::collections::HashSet<_> = (text.lines())
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit(',').next())
        .collect();
    assert!(
        frames.len() > 30,
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    run.program.assert_running();
}
