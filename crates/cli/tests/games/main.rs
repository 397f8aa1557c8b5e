//! Games that nobody wrote for this, played as by a person at another machine: the host is found by its name on the
//! network, the display takes the size of the person's window, what the game plays is heard there, and it is played
//! with a pad, which it looks for when it starts.
//!
//! A tier of its own, for its large packages: `./dev test-games`. No machine of a test has a pad: the client gets its
//! own through `libopenuvr_pads.so` from a folder that the test serves, and reads it as it reads the kernel's.

mod heard;
#[path = "../apps/look.rs"]
#[allow(dead_code, reason = "the programs' tests do more with it")]
mod look;
#[path = "../support/mod.rs"]
mod support;
mod table;

use openuvr_media::pad::codes::*;
use openuvr_proto::units::Size;

use support::{eventually, psnr};
use table::Table;

/// As large as the person's window is, and no size that a display has by itself.
const WINDOW: Size = Size::new(800, 450);

/// Two looks at one view, with what moves in it and what the encoder loses, are more alike than this; those at
/// different ones are not, in dB.
const SAME_VIEW: f64 = 24.0;
const OTHER_VIEW: f64 = 18.0;

/// A level of SuperTux, which is there at once.
const LEVEL: &str = "/usr/share/games/supertux2/levels/world1/welcome_antarctica.stl";

/// What the buttons and sticks of a pad are for; a line for each press of A.
const OPENARENA: &str = "bind PAD0_A \"echo the pad's A\"\nbind PAD0_RIGHTSTICK_LEFT \"+left\"\n\
    bind PAD0_RIGHTSTICK_RIGHT \"+right\"\nbind PAD0_RIGHTTRIGGER \"+attack\"\n";

#[test]
fn supertux_is_played_and_heard() {
    let Some(mut table) = Table::lay("supertux2", WINDOW) else {
        return;
    };
    let own = ["--renderer", "opengl", "--window", "--geometry", "640x480"];
    table.start(&[&["supertux2"], &own[..], &[LEVEL]].concat());
    table.join();
    // The level's name stands on black until a button is pressed.
    eventually("a level that has begun", || {
        table.press(BTN_SOUTH);
        table.is_painted().then_some(())
    });
    table.fills_the_window();
    table.hears();
    let before = table.still(SAME_VIEW);
    table.keep("start");
    // It walks to the right, and the view with it.
    table.hold(&[(EV_ABS, ABS_X, 32_767)]);
    eventually("another view", || {
        (psnr(&before, &table.seen()) < OTHER_VIEW).then_some(())
    });
    table.hold(&[(EV_ABS, ABS_X, 0)]);
    table.keep("walked");
    table.end();
}

#[test]
fn openarena_is_played_and_heard() {
    let Some(mut table) = Table::lay("openarena", WINDOW) else {
        return;
    };
    table.home_file(".openarena/baseoa/autoexec.cfg", OPENARENA);
    let settings = [
        ["+set", "r_mode", "-1"],
        ["+set", "r_customwidth", "640"],
        ["+set", "r_customheight", "480"],
        ["+set", "r_fullscreen", "0"],
        // Its window takes the size that the window manager gives it.
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
    table.says("entered the game");
    table.fills_the_window();
    table.keep("start");
    // What is pressed while it makes its window anew, for the new size, is lost: it opens the pad again then.
    for _ in 0..3 {
        let before = table.times("the pad's A");
        eventually("a press", || {
            table.press(BTN_SOUTH);
            (table.times("the pad's A") > before).then_some(())
        });
    }
    let before = table.still(SAME_VIEW);
    table.hold(&[(EV_ABS, ABS_RX, 32_767)]);
    eventually("another view", || {
        (psnr(&before, &table.seen()) < OTHER_VIEW).then_some(())
    });
    table.hold(&[(EV_ABS, ABS_RX, 0)]);
    table.keep("turned");
    // It shoots, which is heard.
    table.hold(&[(EV_ABS, ABS_RZ, 1023)]);
    table.hears();
    table.hold(&[(EV_ABS, ABS_RZ, 0)]);
    table.keep("shot");
    table.end();
}
