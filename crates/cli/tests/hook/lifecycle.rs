//! Behaviour of programs at run time, and at their end.

use rustix::process::{Pid, Signal, kill_process};
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::wrapper::ConnectionExt as _;

use crate::rig::{BLUE, GREEN, RED, Run, WHITE, YELLOW, actor, displays, wait_for_colours};
use crate::support::{Display, ScreenCapture, eventually, port_of};
use crate::xtest::XTest;

const SCREEN: &str = "640x480";

#[test]
fn a_program_with_forks_threads_and_contexts_is_streamed() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let acts = [
        "fork",
        "threads",
        "contexts",
        "resize",
        "hand-over",
        "close",
    ];
    let mut run = Run::start(&here, &[], &[&[actor], &acts[..]].concat());
    let mut client = run.client(&there, &[]);
    let capture = ScreenCapture::open(&there);
    wait_for_colours(&capture, RED, GREEN);
    run.acknowledge("seen");
    run.program.line("contexts was played");
    wait_for_colours(&capture, YELLOW, BLUE);
    run.acknowledge("resized");
    wait_for_colours(&capture, WHITE, RED);
    run.acknowledge("large");
    wait_for_colours(&capture, YELLOW, GREEN);
    run.acknowledge("small");
    wait_for_colours(&capture, BLUE, YELLOW);
    run.acknowledge("again");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    // All acts have succeeded, in one stream.
    assert_eq!(text.matches("was played").count(), acts.len(), "{text}");
    assert_eq!(text.matches("streaming").count(), 1, "{text}");
    let sizes = text
        .lines()
        .filter_map(|line| line.split_once("the picture is "));
    let sizes: Vec<&str> = sizes.map(|(_, size)| size).collect();
    let expected = ["320x240", "400x200", "480x320", "400x200", "320x240"];
    assert_eq!(sizes, expected, "{text}");
    client.line("session ended: the application has ended");
    assert!(client.wait().0.success());
}

#[test]
fn an_exit_in_mid_frame_keeps_the_exit_code() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    for (act, code, word) in [
        ("exit", 9, "session ended: the application has ended"),
        ("die", 128 + 9, "no more packets"),
    ] {
        let mut run = Run::start(&here, &[], &[actor, act]);
        let client = run.client(&there, &[]);
        wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
        run.acknowledge("seen");
        let (ended, text) = run.wait();
        assert_eq!(ended, Some(code), "{text}");
        client.line(word);
    }
}

#[test]
fn a_killed_stream_does_not_affect_the_program() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor, "go-on"]);
    let client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    run.acknowledge("seen");
    wait_for_colours(&ScreenCapture::open(&there), BLUE, RED);
    run.program.kill();
    client.line("the host has stopped; reconnecting");
    let capture = ScreenCapture::open(&here);
    assert!(
        capture.shot().pixels.iter().any(|part| *part > 0),
        "it still renders"
    );
    run.acknowledge("enough");
    eventually("the program's own end", || {
        let shown = capture
            .shot()
            .pixels
            .chunks_exact(4)
            .any(|p| p[..3] != [0; 3]);
        (!shown).then_some(())
    });
    // The program prints this line after the end of `openuvr run`.
    run.program.line("go-on was played");
}

#[test]
fn the_pointer_goes_to_the_same_position_in_the_game() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let run = Run::start(&here, &[], &[actor]);
    let _client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    let (game, user) = (XTest::open(&here), XTest::open(&there));
    for (x, y) in [(100, 60), (7, 231)] {
        user.move_to(x, y);
        // The game's window is 40 pixels from the left edge of its display; the client's window is in the corner.
        eventually("the pointer", || {
            (game.pointer() == (x + 40, y)).then_some(())
        });
    }
}

#[test]
fn a_surface_of_a_window_is_found_by_name_and_by_the_pointer() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let run = Run::with(&here, &["--window", "actor"], &[], &[actor, "surface"]);
    run.acknowledge("seen");
    let _client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), YELLOW, RED);
    let (game, user) = (XTest::open(&here), XTest::open(&there));
    for (x, y) in [(100, 60), (7, 231)] {
        user.move_to(x, y);
        eventually("the pointer", || {
            (game.pointer() == (x + 40, y)).then_some(())
        });
    }
}

#[test]
fn a_late_client_sees_an_idle_programs_picture() {
    let Some(actor) = actor() else { return };
    // The hook must read pixels of each colour depth.
    for depth in [24, 30, 16] {
        let (Some(here), Some(there)) = (
            Display::of_depth(SCREEN, depth, &[]),
            Display::start(SCREEN),
        ) else {
            return;
        };
        let mut run = Run::start(&here, &[], &[actor, "rest"]);
        run.program.line("openuvr run: streaming");
        run.acknowledge("seen");
        let client = run.client(&there, &[]);
        wait_for_colours(&ScreenCapture::open(&there), WHITE, GREEN);
        run.acknowledge("rested");
        let (code, text) = run.wait();
        assert_eq!(code, Some(7), "{depth}: {text}");
        client.line("session ended: the application has ended");
    }
}

