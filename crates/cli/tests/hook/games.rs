//! Third-party programs.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the harness keeps it"
)]

use std::collections::HashSet;
use std::path::Path;

use openuvr_proto::units::Size;
use rustix::process::Signal;

use crate::rig::{Run, displays};
use crate::support::{Display, ScreenCapture, eventually, psnr, skip};
use crate::xtest::XTest;

/// Waits until the client has shown this many different pictures.
fn wait_for_motion(there: &Display, size: Size, pictures: usize) {
    let capture = ScreenCapture::open(there);
    let mut seen = HashSet::new();
    eventually("moving pictures", || {
        capture.client_window()?;
        let shot = capture.region(size);
        let painted = shot.colours().iter().filter(|c| **c != [0; 3]).count();
        // If more than 2 % of the pixels are painted, the window is not empty.
        if painted > size.pixels() / 50 {
            seen.insert(shot.pixels);
        }
        (seen.len() >= pictures).then_some(())
    });
}

fn installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/games";
    path.split(':')
        .any(|folder| Path::new(folder).join(program).exists())
}

#[test]
fn gears_turn_at_the_client() {
    for program in ["glxgears", "es2gears_x11"] {
        if !installed(program) {
            skip(&format!(
                "{program} is not installed: apt-get install mesa-utils"
            ));
            continue;
        }
        let Some((here, there)) = displays("640x480") else {
            return;
        };
        let mut run = Run::start(&here, &[], &[program]);
        let mut client = run.client(&there, &[]);
        client.line("showing 300x300");
        wait_for_motion(&there, Size::new(300, 300), 10);
        client.assert_running();
        run.program.assert_running();
    }
}

#[test]
fn a_game_that_loads_gl_through_sdl_is_streamed() {
    if !installed("chromium-bsu") {
        return skip("chromium-bsu is not installed: apt-get install chromium-bsu");
    }
    let Some((here, there)) = displays("800x600") else {
        return;
    };
    let game = ["/usr/games/chromium-bsu", "--window", "--noaudio"];
    let mut run = Run::start(&here, &[], &game);
    let client = run.client(&there, &[]);
    client.line("showing 800x600");
    wait_for_motion(&there, Size::new(800, 600), 10);
    run.program.signal(Signal::TERM);
    let (code, text) = run.wait();
    assert_eq!(code, Some(0), "it ends as without the hook: {text}");
}

#[test]
#[ignore = "./dev test-games: OpenArena"]
fn a_key_at_the_client_turns_the_view_of_openarena() {
    const PROGRAM: &str = "/usr/games/openarena";
    /// The X key code: KEY_RIGHT of Linux plus eight.
    const RIGHT: u8 = 106 + 8;
    let size = Size::new(640, 480);
    if !Path::new(PROGRAM).exists() {
        return skip("OpenArena is not installed: apt-get install openarena");
    }
    let Some((here, there)) = displays("640x480") else {
        return;
    };
    let settings = [
        ["+set", "r_mode", "-1"],
        ["+set", "r_customwidth", "640"],
        ["+set", "r_customheight", "480"],
        ["+set", "r_fullscreen", "0"],
        ["+set", "s_initsound", "0"],
        ["+set", "com_introplayed", "1"],
    ];
    let settings = settings.concat();
    let game = [&[PROGRAM], &settings[..], &["+devmap", "oa_dm1"]].concat();
    let mut run = Run::start(&here, &[], &game);
    let _client = run.client(&there, &[]);
    run.program.line("entered the game");
    wait_for_motion(&there, size, 5);
    let capture = ScreenCapture::open(&there);
    let quiet = || {
        let before = capture.region(size);
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = capture.region(size);
        (psnr(&before, &now) > 24.0).then_some(now)
    };
    let before = eventually("a view that stands still", quiet);
    let xtest = XTest::open(&there);
    xtest.key(RIGHT, true);
    eventually("another view", || {
        (psnr(&before, &capture.region(size)) < 18.0).then_some(())
    });
    xtest.key(RIGHT, false);
    run.program.assert_running();
}
