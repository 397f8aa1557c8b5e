//! Contexts of OpenGL that end in every order, in a program under the address sanitizer: the picture
//! that the host has kept is still whole when somebody comes later, wherever it was read.
//!
//! The program's and the driver's memory is watched by the sanitizer: freed memory is filled anew and
//! never used again, and who copies out of it ends the program.

use std::ffi::OsStr;

use crate::rig::{Run, build, displays, sees};
use crate::support::{Eye, eventually};

/// What can be done with GLX and EGL alike.
const ACTS: [&str; 6] = [
    "destroy,show,unmake",
    "destroy,show,replace",
    "show,destroy,unmake",
    "show,unmake,destroy",
    "shared",
    "elsewhere,unmake",
];

const SANITIZER: &str = "detect_leaks=0:max_free_fill_size=100000000:free_fill_byte=0";

fn every_act(api: &str, more: &[&str]) {
    let words = [
        "-fsanitize=address",
        "-static-libasan",
        "-g",
        "-pthread",
        "-Wno-deprecated-non-prototype",
    ];
    let (Some(program), Some((here, there))) = (
        build("lives.c", &format!("lives-{api}"), &words),
        displays("320x240"),
    ) else {
        return;
    };
    let acts = [&ACTS[..], more].concat();
    let variables = [("ASAN_OPTIONS", OsStr::new(SANITIZER))];
    // Pictures are sent as they are, row by row.
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
        let eye = Eye::open(&there);
        sees(&eye, above, below);
        run.seen(&format!("SEEN.{act}"));
        run.program.line(&format!("lives: {name} is over"));
        drop(client);
        eventually("the end of the client's window", || {
            eye.client_window().is_none().then_some(())
        });
        client = run.client(&there, &[]);
        sees(&eye, above, below);
        run.seen(&format!("KEPT.{act}"));
    }
    let (code, text) = run.ended();
    assert_eq!(code, Some(7), "{text}");
    drop(client);
}

#[test]
fn glx_contexts_that_end_in_every_order_leave_a_whole_picture() {
    every_act("glx", &["close", "elsewhere,end", "close,unclean"]);
}

#[test]
fn egl_contexts_that_end_in_every_order_leave_a_whole_picture() {
    let more = [
        "destroy,show,release",
        // A picture that the driver refuses to show: the window goes on showing the one before.
        "refused",
        "terminate,show",
        "show,terminate",
        "close",
        // Mesa lets nobody else have the window's surface behind it.
        "elsewhere,end",
    ];
    every_act("egl", &more);
}