#[test]
fn other_windows_of_a_program_are_streamed() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor, "dialog"]);
    let client = run.client(&there, &[]);
    let (capture, user) = (ScreenCapture::open(&there), XTest::open(&there));
    wait_for_colours(&capture, RED, GREEN);
    run.acknowledge("seen");
    // The dialog is in the middle of the picture, where the colours are compared.
    wait_for_colours(&capture, WHITE, WHITE);
    user.move_to(160, 120);
    let click = || {
        user.button(1, true);
        user.button(1, false);
    };
    click();
    run.program.line("the dialog was clicked");
    wait_for_colours(&capture, BLUE, BLUE);
    click();
    run.program.nth_line(2, "the dialog was clicked");
    wait_for_colours(&capture, YELLOW, RED);
    run.acknowledge("closed");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    assert_eq!(text.matches("input is suspended").count(), 0, "{text}");
    client.line("session ended: the application has ended");
}

#[test]
fn a_menu_in_front_of_the_window_is_in_its_picture() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let run = Run::start(&here, &[], &[actor, "menu"]);
    let _client = run.client(&there, &[]);
    let capture = ScreenCapture::open(&there);
    wait_for_colours(&capture, RED, GREEN);
    run.acknowledge("seen");
    wait_for_colours(&capture, YELLOW, BLUE);
    run.acknowledge("menu");
    wait_for_colours(&capture, RED, BLUE);
    run.acknowledge("below");
    wait_for_colours(&capture, WHITE, GREEN);
    run.acknowledge("closed");
}

#[test]
fn the_client_shows_the_pointer_of_the_game() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let run = Run::start(&here, &[], &[actor]);
    let game = XTest::open(&here);
    game.red_square_over(game.root);
    let _client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    let user = XTest::open(&there);
    user.move_to(100, 60);
    eventually("the game's pointer", || {
        let (size, pixels) = shape(&user);
        (size == (16, 16) && pixels.iter().all(|pixel| *pixel == 0xffff_0000)).then_some(())
    });
}

/// Shape of a display's pointer: its size and pixels.
fn shape(xtest: &XTest) -> ((u16, u16), Vec<u32>) {
    let version = xtest.conn.xfixes_query_version(5, 0).expect("sent");
    version.reply().expect("XFIXES is there");
    let image = xtest.conn.xfixes_get_cursor_image().expect("sent");
    let image = image.reply().expect("a pointer");
    ((image.width, image.height), image.cursor_image)
}

#[test]
fn a_forked_child_holds_neither_port_nor_stream() {
    let (Some(actor), Some((here, _))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor, "orphan"]);
    let port = port_of(&run.program.line("openuvr run: streaming"));
    run.acknowledge("seen");
    let (code, text) = run.wait();
    assert_eq!(code, Some(7), "{text}");
    // The child closes its copy of the socket when it first runs. It lives until the acknowledgement.
    eventually("the port is free", || {
        std::net::UdpSocket::bind(("127.0.0.1", port)).ok()
    });
    run.acknowledge("orphan");
}

#[test]
fn a_signal_is_forwarded_to_the_program() {
    let (Some(actor), Some((here, _))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor]);
    run.program.line("openuvr run: streaming");
    run.program.signal(Signal::TERM);
    let (code, text) = run.wait();
    assert_eq!(code, Some(128 + 15), "{text}");
}

#[test]
fn a_signal_that_ends_a_script_ends_its_program_too() {
    let (Some(actor), Some((here, _))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &["sh", "-c", &format!("{actor}; exit 3")]);
    run.program.line("openuvr run: streaming");
    run.program.signal(Signal::TERM);
    let (code, text) = run.wait();
    assert_eq!(code, Some(128 + 15), "exit code of the script: {text}");
    let capture = ScreenCapture::open(&here);
    eventually("the end of its picture", || {
        capture
            .shot()
            .pixels
            .chunks_exact(4)
            .all(|p| p[..3] == [0; 3])
            .then_some(())
    });
}

#[test]
fn a_killed_program_leaves_no_key_pressed() {
    /// The X key code of the letter A on every PC keyboard.
    const A: u8 = 30 + 8;
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let mut run = Run::start(&here, &[], &[actor]);
    let _client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    let (game, user) = (XTest::open(&here), XTest::open(&there));
    user.move_to(100, 60);
    user.key(A, true);
    eventually("the key is down", || {
        (game.pressed().0 == [A]).then_some(())
    });
    let id = run.program.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let child = children.expect("it runs").trim().parse().ok();
    let child = child.and_then(Pid::from_raw).expect("one child");
    kill_process(child, Signal::KILL).expect("a child process");
    let (code, text) = run.wait();
    assert_eq!(code, Some(128 + 9), "{text}");
    assert_eq!(game.pressed(), (vec![], 0));
}

#[test]
fn a_minimised_window_is_reported_at_both_ends() {
    let (Some(actor), Some((here, there))) = (actor(), displays(SCREEN)) else {
        return;
    };
    let run = Run::start(&here, &[], &[actor]);
    let client = run.client(&there, &[]);
    wait_for_colours(&ScreenCapture::open(&there), RED, GREEN);
    let game = XTest::open(&here);
    let tree = game.conn.query_tree(game.root).expect("sent");
    let window = *(tree.reply().expect("the root is there").children.first()).expect("its window");
    game.conn.unmap_window(window).expect("sent");
    game.conn.sync().expect("a running X server");
    run.program.line("openuvr run: the window is hidden");
    client.line("openuvr client: the window is hidden at the host");
    game.conn.map_window(window).expect("sent");
    game.conn.sync().expect("a running X server");
    run.program.line("openuvr run: the window is visible again");
    client.line("openuvr client: the window is visible again at the host");
}
