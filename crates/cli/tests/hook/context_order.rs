//! OpenGL contexts that end in each possible order, in a program under the address sanitizer. Whichever context the
//! host read its copy from, a client that joins later gets a complete picture.
//!
//! The sanitizer watches the memory of the program and the driver. Freed memory is overwritten and never reused, and
//! reading it ends the program.

use std::ffi::OsStr;

use crate::rig::{Run, build, displays, wait_for_colours};
use crate::support::{Display, ScreenCapture, eventually};
use crate::xtest::XTest;

/// The acts that the program performs in order, both with GLX and with EGL.
const ACTS: [&str; 6] = [
    "destroy,show,unmake",
    "destroy,show,replace",
    "show,destroy,unmake",
    "show,unmake,destroy",
    "shared",
    "elsewhere,unmake",
];

const SANITIZER: &str = "detect_leaks=0:max_free_fill_size=100000000:free_fill_byte=0";

/// Build flags.
const FLAGS: [&str; 5] = [
    "-fsanitize=address",
    "-static-libasan",
    "-g",
    "-pthread",
    "-Wno-deprecated-non-prototype",
];

fn every_act(api: &str, more: &[&str]) {
    let (Some(program), Some((here, there))) = (
        build("context_order.c", &format!("context-order-{api}"), &FLAGS),
        displays("320x240"),
    ) else {
        return;
    };
    let acts = [&ACTS[..], more].concat();
    let variables = [("ASAN_OPTIONS", OsStr::new(SANITIZER))];
    // Pictures are sent uncompressed, row by row.
    let raw = ["--encoder", "raw"];
    let mut run = Run::with(
        &here,
        &raw,
        &variables,
        &[&[&program, api], &acts[..]].concat(),
    );
    let mut client = run.client(&there, &[]);
    for (act, name) in (0u8..).zip(&acts) {
        let (above, below) = (1 + act % 7, 1 + (act + 3) % 7);
        let capture = ScreenCapture::open(&there);
        wait_for_colours(&capture, above, below);
        run.acknowledge(&format!("SEEN.{act}"));
        run.program.line(&format!("context_order: {name} is over"));
        drop(client);
        eventually("the end of the client's window", || {
            capture.client_window().is_none().then_some(())
        });
        client = run.client(&there, &[]);
        wait_for_colours(&capture, above, below);
        run.acknowledge(&format!("KEPT.{act}"));
    }
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    drop(client);
}

#[test]
fn glx_contexts_may_end_in_any_order() {
    every_act("glx", &["close", "elsewhere,end", "close,unclean"]);
}

#[test]
fn egl_contexts_may_end_in_any_order() {
    let more = [
        "destroy,show,release",
        // The driver refuses to show a picture, so the window keeps the previous one.
        "refused",
        "terminate,show",
        "show,terminate",
        "close",
        // Mesa does not release the window's surface for another context.
        "elsewhere,end",
    ];
    every_act("egl", &more);
}

#[test]
fn input_goes_to_the_display_that_an_egl_surface_is_on() {
    let (Some(program), Some((named, there)), Some(shown)) = (
        build("context_order.c", "context-order-shown", &FLAGS),
        displays("320x240"),
        Display::start("320x240"),
    ) else {
        return;
    };
    let variables = [
        ("ASAN_OPTIONS", OsStr::new(SANITIZER)),
        ("SHOWN_ON", OsStr::new(&shown.name)),
    ];
    let run = Run::start(
        &named,
        &variables,
        &[&program, "egl", "show,unmake,destroy"],
    );
    let _client = run.client(&there, &[]);
    let capture = ScreenCapture::open(&there);
    wait_for_colours(&capture, 1, 4);
    let (wrong, right, user) = (
        XTest::open(&named),
        XTest::open(&shown),
        XTest::open(&there),
    );
    let before = wrong.pointer();
    for (x, y) in [(100, 60), (7, 231)] {
        user.move_to(x, y);
        eventually("the pointer of the surface's display", || {
            (right.pointer() == (x, y)).then_some(())
        });
    }
    assert_eq!(
        wrong.pointer(),
        before,
        "the pointer of DISPLAY does not move"
    );
}
