//! Third-party games, played by a simulated user on another machine. The client discovers the host on the network, the
//! display takes the size of the user's window, and the client plays the game's sound. The user plays with a pad, which
//! the game detects at its start.
//!
//! This is a separate tier, because it needs large packages: `./dev test-games`. Test machines have no pad. Instead,
//! the test serves a folder with a pad through `libopenuvr_pads.so`, and the client reads this pad like a pad of the
//! kernel.

mod loudness;
#[path = "../apps/pictures.rs"]
#[allow(dead_code, reason = "the programs' tests use more of it")]
mod pictures;
#[path = "../support/mod.rs"]
mod support;
mod table;

use openuvr_media::pad::codes::*;
use openuvr_proto::units::Size;

use support::{eventually, psnr};
use table::Table;

/// The size of the user's window, which is not a usual display size.
const WINDOW: Size = Size::new(800, 450);

/// PSNR in dB of two pictures: the minimum for the same view (with motion and encoding), and the maximum for different
/// views.
const SAME_VIEW: f64 = 24.0;
const OTHER_VIEW: f64 = 18.0;

/// A level of SuperTux that loads at once.
const LEVEL: &str = "/usr/share/games/supertux2/levels/world1/welcome_antarctica.stl";

/// Bindings of a pad's buttons and sticks. The game prints a line for each press of A.
const OPENARENA: &str = "bind PAD0_A \"echo the pad's A\"\nbind PAD0_RIGHTSTICK_LEFT \"+left\"\n\
    bind PAD0_RIGHTSTICK_RIGHT \"+right\"\nbind PAD0_RIGHTTRIGGER \"+attack\"\n";

#[test]
fn supertux_is_played_and_heard() {
    let Some(mut table) = Table::set_up("supertux2", WINDOW) else {
        return;
    };
    let own = ["--renderer", "opengl", "--window", "--geometry", "640x480"];
    table.start(&[&["supertux2"], &own[..], &[LEVEL]].concat());
    table.join();
    // The level's title is shown on black until a button is pressed.
    eventually("the start of a level", || {
        table.press(BTN_SOUTH);
        table.is_painted().then_some(())
    });
    table.fills_the_window();
    table.check_sound();
    let before = table.wait_for_stillness(SAME_VIEW);
    table.save("start");
    // The character walks to the right, and the view scrolls with it.
    table.send_events(&[(EV_ABS, ABS_X, 32_767)]);
    eventually("another view", || {
        (psnr(&before, &table.picture()) < OTHER_VIEW).then_some(())
    });
    table.send_events(&[(EV_ABS, ABS_X, 0)]);
    table.save("walked");
    table.end();
}

#[test]
fn openarena_is_played_and_heard() {
    let Some(mut table) = Table::set_up("openarena", WINDOW) else {
        return;
    };
    table.home_file(".openarena/baseoa/autoexec.cfg", OPENARENA);
    let settings = [
        ["+set", "r_mode", "-1"],
        ["+set", "r_customwidth", "640"],
        ["+set", "r_customheight", "480"],
        ["+set", "r_fullscreen", "0"],
        // The game's window takes the size that the window manager sets.
        ["+set", "r_allowResize", "1"],
        ["+set", "com_introplayed", "1"],
        ["+set", "in_joystick", "1"],
        ["+set", "in_joystickUseAnalog", "1"],
        ["+set", "com_maxfps", "30"],
        ["+set", "r_vertexlight", "1"],
        ["+set", "r_picmip", "2"],
    ];
    let game = [
        &["openarena"],
        &settings.concat()[..],
        &["+devmap", "oa_dm1"],
    ]
    .concat();
    table.start(&game);
    table.join();
    table.wait_for_line("entered the game");
    table.fills_the_window();
    table.save("start");
    // The first input may be lost: while the game recreates its window for the new size, it reopens the pad.
    for _ in 0..3 {
        let before = table.count("the pad's A");
        eventually("a press", || {
            table.press(BTN_SOUTH);
            (table.count("the pad's A") > before).then_some(())
        });
    }
    let before = table.wait_for_stillness(SAME_VIEW);
    table.send_events(&[(EV_ABS, ABS_RX, 32_767)]);
    eventually("another view", || {
        (psnr(&before, &table.picture()) < OTHER_VIEW).then_some(())
    });
    table.send_events(&[(EV_ABS, ABS_RX, 0)]);
    table.save("turned");
    // The player's shots are audible.
    table.send_events(&[(EV_ABS, ABS_RZ, 1023)]);
    table.check_sound();
    table.send_events(&[(EV_ABS, ABS_RZ, 0)]);
    table.save("shot");
    table.end();
}
