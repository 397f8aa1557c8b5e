//! `./dev test-vm`: the program in a virtual machine that has its own display and keyboard.
//!
//! Host and client run in the machine, and connect through its loopback interface. Pictures are read from the machine's
//! display, and keys are pressed on its keyboard.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "measurements for the user of the tier")]

#[path = "../../../media/tests/skip/mod.rs"]
mod skip;

mod client_cost;
mod console;
mod console_in_use;
mod cursor_plane;
mod display_times;
mod dma_bufs;
mod game;
mod links;
mod pads;
mod pictures;
mod pointers;
mod radio;
mod rig;
mod slices;
mod tearing;

use openuvr_proto::units::Size;
use openuvr_testbed::inertial;

use rig::Rig;

/// The display's preferred mode.
const DISPLAY: Size = Size::new(1280, 720);

/// Another mode of the display.
const VGA: Size = Size::new(640, 480);

#[test]
fn pictures_advance_in_a_mode_of_their_size() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.stream_pattern(VGA);
    let frames = rig.frames(5);
    assert!(frames.is_sorted_by(|a, b| a < b), "{frames:?}");
    assert_eq!(rig.machine.picture().unwrap().size, VGA);
    rig.end_client();
    let flips = rig.client_log_value(" flips");
    assert!(flips.parse::<u64>().unwrap() >= 5, "{flips} flips");
    rig.expect_text_console();
}

#[test]
fn a_picture_without_a_mode_is_centred_in_the_preferred_one() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.stream_pattern(Size::new(600, 600));
    rig.wait_for_client("showing 600x600");
    let shown = rig.machine.picture().unwrap();
    assert_eq!(shown.size, DISPLAY);
    // The picture is scaled to 720x720, between two bars of 280 columns.
    let row = &shown.bgrx.as_chunks::<4>().0[400 * 1280..401 * 1280];
    let black = |pixels: &[[u8; 4]]| pixels.iter().all(|pixel| pixel[..3] == [0; 3]);
    assert!(black(&row[..280]) && black(&row[1000..]));
    assert!(!black(&row[280..320]) && !black(&row[960..1000]));
}

#[test]
fn keys_and_pointer_reach_the_hosts_application() {
    let Some(mut rig) = Rig::start() else {
        return;
    };
    rig.stream_events(VGA);
    let machine = &mut rig.machine;
    // The position is at a quarter of the display's width and height, and also of the window's. The X server's pointer
    // starts in the middle.
    machine.qmp().point(8192, 8192).unwrap();
    machine
        .wait_for("grep -q 'MotionNotify' /tmp/events")
        .unwrap();
    machine.qmp().button("left", true).unwrap();
    machine.qmp().button("left", false).unwrap();
    machine
        .wait_for("grep -q 'ButtonRelease' /tmp/events")
        .unwrap();
    let at = machine
        .succeed("grep -A2 ButtonPress /tmp/events | tail -n 2")
        .unwrap();
    assert!(at.contains("(160,120)"), "{at}");
    machine.press(&["h"]).unwrap();
    machine.press(&["shift", "i"]).unwrap();
    machine
        .wait_for("grep -A3 KeyRelease /tmp/events | grep -q 'keysym 0x49, I'")
        .unwrap();
    let typed =
        machine.succeed("grep -A4 KeyPress /tmp/events | grep -o 'keysym 0x[0-9a-f]*, [A-Za-z_]*'");
    assert_eq!(
        typed.unwrap().lines().collect::<Vec<_>>(),
        ["keysym 0x68, h", "keysym 0xffe1, Shift_L", "keysym 0x49, I"]
    );
}
